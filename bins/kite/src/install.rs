//! `kite install`, `kite upgrade` and `kite uninstall`.

mod told;
mod version;

use std::{process::ExitCode, time::Duration};

use anyhow::bail;
use clap::{Args, ValueEnum};
use kite_admin::{
    doctor::{Aim, Report, State, examine, may_install},
    install::{
        Data, Memory, apply, first_admin, is_installed, named_certificate, page, prune, recall,
        remove, require_here, require_no_field_dropped, wait_until_ready,
    },
};
use kite_core::names;
use kite_process::ClusterArgs;
use kite_render::install::{Installation, Manifest, Profile};
use kube::Client;

use self::told::Told;
use crate::{
    client::client,
    manifests::{InstallationOptions, Named},
    output::Output,
};

/// How long the controller gets to say where the web page is.
const PAGE: Duration = Duration::from_secs(20);

/// Whether something is done, or only tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// It is done.
    #[default]
    None,
    /// The API server judges it, and stores nothing.
    Server,
}

#[derive(Args)]
pub(crate) struct InstallOptions {
    /// Let the API server judge all of it, and store nothing.
    #[arg(long, value_enum, default_value = "none")]
    dry_run: DryRun,
    /// How it is told what was done.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Seconds to wait until all pods are ready; 0 does not wait.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Install also where `kite doctor` finds that Kite cannot work, or that you may not
    /// do all of it.
    #[arg(long)]
    without_doctor: bool,
    /// Let an option of the last install go back to its default, such as base-domain. May
    /// be given several times.
    #[arg(long, value_name = "OPTION", value_delimiter = ',')]
    forget: Vec<String>,
    /// Install this version over a newer one, whose CRDs have fields that this one's
    /// drop from objects.
    #[arg(long)]
    allow_downgrade: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    installation: InstallationOptions,
}

/// Applies an installation and waits until it is up. `named` are its options as they
/// were written, which those of the last install are added to.
pub(crate) async fn install(
    options: Box<InstallOptions>,
    named: Named,
) -> anyhow::Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    let client = client(&options.cluster).await?;
    let namespace = options.installation.namespace();
    require_here(&client, namespace).await?;
    let last = recall(&client, namespace).await?;
    if last.is_none() && named.is_empty() && is_installed(&client, namespace).await? {
        bail!(
            "Kite is installed in {namespace}, and with which options is not remembered: name them \
             all once, such as --profile {}, as what is not named goes to its default",
            Profile::default().name()
        );
    }
    if let Some(last) = &last
        && !options.allow_downgrade
    {
        version::require_no_older(version, &last.version)?;
    }
    let named = named.over(last.as_ref(), &options.forget, version)?;
    let mut installation = named.installation(namespace)?;
    // Not an option that is remembered: what the settings name may change.
    let certificate = named_certificate(&client).await?;
    installation.certificate_secrets.extend(certificate);
    let memory = Memory {
        version: version.to_owned(),
        options: named.arguments(),
    };
    let mut manifests = installation.manifests();
    // First of all that is in the namespace: a run that breaks off is repeated as it was.
    let at = manifests.partition_point(|it| matches!(it, Manifest::Namespace(_)));
    manifests.insert(at, memory.manifest(namespace)?);
    if !options.allow_downgrade {
        require_no_field_dropped(&client, &manifests).await?;
    }
    let dry_run = options.dry_run == DryRun::Server;
    let mut told = Told::new(options.output, manifests.len());
    if !options.without_doctor {
        let report = require_fit(&client, &installation).await?;
        require_rights(&client, namespace, &manifests).await?;
        told.warn(&report);
    }
    told.with(&memory, last.as_ref());
    let narrowing = apply(&client, &manifests, dry_run, |object, change| {
        told.applied(object, change);
    })
    .await?;
    let admin = if dry_run {
        None
    } else {
        Some(first_admin(&client, namespace).await?)
    };
    if options.timeout > 0 && !dry_run {
        let longest = Duration::from_secs(options.timeout);
        let ready = wait_until_ready(&client, &manifests, longest, |workloads| {
            told.waiting(workloads);
        });
        if let Err(error) = ready.await {
            // The pods of the version before may still be at work.
            let later = if narrowing.is_empty() {
                "what this version has no more of is"
            } else {
                "roles that are to allow less, and what this version has no more of, are"
            };
            bail!("{error}. Once they are ready repeat this: {later} taken away last");
        }
    }
    narrowing
        .finish(&client, |object, change| told.applied(object, change))
        .await?;
    prune(&client, &manifests, dry_run, |object, removed| {
        told.removed(object, removed);
    })
    .await?;
    let Some(admin) = admin else {
        told.end(None, namespace)?;
        return Ok(ExitCode::SUCCESS);
    };
    let longest = PAGE.min(Duration::from_secs(options.timeout));
    let page = page(&client, longest).await?;
    told.end(Some((&admin, &page)), namespace)?;
    Ok(ExitCode::SUCCESS)
}

/// That Kite can work on the cluster, but for what is about to be installed. What else
/// was found.
async fn require_fit(client: &Client, installation: &Installation) -> anyhow::Result<Report> {
    let aim = Aim {
        namespace: installation.namespace.clone(),
        storage_class: Some(installation.platform.storage_class().to_owned()),
        planned: Some(installation.platform.clone()),
        proxied: installation.is_proxied(),
    };
    let report = examine(client, &aim).await;
    let lacks: Vec<_> = report
        .before_install(installation.storage.is_some())
        .map(|it| format!("{}: {}", it.check, it.message))
        .collect();
    if !lacks.is_empty() {
        bail!(
            "Kite cannot work on this cluster: {}. See kite doctor for what to do, or install all \
             the same with --without-doctor",
            lacks.join("; ")
        );
    }
    Ok(report)
}

/// That nothing of what is about to be done will be refused, before half of it is done.
async fn require_rights(
    client: &Client,
    namespace: &str,
    manifests: &[Manifest],
) -> anyhow::Result<()> {
    let rights = may_install(client, namespace, manifests).await;
    if rights.state == State::Warning {
        bail!(
            "nothing was done: {}; {}, or try all the same with --without-doctor",
            rights.message,
            rights.remedy.unwrap_or_default()
        );
    }
    Ok(())
}

#[derive(Args)]
pub(crate) struct RemovalOptions {
    /// Namespace in which Kite runs.
    #[arg(long, env = "KITE_NAMESPACE", default_value = names::PLATFORM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Also delete all users, VMs and disks, images and settings, which nobody can
    /// bring back. Name Kite's namespace once more to show that it is meant.
    #[arg(long, value_name = "NAMESPACE")]
    delete_users_and_disks: Option<String>,
    /// Tell what would be deleted, and delete nothing.
    #[arg(long, value_enum, default_value = "none")]
    dry_run: DryRun,
    /// How it is told what was done.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Seconds to wait at most for each kind to be gone.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Removes an installation.
pub(crate) async fn uninstall(options: RemovalOptions) -> anyhow::Result<ExitCode> {
    let data = match &options.delete_users_and_disks {
        None => Data::Keep,
        Some(named) if *named == options.namespace => Data::Delete,
        Some(named) => bail!(
            "--delete-users-and-disks {named:?}: Kite's namespace is {:?}; name that if all of \
             its users' disks are to be deleted",
            options.namespace
        ),
    };
    let client = client(&options.cluster).await?;
    let mut told = Told::new(options.output, 0);
    let longest = Duration::from_secs(options.timeout);
    let dry_run = options.dry_run == DryRun::Server;
    let left = remove(
        &client,
        &options.namespace,
        data,
        dry_run,
        longest,
        |object, removed| {
            told.removed(object, removed);
        },
    )
    .await?;
    told.gone(data, &left, dry_run)?;
    Ok(ExitCode::SUCCESS)
}

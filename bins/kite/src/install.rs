//! `kite install`, `kite upgrade` and `kite uninstall`.

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use anyhow::bail;
use clap::{Args, ValueEnum};
use kite_admin::{
    doctor::{Aim, Finding, Report, State, examine, may_install},
    install::{
        Change, Data, FirstAdmin, Memory, ObjectName, Page, Removed, Setting, Workload, apply,
        first_admin, is_installed, page, prune, recall, remove, require_here, wait_until_ready,
    },
};
use kite_core::names;
use kite_process::ClusterArgs;
use kite_render::install::{Installation, Manifest, Profile};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    manifests::{InstallationOptions, Named},
    output::{Lines, Output, bar, count, print, print_json},
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
    let client = options.cluster.client_without_retries().await?;
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
    let named = named.over(last.as_ref(), &options.forget, version)?;
    let installation = named.installation(namespace)?;
    let memory = Memory {
        version: version.to_owned(),
        options: named.arguments(),
    };
    let mut manifests = installation.manifests();
    // First of all that is in the namespace: a run that breaks off is repeated as it was.
    let at = manifests.partition_point(|it| matches!(it, Manifest::Namespace(_)));
    manifests.insert(at, memory.manifest(namespace)?);
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
    let client = options.cluster.client_without_retries().await?;
    let mut told = Told::new(options.output, 0);
    let longest = Duration::from_secs(options.timeout);
    let dry_run = options.dry_run == DryRun::Server;
    remove(
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
    told.gone(data, dry_run)?;
    Ok(ExitCode::SUCCESS)
}

/// A setting that stays as somebody else has set it.
fn shown(setting: &Setting) -> String {
    let (field, by) = (&setting.field, setting.by.join(", "));
    format!(
        "{field} is {} by {by} and not {}",
        setting.value, setting.wanted
    )
}

/// Tells people line by line, and scripts all of it at the end.
struct Told {
    output: Output,
    lines: Lines,
    all: usize,
    gone: usize,
    options: Vec<String>,
    warnings: Vec<Finding>,
    rows: Vec<Value>,
}

impl Told {
    fn new(output: Output, all: usize) -> Self {
        Self {
            output,
            lines: Lines::new(output),
            all,
            gone: 0,
            options: Vec::new(),
            warnings: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Says what is amiss that keeps nothing from being installed.
    fn warn(&mut self, report: &Report) {
        for finding in report.to_look_at() {
            self.lines.line(&format!(
                "warning    {}: {}",
                finding.check, finding.message
            ));
            if let Some(remedy) = &finding.remedy {
                self.lines.line(&format!("           -> {remedy}"));
            }
        }
        self.warnings.extend(report.to_look_at().cloned());
    }

    /// Says which options hold, as not all of them were written.
    fn with(&mut self, now: &Memory, last: Option<&Memory>) {
        self.options.clone_from(&now.options);
        let Some(last) = last else {
            return;
        };
        let options = match now.options.as_slice() {
            [] => "no options".to_owned(),
            options => options.join(" "),
        };
        let from = if last.version == now.version {
            String::new()
        } else {
            format!(", from {} to {}", last.version, now.version)
        };
        self.lines.line(&format!("with {options}{from}"));
    }

    fn applied(&mut self, object: &ObjectName, change: Change) {
        let mut row = json!({ "object": object });
        if let (Some(row), Ok(Value::Object(change))) =
            (row.as_object_mut(), serde_json::to_value(&change))
        {
            row.extend(change);
        }
        self.rows.push(row);
        let bar = bar(self.rows.len(), self.all);
        match change {
            Change::Created => self.lines.line(&format!("created    {object}")),
            Change::Changed => self.lines.line(&format!("changed    {object}")),
            Change::Kept(kept) => {
                let rest = if kept.changed {
                    "; the rest was changed"
                } else {
                    ""
                };
                let settings: Vec<_> = kept.settings.iter().map(shown).collect();
                self.lines.line(&format!(
                    "kept       {object}: {}{rest}",
                    settings.join(", ")
                ));
                self.lines.line(&format!("           -> {}", kept.remedy));
            }
            Change::Unchanged => {}
        }
        self.lines.progress(&format!("{bar} {object}"));
    }

    fn waiting(&mut self, workloads: &[Workload]) {
        let texts: Vec<_> = workloads
            .iter()
            .map(|it| format!("{} {}/{}", it.object.name, it.ready, it.wanted))
            .collect();
        self.lines
            .step(&format!("pods ready: {}", texts.join(", ")));
    }

    fn removed(&mut self, object: &ObjectName, removed: Removed) {
        self.rows
            .push(json!({ "object": object, "change": removed }));
        // Of what is deleted so far: what else there is shows as it goes.
        match removed {
            Removed::Deleted => {
                self.lines.line(&format!("deleted    {object}"));
                self.all += 1;
            }
            Removed::Gone => self.gone += 1,
        }
        let bar = bar(self.gone, self.all);
        self.lines.progress(&format!("{bar} gone: {object}"));
    }

    /// Says what came of it, but of a dry run what would.
    fn end(&mut self, made: Option<(&FirstAdmin, &Page)>, namespace: &str) -> anyhow::Result<()> {
        let token = match made {
            Some((FirstAdmin::Token(token), _)) => Some(token),
            Some((FirstAdmin::IsThere, _)) | None => None,
        };
        if self.output == Output::Json {
            let url = match made {
                Some((_, Page::At(url))) => Some(url),
                Some((_, Page::Nowhere(_))) | None => None,
            };
            print_json(&json!({
                "options": self.options,
                "warnings": self.warnings,
                "objects": self.rows,
                "bootstrapToken": token,
                "url": url,
            }))?;
            return Ok(());
        }
        let count = |change: &str| count(&self.rows, change);
        let summary = format!(
            "{} objects: {} created, {} changed, {} as they were, {} kept",
            self.rows.len(),
            count("created"),
            count("changed"),
            count("unchanged"),
            count("kept")
        );
        self.lines.line(&summary);
        let Some((_, page)) = made else {
            self.lines
                .line("Nothing was written: the above is what would be");
            return Ok(());
        };
        let mut text = match page {
            Page::At(url) => format!("The web page: {url}\n"),
            Page::Nowhere(why) => format!(
                "The web page has no address yet: {why}\nUntil then: kubectl port-forward -n \
                 {namespace} svc/{} {}, and http://localhost:{1}\n",
                names::API_SERVICE,
                names::API_PORT
            ),
        };
        if let Some(token) = token {
            writeln!(
                text,
                "The first administrator signs up with this token, once: {token}"
            )?;
        }
        print(&text)?;
        Ok(())
    }

    /// Says what was removed, and what was not.
    fn gone(&mut self, data: Data, dry_run: bool) -> anyhow::Result<()> {
        if self.output == Output::Json {
            let all = json!({ "objects": self.rows });
            print(&(serde_json::to_string_pretty(&all)? + "\n"))?;
            return Ok(());
        }
        if self.rows.is_empty() {
            self.lines.line(
                "There is nothing here that kite install made. What another tool installed is \
                 removed with that tool",
            );
            return Ok(());
        }
        if dry_run {
            self.lines
                .line("Nothing was deleted: the above is what would be");
            return Ok(());
        }
        self.lines.line(match data {
            Data::Keep => {
                "Kite is gone. Its users, VMs with their disks, images and settings are still \
                 there, VMs run on, and kite install takes them up again"
            }
            Data::Delete => "Kite is gone, with all users, VMs and disks",
        });
        Ok(())
    }
}

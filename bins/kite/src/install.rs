//! `kite install`, `kite upgrade` and `kite uninstall`.

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use anyhow::bail;
use clap::{Args, ValueEnum};
use kite_admin::{
    doctor::{Aim, examine},
    install::{
        Change, Data, FirstAdmin, ObjectName, Page, Removed, Workload, apply, first_admin, page,
        prune, remove, require_here, wait_until_ready,
    },
};
use kite_core::names;
use kite_process::ClusterArgs;
use kite_render::install::Installation;
use kube::Client;
use serde_json::{Value, json};

use crate::{
    manifests::InstallationOptions,
    output::{Lines, Output, print},
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
    /// Install also where `kite doctor` finds that Kite cannot work.
    #[arg(long)]
    without_doctor: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    installation: InstallationOptions,
}

/// Applies an installation and waits until it is up.
pub(crate) async fn install(options: Box<InstallOptions>) -> anyhow::Result<ExitCode> {
    let client = options.cluster.client_without_retries().await?;
    let installation = options.installation.installation();
    let manifests = installation.manifests();
    let dry_run = options.dry_run == DryRun::Server;
    if !options.without_doctor {
        require_fit(&client, &installation).await?;
    }
    require_here(&client, &installation.namespace).await?;
    let mut told = Told::new(options.output, manifests.len());
    apply(&client, &manifests, dry_run, |object, change| {
        told.applied(object, change);
    })
    .await?;
    prune(&client, &manifests, dry_run, |object, removed| {
        told.removed(object, removed);
    })
    .await?;
    if dry_run {
        told.end(None, &installation.namespace)?;
        return Ok(ExitCode::SUCCESS);
    }
    let admin = first_admin(&client, &installation.namespace).await?;
    if options.timeout > 0 {
        let longest = Duration::from_secs(options.timeout);
        wait_until_ready(&client, &manifests, longest, |workloads| {
            told.waiting(workloads);
        })
        .await?;
    }
    let longest = PAGE.min(Duration::from_secs(options.timeout));
    let page = page(&client, longest).await?;
    told.end(Some((&admin, &page)), &installation.namespace)?;
    Ok(ExitCode::SUCCESS)
}

/// That Kite can work on the cluster, but for what is about to be installed.
async fn require_fit(client: &Client, installation: &Installation) -> anyhow::Result<()> {
    let aim = Aim {
        namespace: installation.namespace.clone(),
        storage_class: Some(installation.platform.storage_class().to_owned()),
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

/// Tells people line by line, and scripts all of it at the end.
struct Told {
    output: Output,
    lines: Lines,
    all: usize,
    rows: Vec<Value>,
}

impl Told {
    fn new(output: Output, all: usize) -> Self {
        Self {
            output,
            lines: Lines::new(output),
            all,
            rows: Vec::new(),
        }
    }

    fn applied(&mut self, object: &ObjectName, change: Change) {
        self.rows
            .push(json!({ "object": object, "change": change }));
        let bar = bar(self.rows.len(), self.all);
        match change {
            Change::Created => self.lines.line(&format!("created    {object}")),
            Change::Changed => self.lines.line(&format!("changed    {object}")),
            Change::Kept => self.lines.line(&format!(
                "kept       {object}, which an administrator has changed"
            )),
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
        match removed {
            Removed::Deleted => self.lines.line(&format!("deleted    {object}")),
            Removed::Gone => self.lines.progress(&format!("gone: {object}")),
        }
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
            let all = json!({ "objects": self.rows, "bootstrapToken": token, "url": url });
            print(&(serde_json::to_string_pretty(&all)? + "\n"))?;
            return Ok(());
        }
        let count = |change: &str| {
            let rows = self.rows.iter();
            rows.filter(|row| row["change"] == change).count()
        };
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

/// How far it is, as a person sees at a glance.
fn bar(done: usize, all: usize) -> String {
    const WIDTH: usize = 24;
    let filled = (done * WIDTH).checked_div(all).unwrap_or(WIDTH).min(WIDTH);
    let rest = WIDTH - filled;
    format!("[{}{}] {done}/{all}", "#".repeat(filled), " ".repeat(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        assert_eq!(bar(0, 4), format!("[{}] 0/4", " ".repeat(24)));
        assert_eq!(
            bar(2, 4),
            format!("[{}{}] 2/4", "#".repeat(12), " ".repeat(12))
        );
        assert_eq!(bar(4, 4), format!("[{}] 4/4", "#".repeat(24)));
    }
}

//! `kite doctor`: whether a cluster is fit for Kite.

use std::process::ExitCode;

use clap::Args;
use kite_admin::doctor::{Aim, Report, examine};
use kite_core::names;
use kite_process::ClusterArgs;

use crate::{
    client::client,
    output::{Output, print},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Namespace in which Kite runs, or will.
    #[arg(long, env = "KITE_NAMESPACE", default_value = names::PLATFORM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// `StorageClass` of VM disks, before a `KitePlatform` names one.
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    /// How the findings are written.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints what was found. The exit code is 0 if nothing keeps Kite from working on the
/// cluster, 3 if something does, and 1 if it could not be looked at.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let client = client(&options.cluster).await?;
    let aim = Aim {
        namespace: options.namespace,
        storage_class: options.storage_class,
        planned: None,
        proxied: false,
    };
    let report = examine(&client, &aim).await;
    write(&report, options.output)?;
    Ok(if report.is_fit() {
        ExitCode::SUCCESS
    } else if report.was_looked_at() {
        ExitCode::from(3)
    } else {
        ExitCode::FAILURE
    })
}

fn write(report: &Report, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Text => report.to_string(),
        Output::Json => serde_json::to_string_pretty(report)?,
    };
    print(&(text + "\n"))?;
    Ok(())
}

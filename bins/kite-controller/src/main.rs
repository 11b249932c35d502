//! `kite-controller`: the reconcilers as a process.

use std::{net::SocketAddr, process::ExitCode};

use anyhow::Context as _;
use clap::Parser;
use kite_core::{cluster::KubeCluster, names};
use kite_process::{Admin, ClusterArgs, LogArgs, Readiness};
use kite_reconcile::{Context, Metrics, Settings};
use mimalloc::MiMalloc;
use prometheus_client::registry::Registry;

/// Watches of thousands of objects are mostly allocation; the C library's
/// allocator takes half as long again, and keeps what it was once given.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Kite's controller: makes the cluster match Kite's custom resources.
#[derive(Parser)]
#[command(name = "kite-controller", version, about)]
struct Cli {
    /// Address of /livez, /readyz and /metrics.
    #[arg(
        long,
        env = "KITE_ADMIN_LISTEN",
        default_value = "127.0.0.1:8081",
        value_name = "ADDRESS"
    )]
    admin_listen: SocketAddr,
    /// Namespace in which Kite runs: its gateway's and its API's.
    #[arg(
        long,
        env = "KITE_NAMESPACE",
        default_value = names::PLATFORM_NAMESPACE,
        value_name = "NAMESPACE"
    )]
    namespace: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    logs: LogArgs,
}

fn main() -> ExitCode {
    kite_process::exit_code(run(&Cli::parse()))
}

#[tokio::main]
async fn run(cli: &Cli) -> anyhow::Result<()> {
    cli.logs.init("info")?;
    let shutdown = kite_process::on_signal()?;
    let admin = Admin::bind(cli.admin_listen).await?;
    let client = cli.cluster.client().await?;
    let version = client
        .apiserver_version()
        .await
        .context("the API server does not answer")?;
    tracing::info!(apiserver = %version.git_version, "the controller starts");

    let mut registry = Registry::default();
    let metrics = Metrics::default();
    metrics.register(&mut registry);
    let readiness = Readiness::default();
    let admin = tokio::spawn(admin.serve(readiness.clone(), registry, shutdown.clone()));
    let context = Context::new(KubeCluster::new(client.clone()))
        .with_settings(Settings::in_namespace(&cli.namespace))
        .with_metrics(metrics);
    readiness.set(true);
    kite_reconcile::run(client, context, shutdown).await;
    admin.await?
}

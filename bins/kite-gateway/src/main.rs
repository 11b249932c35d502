//! `kite-gateway`: the SSH gateway as a process.

mod bounds;
mod host;
mod record;
mod sessions;

use std::{net::SocketAddr, process::ExitCode};

use anyhow::Context as _;
use bounds::Bounds;
use clap::Parser;
use host::HostArgs;
use kite_core::{cluster::KubeCluster, managers, names};
use kite_gateway::{
    AuditSink, Gateway, HostFallback, Infrastructure,
    audit::LogSink,
    kubernetes::{
        Reporter, RouteTable, SpecStarter, host_key, report_activity, watch_connections,
        watch_routes,
    },
};
use kite_process::{Admin, AuditArgs, ClusterArgs, LogArgs, Readiness};
use mimalloc::MiMalloc;
use prometheus_client::registry::Registry;
use record::RecordArgs;
use sessions::SessionsArgs;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Packets are allocated on one thread and freed on another; with the C library's
/// allocator each byte takes a quarter more processor time, and memory that bulk
/// once took stays (`docs/gateway-performance.md`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Kite's SSH gateway: one port in front of all VMs.
#[derive(Parser)]
#[command(name = "kite-gateway", version, about)]
struct Cli {
    /// Address of the SSH port.
    #[arg(
        long,
        env = "KITE_LISTEN",
        default_value = "127.0.0.1:2222",
        value_name = "ADDRESS"
    )]
    listen: SocketAddr,
    /// Address of /livez, /readyz, /metrics and, for the pod itself, /sessions.
    #[arg(
        long,
        env = "KITE_ADMIN_LISTEN",
        default_value = "127.0.0.1:8082",
        value_name = "ADDRESS"
    )]
    admin_listen: SocketAddr,
    /// Namespace in which Kite runs: that of the Secret with the gateway's host key,
    /// and of its heartbeat.
    #[arg(
        long,
        env = "KITE_NAMESPACE",
        default_value = names::PLATFORM_NAMESPACE,
        value_name = "NAMESPACE"
    )]
    namespace: String,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    sessions: SessionsArgs,
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
    let listener = TcpListener::bind(cli.listen)
        .await
        .with_context(|| format!("--listen {} cannot be listened on", cli.listen))?;
    let admin = Admin::bind(cli.admin_listen).await?;
    let host = cli.host.host()?;
    let recordings = cli.record.recordings()?;
    let client = cli.cluster.client().await?;
    let key = host_key(
        client.clone(),
        &cli.namespace,
        names::GATEWAY_HOST_KEY_SECRET,
    )
    .await?;

    let routes = RouteTable::default();
    let infrastructure = Infrastructure::default();
    let reporter = Reporter::of_process(kite_process::server_name());
    let mut sinks: Vec<Box<dyn AuditSink>> = vec![Box::new(reporter.clone())];
    if cli.audit.are_logged() {
        sinks.push(Box::new(LogSink));
    }
    if let Some(lines) = cli.audit.lines("kite-gateway")? {
        sinks.push(Box::new(lines));
    }
    let mut registry = Registry::default();
    let builder = match recordings {
        Some(recordings) => {
            recordings.register_metrics(&mut registry);
            Gateway::builder().recordings(recordings)
        }
        None => Gateway::builder(),
    };
    let gateway = builder
        .config(cli.host.adapt(cli.bounds.config()))
        .host_key(key)
        .audit(sinks)
        .routes(HostFallback::new(routes.clone(), host))
        .infrastructure(infrastructure.clone())
        .starter(SpecStarter::new(client.clone()))
        .build()?;
    gateway.register_metrics(&mut registry);
    reporter.register_metrics(&mut registry);

    // It tells of sessions until the last one has ended.
    let ended = CancellationToken::new();
    let draining = shutdown.clone();
    let readiness = Readiness::checked(move || {
        if draining.is_cancelled() {
            Err("not ready: the gateway drains".to_owned())
        } else {
            Ok("ok".to_owned())
        }
    });
    let admin = admin.with(sessions::routes(cli.sessions.clone(), gateway.sessions()));
    let admin = tokio::spawn(admin.serve(readiness.clone(), registry, ended.clone()));
    let reporting = CancellationToken::new();
    let reports = tokio::spawn(report_activity(
        client.clone(),
        routes.clone(),
        gateway.sessions(),
        reporting.clone(),
    ));
    let wishes = watch_connections(client.clone(), reporter.instance());
    let connections = tokio::spawn(reporter.run(
        KubeCluster::new(client.clone()).with_field_manager(managers::GATEWAY),
        cli.namespace.clone(),
        wishes,
        gateway.sessions(),
        reporting.clone(),
    ));
    let watching = watch_routes(
        client,
        routes.clone(),
        Some(infrastructure),
        shutdown.clone(),
    );
    let watching = tokio::spawn(watching);
    // Who comes before all routes are known would be taken for a stranger, and with
    // a host behind, a VM's password shown to it. Connections wait meanwhile.
    tokio::select! {
        () = routes.ready() => readiness.set(true),
        () = shutdown.cancelled() => {}
    }
    gateway.serve(listener, shutdown).await?;
    // The sessions have ended: that is reported last.
    reporting.cancel();
    reports.await?;
    connections.await?;
    ended.cancel();
    watching.await?;
    admin.await?
}

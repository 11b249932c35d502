//! `kite-api`: the HTTP API and web page as a process.

mod consoles;
mod load;

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Parser;
use kite_api::{
    ApiState,
    audit::{ApiAudit, LogRequests},
};
use kite_consoles::ApiConsoles;
use kite_core::{cluster::KubeCluster, managers, names};
use kite_gateway::kubernetes::{Reporter, watch_connections};
use kite_process::{Admin, AuditArgs, ClusterArgs, LogArgs, Readiness};
use mimalloc::MiMalloc;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Each password is hashed on 19 MiB or more. The C library keeps that for each thread that
/// has hashed, which sixteen threads under guesses bring to 300 MiB beside a budget of 64.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Kite's HTTP API and web page.
#[derive(Parser)]
#[command(name = "kite-api", version, about)]
struct Cli {
    /// Address of the HTTP API and web page.
    #[arg(
        long,
        env = "KITE_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS"
    )]
    listen: SocketAddr,
    /// Address of /livez, /readyz and /metrics.
    #[arg(
        long,
        env = "KITE_ADMIN_LISTEN",
        default_value = "127.0.0.1:8083",
        value_name = "ADDRESS"
    )]
    admin_listen: SocketAddr,
    /// Namespace in which Kite runs: that of its Secrets, and of gateways' heartbeats.
    #[arg(
        long,
        env = "KITE_NAMESPACE",
        default_value = names::PLATFORM_NAMESPACE,
        value_name = "NAMESPACE"
    )]
    namespace: String,
    /// Name of the pod that it runs in; by default that of the host, which in a pod on the
    /// node's network is the node's.
    #[arg(long, env = "KITE_POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
    /// Users reach this server by HTTPS only: mark cookies Secure.
    #[arg(long, env = "KITE_SECURE_COOKIES")]
    secure_cookies: bool,
    /// Origin such as `https://kite.example.org` whose pages may use the cookie,
    /// where a proxy rewrites the Host header. May be given several times.
    #[arg(
        long,
        env = "KITE_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    origin: Vec<String>,
    #[command(flatten)]
    load: load::LoadArgs,
    /// Lets sign-in providers be on this very machine, by HTTP: for trying it out. Without
    /// it none is asked there, nor on the machine's link.
    #[arg(long, env = "KITE_LOCAL_PROVIDERS")]
    local_providers: bool,
    /// Hours after which people sign in again.
    #[arg(
        long,
        env = "KITE_SESSION_HOURS",
        value_name = "HOURS",
        default_value_t = 12,
        value_parser = clap::value_parser!(u16).range(1..=8760)
    )]
    session_hours: u16,
    /// Minutes after which a browser renews the token in its cookie.
    #[arg(
        long,
        env = "KITE_ACCESS_MINUTES",
        value_name = "MINUTES",
        default_value_t = 15,
        value_parser = clap::value_parser!(u16).range(1..=1440)
    )]
    access_minutes: u16,
    #[command(flatten)]
    consoles: consoles::ConsoleArgs,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    logs: LogArgs,
}

fn main() -> ExitCode {
    kite_process::exit_code(run(Cli::parse()))
}

#[tokio::main]
async fn run(cli: Cli) -> anyhow::Result<()> {
    cli.logs.init("info")?;
    let shutdown = kite_process::on_signal()?;
    let listener = TcpListener::bind(cli.listen)
        .await
        .with_context(|| format!("--listen {} cannot be listened on", cli.listen))?;
    let admin = Admin::bind(cli.admin_listen).await?;
    let client = cli.cluster.client().await?;
    let builder = ApiState::builder(client.clone())
        .namespace(&cli.namespace)
        .secure_cookies(cli.secure_cookies)
        .origins(cli.origin)
        .session_lifetime(Duration::from_secs(u64::from(cli.session_hours) * 3600))
        .access_lifetime(Duration::from_secs(u64::from(cli.access_minutes) * 60));
    let mut builder = cli.load.set_up(builder);
    if cli.local_providers {
        builder = builder.local_providers();
    }
    let pod = cli.pod_name.filter(|name| !name.is_empty());
    let reporter = Reporter::of_process(pod.or_else(kite_process::server_name));
    let audit = cli.audit.lines("kite-api")?;
    let are_logged = cli.audit.are_logged();
    let log = are_logged.then(|| Box::new(LogRequests) as Box<dyn ApiAudit>);
    let mut audits: Vec<_> = log.into_iter().collect();
    audits.extend(audit.clone().map(|it| Box::new(it) as Box<dyn ApiAudit>));
    let builder = builder.audit(audits);
    let (builder, recordings) = cli.consoles.set_up(
        builder,
        &client,
        &reporter,
        consoles::sinks(reporter.clone(), audit.as_ref(), are_logged),
        &shutdown,
    )?;
    let state = builder.build().await?;

    let readiness = Readiness::default();
    let watched = (state.clone(), readiness.clone());
    tokio::spawn(async move {
        let (state, readiness) = watched;
        loop {
            readiness.set(state.ready().is_ok());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let mut registry = Registry::default();
    state.metrics().register(&mut registry);
    reporter.register_metrics(&mut registry);
    // Who was at consoles is told until the last one has ended.
    let reporting = CancellationToken::new();
    if let Some(recordings) = &recordings {
        recordings.register_metrics(&mut registry);
    }
    let keeping = recordings.map(|it| tokio::spawn(it.keep(reporting.clone())));
    let wishes = watch_connections(client.clone(), reporter.instance());
    let reports = tokio::spawn(reporter.run(
        KubeCluster::new(client).with_field_manager(managers::API),
        cli.namespace,
        wishes,
        ApiConsoles(state.clone()),
        reporting.clone(),
    ));
    let admin = tokio::spawn(admin.serve(readiness, registry, shutdown.clone()));
    tracing::info!(address = %listener.local_addr()?, "the HTTP API serves");
    let router = kite_api::router(state.clone());
    let (serving, drain) = (cli.load.serving(), state.drain());
    kite_process::serve_and_drain(listener, router, serving, shutdown.clone(), drain).await?;
    reporting.cancel();
    reports.await?;
    if let Some(keeping) = keeping {
        keeping.await?;
    }
    admin.await?
}

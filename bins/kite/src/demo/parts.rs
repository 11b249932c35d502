//! The parts of Kite, wired as their own binaries wire them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kite_api::ApiState;
use kite_consoles::{ApiConsoles, GatewayAudit, GatewayTerminals, StoredRecordings};
use kite_core::{cluster::KubeCluster, managers, names};
use kite_gateway::{
    AuditSink, Config, Gateway, Infrastructure, Recordings, TcpConnector,
    audit::LogSink,
    kubernetes::{
        Reporter, RouteTable, SpecStarter, host_key, report_activity, watch_connections,
        watch_routes,
    },
    terminal::Terminals,
};
use kite_reconcile::{Context as ControllerContext, operator::Operator};
use kube::Client;
use russh::keys::{PrivateKey, ssh_key::LineEnding};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::seed;

/// Recordings in `directory`, if there is one.
pub(super) fn recordings(directory: Option<&Path>) -> anyhow::Result<Option<Recordings>> {
    let to = |directory: &Path| {
        Recordings::to(directory)
            .with_context(|| format!("{} cannot be written to", directory.display()))
    };
    directory.map(to).transpose()
}

/// Runs the controller until `shutdown`.
pub(super) async fn controller(
    client: Client,
    shutdown: CancellationToken,
) -> anyhow::Result<&'static str> {
    // The only one of its cluster: no election.
    Operator::without_election()
        .run(
            client,
            |client| {
                ControllerContext::new(
                    KubeCluster::new(client).with_field_manager(managers::CONTROLLER),
                )
            },
            shutdown,
        )
        .await?;
    Ok("controller")
}

/// Runs the SSH gateway until `shutdown`.
pub(super) async fn gateway(
    client: Client,
    listener: TcpListener,
    routes: RouteTable,
    recordings: Option<Recordings>,
    shutdown: CancellationToken,
) -> anyhow::Result<&'static str> {
    let key = host_key(
        client.clone(),
        names::PLATFORM_NAMESPACE,
        names::GATEWAY_HOST_KEY_SECRET,
    )
    .await?;
    let config = Config {
        // The demo ends at once: its VMs end with it.
        drain_grace: Duration::from_millis(500),
        ..Config::default()
    };
    let reporter = Reporter::of_process(Some("demo".to_owned()));
    let sinks: Vec<Box<dyn AuditSink>> = vec![Box::new(LogSink), Box::new(reporter.clone())];
    let builder = match recordings {
        Some(recordings) => Gateway::builder().recordings(recordings),
        None => Gateway::builder(),
    };
    let gateway = builder
        .config(config)
        .audit(sinks)
        .host_key(key)
        .routes(routes.clone())
        .starter(SpecStarter::new(client.clone()))
        .build()?;
    let reports = tokio::spawn(report_activity(
        client.clone(),
        routes.clone(),
        gateway.sessions(),
        shutdown.clone(),
    ));
    let wishes = watch_connections(client.clone(), reporter.instance());
    let connections = tokio::spawn(reporter.run(
        KubeCluster::new(client.clone()).with_field_manager(managers::GATEWAY),
        names::PLATFORM_NAMESPACE.to_owned(),
        wishes,
        gateway.sessions(),
        shutdown.clone(),
    ));
    let watching = tokio::spawn(watch_routes(
        client,
        routes,
        Some(Infrastructure::default()),
        shutdown.clone(),
    ));
    gateway.serve(listener, shutdown).await?;
    watching.await?;
    reports.await?;
    // The cluster ends with the demo: there is nobody to tell any more.
    connections.abort();
    Ok("SSH gateway")
}

/// The Secret from which the gateway takes its host key.
pub(super) fn gateway_host_key_secret(key: &PrivateKey) -> anyhow::Result<Secret> {
    let text = key.to_openssh(LineEnding::LF)?;
    let mut secret = seed::secret(
        names::GATEWAY_HOST_KEY_SECRET,
        names::key_secret::HOST_PRIVATE,
        &text,
    );
    let public = ByteString(key.public_key().to_openssh()?.into_bytes());
    let data = secret.data.get_or_insert_default();
    data.insert(names::key_secret::HOST_PUBLIC.to_owned(), public);
    Ok(secret)
}

/// Runs the HTTP API until `shutdown`. Terminals in the browser find VMs in the
/// gateway's `routes`, and are recorded as `recordings`, which lie in `record_to`.
pub(super) async fn api(
    client: Client,
    listener: TcpListener,
    routes: RouteTable,
    record_to: Option<PathBuf>,
    recordings: Option<Recordings>,
    shutdown: CancellationToken,
) -> anyhow::Result<&'static str> {
    let reporter = Reporter::of_process(Some("demo".to_owned()));
    let sinks: Vec<Box<dyn AuditSink>> = vec![Box::new(LogSink), Box::new(reporter.clone())];
    let mut terminals = Terminals::new(TcpConnector::default(), &Config::default());
    if let Some(recordings) = recordings {
        terminals = terminals.recordings(recordings);
    }
    let mut builder = ApiState::builder(client.clone()).local_providers();
    if let Some(directory) = record_to {
        let url = Url::from_directory_path(&directory).ok();
        let url = url.with_context(|| format!("{} is no whole path", directory.display()))?;
        builder = builder.recordings(StoredRecordings::at(&url)?);
    }
    let state = builder
        .instance(reporter.instance().clone())
        .terminals(GatewayTerminals::new(routes, terminals))
        .console_audit(GatewayAudit(sinks))
        .build()
        .await?;
    let wishes = watch_connections(client.clone(), reporter.instance());
    let consoles = tokio::spawn(reporter.run(
        KubeCluster::new(client).with_field_manager(managers::API),
        names::PLATFORM_NAMESPACE.to_owned(),
        wishes,
        ApiConsoles(state.clone()),
        shutdown.clone(),
    ));
    let app = kite_api::router(state.clone());
    let serving = kite_process::Serving::default().known_by(kite_api::is_signed_in);
    kite_process::serve_and_drain(listener, app, serving, shutdown.clone(), state.drain()).await?;
    consoles.abort();
    Ok("HTTP API")
}

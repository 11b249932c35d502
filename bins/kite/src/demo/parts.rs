//! The parts of Kite, wired as their own binaries wire them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kite_api::ApiState;
use kite_consoles::{GatewayAudit, GatewayTerminals};
use kite_core::{cluster::KubeCluster, names};
use kite_gateway::{
    Config, Gateway, TcpConnector,
    audit::LogSink,
    kubernetes::{RouteTable, SpecStarter, host_key, report_activity, watch_routes},
    terminal::Terminals,
};
use kite_reconcile::{Context, operator::Operator};
use kube::Client;
use russh::keys::{PrivateKey, ssh_key::LineEnding};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::seed;

/// Runs the controller until `shutdown`.
pub(super) async fn controller(
    client: Client,
    shutdown: CancellationToken,
) -> anyhow::Result<&'static str> {
    // The only one of its cluster: no election.
    Operator::alone()
        .run(
            client,
            |client| Context::new(KubeCluster::new(client)),
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
    let gateway = Gateway::builder()
        .config(config)
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
    let watching = tokio::spawn(watch_routes(client, routes, shutdown.clone()));
    gateway.serve(listener, shutdown).await?;
    watching.await?;
    reports.await?;
    Ok("SSH gateway")
}

/// The Secret from which the gateway takes its host key.
pub(super) fn gateway_host_key_secret(key: &PrivateKey) -> anyhow::Result<Secret> {
    let text = key.to_openssh(LineEnding::LF)?;
    Ok(seed::secret(
        names::GATEWAY_HOST_KEY_SECRET,
        names::key_secret::HOST_PRIVATE,
        &text,
    ))
}

/// Runs the HTTP API until `shutdown`. Terminals in the browser find VMs in the
/// gateway's `routes`.
pub(super) async fn api(
    client: Client,
    listener: TcpListener,
    routes: RouteTable,
    shutdown: CancellationToken,
) -> anyhow::Result<&'static str> {
    let terminals = Terminals::new(TcpConnector::default(), &Config::default());
    let state = ApiState::builder(client)
        .terminals(GatewayTerminals::new(routes, terminals))
        .console_audit(GatewayAudit(LogSink))
        .build()
        .await?;
    let router = kite_api::router(state.clone());
    let serving = kite_process::serve_http(listener, router, shutdown.clone());
    let draining = async {
        shutdown.cancelled().await;
        state.drain().await;
        Ok(())
    };
    tokio::try_join!(serving, draining)?;
    Ok("HTTP API")
}

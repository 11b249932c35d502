//! The admin port: `/livez`, `/readyz`, `/metrics`.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context as _;
use axum::{
    Router,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether the process can do its work now; what `/readyz` answers.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says whether the process is ready.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    /// Whether the process is ready.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The admin port of a process.
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

impl Admin {
    /// Takes `address`; fails with one clear line when it is in use.
    pub async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("--admin-listen {address} cannot be listened on"))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`. Not ready as soon as `shutdown` is cancelled.
    pub async fn serve(
        self,
        readiness: Readiness,
        registry: Registry,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        tracing::info!(address = %self.address, "the admin port serves");
        let registry = Arc::new(registry);
        let ending = shutdown.clone();
        let router = Router::new()
            .route("/livez", get(async || "ok"))
            .route(
                "/readyz",
                get(async move || {
                    if readiness.get() && !ending.is_cancelled() {
                        (StatusCode::OK, "ok")
                    } else {
                        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
                    }
                }),
            )
            .route(
                "/metrics",
                get(async move || {
                    let mut text = String::new();
                    match encode(&mut text, &registry) {
                        Ok(()) => (
                            [(
                                header::CONTENT_TYPE,
                                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                            )],
                            text,
                        )
                            .into_response(),
                        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
                    }
                }),
            );
        crate::serve_http(self.listener, router, shutdown).await
    }
}

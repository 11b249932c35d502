//! The admin port: `/livez`, `/readyz`, `/metrics`.

use std::{
    fmt,
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
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, text::encode},
    metrics::gauge::ConstGauge,
    registry::Registry,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether the process can do its work now; what `/readyz` answers.
#[derive(Clone, Default)]
pub struct Readiness {
    is_set: Arc<AtomicBool>,
    check: Option<Arc<Check>>,
}

type Check = dyn Fn() -> Result<String, String> + Send + Sync;

impl Readiness {
    /// Once it is [`set`](Self::set), what `check` says counts: its text is shown
    /// either way.
    pub fn checked(check: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self {
            is_set: Arc::default(),
            check: Some(Arc::new(check)),
        }
    }

    /// Says whether the process is ready.
    pub fn set(&self, ready: bool) {
        self.is_set.store(ready, Ordering::Release);
    }

    /// Whether the process is ready, and a text for people.
    ///
    /// # Errors
    /// The text, while the process is not ready.
    pub fn get(&self) -> Result<String, String> {
        if !self.is_set.load(Ordering::Acquire) {
            return Err("not ready".to_owned());
        }
        self.check
            .as_ref()
            .map_or_else(|| Ok("ok".to_owned()), |check| check())
    }
}

/// Readiness until the process ends, as `/readyz` and `kite_ready` tell it.
#[derive(Clone)]
struct Standing {
    readiness: Readiness,
    ending: CancellationToken,
}

impl Standing {
    fn get(&self) -> Result<String, String> {
        if self.ending.is_cancelled() {
            return Err("not ready: the process ends".to_owned());
        }
        self.readiness.get()
    }
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Standing").field(&self.get()).finish()
    }
}

impl Collector for Standing {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauge = ConstGauge::new(i64::from(self.get().is_ok()));
        let metric = encoder.encode_descriptor(
            "kite_ready",
            "1 while the process can do its work, as /readyz says",
            None,
            gauge.metric_type(),
        )?;
        gauge.encode(metric)
    }
}

/// The admin port of a process.
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
    more: Router,
}

impl Admin {
    /// Takes `address`; fails with one clear line when it is in use.
    ///
    /// # Errors
    /// The address is in use, or is not this machine's.
    pub async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("--admin-listen {address} cannot be listened on"))?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            more: Router::new(),
        })
    }

    /// Serves these routes, too. Their handlers get the client's address as
    /// `ConnectInfo<SocketAddr>`.
    #[must_use]
    pub fn with(mut self, routes: Router) -> Self {
        self.more = self.more.merge(routes);
        self
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`. Not ready as soon as `shutdown` is cancelled. Whether
    /// it is ready is among the metrics, too.
    ///
    /// # Errors
    /// The port cannot be served any more.
    pub async fn serve(
        self,
        readiness: Readiness,
        mut registry: Registry,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        tracing::info!(address = %self.address, "the admin port serves");
        let standing = Standing {
            readiness,
            ending: shutdown.clone(),
        };
        registry.register_collector(Box::new(standing.clone()));
        let registry = Arc::new(registry);
        let router = self
            .more
            .route("/livez", get(async || "ok"))
            .route(
                "/readyz",
                get(async move || match standing.get() {
                    Ok(text) => (StatusCode::OK, text),
                    Err(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
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

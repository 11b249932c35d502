//! Putting a gateway together and running it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kite_core::cidr::Cidr;
use kite_ssh_relay::io::Workers;
use kite_ssh_relay::sign::KeyError;
use prometheus_client::registry::Registry;
use rand::RngExt as _;
use russh::keys::PrivateKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::admission::{Admission, Admitted, Refusal};
use crate::audit::{AuditSink, LogSink};
use crate::auth::{Authenticator, AuthenticatorError, RouteAuthenticator};
use crate::bans::Bans;
use crate::config::Config;
use crate::connect::{Connector, TcpConnector};
use crate::metrics::{KindLabels, Metrics};
use crate::proxy::read_header;
use crate::recording::Recordings;
use crate::route::Routes;
use crate::sessions::Sessions;
use crate::socket;
use crate::standing::{Infrastructure, KnownPlaces};
use crate::start::{Starter, Starts};
use crate::startups::Startups;
use crate::user::{Entrance, Shared, host_keys, review, serve, ssh_config};

/// Pause after a failed accept: most often there are too many open files, and
/// others need a moment to close some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a proxy may take to say where a connection comes from.
const PROXY_PATIENCE: Duration = Duration::from_secs(5);

/// Why a gateway cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nobody said where login names lead.
    #[error("no routes: call GatewayBuilder::routes")]
    NoRoutes,
    /// There is no host key: clients could not know the gateway again.
    #[error("no host key: call GatewayBuilder::host_key")]
    NoHostKey,
    /// A host key does not sign.
    #[error("a host key cannot be used: {0}")]
    HostKey(#[from] KeyError),
    /// The default authenticator cannot be set up.
    #[error("the authenticator cannot be set up: {0}")]
    Authenticator(#[from] AuthenticatorError),
}

/// Collects what a gateway needs; see [`Gateway::builder`].
#[derive(Default)]
pub struct GatewayBuilder {
    config: Config,
    host_keys: Vec<PrivateKey>,
    routes: Option<Arc<dyn Routes>>,
    authenticator: Option<Arc<dyn Authenticator>>,
    connector: Option<Arc<dyn Connector>>,
    starter: Option<Arc<dyn Starter>>,
    recordings: Option<Recordings>,
    audit: Option<Arc<dyn AuditSink>>,
    infrastructure: Infrastructure,
}

impl GatewayBuilder {
    /// Bounds and times; defaults otherwise.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// A key by which clients know the gateway; at least one is needed, and the
    /// same on every replica.
    #[must_use]
    pub fn host_key(mut self, key: PrivateKey) -> Self {
        self.host_keys.push(key);
        self
    }

    /// Where login names lead; needed.
    #[must_use]
    pub fn routes(mut self, routes: impl Routes) -> Self {
        self.routes = Some(Arc::new(routes));
        self
    }

    /// Who may log in; [`RouteAuthenticator`] otherwise.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Some(Arc::new(authenticator));
        self
    }

    /// How machines are reached; [`TcpConnector`] otherwise.
    #[must_use]
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Some(Arc::new(connector));
        self
    }

    /// Who starts machines that are switched off and that a login is to start;
    /// otherwise their users are told that they are off.
    #[must_use]
    pub fn starter(mut self, starter: impl Starter) -> Self {
        self.starter = Some(Arc::new(starter));
        self
    }

    /// Records every terminal session; otherwise none is.
    #[must_use]
    pub fn recordings(mut self, recordings: Recordings) -> Self {
        self.recordings = Some(recordings);
        self
    }

    /// Who takes the audit records; [`LogSink`] otherwise.
    #[must_use]
    pub fn audit(mut self, audit: impl AuditSink) -> Self {
        self.audit = Some(Arc::new(audit));
        self
    }

    /// The addresses of what lies between clients and the gateway, where somebody knows
    /// them; they may change while it runs.
    #[must_use]
    pub fn infrastructure(mut self, infrastructure: Infrastructure) -> Self {
        self.infrastructure = infrastructure;
        self
    }

    /// Puts the gateway together.
    ///
    /// # Errors
    ///
    /// [`BuildError`] when routes or a host key are missing.
    pub fn build(self) -> Result<Gateway, BuildError> {
        let routes = self.routes.ok_or(BuildError::NoRoutes)?;
        if self.host_keys.is_empty() {
            return Err(BuildError::NoHostKey);
        }
        let config = self.config;
        let authenticator = match self.authenticator {
            Some(authenticator) => authenticator,
            None => Arc::new(RouteAuthenticator::new(
                config.parallel_hashes,
                config.hash_patience,
            )?),
        };
        let connector = self
            .connector
            .unwrap_or_else(|| Arc::new(TcpConnector::default()));
        let workers = Workers::default();
        let ssh = ssh_config(&config, &self.host_keys)?;
        Ok(Gateway {
            shared: Arc::new(Shared {
                entrance: Entrance::new(connector, &config, workers.clone()),
                host_keys: host_keys(&ssh),
                ssh: Arc::new(ssh),
                workers,
                routes,
                authenticator,
                starts: Starts::new(self.starter),
                recordings: self.recordings,
                audit: self.audit.unwrap_or_else(|| Arc::new(LogSink)),
                metrics: Metrics::default(),
                draining: CancellationToken::new(),
                closing: CancellationToken::new(),
                connections: AtomicU64::new(1),
                sessions: Sessions::default(),
                startups: Startups::new(
                    config.max_startups,
                    config.max_startups_per_address,
                    config.reserved_connections,
                ),
                infrastructure: self.infrastructure,
                known_places: KnownPlaces::default(),
                address_bans: Bans::new(config.address_bans),
                name_bans: Bans::new(config.name_bans),
                relay_bans: Bans::new(config.relay_bans),
                relays: Semaphore::new(config.parallel_relays.max(1)),
                config,
            }),
        })
    }
}

/// An SSH gateway.
pub struct Gateway {
    shared: Arc<Shared>,
}

impl Gateway {
    /// Starts to put a gateway together.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::default()
    }

    /// Adds the gateway's metrics to a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
    }

    /// The live list of connections, to show them and to end some.
    pub fn sessions(&self) -> Sessions {
        self.shared.sessions.clone()
    }

    /// Accepts connections until `shutdown` is cancelled and
    /// [`Config::drain_delay`] later; then tells interactive sessions, waits for
    /// sessions to end for at most [`Config::drain_grace`], and ends what is left.
    ///
    /// # Errors
    ///
    /// When the listener has no local address, that is, was never bound.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
        // On a thread of the runtime's: from the one that waits for all, such as `main`'s, each
        // connection would be handed over to another one.
        let accepting = tokio::spawn(self.accept(listener, shutdown));
        AbortOnDropHandle::new(accepting).await?
    }

    async fn accept(self, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
        let shared = self.shared;
        let address = listener.local_addr()?;
        socket::deepen(&listener);
        tracing::info!(%address, "gateway accepts connections");
        let admission = Admission::new(
            shared.config.max_connections,
            shared.config.max_connections_per_address,
            usize::try_from(shared.config.reserved_connections).unwrap_or(usize::MAX),
        );
        let tasks = TaskTracker::new();
        let is_over = CancellationToken::new();
        let recordings = shared.recordings.clone();
        let keeping = recordings.map(|it| tokio::spawn(it.keep(is_over.clone())));
        let _reviewing = AbortOnDropHandle::new(tokio::spawn(review(Arc::clone(&shared))));
        let closed = async {
            shutdown.cancelled().await;
            tokio::time::sleep(shared.config.drain_delay).await;
        };
        tokio::pin!(closed);
        loop {
            let accepted = tokio::select! {
                () = &mut closed => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match admission.admit() {
                Ok(admitted) => {
                    tasks.spawn(take(Arc::clone(&shared), stream, peer, admitted));
                }
                Err(refusal) => refuse(&shared, peer, refusal),
            }
        }
        drop(listener);
        tasks.close();
        tracing::info!(sessions = tasks.len(), "gateway drains");
        shared.draining.cancel();
        if tokio::time::timeout(shared.config.drain_grace, tasks.wait())
            .await
            .is_err()
        {
            shared.closing.cancel();
            tasks.wait().await;
        }
        is_over.cancel();
        if let Some(keeping) = keeping {
            keeping.await?;
        }
        tracing::info!("gateway ended");
        Ok(())
    }
}

/// Finds out where a connection comes from, and serves it if it may.
async fn take(
    shared: Arc<Shared>,
    mut stream: TcpStream,
    mut peer: SocketAddr,
    mut admitted: Admitted,
) {
    let config = &shared.config;
    let within = |ranges: &[Cidr], address| ranges.iter().any(|range| range.contains(address));
    if within(&config.proxies, peer.ip()) {
        let header = tokio::time::timeout(PROXY_PATIENCE, read_header(&mut stream)).await;
        match header {
            Ok(Ok(source)) => peer = source.unwrap_or(peer),
            Ok(Err(error)) => {
                tracing::warn!(proxy = %peer, %error, "connection refused");
                return refuse(&shared, peer, Refusal::Proxy);
            }
            Err(_) => return refuse(&shared, peer, Refusal::Proxy),
        }
    }
    let address = peer.ip();
    let allowed = config.allow.is_empty() || within(&config.allow, address);
    if !allowed || within(&config.deny, address) {
        return refuse(&shared, peer, Refusal::Denied);
    }
    let standing = shared.standing(address);
    if let Err(refusal) = admitted.comes_from(address, standing) {
        return refuse(&shared, peer, refusal);
    }
    let roll = rand::rng().random_range(0..100);
    match shared.startups.begin(address, standing, roll) {
        Ok(startup) => serve(Arc::clone(&shared), stream, peer, startup).await,
        Err(refusal) => refuse(&shared, peer, refusal),
    }
}

fn refuse(shared: &Shared, peer: SocketAddr, refusal: Refusal) {
    let kind = refusal.kind();
    let refused = &shared.metrics.refused_total;
    refused.get_or_create(&KindLabels { kind }).inc();
    tracing::debug!(%peer, kind, "connection refused");
}

//! One connection of a user, from accept to the last byte.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PrivateKey};
use russh::server;
use russh::{Disconnect, MethodKind, MethodSet, Preferred, SshId, cipher, kex, mac};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::conn::Conn;
use super::handler::UserHandler;
use super::progress::Progress;
use crate::audit::{AuditSink, Event};
use crate::auth::Authenticator;
use crate::bans::Bans;
use crate::budget::Budget;
use crate::config::Config;
use crate::flow::{INITIAL_WINDOW, Pace, Paced};
use crate::metrics::Metrics;
use crate::recording::Recordings;
use crate::route::{LoginName, Routes};
use crate::sessions::Sessions;
use crate::socket;
use crate::standing::{Infrastructure, KnownPlaces, Standing};
use crate::start::Starts;
use crate::startups::{Startup, Startups};
use crate::vm::Dialer;

/// The signatures that are taken, as OpenSSH's server names them: none with SHA-1.
const SIGNATURES: [Algorithm; 8] = [
    Algorithm::Ed25519,
    Algorithm::SkEd25519,
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP256,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP384,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP521,
    },
    Algorithm::SkEcdsaSha2NistP256,
    Algorithm::Rsa {
        hash: Some(HashAlg::Sha512),
    },
    Algorithm::Rsa {
        hash: Some(HashAlg::Sha256),
    },
];

/// How long a goodbye may take before the line is cut.
const GOODBYE: Duration = Duration::from_secs(1);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) ssh: Arc<server::Config>,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) dialer: Dialer,
    pub(crate) starts: Starts,
    pub(crate) recordings: Option<Recordings>,
    pub(crate) audit: Arc<dyn AuditSink>,
    pub(crate) metrics: Metrics,
    /// A shutdown was asked for.
    pub(crate) draining: CancellationToken,
    /// The time for it is over.
    pub(crate) closing: CancellationToken,
    pub(crate) connections: AtomicU64,
    pub(crate) sessions: Sessions,
    /// The memory for what is between users and machines.
    pub(crate) budget: Budget,
    /// Channels and forwards, which end a moment after their connection.
    pub(crate) tasks: TaskTracker,
    pub(crate) startups: Startups,
    pub(crate) infrastructure: Infrastructure,
    pub(crate) known_places: KnownPlaces,
    pub(crate) address_bans: Bans<IpAddr>,
    pub(crate) name_bans: Bans<LoginName>,
    /// Addresses whose passwords are not shown to machines that decide themselves.
    pub(crate) relay_bans: Bans<IpAddr>,
    /// One for each login that such a machine decides on at a time.
    pub(crate) relays: Semaphore,
}

impl Shared {
    /// What is known of an address.
    pub(crate) fn standing(&self, address: IpAddr) -> Standing {
        let trusted = &self.config.never_ban;
        if trusted.iter().any(|range| range.contains(address)) {
            Standing::Trusted
        } else if self.infrastructure.contains(address) {
            Standing::Many
        } else if self.known_places.has_any(address) {
            Standing::Known
        } else {
            Standing::Stranger
        }
    }
}

/// The SSH side of the configuration.
pub(crate) fn ssh_config(config: &Config, host_keys: Vec<PrivateKey>) -> server::Config {
    server::Config {
        server_id: SshId::Standard("SSH-2.0-Kite".into()),
        methods: methods(),
        keys: host_keys,
        window_size: INITIAL_WINDOW,
        limits: config.limits(),
        max_auth_attempts: config.max_auth_requests,
        // The authenticator sees to it that rejections take the same time.
        auth_rejection_time: Duration::ZERO,
        auth_rejection_time_initial: Some(Duration::ZERO),
        inactivity_timeout: None,
        nodelay: true,
        preferred: Preferred {
            cipher: Cow::Borrowed(&[
                cipher::AES_128_GCM,
                cipher::AES_256_GCM,
                cipher::CHACHA20_POLY1305,
                cipher::AES_256_CTR,
                cipher::AES_192_CTR,
                cipher::AES_128_CTR,
            ]),
            // Elliptic curves only: an exchange of the classic kind costs whole seconds
            // of a thread that carries sessions, before anybody has logged in.
            kex: Cow::Borrowed(&[
                kex::MLKEM768X25519_SHA256,
                kex::CURVE25519,
                kex::CURVE25519_PRE_RFC_8731,
                kex::EXTENSION_SUPPORT_AS_SERVER,
                kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
            ]),
            key: Cow::Borrowed(&SIGNATURES),
            mac: Cow::Borrowed(&[mac::HMAC_SHA256_ETM, mac::HMAC_SHA512_ETM]),
            ..Preferred::DEFAULT
        },
        ..server::Config::default()
    }
}

/// The login methods that are offered, always the same ones: they must not tell
/// what a name has.
pub(crate) fn methods() -> MethodSet {
    MethodSet::from(
        &[
            MethodKind::PublicKey,
            MethodKind::Password,
            MethodKind::KeyboardInteractive,
        ][..],
    )
}

/// Whether a signature is taken for a login.
pub(crate) fn takes(algorithm: &Algorithm) -> bool {
    SIGNATURES.contains(algorithm)
}

/// Serves one connection until it is over; until its login it counts as `startup`.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    startup: Startup,
) {
    let started = Instant::now();
    let connection = shared.connections.fetch_add(1, Ordering::Relaxed);
    shared.metrics.connections_total.inc();
    shared.metrics.connections.inc();
    socket::tune(&stream);
    let conn = Arc::new(Conn::new(Arc::clone(&shared), connection, peer));
    shared.sessions.add(&conn);
    let cut = CancellationToken::new();
    let ended = {
        let _guard = cut.clone().drop_guard();
        let pace = Arc::new(Pace::default());
        let stream = Paced::new(stream, &cut, Arc::clone(&pace), Arc::clone(&conn) as _);
        let progress = Arc::new(Progress::new(started, startup));
        let handler = UserHandler::new(Arc::clone(&conn), pace, Arc::clone(&progress));
        talk(&conn, stream, handler, &progress).await
    };
    conn.over.cancel();
    shared.sessions.remove(&conn);
    shared.metrics.connections.dec();
    conn.record(Event::Connection {
        client: conn.client.get().cloned(),
        login: conn.identity().map(|identity| identity.login.clone()),
        seconds: started.elapsed().as_secs_f64(),
        ended,
    });
}

/// Gives why the connection ended.
async fn talk(
    conn: &Conn,
    stream: Paced<TcpStream>,
    handler: UserHandler,
    progress: &Progress,
) -> String {
    let shared = &conn.shared;
    let too_late = progress.missed(&shared.config);
    tokio::pin!(too_late);
    let greeting = server::run_stream(Arc::clone(&shared.ssh), stream, handler);
    let session = tokio::select! {
        greeted = greeting => match greeted {
            Ok(session) => session,
            Err(error) => return format!("handshake failed: {error}"),
        },
        missed = &mut too_late => return missed.to_owned(),
        () = shared.draining.cancelled() => return "gateway shut down".to_owned(),
    };
    let handle = session.handle();
    tokio::pin!(session);
    let text = tokio::select! {
        ended = &mut session => return match ended {
            Ok(()) => "closed by the user".to_owned(),
            Err(error) => error.to_string(),
        },
        missed = &mut too_late => missed.to_owned(),
        () = shared.closing.cancelled() => "gateway shut down".to_owned(),
        () = conn.killed.cancelled() => conn.reason().to_owned(),
    };
    let told = format!("kite: {text}");
    let goodbye = handle.disconnect(Disconnect::ByApplication, told, String::new());
    // Who does not take a goodbye is cut off all the same.
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    let _ = tokio::time::timeout(GOODBYE, session).await;
    text
}

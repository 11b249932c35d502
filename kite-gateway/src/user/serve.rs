//! One connection of a user, from accept to the last byte.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use russh::keys::PrivateKey;
use russh::server;
use russh::{Disconnect, MethodKind, MethodSet, Preferred, SshId, cipher};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::conn::Conn;
use super::handler::UserHandler;
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
use crate::start::Starts;
use crate::vm::Dialer;

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
    pub(crate) address_bans: Bans<IpAddr>,
    pub(crate) name_bans: Bans<LoginName>,
    /// Addresses whose passwords are not shown to machines that decide themselves.
    pub(crate) relay_bans: Bans<IpAddr>,
    /// One for each login that such a machine decides on at a time.
    pub(crate) relays: Semaphore,
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

/// Serves one connection until it is over.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
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
        let logged_in = CancellationToken::new();
        let handler = UserHandler::new(Arc::clone(&conn), pace, logged_in.clone());
        talk(&conn, stream, handler, started, logged_in).await
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
    started: Instant,
    logged_in: CancellationToken,
) -> String {
    let shared = &conn.shared;
    let deadline = started + shared.config.login_deadline;
    let greeting = server::run_stream(Arc::clone(&shared.ssh), stream, handler);
    let session = tokio::select! {
        greeted = tokio::time::timeout_at(deadline, greeting) => match greeted {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => return format!("handshake failed: {error}"),
            Err(_) => return "no login in time".to_owned(),
        },
        () = shared.draining.cancelled() => return "gateway shut down".to_owned(),
    };
    let handle = session.handle();
    let too_late = async {
        tokio::select! {
            () = logged_in.cancelled() => std::future::pending().await,
            () = tokio::time::sleep_until(deadline) => {}
        }
    };
    tokio::pin!(session);
    let text = tokio::select! {
        ended = &mut session => return match ended {
            Ok(()) => "closed by the user".to_owned(),
            Err(error) => error.to_string(),
        },
        () = too_late => "no login in time".to_owned(),
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

//! One connection of a user, from accept to the last byte.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kite_ssh_relay::io::{Connection, ConnectionError, Eager, Workers};
use kite_ssh_relay::kex::Method;
use kite_ssh_relay::login;
use kite_ssh_relay::message::{Disconnect, Reason};
use kite_ssh_relay::relay::{Ended, Held, Settings, Side, hold, relay};
use kite_ssh_relay::sign::{KeyError, SigningKey};
use kite_ssh_relay::transport::{self, Role};
use russh::keys::PrivateKey;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::conn::Conn;
use super::enter::{EnterError, enter};
use super::entrance::Entrance;
use super::login::{Login, LoginEnd};
use super::progress::Progress;
use super::rules::Watch;
use super::wait::Waiting;
use crate::audit::{AuditSink, Event};
use crate::auth::Authenticator;
use crate::bans::Bans;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::recording::Recordings;
use crate::route::{LoginName, Routes};
use crate::sessions::Sessions;
use crate::socket;
use crate::standing::{Infrastructure, KnownPlaces, Standing};
use crate::start::Starts;
use crate::startups::{Startup, Startups};

/// How long a goodbye may take before the line is cut.
const GOODBYE: Duration = Duration::from_secs(1);

/// What OpenSSH's clients take for a server of its time: to others they do not say that
/// nobody reads a command's output any more (`eow@openssh.com`).
const VERSION: &str = "SSH-2.0-OpenSSH_9.9 Kite";
/// None of the curves that audits warn of: every client of the last ten years has another.
const METHODS: [Method; 2] = [Method::MlKem768X25519, Method::Curve25519];
/// Bytes of each session's window that are kept for words of the gateway's own.
const RESERVE: u32 = 1024;
/// How long a client waits for its login while its machine comes: some give up after thirty
/// seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) ssh: Arc<transport::Config>,
    pub(crate) host_keys: Vec<Arc<SigningKey>>,
    /// Where keys are exchanged and signatures verified.
    pub(crate) workers: Workers,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) entrance: Entrance,
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

/// The side towards users, for whoever has these host keys.
pub(crate) fn ssh_config(
    config: &Config,
    host_keys: &[PrivateKey],
) -> Result<transport::Config, KeyError> {
    let keys = host_keys
        .iter()
        .map(|key| SigningKey::new(key).map(Arc::new));
    let methods = METHODS.iter();
    let methods = methods.filter(|it| !config.post_quantum_only || it.is_post_quantum());
    let ours = transport::Config::server(VERSION, keys.collect::<Result<_, _>>()?);
    Ok(transport::Config {
        methods: methods.copied().collect(),
        rekey_after: Some(config.rekey_after()),
        ..ours
    })
}

/// The host keys of that side.
pub(crate) fn host_keys(config: &transport::Config) -> Vec<Arc<SigningKey>> {
    match &config.role {
        Role::Server { host_keys } => host_keys.clone(),
        Role::Client { .. } => Vec::new(),
    }
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
    let progress = Progress::new(started, startup);
    let ended = talk(&conn, stream, &progress, started).await;
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
    conn: &Arc<Conn>,
    stream: TcpStream,
    progress: &Progress,
    started: Instant,
) -> String {
    let shared = &conn.shared;
    let config = Arc::clone(&shared.ssh);
    let mut user = match Connection::start(config, Eager::new(stream), shared.workers.clone()) {
        Ok(user) => user,
        Err(error) => return error.to_string(),
    };
    let mut login = Login::new(conn);
    let logged_in = tokio::select! {
        logged_in = login.run(&mut user, progress) => logged_in.map_err(|end| match end {
            LoginEnd::Connection(error) => lost(&error, progress.has_keys()),
            end => end.to_string(),
        }),
        missed = progress.missed(&shared.config) => Err(missed.to_owned()),
        () = drained(shared, progress) => Err("gateway shut down".to_owned()),
        () = conn.killed.cancelled() => Err(conn.reason().to_owned()),
    };
    let server = match logged_in {
        Ok(server) => server,
        Err(why) => return goodbye(user, why).await,
    };
    let took = started.elapsed().as_secs_f64();
    shared.metrics.login_seconds.observe(took);
    let mut held = Held::default();
    let machine = tokio::select! {
        machine = bring(conn, &mut user, server, login.entered(), &mut held) => machine,
        why = stopped(conn) => Err(why),
    };
    let machine = match machine {
        Ok(machine) => machine,
        Err(why) => return goodbye(user, why).await,
    };
    let settings = Settings {
        most_channels: shared.config.max_channels,
        reserve: RESERVE,
        server: "the VM",
        patience: GOODBYE,
        ..Settings::new(shared.host_keys.clone())
    };
    let mut rules = Watch::new(conn);
    let stop = async { disconnect(&stopped(conn).await) };
    match relay(user, machine, held, &settings, &mut rules, stop).await {
        Ended::Connection {
            side: Side::User,
            why,
        } => lost(&why, true),
        Ended::Connection {
            side: Side::Server,
            why,
        } => format!("the VM's side was lost: {why}"),
        Ended::Broken {
            side: Side::Server,
            why,
        } => format!("the VM's side was lost: {why}"),
        Ended::Stopped(told) => {
            let text = told.text.strip_prefix("kite: ");
            text.unwrap_or(&told.text).to_owned()
        }
        ended => ended.to_string(),
    }
}

/// Waits until nobody new is served; who has exchanged keys may log in as long as others go on.
async fn drained(shared: &Shared, progress: &Progress) {
    shared.draining.cancelled().await;
    if progress.has_keys() {
        shared.closing.cancelled().await;
    }
}

/// Brings a user who is logged in to the machine: has it started if that is to be done, enters
/// it, and tells the client that it is in. The client reads how it comes along for as long
/// as it waits for that.
async fn bring(
    conn: &Conn,
    user: &mut Connection,
    mut login: login::Server,
    entered: Option<Connection>,
    held: &mut Held,
) -> Result<Connection, String> {
    let (words, mut heard) = mpsc::unbounded_channel();
    let entering = async {
        if let Some(mut waiting) = Waiting::of(conn).await? {
            while let Some(line) = waiting.next().await? {
                // Whoever hears it is gone with the connection.
                let _ = words.send(format!("{line}\r\n").into_bytes());
            }
        }
        let mut banner = |text| {
            let _ = words.send(text);
        };
        enter(conn, entered, &mut banner).await
    };
    let mut entering = pin!(entering);
    let late = Instant::now() + PATIENCE;
    loop {
        let is_told = login.is_done();
        let step = async {
            tokio::select! {
                biased;
                Some(text) = heard.recv() => Step::Heard(text),
                entered = &mut entering => Step::Entered(Box::new(entered)),
                () = tokio::time::sleep_until(late), if !is_told => Step::Late,
            }
        };
        let step = hold(user, held, step).await;
        match step.map_err(|error| lost(&error, true))? {
            Step::Heard(text) => tell(user, &login, &text)?,
            Step::Late => accept(user, &mut login)?,
            Step::Entered(entered) => {
                // What was said last has not been heard yet.
                while let Ok(text) = heard.try_recv() {
                    tell(user, &login, &text)?;
                }
                let machine = entered.map_err(|error| {
                    let text = error.to_string();
                    text.strip_prefix("kite: ").unwrap_or(&text).to_owned()
                })?;
                if !is_told {
                    accept(user, &mut login)?;
                }
                return Ok(machine);
            }
        }
    }
}

enum Step {
    /// Words for the user.
    Heard(Vec<u8>),
    /// The client waits no longer.
    Late,
    Entered(Box<Result<Connection, EnterError>>),
}

/// Why a user's connection is over.
fn lost(error: &ConnectionError, has_keys: bool) -> String {
    match error {
        ConnectionError::Closed | ConnectionError::Disconnected(_) => {
            "closed by the user".to_owned()
        }
        error if has_keys => error.to_string(),
        error => format!("handshake failed: {error}"),
    }
}

fn say(user: &mut Connection, message: &[u8]) -> Result<(), String> {
    user.send(message, &[]).map_err(|error| error.to_string())
}

/// Words before the login is answered; nobody hears them later.
fn tell(user: &mut Connection, login: &login::Server, text: &[u8]) -> Result<(), String> {
    match login.banner(text) {
        Ok(banner) => say(user, &banner),
        Err(_) => Ok(()),
    }
}

fn accept(user: &mut Connection, login: &mut login::Server) -> Result<(), String> {
    let success = login.accept().map_err(|error| error.to_string())?;
    say(user, &success)
}

/// Waits until somebody wants the connection to end, and says why.
async fn stopped(conn: &Conn) -> String {
    let shared = &conn.shared;
    tokio::select! {
        () = shared.closing.cancelled() => "gateway shut down".to_owned(),
        () = conn.killed.cancelled() => conn.reason().to_owned(),
    }
}

fn disconnect(why: &str) -> Disconnect {
    Disconnect::new(Reason::BY_APPLICATION, format!("kite: {why}"))
}

/// Tells the user why the connection ends, if they can read it.
async fn goodbye(user: Connection, why: String) -> String {
    user.end(&disconnect(&why), GOODBYE).await;
    why
}

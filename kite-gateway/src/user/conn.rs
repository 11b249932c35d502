//! A connection of a user, as it is listed, counted, warned and ended.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::serve::Shared;
use crate::audit::{Event, Purpose, Record};
use crate::auth::Proof;
use crate::metrics::{KindLabels, Way, WayLabels};
use crate::route::{LoginName, VmKey};

/// Who logged in, and where that leads.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) login: LoginName,
    /// The machine that the user logged in to.
    pub(crate) vm: VmKey,
    /// Tells it from another of the same name.
    pub(crate) uid: String,
    /// Who owns it.
    pub(crate) owner: Option<String>,
    /// With what the user logged in.
    pub(crate) proofs: Vec<Proof>,
}

/// Who has as many connections as they may, and how many that are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crowd {
    /// The machine.
    Vm(usize),
    /// All machines of its owner together.
    Owner(usize),
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vm(most) => write!(f, "it has as many connections as it may ({most})"),
            Self::Owner(most) => write!(
                f,
                "its owner's VMs have as many connections as they may together ({most})"
            ),
        }
    }
}

/// One connection of a user.
pub(crate) struct Conn {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u64,
    pub(crate) peer: SocketAddr,
    /// Since when it is there.
    pub(crate) since: jiff::Timestamp,
    /// Somebody wants it to end.
    pub(crate) killed: CancellationToken,
    reason: OnceLock<String>,
    crowded: OnceLock<Crowd>,
    /// The client's version string.
    pub(crate) client: OnceLock<String>,
    identity: OnceLock<Identity>,
    channels: AtomicUsize,
    /// What the user is told on their sessions, and who tells it.
    warn: UnboundedSender<String>,
    warnings: Mutex<Option<UnboundedReceiver<String>>>,
    /// Counts what is carried, to see whether anything is.
    carried: AtomicU64,
}

impl Conn {
    pub(crate) fn new(shared: Arc<Shared>, number: u64, peer: SocketAddr) -> Self {
        let (warn, warnings) = unbounded_channel();
        Self {
            shared,
            number,
            peer,
            since: jiff::Timestamp::now(),
            killed: CancellationToken::new(),
            reason: OnceLock::new(),
            crowded: OnceLock::new(),
            client: OnceLock::new(),
            identity: OnceLock::new(),
            channels: AtomicUsize::new(0),
            warn,
            warnings: Mutex::new(Some(warnings)),
            carried: AtomicU64::new(0),
        }
    }

    /// Who logged in; `None` before the login.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// Notes a login; `false` if it comes too late to be one.
    pub(crate) fn logged_in(&self, identity: Identity) -> bool {
        let Some(counts) = self.shared.sessions.log_in(self, identity) else {
            return false;
        };
        let config = &self.shared.config;
        let crowd = if counts.of_vm > config.max_connections_per_vm {
            Some(Crowd::Vm(config.max_connections_per_vm))
        } else if counts.of_owner > config.max_connections_per_owner {
            Some(Crowd::Owner(config.max_connections_per_owner))
        } else {
            None
        };
        if let Some(crowd) = crowd {
            // A connection logs in once.
            let _ = self.crowded.set(crowd);
        }
        true
    }

    /// Sets who logged in; `false` if somebody has.
    pub(crate) fn identify(&self, identity: Identity) -> bool {
        self.identity.set(identity).is_ok()
    }

    /// Tells the user something on their sessions.
    pub(crate) fn warn(&self, words: String) {
        // Who has no session is not told.
        let _ = self.warn.send(words);
    }

    /// What the user is to be told; for one, once.
    pub(super) fn warnings(&self) -> Option<UnboundedReceiver<String>> {
        self.warnings.lock().take()
    }

    /// Something was carried, either way.
    pub(crate) fn carries(&self) {
        self.carried.fetch_add(1, Ordering::Relaxed);
    }

    /// Another number whenever something was carried.
    pub(crate) fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Who has more connections than they may, if somebody has.
    pub(crate) fn crowd(&self) -> Option<Crowd> {
        self.crowded.get().copied()
    }

    /// Ends the connection; the user gets to read why.
    pub(crate) fn kill(&self, reason: &str) {
        // The first reason counts.
        let _ = self.reason.set(reason.to_owned());
        self.killed.cancel();
    }

    /// Why it was killed.
    pub(crate) fn reason(&self) -> &str {
        self.reason.get().map_or("", String::as_str)
    }

    /// Open channels.
    pub(crate) fn channels(&self) -> usize {
        self.channels.load(Ordering::Relaxed)
    }

    /// Writes an audit record.
    pub(crate) fn record(&self, event: Event) {
        self.shared.audit.record(&Record {
            time: jiff::Timestamp::now(),
            connection: self.number,
            peer: self.peer,
            event,
        });
    }

    /// Counts a channel, or a listener for forwards, from now until it is
    /// [`Counted::ended`].
    pub(crate) fn count(self: &Arc<Self>, kind: &'static str) -> Counted {
        let labels = KindLabels { kind };
        let metrics = &self.shared.metrics;
        metrics.channels_total.get_or_create(&labels).inc();
        metrics.channels.get_or_create(&labels).inc();
        self.channels
            .fetch_add(usize::from(kind != LISTENER), Ordering::Relaxed);
        Counted {
            conn: Arc::clone(self),
            labels,
            started: Instant::now(),
        }
    }
}

/// A channel that is open.
#[must_use = "it counts until it has ended"]
pub(crate) struct Counted {
    conn: Arc<Conn>,
    labels: KindLabels,
    started: Instant,
}

/// What a listener for forwards is counted as, which is no channel.
pub(crate) const LISTENER: &str = "forward";
/// Longest command or destination that is kept for the records.
const MAX_DETAIL: usize = 1024;

/// What fits into a record of a text that somebody else made up.
pub(crate) fn shortened(text: &str) -> Option<String> {
    let mut end = text.len().min(MAX_DETAIL);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text.get(..end).filter(|text| !text.is_empty());
    kept.map(str::to_owned)
}

impl Counted {
    /// The channel is over: counts its bytes and writes its record.
    pub(crate) fn ended(
        self,
        purpose: Purpose,
        detail: Option<&str>,
        [bytes_up, bytes_down]: [u64; 2],
        ended: &str,
    ) {
        let metrics = &self.conn.shared.metrics;
        metrics.channels.get_or_create(&self.labels).dec();
        let is_channel = self.labels.kind != LISTENER;
        self.conn
            .channels
            .fetch_sub(usize::from(is_channel), Ordering::Relaxed);
        for (way, bytes) in [(Way::Up, bytes_up), (Way::Down, bytes_down)] {
            let labels = WayLabels { way };
            metrics.bytes_total.get_or_create(&labels).inc_by(bytes);
        }
        if let Some(Identity { login, vm, .. }) = self.conn.identity().cloned() {
            let detail = detail.and_then(shortened);
            self.conn.record(Event::Channel {
                login,
                vm,
                kind: self.labels.kind,
                purpose,
                detail,
                bytes_up,
                bytes_down,
                seconds: self.started.elapsed().as_secs_f64(),
                ended: ended.to_owned(),
            });
        }
    }
}

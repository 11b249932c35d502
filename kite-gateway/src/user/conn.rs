//! What the handler of a user's connection shares with the tasks of its channels.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use russh::server::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::link::{Link, shortened};
use super::serve::Shared;
use crate::audit::{Event, Purpose, Record};
use crate::auth::Proof;
use crate::budget::{Account, Paid, Share};
use crate::flow::{Brake, Wire};
use crate::metrics::{KindLabels, Way, WayLabels};
use crate::route::{LoginName, VmKey};
use crate::secret::Secret;

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
    /// The password, where the machine itself decides on it each time.
    pub(crate) password: Option<Secret>,
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
    /// The connection is gone.
    pub(crate) gone: CancellationToken,
    /// Nobody is served on it any more; a check of a password may still be under way.
    pub(crate) over: CancellationToken,
    /// Somebody wants it to end.
    pub(crate) killed: CancellationToken,
    reason: OnceLock<String>,
    crowded: OnceLock<Crowd>,
    /// The client's version string.
    pub(crate) client: OnceLock<String>,
    identity: OnceLock<Identity>,
    handle: OnceLock<Handle>,
    links: Mutex<HashMap<u32, Arc<Link>>>,
    /// What the owner's machines may take; there after the login.
    share: OnceLock<Arc<Share>>,
    /// The way out of its SSH session.
    pub(crate) wire: Wire,
    /// Counts what is carried, to see whether anything is.
    carried: AtomicU64,
}

impl Conn {
    pub(crate) fn new(shared: Arc<Shared>, number: u64, peer: SocketAddr) -> Self {
        Self {
            shared,
            number,
            peer,
            since: jiff::Timestamp::now(),
            gone: CancellationToken::new(),
            over: CancellationToken::new(),
            killed: CancellationToken::new(),
            reason: OnceLock::new(),
            crowded: OnceLock::new(),
            client: OnceLock::new(),
            identity: OnceLock::new(),
            handle: OnceLock::new(),
            links: Mutex::default(),
            share: OnceLock::new(),
            wire: Wire::default(),
            carried: AtomicU64::new(0),
        }
    }

    /// Who logged in; `None` before the login.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// Notes a login; `false` if it comes too late to be one.
    pub(crate) fn logged_in(&self, identity: Identity) -> bool {
        let owner = identity.owner.clone();
        let owner = owner.unwrap_or_else(|| identity.vm.to_string());
        let Some(counts) = self.shared.sessions.log_in(self, identity) else {
            return false;
        };
        let share = self.shared.budget.share(&owner);
        self.wire.charge(Account::of(Some(Arc::clone(&share))));
        // A connection logs in once.
        let _ = self.share.set(share);
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

    /// What the owner's machines may take; there after the login.
    pub(crate) fn share(&self) -> Option<&Arc<Share>> {
        self.share.get()
    }

    /// Pays for another channel, or says why there can be none.
    pub(crate) fn pay(&self) -> Result<Paid, String> {
        let most = self.shared.config.max_channels;
        if self.channels() >= most {
            return Err(format!("kite: at most {most} channels on one connection"));
        }
        let paid = self.share().and_then(Share::open);
        paid.ok_or_else(|| {
            "kite: the gateway has no memory left for another channel to this owner's VMs; end \
             some and try again"
                .to_owned()
        })
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

    /// Keeps the handle for sending to the user from elsewhere.
    pub(crate) fn keep(&self, handle: Handle) {
        let _ = self.handle.set(handle);
    }

    /// For sending to the user; there after the login.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.handle.get().cloned()
    }

    /// Open channels.
    pub(crate) fn channels(&self) -> usize {
        self.links.lock().len()
    }

    pub(crate) fn link(&self, id: u32) -> Option<Arc<Link>> {
        self.links.lock().get(&id).cloned()
    }

    pub(crate) fn insert(&self, id: u32, link: Arc<Link>) {
        self.links.lock().insert(id, link);
    }

    /// The link of a channel that the gateway opened towards the user: whoever
    /// comes first, the user's confirmation or the task that opened, makes it.
    pub(crate) fn adopt(&self, id: u32) -> Arc<Link> {
        let make = || {
            let (gone, metrics) = (self.gone.child_token(), &self.shared.metrics);
            Link::without_requests(gone, metrics, self.share().cloned())
        };
        let mut links = self.links.lock();
        let link = links.entry(id).or_insert_with(|| Arc::new(make()));
        Arc::clone(link)
    }

    /// The user closed the channel.
    pub(crate) fn closed(&self, id: u32) {
        let mut links = self.links.lock();
        let Some(link) = links.get(&id) else { return };
        link.gone.cancel();
        // The task of an adopted channel may not have come for its link yet; it
        // removes it itself.
        if !link.is_adopted() {
            links.remove(&id);
        }
    }

    /// The channel is over, or never was. Where the gateway closed it first this
    /// is all there is: russh does not tell of the user's answering close.
    pub(crate) fn remove(&self, id: u32) {
        self.links.lock().remove(&id);
    }

    /// Whether more of the channel waits than should (see `flow`); nothing of a
    /// channel that is no more.
    pub(crate) fn is_over(&self, id: u32) -> Option<bool> {
        let links = self.links.lock();
        links.get(&id).map(|link| link.up.is_over())
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

    /// Counts a channel from now until it is [`Counted::ended`].
    pub(crate) fn count(&self, kind: &'static str) -> Counted<'_> {
        let labels = KindLabels { kind };
        let metrics = &self.shared.metrics;
        metrics.channels_total.get_or_create(&labels).inc();
        metrics.channels.get_or_create(&labels).inc();
        Counted {
            conn: self,
            labels,
            started: Instant::now(),
        }
    }
}

impl Brake for Conn {
    /// The memory is used up, and a machine does not read what this user sends.
    fn holds(&self) -> bool {
        let is_full = self.share().is_some_and(|share| share.is_full());
        is_full && self.links.lock().values().any(|link| link.up.is_over())
    }

    fn wire(&self) -> &Wire {
        &self.wire
    }
}

/// A channel that is open.
pub(crate) struct Counted<'a> {
    conn: &'a Conn,
    labels: KindLabels,
    started: Instant,
}

impl Counted<'_> {
    /// The channel is over: counts its bytes and writes its record.
    pub(crate) fn ended(
        self,
        purpose: Purpose,
        detail: Option<&str>,
        bytes_up: u64,
        bytes_down: u64,
        ended: String,
    ) {
        let metrics = &self.conn.shared.metrics;
        metrics.channels.get_or_create(&self.labels).dec();
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
                ended,
            });
        }
    }
}

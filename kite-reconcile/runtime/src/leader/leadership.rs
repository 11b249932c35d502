//! Whether this process leads now.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::Clock;

/// A moment by the monotonic clock and by the system's. The first stands still
/// while a machine is suspended, the second may be set: what has passed by either
/// of them has passed.
#[derive(Clone)]
pub(super) struct Moment {
    pub(super) monotonic: Instant,
    pub(super) system: Timestamp,
    pub(super) clock: Clock,
}

impl Moment {
    pub(super) fn after(self, duration: Duration) -> Self {
        Self {
            monotonic: self.monotonic + duration,
            system: self.system.checked_add(duration).unwrap_or(self.system),
            clock: self.clock,
        }
    }

    fn has_passed(&self) -> bool {
        Instant::now() >= self.monotonic || (self.clock)() >= self.system
    }
}

/// What a process is in an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaderState {
    /// It takes part in none, and works.
    Alone,
    /// It leads.
    Leader,
    /// It waits; this one leads, if it is known.
    Candidate(Option<String>),
}

enum State {
    Alone,
    /// The Lease is held up to then; the number tells terms apart.
    Held(Moment, u64),
    Waiting(Option<String>),
}

struct Inner {
    state: watch::Sender<State>,
    terms: AtomicU64,
}

/// Whether this process leads *now*: may be asked by everybody at any time, and
/// is right even when the process slept through the end of its Lease.
#[derive(Clone)]
pub struct Leadership(Arc<Inner>);

impl Leadership {
    /// Of a process that is the only one: it always leads.
    pub fn always() -> Self {
        Self::starting(State::Alone)
    }

    /// Of a process that has to win an election first ([`lead`](super::lead)).
    pub fn candidate() -> Self {
        Self::starting(State::Waiting(None))
    }

    fn starting(state: State) -> Self {
        Self(Arc::new(Inner {
            state: watch::Sender::new(state),
            terms: AtomicU64::new(0),
        }))
    }

    /// Whether it leads now.
    pub fn is_held(&self) -> bool {
        match &*self.0.state.borrow() {
            State::Alone => true,
            State::Held(until, _) => !until.has_passed(),
            State::Waiting(_) => false,
        }
    }

    /// How often the process won an election.
    pub fn terms(&self) -> u64 {
        self.0.terms.load(Ordering::Relaxed)
    }

    /// What the process is now.
    pub fn state(&self) -> LeaderState {
        match &*self.0.state.borrow() {
            State::Alone => LeaderState::Alone,
            State::Held(until, _) if !until.has_passed() => LeaderState::Leader,
            State::Held(..) => LeaderState::Candidate(None),
            State::Waiting(leader) => LeaderState::Candidate(leader.clone()),
        }
    }

    /// Waits until it does not lead, or leads by another term than when this was
    /// called.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let inner = Arc::clone(&self.0);
        let mut changes = inner.state.subscribe();
        let begun = term(&changes.borrow_and_update());
        async move {
            loop {
                let deadline = match &*changes.borrow_and_update() {
                    State::Alone => None,
                    State::Held(until, now) if begun == Some(*now) && !until.has_passed() => {
                        Some(until.monotonic)
                    }
                    State::Held(..) | State::Waiting(_) => return,
                };
                let news = async {
                    // The sender lives as long as `inner`.
                    let _ = changes.changed().await;
                };
                match deadline {
                    None => news.await,
                    Some(deadline) => {
                        tokio::select! {
                            () = news => {}
                            () = sleep_until(deadline) => {}
                        }
                    }
                }
            }
        }
    }

    /// Up to when it leads if nothing comes between; `None` if it does not.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &*self.0.state.borrow() {
            State::Held(until, _) if !until.has_passed() => Some(until.monotonic),
            State::Alone | State::Held(..) | State::Waiting(_) => None,
        }
    }

    pub(super) fn hold(&self, until: Moment, identity: &str) {
        tracing::debug!(identity, "holds the Lease");
        let term = self.0.terms.fetch_add(1, Ordering::Relaxed);
        self.0.state.send_replace(State::Held(until, term));
    }

    /// Puts the end off, unless it has come.
    pub(super) fn prolong(&self, new: Moment) -> bool {
        self.0.state.send_if_modified(|state| match state {
            State::Held(until, _) if !until.has_passed() => {
                *until = new;
                true
            }
            State::Alone | State::Held(..) | State::Waiting(_) => false,
        })
    }

    pub(super) fn stand_by(&self, leader: Option<&str>) {
        self.0.state.send_if_modified(|state| {
            let is_known = matches!(state, State::Waiting(known) if known.as_deref() == leader);
            if !is_known {
                *state = State::Waiting(leader.map(str::to_owned));
            }
            !is_known
        });
    }

    /// Leads no more. Whether it did until now.
    pub(super) fn end(&self) -> bool {
        let held = self.is_held();
        self.0.state.send_replace(State::Waiting(None));
        held
    }
}

/// The term that this process is in, or was in last.
fn term(state: &State) -> Option<u64> {
    match state {
        State::Held(_, term) => Some(*term),
        State::Alone | State::Waiting(_) => None,
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership").field(&self.state()).finish()
    }
}

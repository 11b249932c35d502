//! What the layers of one plan share: the count, the record, and who is down.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::Call;
use super::layer::FaultLayer;
use super::mode::Fault;
use super::plan::{Armed, Plan};
use super::rival::Deed;
use super::watches::{Control, Hold};

/// How long watch events are late, unless they are held until released.
const LATE: Duration = Duration::from_secs(10);

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injected {
    /// The number of the request, from 1.
    pub number: u64,
    /// What it was about.
    pub request: Call,
    /// What went wrong.
    pub mode: Fault,
    /// Of a rival: the cluster's revision when it was through, if that could be
    /// asked. What came after is the participant's own again.
    pub until: Option<u64>,
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            request,
            mode,
            until: _,
        } = self;
        write!(
            f,
            "request {number} ({}: {request}): {mode}",
            request.participant
        )
    }
}

/// A plan that is carried out on the requests of one or several participants.
/// Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    armed: Mutex<Armed>,
    injected: Mutex<Vec<Injected>>,
    spared: Mutex<BTreeSet<(String, String, String)>>,
    spared_kinds: Mutex<BTreeSet<String>>,
    late: Option<Duration>,
}

impl Faults {
    /// Carries out `plan`. Watch events that are late come after ten seconds of
    /// tokio's time, or when [`FaultLayer::release`] is called.
    pub fn new(plan: Plan) -> Self {
        Self::with_lateness(plan, Some(LATE))
    }

    /// As [`new`](Self::new), with another lateness; `None` is until released.
    pub fn with_lateness(plan: Plan, late: Option<Duration>) -> Self {
        Self(Arc::new(Inner {
            armed: Mutex::new(Armed::new(plan)),
            injected: Mutex::default(),
            spared: Mutex::default(),
            spared_kinds: Mutex::default(),
            late,
        }))
    }

    /// The layer for a participant's client. After a crash, a new client is made
    /// with the same layer; the old one never hears of anything again.
    pub fn layer(&self, participant: impl Into<String>) -> FaultLayer {
        FaultLayer(Arc::new(Participant {
            name: participant.into(),
            faults: self.clone(),
            state: Mutex::default(),
            control: watch::Sender::default(),
            down: watch::Sender::new(false),
        }))
    }

    /// What was injected so far, in order.
    pub fn injected(&self) -> Vec<Injected> {
        self.0.injected.lock().clone()
    }

    /// How many requests were counted.
    pub fn count(&self) -> u64 {
        self.0.armed.lock().count()
    }

    /// From now on nothing goes wrong. Requests are still counted.
    pub fn disarm(&self) {
        self.0.armed.lock().disarm();
    }

    /// What of the plan has found no request so far, as the plan words it.
    /// Random faults promise nothing and are left out.
    pub fn unfired(&self) -> Vec<String> {
        self.0.armed.lock().unfired()
    }

    /// Rivals do not delete this object for good: that would be an order that
    /// somebody gave, and no accident. `resource` is plural and group, as in
    /// [`Call::resource`].
    pub fn spare(&self, resource: &str, namespace: &str, name: &str) {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.0.spared.lock().insert(key);
    }

    /// Rivals delete no object of this kind, not even to create it again: what it
    /// stands for would be another. `resource` is plural and group.
    pub fn spare_all(&self, resource: impl Into<String>) {
        self.0.spared_kinds.lock().insert(resource.into());
    }

    /// Whether rivals may not do this to what the request is about.
    pub(super) fn is_spared(&self, call: &Call, deed: Deed) -> bool {
        if deed == Deed::Edit {
            return false;
        }
        let key = (call.resource(), call.namespace.clone(), call.name.clone());
        self.0.spared_kinds.lock().contains(&key.0)
            || (deed == Deed::Delete && self.0.spared.lock().contains(&key))
    }

    /// Counts a request; its number, and what is to happen to it.
    pub(super) fn decide(&self, call: &Call) -> (u64, Option<Fault>) {
        let mut armed = self.0.armed.lock();
        let fault = armed.decide(call);
        (armed.count(), fault)
    }

    pub(super) fn record(&self, injected: Injected) {
        tracing::debug!(%injected, "fault");
        self.0.injected.lock().push(injected);
    }
}

/// A hold, and what it took the place of.
#[derive(Debug)]
pub(super) struct Held {
    hold: Hold,
    before: Option<Hold>,
}

/// A participant over all its lives.
#[derive(Debug)]
pub(super) struct Participant {
    pub(super) name: String,
    pub(super) faults: Faults,
    state: Mutex<State>,
    pub(super) control: watch::Sender<Control>,
    pub(super) down: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    /// Which life this is, from 0.
    life: u64,
    is_down: bool,
    /// Lists from a watch cache show this revision, each collection once.
    stale: Option<(u64, BTreeSet<String>)>,
}

impl Participant {
    /// The life that a new client belongs to: the next one after a crash.
    pub(super) fn new_client(&self) -> u64 {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_down) {
            state.life += 1;
            self.down.send_replace(false);
        }
        state.life
    }

    pub(super) fn is_dead(&self, life: u64) -> bool {
        let state = self.state.lock();
        state.life > life || state.is_down
    }

    /// The participant is gone; with `past`, its next life begins with that
    /// revision.
    pub(super) fn crash(&self, past: Option<u64>) {
        let mut state = self.state.lock();
        state.is_down = true;
        state.stale = past.map(|revision| (revision, BTreeSet::new()));
        drop(state);
        if past.is_some() {
            self.hold(false, false);
        }
        self.down.send_replace(true);
    }

    /// The revision that its next life begins with, if that is of the past.
    pub(super) fn past(&self) -> Option<u64> {
        self.state.lock().stale.as_ref().map(|(past, _)| *past)
    }

    /// The revision that a first list of this collection is to show.
    pub(super) fn stale_view(&self, call: &Call) -> Option<u64> {
        let mut state = self.state.lock();
        let (revision, seen) = state.stale.as_mut()?;
        seen.insert(call.to_string()).then_some(*revision)
    }

    /// From now on watch events are late.
    pub(super) fn hold(&self, merge: bool, hide_recreates: bool) -> Held {
        let until = self.faults.0.late.map(|late| Instant::now() + late);
        let hold = Hold {
            until,
            merge,
            hide_recreates,
        };
        let mut before = None;
        self.control
            .send_modify(|control| before = control.hold.replace(hold));
        Held { hold, before }
    }

    /// Watch events are as late as they were before, unless another fault has
    /// made them late since.
    pub(super) fn take_back(&self, held: &Held) {
        self.control.send_if_modified(|control| {
            let is_ours = control.hold == Some(held.hold);
            if is_ours {
                control.hold = held.before;
            }
            is_ours
        });
    }
}

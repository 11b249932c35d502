//! A controller in a simulation, over all its lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::runtime::controller::Action;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::Layer as _;

use super::action::requeue_after;
use super::controller::{Life, Name, Role};
use super::due::{Due, Why, backoff};
use super::gate::{Answered, ERRAND, Errand, Gate, Requests};
use crate::FakeCluster;
use crate::fault::FaultLayer;

/// Pause after a first failure, as the default policy of many operators.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// How a reconcile ended.
pub(super) enum Landing {
    Done(Option<Duration>),
    Failed(String),
    Panicked(String),
}

/// A participant: see [`super::Controller`].
pub(super) struct Participant {
    pub(super) name: Arc<str>,
    /// Which process it is part of: with that it crashes.
    pub(super) process: usize,
    role: Arc<dyn Role>,
    pub(super) layer: FaultLayer,
    pub(super) requests: Requests,
    life: Option<Box<dyn Life>>,
    pub(super) due: Due<Name>,
    flights: BTreeMap<Name, JoinHandle<Result<Action, String>>>,
    failures: BTreeMap<Name, (u32, String)>,
    /// What the last request was, and got, that a reconcile of an object was refused.
    refused: BTreeMap<String, String>,
}

impl Participant {
    pub(super) fn new(
        name: String,
        process: usize,
        role: Arc<dyn Role>,
        layer: FaultLayer,
    ) -> Self {
        Self {
            name: name.into(),
            process,
            role,
            layer,
            requests: Requests::default(),
            life: None,
            due: Due::default(),
            flights: BTreeMap::new(),
            failures: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.life.is_some()
    }

    /// Begins a life, with a new client and without memory.
    pub(super) fn enter(&mut self, cluster: &FakeCluster) {
        self.requests = Requests::default();
        let gate = Gate {
            inner: self.layer.layer(cluster.service()),
            requests: self.requests.clone(),
            participant: Arc::clone(&self.name),
        };
        let client = Client::new(gate, "default");
        self.life = Some(self.role.enter(client, Arc::clone(cluster.clock())));
    }

    /// Ends a life; all that it had in memory is lost.
    pub(super) fn crash(&mut self) {
        self.life = None;
        for flight in std::mem::take(&mut self.flights).into_values() {
            flight.abort();
        }
        self.requests = Requests::default();
        self.due = Due::default();
        self.failures.clear();
        self.refused.clear();
    }

    /// Takes what requests got since this was asked last.
    pub(super) fn answered(&mut self) -> Vec<Answered> {
        let all = self.requests.answered();
        for answer in all.iter().filter(|answer| answer.is_refused) {
            if let Some(object) = &answer.object {
                let told = format!("{} → {}", answer.call, answer.result);
                self.refused.insert(object.clone(), told);
            }
        }
        all
    }

    /// The watches that have something to tell.
    pub(super) fn waiting(&self) -> Vec<usize> {
        self.life
            .as_ref()
            .map_or_else(Vec::new, |life| life.waiting())
    }

    /// Hears the next event of a watch; it in words.
    pub(super) fn hear(&mut self, watch: usize) -> Option<String> {
        let heard = self.life.as_mut()?.hear(watch)?;
        let now = Instant::now();
        for name in heard.about {
            self.due.push(name, now, Why::Change);
        }
        Some(heard.words)
    }

    /// What could be reconciled now: never the same object twice at once, and
    /// nothing before the cache is filled.
    pub(super) fn ready(&self, now: Instant) -> Vec<Name> {
        if !self.life.as_ref().is_some_and(|life| life.is_ready()) {
            return Vec::new();
        }
        let due = self.due.now(now);
        due.filter(|name| !self.flights.contains_key(name))
            .cloned()
            .collect()
    }

    /// Begins a reconcile. False if the object is not in the cache.
    pub(super) fn start(&mut self, name: &Name) -> bool {
        self.due.remove(name);
        let reconcile = self.life.as_ref().and_then(|life| life.reconcile(name));
        let Some(reconcile) = reconcile else {
            self.failures.remove(name);
            return false;
        };
        let errand = Errand::Reconcile(name.to_string());
        let flight = tokio::spawn(ERRAND.scope(errand, reconcile));
        self.flights.insert(name.clone(), flight);
        true
    }

    /// The reconciles that have ended, and how.
    pub(super) async fn land(&mut self) -> Vec<(Name, Landing)> {
        let ended = self.flights.iter().filter(|(_, f)| f.is_finished());
        let ended: Vec<Name> = ended.map(|(name, _)| name.clone()).collect();
        let mut landings = Vec::new();
        for name in ended {
            let Some(flight) = self.flights.remove(&name) else {
                continue;
            };
            let landing = match flight.await {
                Ok(Ok(action)) => match requeue_after(&action) {
                    Ok(after) => Landing::Done(after),
                    Err(why) => Landing::Failed(why),
                },
                Ok(Err(error)) => Landing::Failed(error),
                Err(error) => Landing::Panicked(panic_text(error)),
            };
            self.settle_accounts(&name, &landing);
            landings.push((name, landing));
        }
        landings
    }

    fn settle_accounts(&mut self, name: &Name, landing: &Landing) {
        let now = Instant::now();
        match landing {
            Landing::Done(after) => {
                self.failures.remove(name);
                self.refused.remove(&name.to_string());
                // A wish too far off to be expressed is none.
                let at = after.and_then(|after| now.checked_add(after));
                if let Some(at) = at {
                    self.due.push(name.clone(), at, Why::Requeue);
                }
            }
            Landing::Failed(error) | Landing::Panicked(error) => {
                let (count, last) = self.failures.entry(name.clone()).or_default();
                *count += 1;
                last.clone_from(error);
                let pause = backoff(*count, FIRST_PAUSE, LONGEST_PAUSE);
                self.due.push(name.clone(), now + pause, Why::Retry);
            }
        }
    }

    /// Whether something is under way that no timer tells of: a reconcile, or a
    /// watch that has to be taken up again.
    pub(super) fn is_under_way(&self) -> bool {
        !self.flights.is_empty() || self.life.as_ref().is_some_and(|life| life.is_behind())
    }

    /// Has everything in the cache reconciled once more.
    pub(super) fn again(&mut self) {
        let now = Instant::now();
        let known = self.life.as_ref().map(|life| life.known());
        for name in known.unwrap_or_default() {
            self.due.push(name, now, Why::Change);
        }
    }

    /// What it is still busy with, in words.
    pub(super) fn busy(&self) -> Vec<String> {
        let me = &self.name;
        let flights = self.flights.keys().map(|name| {
            let errand = Errand::Reconcile(name.to_string());
            let waiting = self.requests.waiting();
            match waiting.iter().find(|(of, _)| *of == errand) {
                Some((_, call)) => format!("{me}: reconciles {name}, about to {call}"),
                None => format!("{me}: reconciles {name}"),
            }
        });
        let due = self
            .due
            .iter()
            .map(|(name, entry)| match (self.failures.get(name), entry.why) {
                (Some((count, error)), _) => {
                    let refused = self.refused.get(&name.to_string());
                    let refused = refused.map(|it| format!(" (last refused request: {it})"));
                    let refused = refused.unwrap_or_default();
                    format!("{me}: {name} failed {count} times in a row, last: {error}{refused}")
                }
                (None, Why::Requeue) => format!("{me}: {name} asked to be called again"),
                (None, _) => format!("{me}: {name} is due"),
            });
        flights.chain(due).collect()
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => super::panic_message(&*panic),
        Err(_) => "the reconcile was cancelled".to_owned(),
    }
}

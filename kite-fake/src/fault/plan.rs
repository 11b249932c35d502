//! When what goes wrong.

use std::fmt;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::call::Call;
use super::mode::Fault;

type Predicate = Arc<dyn Fn(&Call) -> bool + Send + Sync>;

#[derive(Clone)]
enum When {
    /// The request with this number, from 1.
    Request(u64),
    /// The first request from this number on that the fault applies to.
    From(u64),
    /// The first request that is meant.
    First(String, Predicate),
}

/// What goes wrong when. The number of a request counts those of all
/// participants, without watches.
///
/// ```
/// use kite_fake::fault::{Fault, Plan};
/// let plan = Plan::at(7, Fault::CrashAfterCommit).and_at(9, Fault::Conflict);
/// assert_eq!(plan.to_string(), "Plan::at(7, Fault::CrashAfterCommit).and_at(9, Fault::Conflict)");
/// let plan = Plan::first("a Secret is made", Fault::ResetAfterCommit, |call| {
///     call.verb == "create" && call.plural == "secrets"
/// });
/// ```
#[derive(Clone, Default)]
pub struct Plan {
    entries: Vec<(When, Fault)>,
    random: Option<Random>,
}

#[derive(Clone)]
struct Random {
    seed: u64,
    per_mille: u32,
    faults: Vec<Fault>,
}

impl Plan {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// `fault` at the request with this number, counted from 1.
    pub fn at(number: u64, fault: Fault) -> Self {
        Self::none().and_at(number, fault)
    }

    /// `fault` at the first request that `meant` picks and that it applies to;
    /// `label` is what reports call it.
    pub fn first(
        label: impl Into<String>,
        fault: Fault,
        meant: impl Fn(&Call) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::none().and_first(label, fault, meant)
    }

    /// One of `faults` at `per_mille` of a thousand requests, by a seed.
    pub fn random(seed: u64, per_mille: u32, faults: &[Fault]) -> Self {
        Self {
            entries: Vec::new(),
            random: Some(Random {
                seed,
                per_mille: per_mille.min(1000),
                faults: faults.to_vec(),
            }),
        }
    }

    /// This, and [`at`](Self::at).
    #[must_use]
    pub fn and_at(mut self, number: u64, fault: Fault) -> Self {
        self.entries.push((When::Request(number), fault));
        self
    }

    /// This, and `fault` at the first request from this number on that it
    /// applies to: for a second fault, since nobody knows what is requested after
    /// a first one.
    #[must_use]
    pub fn and_from(mut self, number: u64, fault: Fault) -> Self {
        self.entries.push((When::From(number), fault));
        self
    }

    /// This, and [`first`](Self::first).
    #[must_use]
    pub fn and_first(
        mut self,
        label: impl Into<String>,
        fault: Fault,
        meant: impl Fn(&Call) -> bool + Send + Sync + 'static,
    ) -> Self {
        let when = When::First(label.into(), Arc::new(meant));
        self.entries.push((when, fault));
        self
    }

    /// Whether nothing goes wrong.
    pub fn is_none(&self) -> bool {
        self.entries.is_empty() && self.random.is_none()
    }

    /// The faults that may happen.
    pub fn faults(&self) -> impl Iterator<Item = Fault> + '_ {
        let single = self.entries.iter().map(|(_, fault)| *fault);
        let random = self.random.iter().flat_map(|r| r.faults.iter().copied());
        single.chain(random)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.random {
            Some(random) => {
                let list: Vec<String> = random
                    .faults
                    .iter()
                    .map(|x| format!("Fault::{x:?}"))
                    .collect();
                write!(
                    f,
                    "Plan::random({}, {}, &[{}])",
                    random.seed,
                    random.per_mille,
                    list.join(", ")
                )?;
            }
            None if self.entries.is_empty() => f.write_str("Plan::none()")?,
            None => f.write_str("Plan")?,
        }
        for (at, (when, fault)) in self.entries.iter().enumerate() {
            let link = if at == 0 && self.random.is_none() {
                "::"
            } else {
                ".and_"
            };
            match when {
                When::Request(number) => write!(f, "{link}at({number}, Fault::{fault:?})")?,
                When::From(number) => write!(f, "{link}from({number}, Fault::{fault:?})")?,
                When::First(label, _) => write!(f, "{link}first({label:?}, Fault::{fault:?}, …)")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A plan that is being carried out.
#[derive(Debug)]
pub(super) struct Armed {
    plan: Plan,
    done: Vec<bool>,
    rng: StdRng,
    count: u64,
    is_over: bool,
}

impl Armed {
    pub(super) fn new(plan: Plan) -> Self {
        let seed = plan.random.as_ref().map_or(0, |random| random.seed);
        Self {
            done: vec![false; plan.entries.len()],
            rng: StdRng::seed_from_u64(seed),
            count: 0,
            is_over: false,
            plan,
        }
    }

    /// Nothing happens to any request from now on.
    pub(super) fn disarm(&mut self) {
        self.is_over = true;
    }

    /// What has not happened yet.
    pub(super) fn unfired(&self) -> Vec<String> {
        let entries = self.plan.entries.iter().zip(&self.done);
        let left = entries.filter(|(_, is_done)| !**is_done);
        left.map(|((when, fault), _)| match when {
            When::Request(number) => format!("\"{fault}\" at request {number}"),
            When::From(number) => format!("\"{fault}\" from request {number} on"),
            When::First(label, _) => format!("\"{fault}\" when {label}"),
        })
        .collect()
    }

    /// How many requests there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Counts a request, and says what happens to it.
    pub(super) fn decide(&mut self, call: &Call) -> Option<Fault> {
        self.count += 1;
        if self.is_over {
            return None;
        }
        for (at, (when, fault)) in self.plan.entries.iter().enumerate() {
            let is_meant = match when {
                When::Request(number) => *number == self.count,
                When::From(number) => *number <= self.count,
                When::First(_, meant) => meant(call),
            };
            if !self.done[at] && is_meant && fault.applies_to(call) {
                self.done[at] = true;
                return Some(*fault);
            }
        }
        let random = self.plan.random.as_ref()?;
        if self.rng.random_range(0..1000) >= random.per_mille {
            return None;
        }
        let faults = random.faults.iter().copied();
        let fits: Vec<Fault> = faults.filter(|f| f.applies_to(call)).collect();
        (!fits.is_empty()).then(|| fits[self.rng.random_range(0..fits.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(verb: &str) -> Call {
        Call {
            verb: verb.into(),
            plural: "pods".into(),
            name: "a".into(),
            ..Call::default()
        }
    }

    #[test]
    fn a_fault_happens_once_at_its_request_and_only_where_it_makes_sense() {
        let plan = Plan::at(2, Fault::Conflict).and_at(3, Fault::Conflict);
        let mut armed = Armed::new(plan);
        let verbs = ["patch", "get", "patch", "patch"];
        let done: Vec<_> = verbs.iter().map(|v| armed.decide(&call(v))).collect();
        assert_eq!(done, [None, None, Some(Fault::Conflict), None]);
    }

    #[test]
    fn a_second_fault_waits_for_a_request_that_it_applies_to() {
        let plan = Plan::at(1, Fault::ServerError).and_from(2, Fault::Timeout);
        let text = "Plan::at(1, Fault::ServerError).and_from(2, Fault::Timeout)";
        assert_eq!(plan.to_string(), text);
        let mut armed = Armed::new(plan);
        let verbs = ["get", "get", "patch", "patch"];
        let done: Vec<_> = verbs.iter().map(|v| armed.decide(&call(v))).collect();
        let expected = [Some(Fault::ServerError), None, Some(Fault::Timeout), None];
        assert_eq!(done, expected);
    }

    #[test]
    fn what_found_no_request_is_told_and_who_is_disarmed_does_nothing() {
        let plan = Plan::at(1, Fault::Timeout).and_at(2, Fault::Conflict);
        let mut armed = Armed::new(plan);
        assert_eq!(armed.decide(&call("patch")), Some(Fault::Timeout));
        let left = "\"409 Conflict, not applied\" at request 2";
        assert_eq!(armed.unfired(), [left]);
        armed.disarm();
        assert_eq!(armed.decide(&call("patch")), None);
        assert_eq!(armed.count(), 2);
    }

    #[test]
    fn a_predicate_picks_the_first_request_that_fits() {
        let plan = Plan::first("x", Fault::Timeout, |call| call.verb == "create");
        let mut armed = Armed::new(plan);
        assert_eq!(armed.decide(&call("patch")), None);
        assert_eq!(armed.decide(&call("create")), Some(Fault::Timeout));
        assert_eq!(armed.decide(&call("create")), None);
    }

    #[test]
    fn random_faults_are_those_of_the_seed() {
        let run = |seed| {
            let plan = Plan::random(seed, 200, &[Fault::Conflict, Fault::ServerError]);
            let mut armed = Armed::new(plan);
            (0..200)
                .map(|_| armed.decide(&call("patch")))
                .collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let count = run(1).iter().flatten().count();
        assert!((20..60).contains(&count), "{count}");
    }
}

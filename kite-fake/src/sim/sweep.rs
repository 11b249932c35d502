//! Every fault at every request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Simulation;
use super::run::{Finding, Rule, Run};
use crate::fault::{Fault, Plan};

/// Runs a simulation once with each fault at each request: see
/// [`Simulation::sweep`].
#[derive(Debug)]
pub struct Sweep<'a> {
    simulation: &'a Simulation,
    faults: Vec<Fault>,
    seeds: Vec<u64>,
    most: Option<u64>,
    sample: Option<usize>,
    threads: usize,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(simulation: &'a Simulation) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            simulation,
            faults: Fault::ALL.to_vec(),
            seeds: vec![0],
            most: None,
            sample: None,
            threads,
        }
    }

    /// Only these faults; all if not set.
    #[must_use]
    pub fn faults(mut self, faults: &[Fault]) -> Self {
        self.faults = faults.to_vec();
        self
    }

    /// With the orders of these seeds; that of 0, in which everything goes in
    /// turn, if not set.
    #[must_use]
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// Only at the first so many requests.
    #[must_use]
    pub fn first(mut self, requests: u64) -> Self {
        self.most = Some(requests);
        self
    }

    /// Only so many runs with a fault, spread evenly over all that there would
    /// be, so that every fault and every part of the scenario has its share.
    #[must_use]
    pub fn sample(mut self, runs: usize) -> Self {
        self.sample = Some(runs);
        self
    }

    /// On so many threads; as many as there are processors if not set. The
    /// outcome does not depend on it.
    #[must_use]
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = count.max(1);
        self
    }

    /// Runs all of it.
    pub fn run(&self) -> Summary {
        let begun = Instant::now();
        let seeds = self.seeds.iter();
        let references: Vec<Arc<Run>> =
            seeds.map(|seed| self.simulation.reference(*seed)).collect();
        let mut summary = Summary::default();
        let Some(first) = references.first() else {
            return summary;
        };
        let mut jobs: Vec<(usize, u64, Fault)> = Vec::new();
        for (at, reference) in references.iter().enumerate() {
            summary.runs += 1;
            // Whatever the order of the steps, the outcome is the same.
            summary
                .findings
                .extend(reference.check(first).err().map(|finding| *finding));
            summary.requests.push(reference.requests.len());
            for (number, call) in (1..).zip(&reference.requests) {
                if self.most.is_some_and(|most| number > most) {
                    break;
                }
                let fits = self.faults.iter().filter(|fault| fault.applies_to(call));
                jobs.extend(fits.map(|fault| (at, number, *fault)));
            }
        }
        if let Some(count) = self.sample {
            // By faults, so that none is left out for always being at the same
            // place in a request's row.
            jobs.sort_by_key(|(at, number, fault)| (*fault, *at, *number));
            jobs = spread(jobs, count);
        }
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
        let work = || {
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                let Some((at, number, fault)) = jobs.get(job) else {
                    return;
                };
                let run = self
                    .simulation
                    .run(Plan::at(*number, *fault), self.seeds[*at]);
                let outcome = Outcome {
                    fault: *fault,
                    is_injected: !run.injected.is_empty(),
                    finding: run.check(&references[*at]).err(),
                };
                results.lock().push((job, outcome));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(work);
            }
            work();
        });
        let mut results = results.into_inner();
        results.sort_by_key(|(job, _)| *job);
        for (_, outcome) in results {
            summary.take(outcome);
        }
        summary.elapsed = begun.elapsed();
        summary
    }
}

/// So many of all, evenly spread.
fn spread<T>(all: Vec<T>, count: usize) -> Vec<T> {
    let total = all.len();
    let picked = |at: usize| (at + 1) * count / total > at * count / total;
    let all = all.into_iter().enumerate();
    all.filter(|(at, _)| picked(*at))
        .map(|(_, one)| one)
        .collect()
}

/// What came of one run of a sweep.
struct Outcome {
    fault: Fault,
    is_injected: bool,
    finding: Option<Box<Finding>>,
}

/// What came of a sweep. Its text is the report.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many runs there were.
    pub runs: usize,
    /// In how many of them something went wrong by order. A rival that found
    /// nothing to disturb is not counted.
    pub injected: usize,
    /// In how many of them nothing went wrong, for a rival found nothing to
    /// disturb. Any other fault that did not happen is a finding
    /// ([`Rule::Unfired`]).
    pub undisturbed: usize,
    /// How many requests the participants sent without faults, for each seed.
    pub requests: Vec<usize>,
    /// For each fault, how often it was injected and how often something was
    /// wrong then.
    pub faults: BTreeMap<Fault, (usize, usize)>,
    /// The runs in which something was wrong.
    pub findings: Vec<Finding>,
    /// How long it took, in real time.
    pub elapsed: Duration,
}

impl Summary {
    fn take(&mut self, outcome: Outcome) {
        self.runs += 1;
        let (injected, wrong) = self.faults.entry(outcome.fault).or_default();
        if outcome.is_injected {
            self.injected += 1;
            *injected += 1;
        } else {
            self.undisturbed += 1;
        }
        if let Some(finding) = outcome.finding {
            *wrong += 1;
            self.findings.push(*finding);
        }
    }

    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// The rules that did not hold.
    pub fn broken(&self) -> BTreeSet<Rule> {
        let violations = self.findings.iter().flat_map(|finding| &finding.violations);
        violations.map(|violation| violation.rule).collect()
    }
}

/// Most findings that are printed.
const SHOWN: usize = 8;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests: Vec<String> = self.requests.iter().map(usize::to_string).collect();
        writeln!(
            f,
            "{} runs over {} requests, {} faults injected, {} found nothing to disturb, \
             {} findings, {:.1} s",
            self.runs,
            requests.join(" + "),
            self.injected,
            self.undisturbed,
            self.findings.len(),
            self.elapsed.as_secs_f64()
        )?;
        for (fault, (injected, wrong)) in &self.faults {
            writeln!(f, "  {fault}: {wrong} of {injected}")?;
        }
        for finding in self.findings.iter().take(SHOWN) {
            write!(f, "{finding}")?;
        }
        if let Some(more) = self.findings.len().checked_sub(SHOWN).filter(|n| *n > 0) {
            writeln!(f, "and {more} findings more")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_all() {
        let ten: Vec<u32> = (1..=10).collect();
        assert_eq!(spread(ten.clone(), 2), [5, 10]);
        assert_eq!(spread(ten.clone(), 3), [4, 7, 10]);
        assert_eq!(spread(ten.clone(), 10), ten);
        assert_eq!(spread(ten.clone(), 50), ten);
        assert!(spread(ten, 0).is_empty());
        assert!(spread(Vec::<u32>::new(), 3).is_empty());
    }
}

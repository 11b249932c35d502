//! Every fault at every request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::Simulation;
use super::run::{Finding, Rule, Run};
use crate::fault::{Fault, Plan};

/// What is told of each finding as it is made.
type Tell<'a> = Box<dyn Fn(&Finding) + Send + Sync + 'a>;

/// Runs a simulation once with each fault at each request: see
/// [`Simulation::sweep`].
pub struct Sweep<'a> {
    simulation: &'a Simulation,
    faults: Vec<Fault>,
    seeds: Vec<u64>,
    most: Option<u64>,
    sample: Option<(u64, usize)>,
    pairs: Option<(u64, usize)>,
    beside: Option<&'a Simulation>,
    threads: usize,
    tell: Option<Tell<'a>>,
}

impl fmt::Debug for Sweep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep")
            .field("faults", &self.faults)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
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
            pairs: None,
            beside: None,
            threads,
            tell: None,
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

    /// Only so many runs with a fault, by a seed: the faults in turn, each at a
    /// request that it applies to. Where a rival finds nothing to disturb, a few
    /// other requests are tried, and other faults.
    #[must_use]
    pub fn sample(mut self, seed: u64, runs: usize) -> Self {
        self.sample = Some((seed, runs));
        self
    }

    /// What comes of runs without faults is compared with what comes of this one,
    /// too: such as one without a second copy of everybody.
    #[must_use]
    pub fn beside(mut self, other: &'a Simulation) -> Self {
        self.beside = Some(other);
        self
    }

    /// Instead of single faults so many pairs of them, by a seed. The second one
    /// strikes at the first request after its place that it applies to, and not
    /// at all if there is none.
    #[must_use]
    pub fn pairs(mut self, seed: u64, runs: usize) -> Self {
        self.pairs = Some((seed, runs));
        self
    }

    /// On so many threads; as many as there are processors if not set. The
    /// outcome does not depend on it.
    #[must_use]
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = count.max(1);
        self
    }

    /// Calls `tell` with each finding as soon as it is made, in whatever order
    /// that is: a long sweep need not come to its end to be of use.
    #[must_use]
    pub fn on_finding(mut self, tell: impl Fn(&Finding) + Send + Sync + 'a) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Runs all of it. Where a run without faults does not do what its scenario expects,
    /// panics or never settles, no fault is tried: there is nothing to compare with.
    pub fn run(&self) -> Summary {
        let begun = Instant::now();
        let seeds = self.seeds.iter();
        let references: Vec<Arc<Run>> =
            seeds.map(|seed| self.simulation.reference(*seed)).collect();
        let mut summary = Summary::default();
        let Some(first) = references.first() else {
            return summary;
        };
        let first = match self.beside {
            Some(other) => &other.reference(0),
            None => first,
        };
        let mut jobs: Vec<(usize, u64, Fault)> = Vec::new();
        for (at, reference) in references.iter().enumerate() {
            summary.runs += 1;
            // Whatever the order of the steps, the outcome is the same.
            let finding = reference.check(first).err();
            if let (Some(tell), Some(finding)) = (&self.tell, &finding) {
                tell(finding);
            }
            summary.findings.extend(finding.map(|finding| *finding));
            summary.requests.push(reference.requests.len());
            for (number, call) in (1..).zip(&reference.requests) {
                if self.most.is_some_and(|most| number > most) {
                    break;
                }
                let fits = self.faults.iter().filter(|fault| fault.applies_to(call));
                jobs.extend(fits.map(|fault| (at, number, *fault)));
            }
        }
        let jobs: Vec<Vec<(usize, Plan)>> = match (self.pairs, self.sample) {
            (Some((seed, count)), _) => {
                let pairs = pairs(&jobs, seed, count).into_iter();
                pairs.map(|pair| vec![pair]).collect()
            }
            (None, Some((seed, count))) => sample(&jobs, seed, count),
            (None, None) => {
                let jobs = jobs.into_iter();
                jobs.map(|(at, number, fault)| vec![(at, Plan::at(number, fault))])
                    .collect()
            }
        };
        if summary.findings.iter().any(leaves_nothing_to_compare_with) {
            summary.is_cut_short = true;
            summary.elapsed = begun.elapsed();
            return summary;
        }
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
        let work = || {
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                let Some(plans) = jobs.get(job) else {
                    return;
                };
                for (at, plan) in plans {
                    let run = self.simulation.run(plan.clone(), self.seeds[*at]);
                    let mut finding = run.check(&references[*at]).err();
                    if self.pairs.is_some() {
                        finding = finding.and_then(without_unfired);
                    }
                    if let (Some(tell), Some(finding)) = (&self.tell, &finding) {
                        tell(finding);
                    }
                    let is_enough = finding.is_some() || !run.injected.is_empty();
                    let outcome = Outcome {
                        planned: plan.faults().collect(),
                        injected: run.injected.iter().map(|i| i.mode).collect(),
                        finding,
                    };
                    results.lock().push((job, outcome));
                    if is_enough {
                        break;
                    }
                }
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

/// At how many requests a fault is tried that finds nothing to disturb, before others
/// are.
const TRIES: usize = 8;

/// So many samples by a seed, each with others to fall back on: the faults in turn,
/// from any of them on.
fn sample(jobs: &[(usize, u64, Fault)], seed: u64, count: usize) -> Vec<Vec<(usize, Plan)>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut by_fault = BTreeMap::<Fault, Vec<(usize, u64)>>::new();
    for (at, number, fault) in jobs {
        by_fault.entry(*fault).or_default().push((*at, *number));
    }
    for places in by_fault.values_mut() {
        places.shuffle(&mut rng);
    }
    let mut faults: Vec<_> = by_fault.into_iter().collect();
    faults.shuffle(&mut rng);
    let most = faults.iter().map(|(_, places)| places.len()).max();
    let rounds = (0..most.unwrap_or_default()).flat_map(|round| {
        let faults = &faults;
        (0..faults.len()).filter_map(move |first| {
            let own = faults[first].1.get(round..)?;
            let plans = |(fault, places): (Fault, &[(usize, u64)])| {
                let tries = places.iter().take(TRIES);
                let plans = tries.map(|(at, number)| (*at, Plan::at(*number, fault)));
                plans.collect::<Vec<_>>()
            };
            let mut all = plans((faults[first].0, own));
            if all.is_empty() {
                return None;
            }
            let others = faults.iter().enumerate().filter(|(at, _)| *at != first);
            all.extend(others.flat_map(|(_, (fault, places))| plans((*fault, places))));
            Some(all)
        })
    });
    rounds.take(count).collect()
}

/// So many pairs of the faults of `jobs`.
fn pairs(jobs: &[(usize, u64, Fault)], seed: u64, count: usize) -> Vec<(usize, Plan)> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut pairs = Vec::new();
    // Where there are no two, none are found.
    for _ in 0..count.saturating_mul(4) {
        if pairs.len() == count || jobs.is_empty() {
            break;
        }
        let mut pick = || jobs[rng.random_range(0..jobs.len())];
        let (one, other) = (pick(), pick());
        let (first, second) = if one.1 <= other.1 {
            (one, other)
        } else {
            (other, one)
        };
        if first.0 == second.0 && first.1 < second.1 {
            let plan = Plan::at(first.1, first.2).and_from(second.1, second.2);
            pairs.push((first.0, plan));
        }
    }
    pairs
}

/// After a first fault there may be no request left for a second one.
fn without_unfired(mut finding: Box<Finding>) -> Option<Box<Finding>> {
    let violations = &mut finding.violations;
    violations.retain(|violation| violation.rule != Rule::Unfired);
    (!violations.is_empty()).then_some(finding)
}

/// What came of one run of a sweep.
struct Outcome {
    planned: Vec<Fault>,
    injected: Vec<Fault>,
    finding: Option<Box<Finding>>,
}

/// Whether what was found of a run without faults leaves no state to compare others with.
fn leaves_nothing_to_compare_with(finding: &Finding) -> bool {
    let mut rules = finding.violations.iter().map(|it| it.rule);
    rules.any(|rule| matches!(rule, Rule::Scenario | Rule::Settles | Rule::Panic))
}

/// What came of a sweep. Its text is the report.
#[derive(Debug, Default)]
#[non_exhaustive]
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
    /// Whether no fault was tried, since a run without faults is nothing to compare with.
    pub is_cut_short: bool,
    /// How long it took, in real time.
    pub elapsed: Duration,
}

impl Summary {
    fn take(&mut self, outcome: Outcome) {
        self.runs += 1;
        let is_wrong = outcome.finding.is_some();
        if outcome.injected.is_empty() {
            self.undisturbed += 1;
        } else {
            self.injected += 1;
        }
        for fault in outcome.planned {
            let (injected, wrong) = self.faults.entry(fault).or_default();
            // A rival that could not recreate is recorded as one that deleted.
            *injected += usize::from(!outcome.injected.is_empty());
            *wrong += usize::from(is_wrong);
        }
        self.findings
            .extend(outcome.finding.map(|finding| *finding));
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
        if self.is_cut_short {
            writeln!(
                f,
                "  something is wrong without faults already: mend that first, no fault was tried"
            )?;
        }
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
    fn pairs_are_of_one_order_and_by_the_seed() {
        let jobs: Vec<(usize, u64, Fault)> = (1..9)
            .flat_map(|n| [(0, n, Fault::Timeout), (1, n, Fault::WatchLags)])
            .collect();
        let text = |seed| {
            let pairs = pairs(&jobs, seed, 5);
            pairs
                .iter()
                .map(|(at, plan)| format!("{at} {plan}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(text(1).len(), 5);
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
        for (at, plan) in pairs(&jobs, 1, 5) {
            let expected = [Fault::Timeout, Fault::WatchLags][at];
            assert!(plan.faults().all(|fault| fault == expected), "{plan}");
        }
        assert!(pairs(&jobs[..1], 1, 5).is_empty());
    }

    #[test]
    fn a_sample_takes_the_faults_in_turn_and_any_request() {
        let jobs: Vec<(usize, u64, Fault)> = (1..=9)
            .flat_map(|n| [(0, n, Fault::Timeout), (0, n, Fault::WatchLags)])
            .collect();
        let picked = |seed, count| -> Vec<String> {
            let sample = sample(&jobs, seed, count).into_iter();
            sample.map(|tries| tries[0].1.to_string()).collect()
        };
        let of = |fault: Fault, texts: &[String]| {
            let text = format!("{fault:?}");
            texts.iter().filter(|it| it.contains(&text)).count()
        };
        let six = picked(1, 6);
        assert_eq!(six.len(), 6);
        assert_eq!(of(Fault::Timeout, &six), 3, "{six:?}");
        assert_eq!(six, picked(1, 6));
        assert_ne!(six, picked(2, 6));
        let all: BTreeSet<String> = picked(3, 50).into_iter().collect();
        assert_eq!(all.len(), jobs.len(), "in the end every one");
        assert!(picked(3, 0).is_empty());
        assert!(sample(&[], 3, 5).is_empty());
        let tries = &sample(&jobs, 1, 1)[0];
        assert_eq!(tries.len(), 2 * TRIES, "others to fall back on");
    }
}

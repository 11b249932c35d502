//! What of a Job's Pods there is to count.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::indexes::Indexes;
use super::pods::{
    ended_at, fails_index, failures_before, has_failed, has_succeeded, index, is_tracked, judged,
    restarts,
};
use super::policies::{self, Verdict};
use super::progress::{Outcome, Progress};
use super::spec::Spec;
use crate::actors::mirror::Found;
use crate::actors::objects::{is_deleting, uid};
use crate::actors::workloads::pod_state::{is_active, is_over, is_ready};

/// The first pause after a failure, which doubles with each, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// What is seen of a Job.
#[derive(Debug)]
pub(super) struct Look<'a> {
    pub(super) spec: Spec<'a>,
    pub(super) pods: &'a [Found],
    /// Those that have not ended and are not ending.
    pub(super) active: Vec<Found>,
    pub(super) ready: u64,
    pub(super) terminating: u64,
    /// With those that are not counted yet.
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    /// Of an indexed Job: those that were told of before.
    pub(super) told: Indexes,
    pub(super) succeeded_indexes: Indexes,
    /// Where each index has a limit of its own.
    pub(super) failed_indexes: Option<Indexes>,
    /// Failed Pods that stay until another one has taken over their counts.
    pub(super) to_replace: BTreeMap<u64, Found>,
}

impl<'a> Look<'a> {
    pub(super) fn new(spec: Spec<'a>, progress: &Progress, pods: &'a [Found]) -> Self {
        let active: Vec<Found> = pods.iter().filter(|it| is_active(it)).cloned().collect();
        let completions = spec.completions().unwrap_or_default();
        let is_valid =
            |pod: &DynamicObject| !spec.is_indexed() || index(pod, completions).is_some();
        let new = |counted: &[String], pod: &&Found| {
            is_tracked(pod) && is_valid(pod) && !counted.iter().any(|it| it == uid(pod))
        };
        let uncounted = &progress.uncounted;
        let succeeded = pods
            .iter()
            .filter(|it| new(&uncounted.succeeded, it) && has_succeeded(it));
        let failed = pods.iter().filter(|it| {
            new(&uncounted.failed, it) && has_failed(it, spec) && judged(it, spec).is_counted()
        });
        let mut look = Self {
            spec,
            pods,
            ready: active.iter().filter(|it| is_ready(it)).count() as u64,
            terminating: pods
                .iter()
                .filter(|it| is_deleting(it) && !is_over(it))
                .count() as u64,
            succeeded: progress.succeeded + (succeeded.count() + uncounted.succeeded.len()) as u64,
            failed: progress.failed + (failed.count() + uncounted.failed.len()) as u64,
            active,
            told: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            to_replace: BTreeMap::new(),
        };
        if spec.is_indexed() {
            look.see_indexes(progress, completions);
        }
        look
    }

    fn see_indexes(&mut self, progress: &Progress, completions: u64) {
        let spec = self.spec;
        self.told = Indexes::parse(&progress.completed_indexes, completions);
        let tracked = || self.pods.iter().filter(|it| is_tracked(it));
        let mut succeeded = self.told.clone();
        tracked()
            .filter(|it| has_succeeded(it))
            .filter_map(|it| index(it, completions))
            .for_each(|index| succeeded.add(index));
        let Some(limit) = spec.limit_per_index() else {
            self.succeeded = succeeded.total();
            self.succeeded_indexes = succeeded;
            return;
        };
        let before = progress.failed_indexes.as_deref().unwrap_or_default();
        let mut failed = Indexes::parse(before, completions);
        tracked()
            .filter(|it| has_failed(it, spec) && fails_index(it, spec, limit))
            .filter_map(|it| index(it, completions))
            .for_each(|index| failed.add(index));
        let active: Indexes = self
            .active
            .iter()
            .filter_map(|it| index(it, completions))
            .collect();
        let mut to_replace: BTreeMap<u64, Found> = BTreeMap::new();
        for pod in tracked().filter(|it| has_failed(it, spec)) {
            let Some(index) = index(pod, completions) else {
                continue;
            };
            if succeeded.has(index) || failed.has(index) || active.has(index) {
                continue;
            }
            let order = |pod: &DynamicObject| {
                let (counted, ignored) = failures_before(pod);
                (counted + ignored, ended_at(pod))
            };
            let is_later = to_replace
                .get(&index)
                .is_none_or(|other| order(other) <= order(pod));
            if is_later {
                to_replace.insert(index, pod.clone());
            }
        }
        self.succeeded = succeeded.total();
        self.succeeded_indexes = succeeded;
        self.failed_indexes = Some(failed);
        self.to_replace = to_replace;
    }

    /// The indexes that active Pods work on, and those of Pods that end where these are
    /// waited for.
    pub(super) fn taken(&self, completions: u64) -> Indexes {
        let waits = self.spec.replaces_only_failed();
        let ending = self
            .pods
            .iter()
            .filter(|it| waits && is_deleting(it) && !is_over(it));
        let all = self.active.iter().chain(ending);
        all.filter_map(|it| index(it, completions)).collect()
    }

    /// How the Job ends, if it does by what is seen of its failures and by what its
    /// success policy says. `is_late` says whether its deadline has passed.
    pub(super) fn outcome(&self, progress: &Progress, is_late: bool) -> Option<Outcome> {
        if let Some(met) = progress.holding("SuccessCriteriaMet") {
            return Some(met);
        }
        if let Some(target) = progress.holding("FailureTarget") {
            return Some(target.as_type("Failed"));
        }
        let failure =
            |reason: &str, message: &str| Some(Outcome::new("FailureTarget", reason, message));
        let failed = self.pods.iter().filter(|it| has_failed(it, self.spec));
        let verdicts = failed.map(|it| judged(it, self.spec));
        for verdict in verdicts {
            if let Verdict::FailJob(message) = verdict {
                return failure("PodFailurePolicy", &message);
            }
        }
        let spec = self.spec;
        if self.failed > spec.limit() || self.is_restarted_too_often() {
            let message = "Job has reached the specified backoff limit";
            return failure("BackoffLimitExceeded", message);
        }
        if is_late {
            let message = "Job was active longer than specified deadline";
            return failure("DeadlineExceeded", message);
        }
        let completions = spec.completions().unwrap_or_default();
        if let Some(failed) = self.failed_indexes.as_ref().map(Indexes::total) {
            let most = spec.most_failed_indexes();
            if most.is_some_and(|most| failed > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return failure("MaxFailedIndexesExceeded", message);
            }
            if failed > 0 && failed + self.succeeded_indexes.total() >= completions {
                return failure("FailedIndexes", "Job has failed indexes");
            }
        }
        if !spec.is_indexed() {
            return None;
        }
        let policy = spec.success_policy();
        let met = policies::success(policy, completions, &self.succeeded_indexes)?;
        Some(Outcome::new("SuccessCriteriaMet", "SuccessPolicy", met))
    }

    fn is_restarted_too_often(&self) -> bool {
        if !self.spec.restarts_containers() {
            return false;
        }
        let sum: u64 = self.pods.iter().map(|it| restarts(it)).sum();
        match self.spec.limit() {
            0 => sum > 0,
            limit => sum >= limit,
        }
    }

    /// How long no new Pod is made, after failures that followed on the last success.
    pub(super) fn back_off(&self, now: Timestamp) -> Duration {
        let successes = self.pods.iter().filter(|it| has_succeeded(it));
        let last = successes.filter_map(|it| ended_at(it)).max();
        let failures: Vec<Timestamp> = self
            .pods
            .iter()
            .filter(|it| has_failed(it, self.spec))
            .map(|it| ended_at(it).unwrap_or(now))
            .filter(|at| last.is_none_or(|last| *at > last))
            .collect();
        let newest = failures.iter().max();
        newest.map_or(Duration::ZERO, |at| rest(failures.len() as u64, *at, now))
    }

    /// How long no new Pod is made for an index.
    pub(super) fn back_off_of(&self, index: u64, now: Timestamp) -> Duration {
        self.to_replace.get(&index).map_or(Duration::ZERO, |pod| {
            let (counted, ignored) = failures_before(pod);
            rest(counted + ignored + 1, ended_at(pod).unwrap_or(now), now)
        })
    }
}

/// What is left of the pause after so many failures, the last of them `at`.
fn rest(failures: u64, at: Timestamp, now: Timestamp) -> Duration {
    let doubled = 1_u32 << failures.saturating_sub(1).min(10);
    let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
    let passed = Duration::try_from(now.duration_since(at)).unwrap_or_default();
    pause.saturating_sub(passed)
}

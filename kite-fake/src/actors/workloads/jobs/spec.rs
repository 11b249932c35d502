//! What a Job asks for.

use kube::api::DynamicObject;
use serde_json::Value;

/// The one that runs Jobs which do not name another.
const CONTROLLER: &str = "kubernetes.io/job-controller";

/// A Job's spec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec<'a>(&'a Value);

impl<'a> Spec<'a> {
    pub(super) fn of(job: &'a DynamicObject) -> Self {
        Self(&job.data["spec"])
    }

    fn count(self, name: &str) -> Option<u64> {
        self.0[name].as_u64()
    }

    /// Whether another controller runs the Job.
    pub(super) fn is_anothers(self) -> bool {
        self.0["managedBy"]
            .as_str()
            .is_some_and(|by| by != CONTROLLER)
    }

    pub(super) fn is_suspended(self) -> bool {
        self.0["suspend"] == true
    }

    pub(super) fn parallelism(self) -> u64 {
        self.count("parallelism").unwrap_or(1)
    }

    pub(super) fn completions(self) -> Option<u64> {
        self.count("completions")
    }

    pub(super) fn is_indexed(self) -> bool {
        self.0["completionMode"] == "Indexed"
    }

    /// How many failures an index may have, where each is by itself.
    pub(super) fn limit_per_index(self) -> Option<u64> {
        self.count("backoffLimitPerIndex")
            .filter(|_| self.is_indexed())
    }

    pub(super) fn most_failed_indexes(self) -> Option<u64> {
        self.count("maxFailedIndexes")
    }

    pub(super) fn limit(self) -> u64 {
        self.count("backoffLimit").unwrap_or(6)
    }

    pub(super) fn deadline_seconds(self) -> Option<i64> {
        self.0["activeDeadlineSeconds"].as_i64()
    }

    pub(super) fn seconds_to_live(self) -> Option<i64> {
        self.0["ttlSecondsAfterFinished"].as_i64()
    }

    /// Whether a Pod is only replaced once it has failed, not when it begins to end.
    pub(super) fn replaces_only_failed(self) -> bool {
        self.0["podReplacementPolicy"] == "Failed"
    }

    pub(super) fn failure_policy(self) -> Option<&'a Value> {
        Some(&self.0["podFailurePolicy"]).filter(|it| it.is_object())
    }

    pub(super) fn success_policy(self) -> &'a Value {
        &self.0["successPolicy"]
    }

    pub(super) fn selector(self) -> &'a Value {
        &self.0["selector"]
    }

    pub(super) fn template(self) -> &'a Value {
        &self.0["template"]
    }

    pub(super) fn restarts_containers(self) -> bool {
        self.template()["spec"]["restartPolicy"] == "OnFailure"
    }
}

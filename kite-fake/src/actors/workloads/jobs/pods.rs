//! The Pods of a Job.

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::policies::{Verdict, verdict};
use super::spec::Spec;
use crate::actors::objects::{is_deleting, text};
use crate::actors::workloads::owned::Owner;
use crate::actors::workloads::pod_state::time;
use crate::actors::workloads::template::{self, Naming};

/// Holds a Pod until its Job has counted it.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Which index a Pod works on.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often Pods of the same index failed before.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How many of those did not count.
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// The variable that tells containers their index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

pub(super) fn is_tracked(pod: &DynamicObject) -> bool {
    let finalizers = pod.metadata.finalizers.as_ref();
    finalizers.is_some_and(|all| all.iter().any(|it| it == FINALIZER))
}

pub(super) fn has_succeeded(pod: &DynamicObject) -> bool {
    text(pod, "/status/phase") == "Succeeded"
}

/// Whether a Pod counts as failed: also one that is deleted before it has ended, unless
/// it is waited for how it ends.
pub(super) fn has_failed(pod: &DynamicObject, spec: Spec<'_>) -> bool {
    text(pod, "/status/phase") == "Failed"
        || (!spec.replaces_only_failed() && is_deleting(pod) && !has_succeeded(pod))
}

fn annotation(pod: &DynamicObject, name: &str) -> Option<u64> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(name)?.parse().ok()
}

/// The index that a Pod works on, if it is one of the Job's.
pub(super) fn index(pod: &DynamicObject, completions: u64) -> Option<u64> {
    annotation(pod, INDEX).filter(|index| *index < completions)
}

/// How often an index has failed before this Pod: those that count, and others.
pub(super) fn failures_before(pod: &DynamicObject) -> (u64, u64) {
    (
        annotation(pod, FAILURES).unwrap_or_default(),
        annotation(pod, IGNORED).unwrap_or_default(),
    )
}

/// What a Pod's failure means for its Job.
pub(super) fn judged(pod: &DynamicObject, spec: Spec<'_>) -> Verdict {
    let policy = spec.failure_policy();
    policy.map_or(Verdict::Count, |policy| verdict(policy, pod))
}

/// Whether a failed Pod is the end of its index.
pub(super) fn fails_index(pod: &DynamicObject, spec: Spec<'_>, limit: u64) -> bool {
    match judged(pod, spec) {
        Verdict::FailIndex => true,
        Verdict::Ignore => false,
        Verdict::Count | Verdict::FailJob(_) => failures_before(pod).0 >= limit,
    }
}

/// When the last container of a Pod ended, or what else is known of its end: since when it
/// is not ready, or when it was deleted.
pub(super) fn ended_at(pod: &DynamicObject) -> Option<Timestamp> {
    let status = &pod.data["status"];
    let list = |name: &str| status[name].as_array().into_iter().flatten();
    let times =
        list("containerStatuses").filter_map(|it| time(&it["state"]["terminated"]["finishedAt"]));
    let unready = || {
        let mut conditions = list("conditions");
        let ready = conditions.find(|it| it["type"] == "Ready" && it["status"] == "False")?;
        time(&ready["lastTransitionTime"])
    };
    let deleted = || {
        let meta = &pod.metadata;
        let at = meta.deletion_timestamp.as_ref()?.0;
        let grace = meta.deletion_grace_period_seconds.unwrap_or_default();
        at.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    times.max().or_else(unready).or_else(deleted)
}

/// How often containers of a Pod that goes on were started again.
pub(super) fn restarts(pod: &DynamicObject) -> u64 {
    if !["Running", "Pending"].contains(&text(pod, "/status/phase")) {
        return 0;
    }
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(|list| pod.data["status"][list].as_array().into_iter().flatten())
        .filter_map(|it| it["restartCount"].as_u64())
        .sum()
}

/// What is special of a Pod of an indexed Job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) index: u64,
    /// The one that failed and that it replaces.
    pub(super) instead_of: Option<&'a DynamicObject>,
}

/// A new Pod of a Job.
pub(super) fn new(owner: Owner<'_>, part: Option<Part<'_>>) -> Value {
    let spec = Spec::of(owner.object);
    let mut pod = template::pod(owner, spec.template(), Naming::OfOwner);
    let mut finalizers = pod["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if !finalizers.iter().any(|it| it == FINALIZER) {
        finalizers.push(json!(FINALIZER));
    }
    pod["metadata"]["finalizers"] = json!(finalizers);
    let Some(Part { index, instead_of }) = part else {
        return pod;
    };
    let name = owner.object.metadata.name.as_deref().unwrap_or_default();
    let number = index.to_string();
    pod["metadata"]["generateName"] = json!(format!("{name}-{number}-"));
    pod["metadata"]["annotations"][INDEX] = json!(number);
    pod["metadata"]["labels"][INDEX] = json!(number);
    pod["spec"]["hostname"] = json!(format!("{name}-{number}"));
    if spec.limit_per_index().is_some() {
        let (counted, ignored) = instead_of.map_or((0, 0), |before| {
            let (counted, ignored) = failures_before(before);
            if judged(before, spec).is_counted() {
                (counted + 1, ignored)
            } else {
                (counted, ignored + 1)
            }
        });
        pod["metadata"]["annotations"][FAILURES] = json!(counted.to_string());
        if ignored > 0 {
            pod["metadata"]["annotations"][IGNORED] = json!(ignored.to_string());
        }
    }
    let variable = json!({"name": VARIABLE, "valueFrom": {"fieldRef":
        {"fieldPath": format!("metadata.labels['{INDEX}']")}}});
    for list in ["containers", "initContainers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mut all = container["env"].as_array().cloned().unwrap_or_default();
            if !all.iter().any(|it| it["name"] == VARIABLE) {
                all.push(variable.clone());
            }
            container["env"] = json!(all);
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::actors::kind::JOB;

    #[test]
    fn a_pod_of_an_index_knows_it() {
        let job = json!({"metadata": {"name": "j", "namespace": "a", "uid": "u"}, "spec": {
            "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1,
            "template": {"metadata": {"labels": {"job-name": "j"}},
                "spec": {"containers": [{"name": "c"}]}}}});
        let job: DynamicObject = serde_json::from_value(job).unwrap();
        let kind = JOB;
        let owner = Owner::new(&kind, &job);
        let part = |instead_of| Part {
            index: 2,
            instead_of,
        };
        let first = new(owner, Some(part(None)));
        assert_eq!(first["metadata"]["generateName"], "j-2-");
        assert_eq!(first["metadata"]["labels"][INDEX], "2");
        assert_eq!(first["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(first["spec"]["hostname"], "j-2");
        assert_eq!(first["spec"]["containers"][0]["env"][0]["name"], VARIABLE);
        let first: DynamicObject = serde_json::from_value(first).unwrap();
        assert_eq!(index(&first, 3), Some(2));
        assert_eq!(index(&first, 2), None);
        assert!(!fails_index(&first, Spec::of(&job), 1));
        let second = new(owner, Some(part(Some(&first))));
        assert_eq!(second["metadata"]["annotations"][FAILURES], "1");
        let second: DynamicObject = serde_json::from_value(second).unwrap();
        assert!(fails_index(&second, Spec::of(&job), 1));
    }
}

//! Deployments and the other kinds that hold a pod template: their defaults.

use serde_json::Value;

use super::pod;
use crate::members::{default, has, list, list_mut, members, object_mut, set, text};

pub(in crate::builtin) fn default_pod_template(object: &mut Value) {
    pod::default_template(object_mut(object, "template"));
}

pub(in crate::builtin) fn default_deployment(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default(spec, "replicas", 1);
    let strategy = object_mut(spec, "strategy");
    default(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object_mut(strategy, "rollingUpdate");
        default(rolling, "maxUnavailable", "25%");
        default(rolling, "maxSurge", "25%");
    }
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    pod::default_template(object_mut(spec, "template"));
}

pub(in crate::builtin) fn default_replica_set(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default(spec, "replicas", 1);
    if has(spec, "template") {
        pod::default_template(object_mut(spec, "template"));
    }
}

pub(in crate::builtin) fn default_stateful_set(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object_mut(spec, "updateStrategy");
    default(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        default(object_mut(strategy, "rollingUpdate"), "partition", 0);
    }
    let retention = object_mut(spec, "persistentVolumeClaimRetentionPolicy");
    default(retention, "whenDeleted", "Retain");
    default(retention, "whenScaled", "Retain");
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    for claim in list_mut(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        super::storage::default_claim(claim);
    }
    pod::default_template(object_mut(spec, "template"));
}

pub(in crate::builtin) fn default_daemon_set(object: &mut Value) {
    let spec = object_mut(object, "spec");
    let strategy = object_mut(spec, "updateStrategy");
    default(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object_mut(strategy, "rollingUpdate");
        default(rolling, "maxUnavailable", 1);
        default(rolling, "maxSurge", 0);
    }
    default(spec, "revisionHistoryLimit", 10);
    pod::default_template(object_mut(spec, "template"));
}

/// The old form of the type counted changes of the template in an annotation.
pub(in crate::builtin) fn prepare_daemon_set(object: &mut Value) {
    count_template(object, 1);
}

pub(in crate::builtin) fn prepare_daemon_set_update(
    new: &mut Value,
    old: &Value,
    subresource: &str,
) {
    let before = old["metadata"]["annotations"][TEMPLATE_GENERATION]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let changed = subresource.is_empty() && new["spec"]["template"] != old["spec"]["template"];
    count_template(new, before + i64::from(changed));
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn count_template(object: &mut Value, generation: i64) {
    let annotations = object_mut(object_mut(object, "metadata"), "annotations");
    set(annotations, TEMPLATE_GENERATION, generation.to_string());
}

pub(in crate::builtin) fn default_job(object: &mut Value) {
    // A Job without labels has those of its Pods.
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    let meta = object_mut(object, "metadata");
    if labels.is_object() && !has(meta, "labels") {
        set(meta, "labels", labels);
    }
    default_job_spec(object_mut(object, "spec"));
}

fn default_job_spec(spec: &mut Value) {
    if !has(spec, "completions") && !has(spec, "parallelism") {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    // Where each index has a limit of its own there is none for all.
    let limit = if has(spec, "backoffLimitPerIndex") {
        i32::MAX
    } else {
        6
    };
    default(spec, "backoffLimit", limit);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let replaced = if has(spec, "podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    default(spec, "podReplacementPolicy", replaced);
    let rules = spec
        .get_mut("podFailurePolicy")
        .and_then(|policy| policy.get_mut("rules"))
        .and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let patterns = rule
            .get_mut("onPodConditions")
            .and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten() {
            default(pattern, "status", "True");
        }
    }
    pod::default_template(object_mut(spec, "template"));
}

/// A Job's Pods are found by labels that hold its uid.
pub(in crate::builtin) fn prepare_job(object: &mut Value) {
    let uid = text(&object["metadata"], "uid").to_owned();
    let name = text(&object["metadata"], "name").to_owned();
    let spec = object_mut(object, "spec");
    if spec["manualSelector"] == true || uid.is_empty() {
        return;
    }
    let meta = object_mut(object_mut(spec, "template"), "metadata");
    let labels = object_mut(meta, "labels");
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        default(labels, key, value.as_str());
    }
    let labels = labels.clone();
    let chosen = object_mut(object_mut(spec, "selector"), "matchLabels");
    default(chosen, "batch.kubernetes.io/controller-uid", uid);
    // By the same default as before, once it is read from where it is stored.
    default(object_mut(object, "metadata"), "labels", labels);
}

pub(in crate::builtin) fn default_cron_job(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    let template = object_mut(spec, "jobTemplate");
    let job = object_mut(template, "spec");
    pod::default_template(object_mut(job, "template"));
}

/// Whether a label selector takes labels.
pub(in crate::builtin) fn selects(selector: &Value, labels: &Value) -> bool {
    let value = |key: &str| labels.get(key).and_then(Value::as_str);
    members(selector, "matchLabels").all(|(name, wanted)| value(name) == wanted.as_str())
        && list(selector, "matchExpressions").iter().all(|expression| {
            let actual = value(text(expression, "key"));
            let listed = |actual| {
                list(expression, "values")
                    .iter()
                    .any(|value| value.as_str() == Some(actual))
            };
            match text(expression, "operator") {
                "In" => actual.is_some_and(listed),
                "NotIn" => !actual.is_some_and(listed),
                "Exists" => actual.is_some(),
                "DoesNotExist" => actual.is_none(),
                // Refused elsewhere.
                _ => true,
            }
        })
}

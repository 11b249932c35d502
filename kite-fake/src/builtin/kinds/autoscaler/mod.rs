//! Autoscalers: `autoscaling/v2` is stored, and `autoscaling/v1` knows of one metric, and of
//! the rest in annotations.

mod metrics;
mod text;

use serde_json::{Map, Value, json};

use self::metrics::{Side, flat, full};
use self::text::{array, filled, object, optional, string};
use super::workload_rules::validate_autoscaler;
use crate::members::{copy, default, has, list, object_mut, set, unset};
use crate::schema::Validation;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// What is in annotations of `v1` only. The third was of a version that is gone.
const ANNOTATIONS: [&str; 5] = [
    METRICS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/update-policy",
    CURRENT_METRICS,
    CONDITIONS,
];

/// What an autoscaler goes by that names no metric.
fn usual_metric(percent: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

pub(in crate::builtin) fn default_v2(autoscaler: &mut Value) {
    drop_annotations(autoscaler);
    let spec = object_mut(autoscaler, "spec");
    default(spec, "minReplicas", 1);
    if list(spec, "metrics").is_empty() {
        set(spec, "metrics", json!([usual_metric(&json!(80))]));
    }
    if !has(spec, "behavior") {
        return;
    }
    // What one side leaves open, and the other side, goes by what was before there was
    // a choice.
    let behavior = object_mut(spec, "behavior");
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = object_mut(behavior, "scaleUp");
    default(up, "stabilizationWindowSeconds", 0);
    default(up, "policies", json!([pods, percent]));
    default(up, "selectPolicy", "Max");
    let down = object_mut(behavior, "scaleDown");
    default(down, "policies", json!([percent]));
    default(down, "selectPolicy", "Max");
}

/// Sets what `v1` sets, and brings annotations into the form that they would be read in.
pub(in crate::builtin) fn default_v1(autoscaler: &mut Value) {
    default(object_mut(autoscaler, "spec"), "minReplicas", 1);
    through_v2(autoscaler, |_| {});
}

/// A new autoscaler has no status, not in annotations either.
pub(in crate::builtin) fn prepare_v1(autoscaler: &mut Value) {
    through_v2(autoscaler, |full| {
        unset(full, "status");
    });
}

/// Each path keeps what it does not change, of what is in annotations, too.
pub(in crate::builtin) fn prepare_v1_update(new: &mut Value, old: &Value, subresource: &str) {
    let mut before = old.clone();
    to_v2(&mut before);
    let kept = if subresource == "status" {
        "spec"
    } else {
        "status"
    };
    through_v2(new, |full| copy(full, &before, kept));
}

pub(in crate::builtin) fn validate_v1(autoscaler: &Value, found: &mut Validation) {
    let mut full = autoscaler.clone();
    to_v2(&mut full);
    validate_autoscaler(&full, found);
}

fn through_v2(autoscaler: &mut Value, change: impl FnOnce(&mut Value)) {
    to_v2(autoscaler);
    change(autoscaler);
    to_v1(autoscaler);
}

fn annotation(of: &Value, name: &str) -> Option<Value> {
    let given = of["metadata"]["annotations"].get(name)?.as_str()?;
    // What cannot be read says nothing.
    serde_json::from_str(given).ok()
}

fn drop_annotations(of: &mut Value) {
    let Some(Value::Object(metadata)) = of.get_mut("metadata") else {
        return;
    };
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        for name in ANNOTATIONS {
            annotations.remove(name);
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// Brings an autoscaler of `autoscaling/v1` into `autoscaling/v2`.
pub(in crate::builtin) fn to_v2(autoscaler: &mut Value) {
    let elements = |name: &str, side: Side| {
        let found = annotation(autoscaler, name)?;
        let all = found.as_array()?.iter();
        Some(all.map(|metric| full(metric, side)).collect::<Vec<_>>())
    };
    let mut metrics = elements(METRICS, Side::Wanted).unwrap_or_default();
    let mut current = elements(CURRENT_METRICS, Side::Current);
    let conditions = annotation(autoscaler, CONDITIONS).filter(Value::is_array);
    let behavior = annotation(autoscaler, BEHAVIOR)
        .map(|found| of_go(&found))
        .filter(|found| has(found, "scaleUp") || has(found, "scaleDown"));
    drop_annotations(autoscaler);
    let spec = object_mut(autoscaler, "spec");
    if let Some(percent) = unset(spec, "targetCPUUtilizationPercentage").filter(|v| !v.is_null()) {
        metrics.push(usual_metric(&percent));
    }
    if metrics.is_empty() {
        metrics.push(usual_metric(&json!(80)));
    }
    set(spec, "metrics", metrics);
    if let Some(behavior) = behavior {
        set(spec, "behavior", behavior);
    }
    let status = object_mut(autoscaler, "status");
    let percent = unset(status, "currentCPUUtilizationPercentage").filter(|v| !v.is_null());
    if current.is_none()
        && let Some(percent) = percent
    {
        current = Some(vec![json!({"type": "Resource", "resource": {"name": "cpu",
            "current": {"averageUtilization": percent}}})]);
    }
    set(status, "currentMetrics", json!(current));
    if let Some(conditions) = conditions {
        set(status, "conditions", conditions);
    }
}

/// Members as Go names its fields, as members of JSON. Go does not care for capitals.
fn of_go(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let named = |name: &str| {
                let mut letters = name.chars();
                let first = letters.next().map(|c| c.to_ascii_lowercase());
                first.into_iter().chain(letters).collect::<String>()
            };
            let members = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                members
                    .map(|(name, value)| (named(name), of_go(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(elements) => elements.iter().map(of_go).collect(),
        other => other.clone(),
    }
}

/// Whether a metric is that of the processor, as a percentage: the one that `v1` has a
/// member for.
fn is_usual(metric: &Value, side: &str) -> bool {
    let resource = &metric["resource"];
    metric["type"] == "Resource"
        && resource["name"] == "cpu"
        && has(&resource[side], "averageUtilization")
}

/// Brings an autoscaler of `autoscaling/v2` into `autoscaling/v1`.
pub(in crate::builtin) fn to_v1(autoscaler: &mut Value) {
    drop_annotations(autoscaler);
    let mut annotations: Vec<(&str, String)> = Vec::new();
    let spec = object_mut(autoscaler, "spec");
    let metrics = unset(spec, "metrics").unwrap_or_default();
    let metrics = metrics.as_array().map_or(&[][..], Vec::as_slice);
    let others: Vec<&Value> = metrics.iter().filter(|m| !is_usual(m, "target")).collect();
    if !others.is_empty() {
        let others = others.into_iter().map(|metric| flat(metric, Side::Wanted));
        annotations.push((METRICS, array(others)));
    }
    // The first metric of the processor counts, whatever it says.
    let of_processor = |m: &&Value| m["type"] == "Resource" && m["resource"]["name"] == "cpu";
    if let Some(metric) = metrics.iter().find(of_processor)
        && is_usual(metric, "target")
    {
        let percent = metric["resource"]["target"]["averageUtilization"].clone();
        set(spec, "targetCPUUtilizationPercentage", percent);
    }
    if let Some(behavior) = unset(spec, "behavior").filter(|v| !v.is_null()) {
        annotations.push((BEHAVIOR, behavior_text(&behavior)));
    }
    let status = object_mut(autoscaler, "status");
    let current = unset(status, "currentMetrics").unwrap_or_default();
    let current = current.as_array().map_or(&[][..], Vec::as_slice);
    if !current.is_empty() {
        let all = current.iter().map(|metric| flat(metric, Side::Current));
        annotations.push((CURRENT_METRICS, array(all)));
    }
    if let Some(metric) = current.iter().rfind(|m| is_usual(m, "current")) {
        let percent = metric["resource"]["current"]["averageUtilization"].clone();
        set(status, "currentCPUUtilizationPercentage", percent);
    }
    let conditions = unset(status, "conditions").unwrap_or_default();
    if let Some(conditions) = conditions.as_array().filter(|all| !all.is_empty()) {
        annotations.push((CONDITIONS, array(conditions.iter().map(condition_text))));
    }
    if !annotations.is_empty() {
        let all = object_mut(object_mut(autoscaler, "metadata"), "annotations");
        for (name, text) in annotations {
            set(all, name, text);
        }
    }
}

fn condition_text(condition: &Value) -> String {
    let time = optional(condition, "lastTransitionTime").or_else(|| Some("null".to_owned()));
    object(&[
        ("type", string(condition, "type")),
        ("status", string(condition, "status")),
        ("lastTransitionTime", time),
        ("reason", filled(condition, "reason")),
        ("message", filled(condition, "message")),
    ])
}

/// A behavior as Go writes the type that is in no version, with the names of its fields.
fn behavior_text(behavior: &Value) -> String {
    let null = || Some("null".to_owned());
    let policy = |of: &Value| {
        let number = |member: &str| optional(of, member).or_else(|| Some("0".to_owned()));
        object(&[
            ("Type", string(of, "type")),
            ("Value", number("value")),
            ("PeriodSeconds", number("periodSeconds")),
        ])
    };
    let rules = |member: &str| {
        let of = behavior.get(member).filter(|v| !v.is_null())?;
        let given = |member: &str| optional(of, member).or_else(null);
        let policies = has(of, "policies").then(|| array(list(of, "policies").iter().map(policy)));
        Some(object(&[
            (
                "StabilizationWindowSeconds",
                given("stabilizationWindowSeconds"),
            ),
            ("SelectPolicy", given("selectPolicy")),
            ("Policies", policies.or_else(null)),
            ("Tolerance", given("tolerance")),
        ]))
    };
    object(&[
        ("ScaleUp", rules("scaleUp").or_else(null)),
        ("ScaleDown", rules("scaleDown").or_else(null)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_one() -> Value {
        json!({"metadata": {"name": "h", "annotations": {"own": "1"}},
        "spec": {"maxReplicas": 3, "minReplicas": 1,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "metrics": [
                {"type": "Pods", "pods": {"metric": {"name": "p", "selector": {"matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "k", "operator": "Exists"}]}},
                    "target": {"type": "AverageValue", "averageValue": "1k"}}},
                {"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i"},
                    "metric": {"name": "o"}, "target": {"type": "Value", "value": "2"}}},
                {"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 70}}}],
            "behavior": {"scaleDown": {"selectPolicy": "Min", "tolerance": "100m",
                "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}},
        "status": {"desiredReplicas": 2, "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu",
                    "current": {"averageValue": "20m", "averageUtilization": 40}}}],
            "conditions": [{"type": "AbleToScale", "status": "True", "reason": "r",
                "lastTransitionTime": "2024-01-01T00:00:00Z"}]}})
    }

    /// Without members that have no value.
    fn tidy(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                Value::Object(members.map(|(k, v)| (k.clone(), tidy(v))).collect())
            }
            Value::Array(elements) => elements.iter().map(tidy).collect(),
            other => other.clone(),
        }
    }

    #[test]
    fn what_v1_has_no_member_for_is_in_annotations() {
        let mut object = full_one();
        to_v1(&mut object);
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(
            annotations[METRICS],
            r#"[{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"1k","selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"Exists"}]}}},{"type":"Object","object":{"target":{"kind":"Ingress","name":"i"},"metricName":"o","targetValue":"2"}}]"#
        );
        assert_eq!(
            annotations[CURRENT_METRICS],
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"currentAverageValue":"20m"}}]"#
        );
        assert_eq!(
            annotations[CONDITIONS],
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"r"}]"#
        );
        assert_eq!(
            annotations[BEHAVIOR],
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":60}],"Tolerance":"100m"}}"#
        );
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 70);
        assert_eq!(object["status"]["currentCPUUtilizationPercentage"], 40);
        to_v2(&mut object);
        assert_eq!(tidy(&object), full_one());
    }

    #[test]
    fn what_no_annotation_can_be_read_from_is_not_there() {
        let mut object = json!({"metadata": {"annotations": {METRICS: "{", BEHAVIOR: "{}"}},
            "spec": {"maxReplicas": 1}});
        default_v1(&mut object);
        assert_eq!(
            object,
            json!({"metadata": {}, "status": {}, "spec": {"maxReplicas": 1, "minReplicas": 1,
                "targetCPUUtilizationPercentage": 80}})
        );
    }
}

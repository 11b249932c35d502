//! The table of `HorizontalPodAutoscaler`s.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{NONE, UNSET, list, number, plain, text};
use super::{AGE, Column, NAME, age};

pub(super) const AUTOSCALER: &[Column] = &[
    NAME,
    Column::text("Reference", "spec.scaleTargetRef"),
    Column::text("Targets", "spec.metrics"),
    Column::text("MinPods", "spec.minReplicas"),
    Column::text("MaxPods", "spec.maxReplicas"),
    Column::text("Replicas", "status.currentReplicas"),
    AGE,
];

pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let least = &object["spec"]["minReplicas"];
    vec![
        object["metadata"]["name"].clone(),
        format!(
            "{}/{}",
            text(object, "/spec/scaleTargetRef/kind"),
            text(object, "/spec/scaleTargetRef/name")
        )
        .into(),
        targets(object).into(),
        if least.is_null() {
            UNSET.into()
        } else {
            plain(least).into()
        },
        number(object, "/spec/maxReplicas").into(),
        number(object, "/status/currentReplicas").into(),
        age::of(object, now),
    ]
}

/// At most two metrics, and how many more there are.
fn targets(object: &Value) -> String {
    let metrics = list(object, "/spec/metrics");
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let current = list(object, "/status/currentMetrics");
    let shown: Vec<String> = metrics
        .iter()
        .enumerate()
        .take(2)
        .map(|(i, metric)| target(metric, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    match metrics.len() {
        more @ 3.. => format!("{shown} + {} more...", more - 2),
        _ => shown,
    }
}

/// `current/wanted` of one metric.
fn target(metric: &Value, status: &Value) -> String {
    let known = |value: &Value| match plain(value).as_str() {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    let percent = |value: &Value, otherwise: &str| match value.as_i64() {
        Some(n) => format!("{n}%"),
        None => otherwise.to_owned(),
    };
    let member = match text(metric, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = &metric[member]["target"];
    let current = &status[member]["current"];
    let average = !wanted["averageValue"].is_null();
    match member {
        "pods" => format!(
            "{}/{}",
            known(&current["averageValue"]),
            plain(&wanted["averageValue"])
        ),
        "external" | "object" if average => format!(
            "{}/{} (avg)",
            known(&current["averageValue"]),
            plain(&wanted["averageValue"])
        ),
        "external" | "object" => {
            format!("{}/{}", known(&current["value"]), plain(&wanted["value"]))
        }
        _ => {
            let resource = text(&metric[member], "/name");
            if average {
                return format!(
                    "{resource}: {}/{}",
                    known(&current["averageValue"]),
                    plain(&wanted["averageValue"])
                );
            }
            format!(
                "{resource}: {}/{}",
                percent(&current["averageUtilization"], "<unknown>"),
                percent(&wanted["averageUtilization"], "<auto>")
            )
        }
    }
}

//! Metrics of autoscalers in the form that annotations of `autoscaling/v1` have for them:
//! flat, where `autoscaling/v2` has parts.

use serde_json::{Value, json};

use super::text::{filled, object, optional, quantity, selector, string};
use crate::members::{has, set, text};

/// What a metric says: what is wanted, or what is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Wanted,
    Current,
}

impl Side {
    /// The member that has the values.
    fn member(self) -> &'static str {
        match self {
            Self::Wanted => "target",
            Self::Current => "current",
        }
    }
}

/// Types of metrics, and the member that each has.
const TYPES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];

fn member_of(metric: &Value) -> Option<&'static str> {
    let kind = text(metric, "type");
    let found = TYPES.iter().find(|(name, _)| *name == kind);
    found.map(|(_, member)| *member)
}

/// A metric of `autoscaling/v2` as the text of one of `autoscaling/v1`.
pub(super) fn flat(metric: &Value, side: Side) -> String {
    let mut members = vec![("type", string(metric, "type"))];
    if let Some(member) = member_of(metric) {
        members.push((member, Some(flat_part(member, &metric[member], side))));
    }
    object(&members)
}

fn flat_part(member: &str, part: &Value, side: Side) -> String {
    let values = &part[side.member()];
    let metric = &part["metric"];
    let is_wanted = side == Side::Wanted;
    // What is may be nothing and is told all the same.
    let told = |member: &str| match side {
        Side::Wanted => optional(values, member),
        Side::Current => quantity(values, member),
    };
    let named = ("metricName", string(metric, "name"));
    match member {
        "object" => {
            let of = &part["describedObject"];
            let described = object(&[
                ("kind", string(of, "kind")),
                ("name", string(of, "name")),
                ("apiVersion", filled(of, "apiVersion")),
            ]);
            object(&[
                ("target", Some(described)),
                named,
                (
                    if is_wanted {
                        "targetValue"
                    } else {
                        "currentValue"
                    },
                    quantity(values, "value"),
                ),
                ("selector", selector(metric, "selector")),
                ("averageValue", optional(values, "averageValue")),
            ])
        }
        "pods" => object(&[
            named,
            (average(side), quantity(values, "averageValue")),
            ("selector", selector(metric, "selector")),
        ]),
        "external" => object(&[
            named,
            ("metricSelector", selector(metric, "selector")),
            (
                if is_wanted {
                    "targetValue"
                } else {
                    "currentValue"
                },
                told("value"),
            ),
            (average(side), optional(values, "averageValue")),
        ]),
        _ => object(&[
            ("name", string(part, "name")),
            (utilization(side), optional(values, "averageUtilization")),
            (average(side), told("averageValue")),
            (
                "container",
                string(part, "container").filter(|_| member == "containerResource"),
            ),
        ]),
    }
}

fn average(side: Side) -> &'static str {
    match side {
        Side::Wanted => "targetAverageValue",
        Side::Current => "currentAverageValue",
    }
}

fn utilization(side: Side) -> &'static str {
    match side {
        Side::Wanted => "targetAverageUtilization",
        Side::Current => "currentAverageUtilization",
    }
}

/// A metric of `autoscaling/v1` as one of `autoscaling/v2`.
pub(super) fn full(metric: &Value, side: Side) -> Value {
    let mut out = json!({"type": text(metric, "type")});
    if let Some(member) = member_of(metric) {
        set(&mut out, member, full_part(member, &metric[member], side));
    }
    out
}

fn full_part(member: &str, part: &Value, side: Side) -> Value {
    let value = match side {
        Side::Wanted => "targetValue",
        Side::Current => "currentValue",
    };
    let average = average(side);
    let given = |member: &str| part.get(member).cloned().unwrap_or(Value::Null);
    // A quantity that is no pointer is zero where nothing is said.
    let always = |member: &str| match given(member) {
        Value::Null => json!("0"),
        value => value,
    };
    let (kind, values) = match member {
        "object" => (
            if has(part, "averageValue") {
                "AverageValue"
            } else {
                "Value"
            },
            json!({"value": always(value), "averageValue": given("averageValue")}),
        ),
        "pods" => ("AverageValue", json!({"averageValue": always(average)})),
        "external" => (
            if has(part, value) {
                "Value"
            } else {
                "AverageValue"
            },
            json!({
                "value": if side == Side::Wanted { given(value) } else { always(value) },
                "averageValue": given(average),
            }),
        ),
        _ => (
            if has(part, utilization(side)) {
                "Utilization"
            } else {
                "AverageValue"
            },
            json!({
                "averageUtilization": given(utilization(side)),
                "averageValue": if side == Side::Wanted { given(average) } else { always(average) },
            }),
        ),
    };
    let mut values = values;
    if side == Side::Wanted {
        set(&mut values, "type", kind);
    }
    let mut out = match member {
        "resource" => json!({"name": text(part, "name")}),
        "containerResource" => {
            json!({"name": text(part, "name"), "container": text(part, "container")})
        }
        _ => {
            let by = if member == "external" {
                "metricSelector"
            } else {
                "selector"
            };
            json!({"metric": {"name": text(part, "metricName"), "selector": given(by)}})
        }
    };
    if member == "object" {
        set(&mut out, "describedObject", given("target"));
    }
    set(&mut out, side.member(), values);
    out
}

//! Events have two forms, `v1` and `events.k8s.io/v1`, of which the first is stored.

use serde_json::{Map, Value, json};

use crate::builtin::check;
use crate::members::{has, number, text};
use crate::schema::{FieldError, Validation};

/// Longest instance, action and reason, in bytes.
const MAX_TEXT: usize = 128;
/// Longest message, in bytes.
const MAX_NOTE: usize = 1024;

/// Members that have another name: in `v1`, in `events.k8s.io/v1`.
const NAMES: &[(&str, &str)] = &[
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// Brings an event of `events.k8s.io/v1` into `v1`.
pub(in crate::builtin) fn to_core(event: &mut Value) {
    convert(event, true);
}

/// Brings an event of `v1` into `events.k8s.io/v1`.
pub(in crate::builtin) fn to_events(event: &mut Value) {
    convert(event, false);
}

fn convert(event: &mut Value, wants_old: bool) {
    let Value::Object(members) = event else {
        return;
    };
    let mut converted = Map::new();
    for (name, value) in std::mem::take(members) {
        let name = NAMES
            .iter()
            .find_map(|(old, new)| match (wants_old, name.as_str()) {
                (true, known) if known == *new => Some((*old).to_owned()),
                (false, known) if known == *old => Some((*new).to_owned()),
                _ => None,
            })
            .unwrap_or(name);
        converted.insert(name, value);
    }
    *members = converted;
}

/// Checks an event of either form; errors name the members of `v1`.
pub(in crate::builtin) fn validate(event: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let namespace = text(&event["metadata"], "namespace");
    // Which of its two names a member has.
    let member = |old: &'static str, new: &'static str| {
        if event.get(new).is_some() && event.get(old).is_none() {
            new
        } else {
            old
        }
    };
    let involved = text(&event[member("involvedObject", "regarding")], "namespace");
    let timed = has(event, "eventTime");
    // An object without a namespace has its events in the default one.
    let fits = match (timed, involved.is_empty()) {
        (false, true) => namespace == "default",
        (false, false) => involved == namespace,
        (true, true) => matches!(namespace, "default" | "kube-system"),
        (true, false) => true,
    };
    if !fits {
        errors.push(FieldError::invalid(
            "involvedObject.namespace",
            &json!(involved),
            "does not match event.namespace",
        ));
    }
    if !timed {
        return;
    }
    let controller = text(event, member("reportingComponent", "reportingController"));
    if controller.is_empty() {
        errors.push(FieldError::required("reportingController", ""));
    }
    check::qualified(controller, "reportingController", errors);
    for name in ["reportingInstance", "action", "reason"] {
        let value = text(event, name);
        if value.is_empty() {
            errors.push(FieldError::required(name, ""));
        }
        bounded(value, MAX_TEXT, name, errors);
    }
    bounded(
        text(event, member("message", "note")),
        MAX_NOTE,
        "message",
        errors,
    );
}

fn bounded(value: &str, most: usize, field: &str, errors: &mut Vec<FieldError>) {
    if value.len() > most {
        errors.push(FieldError::invalid(
            field,
            &json!(""),
            format!("can have at most {most} characters"),
        ));
    }
}

/// What else a new event of `events.k8s.io/v1` must be.
pub(in crate::builtin) fn validate_new(event: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    series(event, errors);
    if !has(event, "eventTime") {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid(
            "type",
            &json!(""),
            format!("has invalid value: {kind}"),
        ));
    }
    let source = &event["deprecatedSource"];
    for (set, field) in [
        (has(event, "deprecatedFirstTimestamp"), "firstTimestamp"),
        (has(event, "deprecatedLastTimestamp"), "lastTimestamp"),
        (
            number(event, "deprecatedCount").is_some_and(|n| n != 0),
            "count",
        ),
        (
            !text(source, "component").is_empty() || !text(source, "host").is_empty(),
            "source",
        ),
    ] {
        if set {
            errors.push(FieldError::invalid(field, &json!(""), "needs to be unset"));
        }
    }
}

fn series(event: &Value, errors: &mut Vec<FieldError>) {
    let series = &event["series"];
    if !series.is_object() {
        return;
    }
    if number(series, "count").unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(
            "series.count",
            &json!(""),
            "should be at least 2",
        ));
    }
    if !has(series, "lastObservedTime") {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

/// Of an event of `events.k8s.io/v1` only the series changes.
pub(in crate::builtin) fn validate_update(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    if new["series"] != old["series"] {
        series(new, errors);
    }
    for (name, field) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if new.get(name) != old.get(name) {
            errors.push(FieldError::invalid(field, &new[name], check::IMMUTABLE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(rules: &[fn(&Value, &mut Validation)], event: &Value) -> Vec<String> {
        let mut found = Validation::default();
        for rule in rules {
            rule(event, &mut found);
        }
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_event_with_a_time_says_who_reports_it() {
        let event = json!({"metadata": {"namespace": "n"}, "eventTime": "t", "reason": "R",
            "regarding": {"namespace": "n"}, "type": "Normal", "action": "A"});
        assert_eq!(
            wrongs(&[validate, validate_new], &event),
            [
                "reportingController: Required value",
                "reportingController: Invalid value: \"\": name part must be non-empty",
                "reportingController: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "reportingInstance: Required value",
            ]
        );
    }

    #[test]
    fn an_old_event_lies_beside_its_object() {
        let of = |namespace: &str, involved: Value| {
            let event = json!({"metadata": {"namespace": namespace}, "involvedObject": involved});
            wrongs(&[validate], &event).len()
        };
        assert_eq!(of("default", json!({})), 0);
        assert_eq!(of("kube-system", json!({})), 1);
        assert_eq!(of("n", json!({"namespace": "n"})), 0);
        assert_eq!(of("n", json!({"namespace": "m"})), 1);
    }
}

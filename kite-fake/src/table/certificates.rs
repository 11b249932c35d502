//! The table of requests for certificates.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{NONE, list, or, text};
use super::{AGE, Column, NAME, age};

pub(super) const REQUEST: &[Column] = &[
    NAME,
    AGE,
    Column::text("SignerName", "spec.signerName"),
    Column::text("Requestor", "spec.request"),
    Column::text("RequestedDuration", "spec.expirationSeconds"),
    Column::text("Condition", "status.conditions"),
];

pub(super) fn request(object: &Value, now: Timestamp) -> Vec<Value> {
    let duration = object["spec"]["expirationSeconds"].as_i64();
    vec![
        object["metadata"]["name"].clone(),
        age::of(object, now),
        or(text(object, "/spec/signerName"), NONE).into(),
        text(object, "/spec/username").into(),
        duration
            .map_or_else(|| NONE.to_owned(), age::human_duration)
            .into(),
        state(object).into(),
    ]
}

/// What was decided, and what came of it.
fn state(object: &Value) -> String {
    let is = |wanted: &str| {
        let mut conditions = list(object, "/status/conditions").iter();
        conditions.any(|condition| condition["type"] == wanted)
    };
    let mut state = if is("Denied") {
        "Denied"
    } else if is("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if is("Failed") {
        state.push_str(",Failed");
    }
    if !text(object, "/status/certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}

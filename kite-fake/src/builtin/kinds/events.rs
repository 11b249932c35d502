//! Events have two forms, `v1` and `events.k8s.io/v1`, of which the first is stored.

use serde_json::{Map, Value};

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

/// Brings an event into the form of a group; `true` if it had the other one.
pub(in crate::builtin) fn convert(event: &mut Value, group: &str) -> bool {
    let old_form = event.get("apiVersion").and_then(Value::as_str) == Some("v1");
    let wants_old = group.is_empty();
    if old_form == wants_old {
        return false;
    }
    let Value::Object(members) = event else {
        return false;
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
    converted.insert(
        "apiVersion".to_owned(),
        Value::from(if wants_old { "v1" } else { "events.k8s.io/v1" }),
    );
    *members = converted;
    true
}

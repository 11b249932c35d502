//! Numbers that only rise: with a lower one, what was over would be good again.

use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::kinds::Kind;

/// Has `wanted` say no less than what is `there`, and gives the fields of the spec in
/// which it says more.
pub(super) fn raise(
    kind: Kind,
    wanted: &mut DynamicObject,
    there: &DynamicObject,
) -> Map<String, Value> {
    let number = |object: &DynamicObject, field: &str| object.data["spec"][field].as_i64();
    let mut more = Map::new();
    for field in kind.rising() {
        let (kept, now) = (number(wanted, field), number(there, field));
        let Some(most) = kept.max(now) else {
            continue;
        };
        wanted.data["spec"][*field] = json!(most);
        if now != Some(most) {
            more.insert((*field).to_owned(), json!(most));
        }
    }
    more
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nothing_falls() {
        let object = |spec: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
        };
        for (kept, there, most, more) in [
            (
                json!({"sessionEpoch": 3, "tokenEpoch": 9}),
                json!({"sessionEpoch": 5, "tokenEpoch": 7}),
                json!({"sessionEpoch": 5, "tokenEpoch": 9}),
                json!({"tokenEpoch": 9}),
            ),
            (
                json!({}),
                json!({"tokenEpoch": 7}),
                json!({"tokenEpoch": 7}),
                json!({}),
            ),
            (
                json!({"tokenEpoch": 7}),
                json!({}),
                json!({"tokenEpoch": 7}),
                json!({"tokenEpoch": 7}),
            ),
            (json!({}), json!({}), json!({}), json!({})),
        ] {
            let mut wanted = object(kept);
            let raised = raise(Kind::Platform, &mut wanted, &object(there));
            assert_eq!(wanted.data["spec"], most);
            assert_eq!(Value::from(raised), more);
        }
    }
}

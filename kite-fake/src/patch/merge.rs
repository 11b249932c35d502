//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

use super::{PatchError, decode};

/// Applies a merge patch to an object.
///
/// # Errors
/// [`PatchError::BadRequest`] if the body is no JSON object.
pub fn merge_patch(document: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let patch: Map<String, Value> = decode(body, Value::is_object, "map[string]interface {}")?;
    let mut result = document.clone();
    merge(&mut result, patch);
    Ok(result)
}

/// Merges an object into `target`. Members that are null go from what is new, at
/// any depth, also within lists; where a list takes the place of an object they
/// stay, as with the server's library.
fn merge(target: &mut Value, patch: Map<String, Value>) {
    let Value::Object(members) = target else {
        *target = Value::Object(patch);
        prune(target);
        return;
    };
    for (name, change) in patch {
        if change.is_null() {
            members.remove(&name);
            continue;
        }
        match (members.get_mut(&name), change) {
            (Some(old @ Value::Object(_)), Value::Object(inner)) => merge(old, inner),
            (old, mut change) => {
                if !matches!(old, Some(Value::Object(_))) {
                    prune(&mut change);
                }
                members.insert(name, change);
            }
        }
    }
}

/// Removes the members that are null below a value; elements of lists stay.
fn prune(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(prune);
        }
        Value::Array(elements) => {
            elements.iter_mut().for_each(prune);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::any_json;

    fn apply(document: &Value, patch: &Value) -> Value {
        merge_patch(document, patch.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_rfc_examples_hold() {
        // RFC 7386 appendix A, those whose patch is an object.
        for (document, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!([1, 2]),
                json!({"a": "b", "c": null}),
                json!({"a": "b"}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
            (
                json!({"a": [1]}),
                json!({"a": [null, {"b": null, "c": 1}]}),
                json!({"a": [null, {"c": 1}]}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!({"a": [{"b": null}]}),
                json!({"a": [{"b": null}]}),
            ),
        ] {
            assert_eq!(apply(&document, &patch), result, "{document} + {patch}");
        }
    }

    #[test]
    fn a_patch_is_an_object() {
        for (body, kind) in [("[1]", "array"), ("\"abc\"", "string"), ("null", "null")] {
            assert_eq!(
                merge_patch(&json!({}), body.as_bytes()),
                Err(PatchError::BadRequest(format!(
                    "error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
                )))
            );
        }
    }

    proptest! {
        #[test]
        fn merging_again_changes_nothing(document in any_json(), patch in any_json()) {
            if patch.is_object() {
                let twice = apply(&apply(&document, &patch), &patch);
                prop_assert_eq!(apply(&twice, &patch), twice);
            }
        }

        #[test]
        fn the_empty_patch_changes_no_object(document in any_json()) {
            if document.is_object() {
                prop_assert_eq!(apply(&document, &json!({})), document);
            }
        }
    }
}

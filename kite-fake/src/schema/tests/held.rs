//! What is known of an object's rules saves work and changes no answer.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::schema::{Held, Schema, validate, validate_after};

/// Rules of all sorts: over one member, over several, over the whole, against
/// the value before, with a message of its own, and one that never holds twice.
fn schema() -> Schema {
    Schema::for_custom_resource(&json!({"type": "object",
    "x-kubernetes-validations": [
        {"rule": "size(self.metadata.name) < 4"},
        {"rule": "!has(self.status) || !has(self.status.n) || self.status.n < 3",
            "messageExpression": "'spec ' + string(self.spec.n)"},
    ],
    "properties": {
        "metadata": {"type": "object"},
        "spec": {"type": "object",
            "x-kubernetes-validations": [
                {"rule": "self.n >= oldSelf.n"},
                {"rule": "self != oldSelf || self.n < 2"},
                {"rule": "!has(self.t) || self.t.size() < 3"},
            ],
            "properties": {"n": {"type": "integer"}, "t": {"type": "string",
                "x-kubernetes-validations": [{"rule": "self != 'no'"}]}}},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }}))
    .unwrap()
}

fn state() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "abc", "abcd"]);
    let text = prop::option::of(prop::sample::select(vec!["", "no", "yes"]));
    let status = prop::option::of(0..4i64);
    (name, 0..3i64, text, status, 0..9u8).prop_map(|(name, n, text, status, version)| {
        let mut object = json!({"metadata": {"name": name, "resourceVersion": version},
            "spec": {"n": n}});
        if let Some(text) = text {
            object["spec"]["t"] = json!(text);
        }
        if let Some(status) = status {
            object["status"] = json!({"n": status});
        }
        object
    })
}

proptest! {
    #[test]
    fn it_changes_no_answer(states in prop::collection::vec(state(), 1..12)) {
        let schema = schema();
        let (mut old, mut held) = (None::<Value>, Held::Unknown);
        for new in states {
            let whole = validate(&schema, &new, old.as_ref());
            let short = validate_after(&schema, &new, old.as_ref(), held);
            prop_assert_eq!(&short.errors, &whole.errors, "{} after {:?}", new, old);
            prop_assert_eq!(&short.warnings, &whole.warnings, "{} after {:?}", new, old);
            prop_assert!(short.held >= whole.held);
            if whole.errors.is_empty() {
                (old, held) = (Some(new), short.held);
            }
        }
    }
}

#[test]
fn it_is_known_after_a_write_that_changes_nothing() {
    let schema = schema();
    let object = json!({"metadata": {"name": "a"}, "spec": {"n": 1}});
    let first = validate(&schema, &object, None);
    assert_eq!(first.held, Held::Alone);
    let again = validate_after(&schema, &object, Some(&object), first.held);
    assert_eq!(again.held, Held::Repeated);
    let other = json!({"metadata": {"name": "a"}, "spec": {"n": 2}});
    let changed = validate_after(&schema, &other, Some(&object), again.held);
    assert_eq!(changed.held, Held::Alone, "{:?}", changed.errors);
    // It is refused as it was the first time.
    let refused = validate_after(&schema, &other, Some(&other), changed.held);
    assert_eq!(refused.errors.len(), 1);
    assert_eq!(refused.held, Held::Unknown);
}

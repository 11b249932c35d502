//! What several modules' tests need.

use proptest::prelude::*;
use serde_json::Value;

/// Small JSON of any shape, with names that collide often.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
        prop_oneof![
            Just("$patch"),
            Just("delete"),
            Just("replace"),
            Just("\u{0}\"é")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop_oneof![
            "[a-c]{0,2}",
            Just("name".to_owned()),
            Just("$patch".to_owned()),
            Just("$retainKeys".to_owned()),
            Just("$setElementOrder/a".to_owned()),
            Just("metadata".to_owned()),
            Just("spec".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

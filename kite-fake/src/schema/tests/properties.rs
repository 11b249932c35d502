//! Whatever comes in, nothing panics, and a second pass changes nothing.

use super::refusals::definition;
use crate::schema::crd;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::schema::{Schema, apply_defaults, prune, validate};

fn any_json() -> impl Strategy<Value = Value> {
    let names = || {
        prop::sample::select(vec![
            "a", "b", "spec", "items", "type", "metadata", "kind", "ü", "x-y",
        ])
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((names(), inner), 0..5).prop_map(|members| members
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Value>()),
        ]
    })
}

/// Schemas that use every part of the model, rightly or wrongly.
fn any_schema() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec![
        "object", "array", "string", "integer", "number", "boolean", "nonsense",
    ]);
    let leaf = (kind, any_json(), any::<bool>(), 0u64..4).prop_map(|(kind, default, flag, bound)| {
        json!({"type": kind, "default": default, "nullable": flag, "maxLength": bound, "minimum": bound,
            "enum": [1, "a"], "pattern": "^[a-z]+$", "format": "duration", "multipleOf": bound,
            "x-kubernetes-list-type": if flag { "set" } else { "map" }, "x-kubernetes-list-map-keys": ["a"]})
    });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (inner.clone(), inner.clone(), inner, any::<bool>(), any::<bool>()).prop_map(|(a, b, c, flag, other)| {
            let rules = json!([{"rule": "self == oldSelf"}, {"rule": "self.a.b > 1"}, {"rule": "(("}]);
            json!({"type": if flag { "object" } else { "array" }, "x-kubernetes-validations": rules, "properties": {"a": a, "spec": b},
                "additionalProperties": if other { c.clone() } else { json!(other) }, "items": c,
                "required": ["b"], "anyOf": [b, a], "oneOf": [a], "not": c,
                "x-kubernetes-preserve-unknown-fields": flag, "x-kubernetes-embedded-resource": other,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "spec"]})
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_second_pass_changes_nothing(schema in any_schema(), value in any_json()) {
        let schema = Schema::for_custom_resource(&schema).unwrap();
        let mut once = value;
        prune(&schema, &mut once);
        let pruned = once.clone();
        prop_assert_eq!(prune(&schema, &mut once), Vec::<String>::new());
        prop_assert_eq!(&once, &pruned);
        apply_defaults(&schema, &mut once);
        let defaulted = once.clone();
        apply_defaults(&schema, &mut once);
        prop_assert_eq!(once, defaulted);
    }

    #[test]
    fn validation_never_panics(schema in any_schema(), new in any_json(), old in any_json()) {
        let schema = Schema::for_custom_resource(&schema).unwrap();
        let _ = validate(&schema, &new, Some(&old));
        let tolerated = validate(&schema, &new, Some(&new));
        let unchanged: Vec<_> = tolerated.errors.iter().filter(|e| e.field != "<nil>" && !e.message.contains("Required")).collect();
        prop_assert!(unchanged.iter().all(|e| e.message.contains("rule")), "{unchanged:?}");
    }

    #[test]
    fn any_json_is_a_schema_or_an_error(schema in any_json(), value in any_json()) {
        if let Ok(schema) = Schema::from_json(&schema) {
            let _ = validate(&schema, &value, None);
        }
    }
}

#[test]
fn hostile_patterns_and_rules_are_errors_not_hangs() {
    assert!(Schema::from_json(&json!({"type": "string", "pattern": "(a{1000}){1000}"})).is_err());
    let slow = Schema::from_json(&json!({"type": "string", "pattern": "^(a+)+$"})).unwrap();
    assert_eq!(
        validate(&slow, &json!("a".repeat(50_000) + "b"), None)
            .errors
            .len(),
        1
    );
    let mut deep = json!({"type": "object"});
    for _ in 0..100 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert!(Schema::from_json(&deep).is_err());
    for rule in [
        "(".repeat(32) + "self" + &")".repeat(32) + ".a.b",
        "[".repeat(32) + &"]".repeat(32),
        "!".repeat(32) + "self",
        "self".to_owned() + &" + self".repeat(500),
        "self".to_owned() + &" ? self".repeat(500),
        "self".to_owned() + &".a".repeat(500),
        "self".to_owned() + &" == self".repeat(250),
        "self.map(a, ".repeat(30) + "a" + &")".repeat(30),
        "self.all(a, ".repeat(30) + "a" + &")".repeat(30),
        "(".repeat(10_000),
        "!".repeat(10_000),
        "[".repeat(500) + &"]".repeat(500),
        "self.".repeat(3000) + "a",
    ] {
        let schema = Schema::from_json(
            &json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]}),
        )
        .unwrap();
        assert_eq!(
            validate(&schema, &json!("x"), None).errors.len(),
            1,
            "{rule:.20}"
        );
        // Nor does a definition with such a rule do harm.
        let string = json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
        let errors = crd::validate(&definition(&string), None);
        assert!(!errors.is_empty(), "{rule:.20}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
    let schema = Schema::from_json(&schema).unwrap();
    let next = &schema.properties["next"];
    assert!(next.properties["next"].preserve_unknown);
}

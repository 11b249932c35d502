#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::any_json;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::for_custom_resource(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "b": {"type": "string"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "atomic": {"type": "array", "items": {"type": "string"}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "v": {"type": "string"},
                    "w": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "properties": {"a": {"type": "string"}}},
    }}))
    .unwrap()
});

fn manager(name: &str, operation: Operation) -> Manager {
    Manager {
        name: name.into(),
        operation,
        api_version: "example.com/v1".into(),
        subresource: String::new(),
    }
}

/// Whether the short way recognises that an apply changes nothing.
fn unchanged(context: &Context<'_>, live: &Value, config: &Value) -> bool {
    let text = |name: &str| config[name].as_str().unwrap_or_default();
    let named = Named {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: config["metadata"]["name"].as_str().unwrap_or_default(),
    };
    let (live, config) = (live.to_string(), config.to_string());
    is_unchanged(context, named, live.as_bytes(), config.as_bytes())
}

/// Applies, and gives the object as it is then.
fn apply_as(
    name: &str,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    let (manager, empty) = (manager(name, Operation::Apply), json!({}));
    let context = Context {
        schema: &SCHEMA,
        versions: None,
        manager: &manager,
        reset: Reset::Members(&["status"]),
        empty: &empty,
        now: NOW,
    };
    match apply(&context, live, config, force)? {
        Applied::Changed(object) => Ok(object),
        Applied::Unchanged => Ok(live.unwrap().clone()),
    }
}

fn update_as(name: &str, live: Option<&Value>, new: &Value) -> Value {
    let (manager, empty) = (manager(name, Operation::Update), json!({}));
    let context = Context {
        schema: &SCHEMA,
        versions: None,
        manager: &manager,
        reset: Reset::Members(&["status"]),
        empty: &empty,
        now: NOW,
    };
    update(&context, live, new.clone())
}

fn config(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec})
}

fn owners(object: &Value) -> Vec<(String, Value)> {
    let list = object["metadata"]["managedFields"].as_array();
    list.into_iter()
        .flatten()
        .map(|entry| {
            let name = entry["manager"].as_str().unwrap().to_owned();
            (name, entry["fieldsV1"].clone())
        })
        .collect()
}

/// Specifications that fit the schema.
fn any_spec() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![Just("x"), Just("y")];
    let item = (
        prop_oneof![Just("k1"), Just("k2"), Just("k3")],
        prop::option::of(text()),
        prop::option::of(text()),
    );
    (
        prop::option::of(text()),
        prop::option::of(prop::collection::btree_map("[mn]", text(), 0..3)),
        prop::option::of(prop::collection::btree_set("[p-r]", 0..3)),
        prop::option::of(prop::collection::vec("[p-r]", 0..3)),
        prop::option::of(prop::collection::vec(item, 0..3)),
    )
        .prop_map(|(a, map, set, atomic, keyed)| {
            let mut spec = json!({});
            if let Some(a) = a {
                spec["a"] = json!(a);
            }
            if let Some(map) = map {
                spec["map"] = json!(map);
            }
            if let Some(set) = set {
                spec["set"] = json!(set);
            }
            if let Some(atomic) = atomic {
                spec["atomic"] = json!(atomic);
            }
            if let Some(keyed) = keyed {
                let mut seen = Vec::new();
                let mut list = Vec::new();
                for (name, v, w) in keyed {
                    if !seen.contains(&name) {
                        seen.push(name);
                        let mut item = json!({"name": name});
                        if let Some(v) = v {
                            item["v"] = json!(v);
                        }
                        if let Some(w) = w {
                            item["w"] = json!(w);
                        }
                        list.push(item);
                    }
                }
                spec["keyed"] = json!(list);
            }
            spec
        })
}

/// Whether all that a configuration says is so in the object. An empty keyed
/// list or set says nothing that somebody could own.
fn holds(object: &Value, config: &Value) -> bool {
    match (object, config) {
        (Value::Object(object), Value::Object(config)) => config.iter().all(|(name, value)| {
            object
                .get(name)
                .map_or(value == &json!([]), |part| holds(part, value))
        }),
        (Value::Array(object), Value::Array(config)) => config
            .iter()
            .all(|value| object.iter().any(|o| holds(o, value))),
        _ => object == config,
    }
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(first in any_spec(), second in any_spec()) {
        let live = apply_as("one", None, &config(&first), false).unwrap();
        let live = apply_as("two", Some(&live), &config(&second), true).unwrap();
        prop_assert!(holds(&live, &config(&second)));
        let again = apply_as("two", Some(&live), &config(&second), false).unwrap();
        prop_assert_eq!(again, live);
    }

    /// A repeated apply is recognised on the short way as on the long one.
    #[test]
    fn the_short_way_agrees_with_the_long_one(first in any_spec(), second in any_spec(), third in any_spec()) {
        let (manager, empty) = (manager("two", Operation::Apply), json!({}));
        let context = Context {
            schema: &SCHEMA, manager: &manager, reset: Reset::Members(&["status"]),
            versions: None,
            empty: &empty, now: NOW,
        };
        let live = apply_as("one", None, &config(&first), false).unwrap();
        let live = apply_as("two", Some(&live), &config(&second), true).unwrap();
        for spec in [&second, &third] {
            if unchanged(&context, &live, &config(spec)) {
                prop_assert_eq!(apply(&context, Some(&live), &config(spec), false), Ok(Applied::Unchanged));
            }
        }
    }

    #[test]
    fn force_transfers_what_differs(first in any_spec(), second in any_spec()) {
        let live = apply_as("one", None, &config(&first), false).unwrap();
        let forced = apply_as("two", Some(&live), &config(&second), true).unwrap();
        prop_assert!(holds(&forced, &config(&second)));
        // Whoever did not lose a field may still apply what they had.
        match apply_as("two", Some(&live), &config(&second), false) {
            Ok(free) => prop_assert_eq!(&free, &forced),
            Err(ApplyError::Conflict(conflicts)) => {
                prop_assert!(!conflicts.0.is_empty());
                prop_assert!(conflicts.0.iter().all(|c| c.manager.name == "one"));
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
        // Two owners of one field agree on its value: applying again conflicts with nobody.
        prop_assert!(apply_as("two", Some(&forced), &config(&second), false).is_ok());
    }

    #[test]
    fn dropping_everything_restores_what_others_have(first in any_spec(), second in any_spec()) {
        let live = apply_as("one", None, &config(&first), false).unwrap();
        // What nobody owns counts as `before-first-apply`'s; here somebody does.
        let tracked = !owners(&live).is_empty();
        if let Ok(both) = apply_as("two", Some(&live), &config(&second), false)
            && tracked
        {
            let mut bare = config(&json!({}));
            bare.as_object_mut().unwrap().remove("spec");
            let alone = apply_as("two", Some(&both), &bare, false).unwrap();
            prop_assert!(holds(&alone, &config(&first)));
            prop_assert_eq!(owners(&alone).len(), owners(&live).len());
        }
    }

    #[test]
    fn an_update_owns_what_it_changes(first in any_spec(), second in any_spec()) {
        let live = apply_as("one", None, &config(&first), false).unwrap();
        let mut new = live.clone();
        new["spec"] = second;
        let updated = update_as("upd", Some(&live), &new);
        prop_assert_eq!(&updated["spec"], &new["spec"]);
        // The same update again changes nothing.
        prop_assert_eq!(update_as("upd", Some(&updated), &updated), updated);
    }

    #[test]
    fn random_input_never_panics(live in any_json(), given in any_json()) {
        let _ = apply_as("one", Some(&live), &given, false);
        let _ = apply_as("one", Some(&live), &given, true);
        let _ = update_as("upd", Some(&live), &given);
        let _ = update_as("upd", None, &given);
        let _ = apply_as("one", None, &config(&given), true);
        let tracked = json!({"metadata": {"managedFields": live}, "spec": given});
        let _ = apply_as("one", Some(&tracked), &config(&given), true);
        let _ = same_but_for_times(&tracked, &live);
    }
}

#[test]
fn untracked_objects_belong_to_before_first_apply() {
    let live = config(&json!({"a": "x", "map": {"m": "1"}}));
    let updated = update_as("upd", Some(&live), &config(&json!({"a": "y"})));
    assert_eq!(owners(&updated), []);
    let applied = apply_as(
        "one",
        Some(&live),
        &config(&json!({"a": "x", "b": "z"})),
        false,
    );
    assert_eq!(
        owners(&applied.unwrap()),
        [
            ("one".into(), json!({"f:spec": {"f:a": {}, "f:b": {}}})),
            (
                "before-first-apply".into(),
                json!({"f:spec": {".": {}, "f:a": {}, "f:map": {".": {}, "f:m": {}}}})
            ),
        ]
    );
}

#[test]
fn the_status_is_nobodys_on_the_main_endpoint() {
    let mut with_status = config(&json!({"a": "x"}));
    with_status["status"] = json!({"a": "ready"});
    let applied = apply_as("one", None, &with_status, false).unwrap();
    assert_eq!(
        owners(&applied),
        [("one".into(), json!({"f:spec": {"f:a": {}}}))]
    );
}

#[test]
fn managed_fields_cannot_be_applied() {
    let mut given = config(&json!({}));
    given["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        apply_as("one", None, &given, false),
        Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".into()
        ))
    );
}

#[test]
fn typed_errors_name_the_object() {
    assert_eq!(
        apply_as("one", None, &config(&json!({"nope": 1})), false),
        Err(ApplyError::Typed(
            "failed to create typed patch object (/n; example.com/v1, Kind=K): .spec.nope: field not declared in schema".into()
        ))
    );
}

/// A state that an earlier edition of the schema allowed.
#[test]
fn nothing_can_be_applied_to_what_does_not_fit_the_schema() {
    let versions = Versions::from_iter([("example.com/v1".to_owned(), Arc::new(SCHEMA.clone()))]);
    let (empty, one) = (json!({}), manager("one", Operation::Apply));
    let other = manager("other", Operation::Update);
    let context = |manager| Context {
        schema: &SCHEMA,
        versions: Some(&versions),
        manager,
        reset: Reset::Members(&["status"]),
        empty: &empty,
        now: NOW,
    };
    let given = config(&json!({"a": "x"}));
    let Applied::Changed(mut live) = apply(&context(&one), None, &given, false).unwrap() else {
        panic!("nothing was made")
    };
    live["metadata"]["namespace"] = json!("ns");
    live["status"] = json!({"a": 5});
    // Twice the same is no misfit.
    live["spec"]["set"] = json!(["p", "p"]);
    let refused = |live: &Value| match apply(&context(&one), Some(live), &given, true) {
        Err(ApplyError::Typed(words)) => words,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(&live),
        "failed to create typed live object (ns/n; example.com/v1, Kind=K): .status.a: expected string, got &value.valueUnstructured{Value:5}"
    );

    // Other patches are taken. The books cannot be kept, though.
    let mut new = live.clone();
    new["spec"]["b"] = json!("y");
    let new = update(&context(&other), Some(&live), new);
    assert_eq!(new["spec"]["b"], "y");
    assert_eq!(owners(&new), []);
    assert_eq!(
        refused(&new),
        "failed to create manager for existing fields: failed to convert new object (ns/n; example.com/v1, Kind=K) to smd typed: .status.a: expected string, got &value.valueUnstructured{Value:5}"
    );

    // Once it fits, all that is there was there before.
    let mut mended = new.clone();
    mended["status"] = json!({});
    mended["spec"]["set"] = json!(["p"]);
    let Applied::Changed(mended) = apply(&context(&one), Some(&mended), &given, true).unwrap()
    else {
        panic!("nobody owned it")
    };
    let names: Vec<_> = owners(&mended).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["one", BEFORE_FIRST_APPLY]);
}

#[test]
fn a_repeated_apply_is_recognised_at_once() {
    let (manager, empty) = (manager("one", Operation::Apply), json!({}));
    let context = Context {
        schema: &SCHEMA,
        versions: None,
        manager: &manager,
        reset: Reset::Members(&["status"]),
        empty: &empty,
        now: NOW,
    };
    let given = config(&json!({
        "a": "x", "map": {"m": "1"}, "set": ["p", "q"], "atomic": ["p"],
        "keyed": [{"name": "k1", "v": "1"}, {"name": "k2"}], "free": {"deep": {"er": [1]}},
    }));
    let live = apply_as("one", None, &given, false).unwrap();
    assert!(unchanged(&context, &live, &given));
    for (path, value) in [
        ("/spec/a", json!("y")),
        ("/spec/set", json!(["q", "p"])),
        ("/spec/keyed/0/v", json!("2")),
        ("/spec/keyed", json!([])),
        ("/spec/free/deep/er", json!([2])),
        ("/spec", json!({"a": "x"})),
    ] {
        let mut other = given.clone();
        *other.pointer_mut(path).unwrap() = value;
        assert!(!unchanged(&context, &live, &other), "{path}");
    }
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let first = config(&json!({"a": "x", "map": {"m": "1"}}));
    let mut sent = first.clone();
    sent["metadata"]["annotations"] = json!({ANNOTATION: first.to_string()});
    let live = update_as("kubectl-client-side-apply", None, &sent);

    let changed = config(&json!({"a": "y", "map": {"m": "1"}}));
    let applied = apply_as("kubectl", Some(&live), &changed, false).unwrap();
    assert_eq!(applied["spec"]["a"], "y");
    assert_eq!(
        applied["metadata"]["annotations"][ANNOTATION],
        format!("{changed}\n")
    );
    // Another manager, or a field that somebody changed since, is a conflict.
    assert!(apply_as("other", Some(&live), &changed, false).is_err());
    let mut edited = live.clone();
    edited["spec"]["a"] = json!("z");
    let edited = update_as("editor", Some(&live), &edited);
    assert!(matches!(
        apply_as("kubectl", Some(&edited), &changed, false),
        Err(ApplyError::Conflict(conflicts)) if conflicts.0.len() == 1
    ));
}

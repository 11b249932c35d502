#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;

use super::*;

fn things() -> GroupResource {
    GroupResource::new("x.io", "things")
}

fn put(store: &mut Store, ns: &str, name: &str, n: u64) -> u64 {
    let value = json!({"metadata": {"name": name}, "n": n});
    store
        .put(&things(), Key::new(ns, name), value, 0)
        .revision()
}

#[test]
fn one_counter_runs_through_all_collections() {
    let mut store = Store::new(100);
    let a = put(&mut store, "n", "a", 1);
    let other = GroupResource::new("", "others");
    let b = store
        .put(&other, Key::new("", "b"), json!({"metadata": {}}), 0)
        .revision();
    assert_eq!(b, a + 1);
    assert_eq!(store.revision(), b);
}

#[test]
fn an_older_state_can_be_rebuilt() {
    let mut store = Store::new(100);
    put(&mut store, "n", "a", 1);
    let then = put(&mut store, "n", "b", 1);
    put(&mut store, "n", "a", 2);
    store.remove(&things(), &Key::new("n", "b")).unwrap();
    put(&mut store, "n", "c", 1);
    let state = store.at(&things(), Some("n"), then).unwrap();
    let names: Vec<_> = state.keys().map(|k| k.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(state[&Key::new("n", "a")].value()["n"], 1);
}

#[test]
fn the_log_is_bounded_and_says_what_it_forgot() {
    let mut store = Store::new(3);
    let first = put(&mut store, "n", "a", 0);
    for n in 1..10 {
        put(&mut store, "n", "a", n);
    }
    assert!(store.events_since(&things(), first).is_err());
    let recent = store.revision() - 3;
    assert_eq!(store.events_since(&things(), recent).unwrap().count(), 3);
    store.compact();
    assert!(store.events_since(&things(), recent).is_err());
    assert_eq!(
        store
            .events_since(&things(), store.revision())
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_removal_carries_the_last_state_and_a_new_revision() {
    let mut store = Store::new(10);
    let at = put(&mut store, "n", "a", 5);
    store.remove(&things(), &Key::new("n", "a")).unwrap();
    let event = store.events_since(&things(), at).unwrap().next().unwrap();
    assert_eq!(event.change, Change::Deleted);
    assert_eq!(event.object.value()["n"], 5);
    assert_eq!(event.object.meta("resourceVersion"), (at + 1).to_string());
}

#[test]
fn ranges_keep_to_a_namespace_and_start_after_a_key() {
    let mut store = Store::new(10);
    for (ns, name) in [("a", "x"), ("b", "x"), ("b", "y"), ("c", "x")] {
        put(&mut store, ns, name, 0);
    }
    let names = |after: Option<&Key>| -> Vec<String> {
        store
            .range(&things(), Some("b"), after)
            .map(|(k, _)| k.name.clone())
            .collect()
    };
    assert_eq!(names(None), ["x", "y"]);
    assert_eq!(names(Some(&Key::new("b", "x"))), ["y"]);
    assert_eq!(store.range(&things(), None, None).count(), 4);
}

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

#[test]
fn texts_are_let_go_of_their_trees_and_read_the_same() {
    let mut store = Store::new(10);
    let long = "x".repeat(MAX_WARM_BYTES / 4);
    for name in ["a", "b", "c", "d", "e"] {
        let value = json!({"metadata": {"name": name, "labels": {"app": name}}, "long": long});
        store.put(&things(), Key::new("", name), value, 0);
    }
    let before: Vec<Value> = store
        .range(&things(), None, None)
        .map(|(_, o)| o.value().clone())
        .collect();
    store.cool();
    assert_eq!(store.warmth.load(Ordering::Relaxed), 0, "cooled");
    let things = things();
    let after = store.range(&things, None, None).map(|(_, o)| o.value());
    assert!(after.eq(before.iter()));
    assert!(store.warmth.load(Ordering::Relaxed) > MAX_WARM_BYTES);
}

#[test]
fn the_log_is_bounded_by_bytes() {
    let mut store = Store::new(usize::MAX);
    let long = "x".repeat(MAX_LOG_BYTES / 4);
    for _ in 0..8 {
        let value = json!({"metadata": {}, "long": long});
        store.put(&things(), Key::new("", "a"), value, 0);
    }
    let kept = store.collections[&things()].log.len();
    assert!((3..=4).contains(&kept), "{kept} events kept");
    assert!(store.events_since(&things(), 1).is_err());
}

#[test]
fn what_cannot_be_parsed_again_keeps_its_tree() {
    let mut store = Store::new(10);
    let mut deep = json!(1);
    for _ in 0..300 {
        deep = json!([deep]);
    }
    let value = json!({"metadata": {"name": "a"}, "deep": deep});
    store.put(&things(), Key::new("", "a"), value.clone(), 0);
    store.warmth.store(MAX_WARM_BYTES, Ordering::Relaxed);
    store.cool();
    let stored = store.get(&things(), &Key::new("", "a")).unwrap();
    assert_eq!(stored.value()["deep"], value["deep"]);
}

#[test]
fn those_whom_a_change_does_not_concern_are_not_woken() {
    let mut store = Store::new(10);
    let mut circles = [Some("a"), Some("b"), None].map(|n| store.subscribe(&things(), n));
    put(&mut store, "b", "x", 0);
    let woken = circles.each_ref().map(|c| c.has_changed().unwrap());
    assert_eq!(woken, [false, true, true]);
    circles
        .iter_mut()
        .for_each(tokio::sync::watch::Receiver::mark_unchanged);
    store.wake(&things());
    assert!(circles.iter().all(|c| c.has_changed().unwrap()));
}

#[test]
fn an_open_watch_misses_only_what_concerns_it() {
    let mut store = Store::new(3);
    let mut here = store.subscribe(&things(), Some("a"));
    let seen = put(&mut store, "a", "x", 0);
    for n in 0..10 {
        put(&mut store, "b", "x", n);
    }
    let last = put(&mut store, "a", "x", 1);
    assert_eq!(*here.borrow_and_update(), last);
    let unseen = |namespace, since| -> Option<Vec<u64>> {
        let events = store.events_for(&things(), namespace, since).ok()?;
        let here = events.filter(|e| namespace.is_none_or(|n| n == e.key.namespace));
        Some(here.map(|e| e.revision).collect())
    };
    assert_eq!(unseen(Some("a"), seen), Some(vec![last]));
    assert_eq!(unseen(None, seen), None, "events of b are lost");
    assert!(store.events_since(&things(), seen).is_err());
}

#[test]
fn a_compaction_ends_no_watch_that_missed_nothing() {
    let mut store = Store::new(100);
    let seen = put(&mut store, "a", "x", 0);
    store.put(
        &GroupResource::new("", "others"),
        Key::new("", "o"),
        json!({"metadata": {}}),
        0,
    );
    store.compact();
    assert!(store.events_since(&things(), seen).is_err());
    assert_eq!(store.events_for(&things(), None, seen).unwrap().count(), 0);
    assert!(store.events_for(&things(), None, seen - 1).is_err());
}

#[test]
fn a_store_that_goes_on_from_a_saved_one_remembers_its_history() {
    let mut store = Store::new(10);
    let first = put(&mut store, "a", "x", 0);
    let last = put(&mut store, "a", "y", 0);
    let saved = store.save();
    let mut other = Store::new(10);
    other.resume(&saved);
    for namespace in [None, Some("a")] {
        other.subscribe(&things(), namespace);
        let unseen = other.events_for(&things(), namespace, first).unwrap();
        assert_eq!(unseen.map(|e| e.revision).collect::<Vec<_>>(), [last]);
    }
    other.restore(&saved);
    for namespace in [None, Some("a")] {
        assert!(other.events_for(&things(), namespace, last).is_err());
    }
}

mod pasts {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_remembered_state_can_be_read_from_any_place(
            changes in prop::collection::vec((0..3_u8, 0..4_u8, any::<bool>()), 1..40),
            from in (0..3_u8, 0..4_u8),
        ) {
            let mut store = Store::new(25);
            let key = |(n, o): (u8, u8)| Key::new(format!("n{n}"), format!("o{o}"));
            let mut states = BTreeMap::new();
            let mut model: BTreeMap<Key, u64> = BTreeMap::new();
            for (i, (n, o, delete)) in changes.into_iter().enumerate() {
                let key = key((n, o));
                if delete {
                    store.remove(&things(), &key);
                    model.remove(&key);
                } else {
                    let n = i as u64;
                    store.put(&things(), key.clone(), json!({"metadata": {}, "n": n}), 0);
                    model.insert(key, n);
                }
                states.insert(store.revision(), model.clone());
            }
            let after = key(from);
            let things = things();
            for (revision, state) in states {
                let Ok(all) = store.at(&things, None, revision) else {
                    prop_assert!(store.events_since(&things, revision).is_err());
                    continue;
                };
                let numbers = |o: &Object| o.value()["n"].as_u64().unwrap();
                let all: BTreeMap<Key, u64> = all.iter().map(|(k, o)| (k.clone(), numbers(o))).collect();
                prop_assert_eq!(&all, &state);
                let some: Vec<(Key, u64)> = store
                    .past(&things, Some("n1"), Some(&after), revision)
                    .unwrap()
                    .map(|(k, o)| (k.clone(), numbers(o)))
                    .collect();
                let expected: Vec<(Key, u64)> = state
                    .into_iter()
                    .filter(|(k, _)| k.namespace == "n1" && *k > after)
                    .collect();
                prop_assert_eq!(some, expected);
            }
        }
    }
}

mod texts {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_json;

    /// An object with labels, some of which need escapes.
    fn any_object() -> impl Strategy<Value = Value> {
        let labels = prop::collection::btree_map("[a-z/.\"\\\\é]{1,6}", "[a-z\"\\\\é]{0,6}", 0..4);
        (any_json(), any_json(), labels).prop_map(|(spec, other, labels)| {
            json!({
                "apiVersion": "v1",
                "kind": "Thing",
                "metadata": {"name": "a\"b", "uid": "u", "labels": labels, "other": other},
                "spec": spec,
            })
        })
    }

    fn cold(value: &Value) -> Object {
        Stored::stamped(
            value.clone(),
            7,
            0,
            Change::Added,
            &Warmth::default(),
            &mut Vec::new(),
        )
    }

    proptest! {
        #[test]
        fn parts_are_found_without_parsing_the_whole(value in any_object()) {
            let mut value = value;
            value["metadata"]["resourceVersion"] = "7".into();
            let stored = cold(&value);
            prop_assert_eq!(stored.json(), value.to_string());
            let labels = value["metadata"]["labels"].as_object().unwrap();
            for (name, text) in labels {
                let found = stored.label(name);
                prop_assert_eq!(found.as_deref(), text.as_str());
            }
            prop_assert_eq!(stored.label("none"), None);
            for path in ["spec", "spec.a", "metadata.uid", "metadata.other.b", "none.c", "kind"] {
                let at = path.split('.').try_fold(&value, |at, name| at.get(name));
                let found = stored.field(path);
                prop_assert_eq!(found.as_ref(), at, "{}", path);
            }
            for field in ["name", "uid", "resourceVersion", "none"] {
                let text = value["metadata"][field].as_str().unwrap_or_default();
                prop_assert_eq!(stored.meta(field), text);
            }
            prop_assert_eq!(stored.value(), &value);
        }

        #[test]
        fn list_items_and_watch_lines_are_made_of_the_text(value in any_object()) {
            let mut value = value;
            value["metadata"]["resourceVersion"] = "7".into();
            let stored = cold(&value);
            for (change, word) in [
                (Change::Added, "ADDED"),
                (Change::Modified, "MODIFIED"),
                (Change::Deleted, "DELETED"),
            ] {
                let line = format!("{{\"type\":\"{word}\",\"object\":{value}}}\n");
                prop_assert_eq!(stored.line(change), line);
            }
            let mut item = Vec::new();
            stored.write_item(|piece| item.extend_from_slice(piece));
            let members = value.as_object_mut().unwrap();
            members.remove("kind");
            members.remove("apiVersion");
            prop_assert_eq!(item, value.to_string().into_bytes());
        }
    }
}

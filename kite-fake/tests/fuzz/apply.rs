//! Several managers apply to, patch and update the same objects.

use serde_json::{Map, Value, json};

use super::input::Input;
use super::world::World;

const MANAGERS: &[&str] = &["one", "two", "three"];

/// An intent that the schema takes more often than not.
fn intent(input: &mut Input<'_>, custom: bool) -> Value {
    let word = |input: &mut Input<'_>| input.pick(&["a", "b", "c", "d"]);
    if !custom {
        let data: Map<String, Value> = (0..=input.below(4))
            .map(|_| (word(input).to_owned(), word(input).into()))
            .collect();
        return json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    }
    let mut spec = Map::new();
    if input.flag() {
        spec.insert("n".into(), input.below(120).into());
    }
    if input.flag() {
        spec.insert("a".into(), word(input).into());
    }
    if input.flag() {
        let set: Value = (0..=input.below(4)).map(|_| word(input)).collect();
        spec.insert("set".into(), set);
    }
    if input.flag() {
        let list: Value = (0..=input.below(4))
            .map(|_| json!({"k": word(input), "a": word(input)}))
            .collect();
        spec.insert("list".into(), list);
    }
    if input.flag() {
        let map: Map<String, Value> = (0..=input.below(3))
            .map(|_| (word(input).to_owned(), word(input).into()))
            .collect();
        spec.insert("map".into(), map.clone().into());
        spec.insert("atomic".into(), map.into());
    }
    if input.below(8) == 0 {
        spec.insert(input.name(), input.value(3));
    }
    json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

/// Whether nothing is said: typed objects leave empty members out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Whether every value of `part` stands in `whole`; lists by their elements.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        _ if is_empty(part) => true,
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(name, value)| {
            is_empty(value) || whole.get(name).is_some_and(|w| contains(w, value))
        }),
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|p| whole.iter().any(|w| contains(w, p)))
        }
        (whole, part) => whole == part,
    }
}

fn check_managers(object: &Value) {
    let empty = Vec::new();
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .unwrap_or(&empty);
    let mut seen = Vec::new();
    for entry in entries {
        let identity = ["manager", "operation", "apiVersion", "subresource"].map(|m| &entry[m]);
        assert!(!seen.contains(&identity), "one manager twice: {object}");
        assert!(
            entry["fieldsV1"].as_object().is_some_and(|f| !f.is_empty()),
            "owns nothing: {object}"
        );
        seen.push(identity);
    }
}

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let world = World::new();
    for _ in 0..24 {
        if input.is_empty() {
            return;
        }
        let custom = input.below(4) != 0;
        let path = if custom {
            "/apis/x.io/v1/namespaces/default/things/a"
        } else {
            "/api/v1/namespaces/default/configmaps/a"
        };
        let manager = input.pick(MANAGERS);
        let intent = intent(&mut input, custom);
        let text = intent.to_string();
        let send = |method: &str, query: &str, media: &str| {
            let uri = format!("{path}?fieldManager={manager}{query}");
            world.send(method, &uri, &[("content-type", media)], text.as_bytes())
        };
        match input.below(8) {
            0 => drop(send("PATCH", "", "application/merge-patch+json")),
            1 => drop(send("PUT", "", "application/json")),
            2 => drop(send("DELETE", "", "application/json")),
            3 => drop(send("PATCH", "&dryRun=All", "application/apply-patch+yaml")),
            forced => {
                let query = if forced == 7 { "&force=true" } else { "" };
                let Some(got) = send("PATCH", query, "application/apply-patch+yaml") else {
                    continue;
                };
                assert!(
                    forced != 7 || got.code != 409,
                    "force meets no conflict: {text}"
                );
                // Null is no value to own: what becomes of it depends on the schema.
                if got.code >= 300 || text.contains("null") {
                    continue;
                }
                // What was applied is there (what the schema does not know is not).
                for member in ["data", "metadata"] {
                    assert!(
                        contains(&got.body[member], &intent[member]),
                        "{text} gave {}",
                        got.body
                    );
                }
                for member in ["n", "a", "set", "list", "map", "atomic"] {
                    let wanted = &intent["spec"][member];
                    let fits = contains(&got.body["spec"][member], wanted);
                    assert!(fits, "{text} gave {}", got.body);
                }
                check_managers(&got.body);
                let revision = world.revision();
                let again =
                    send("PATCH", query, "application/apply-patch+yaml").expect("an answer");
                assert_eq!(
                    again.body, got.body,
                    "the same apply again changed something"
                );
                assert_eq!(world.revision(), revision, "{text}");
            }
        }
    }
}

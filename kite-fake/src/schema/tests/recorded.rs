//! Replays the writes of recorded scenarios without a server: prune, default, validate.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value};

use crate::schema::{FieldError, Held, Schema, apply_defaults, prune, validate, validate_after};

/// The state of one scenario.
struct World {
    schemas: BTreeMap<String, Schema>,
    objects: BTreeMap<String, Value>,
    /// What is known of the objects' rules.
    held: BTreeMap<String, Held>,
}

impl World {
    fn install(&mut self, crd: &Value) {
        let plural = crd["spec"]["names"]["plural"].as_str().unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        // Of what was checked by another schema nothing is known.
        self.held.clear();
        self.schemas.insert(
            plural.to_owned(),
            Schema::for_custom_resource(schema).unwrap(),
        );
    }
}

pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let members = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

pub(super) fn causes(errors: &[FieldError]) -> BTreeSet<(String, String, String)> {
    errors
        .iter()
        .map(|e| {
            (
                e.field.clone(),
                e.reason.as_str().to_owned(),
                e.message.clone(),
            )
        })
        .collect()
}

pub(super) fn recorded_causes(body: &Value) -> BTreeSet<(String, String, String)> {
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    body["details"]["causes"]
        .as_array()
        .map(|list| {
            list.iter()
                .map(|c| (text(c, "field"), text(c, "reason"), text(c, "message")))
                .collect()
        })
        .unwrap_or_default()
}

fn warnings(response: &Value) -> BTreeSet<String> {
    let list = response["warnings"].as_array().cloned().unwrap_or_default();
    list.iter()
        .filter_map(Value::as_str)
        .map(|w| serde_json::from_str::<String>(w.trim_start_matches("299 - ")).unwrap())
        .collect()
}

/// A recorded scenario, or a word that it is not there.
pub(super) fn scenario(name: &str) -> Option<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/transcripts")
        .join(format!("{name}.json"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {} is not there",
            path.display()
        );
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

/// Replays one scenario; gives the number of writes compared.
fn replay(name: &str) -> Option<usize> {
    let scenario = scenario(name)?;
    let mut world = World {
        schemas: BTreeMap::new(),
        objects: BTreeMap::new(),
        held: BTreeMap::new(),
    };
    for crd in scenario["setup_crds"].as_array().into_iter().flatten() {
        world.install(crd);
    }
    let mut compared = 0;
    for step in scenario["steps"].as_array().unwrap() {
        let request = &step["request"];
        let at = format!("{name} {}", step["id"]);
        let path = request["path"].as_str().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let segments: Vec<&str> = path.split('/').collect();
        let merge_patch = request["content_type"]
            .as_str()
            .is_none_or(|t| t.contains("merge-patch") || t == "application/json");
        let method = request["method"].as_str().unwrap_or_default();
        if path.contains("customresourcedefinitions/") && method == "PATCH" {
            world.install(&request["body"]);
            continue;
        }
        let Some(plural) = segments
            .get(6)
            .copied()
            .filter(|p| world.schemas.contains_key(*p))
        else {
            continue;
        };
        let (key, mut new) = match (method, segments.len()) {
            ("POST", 7)
                if request["body"].is_object()
                    && !query.contains("Strict")
                    && !query.contains("Ignore") =>
            {
                let object = request["body"].as_object().unwrap().clone();
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                (format!("{plural}/{name}"), Value::Object(object))
            }
            ("PATCH", 8 | 9) if merge_patch && !query.contains("fieldValidation") => {
                let key = format!("{plural}/{}", segments[7]);
                let Some(mut object) = world.objects.get(&key).cloned() else {
                    continue;
                };
                merge(&mut object, &request["body"]);
                (key, object)
            }
            _ => continue,
        };
        let schema = &world.schemas[plural];
        let response = &step["response"];
        let mut expected = warnings(response);
        crate::go::make_whole(&mut new);
        let unknown = prune(schema, &mut new);
        if method == "POST" {
            new.as_object_mut().unwrap().remove("status");
        }
        apply_defaults(schema, &mut new);
        let old = world.objects.get(&key);
        let found = validate(schema, &new, old);
        // What need not be asked again changes nothing of the answer.
        let held = world.held.get(&key).copied().unwrap_or_default();
        let short = validate_after(schema, &new, old, held);
        assert_eq!(short.errors, found.errors, "{at} {held:?}");
        assert_eq!(short.warnings, found.warnings, "{at} {held:?}");
        let mut actual: BTreeSet<String> = unknown
            .iter()
            .map(|f| format!("unknown field \"{f}\""))
            .collect();
        actual.extend(found.warnings.iter().cloned());
        match response["status"].as_u64().unwrap() {
            200 | 201 => {
                assert_eq!(causes(&found.errors), BTreeSet::new(), "{at}");
                if response["body"]["kind"].is_string() {
                    for part in ["spec", "status"] {
                        assert_eq!(new.get(part), response["body"].get(part), "{at} {part}");
                    }
                }
                world.held.insert(key.clone(), found.held);
                world.objects.insert(key, new);
            }
            422 => {
                assert_eq!(
                    causes(&found.errors),
                    recorded_causes(&response["body"]),
                    "{at}"
                );
                // A refused patch may have dropped its warnings with it.
                if expected.is_empty() {
                    expected.clone_from(&actual);
                }
            }
            _ => continue,
        }
        assert_eq!(actual, expected, "{at} warnings");
        compared += 1;
    }
    Some(compared)
}

macro_rules! scenarios {
    ($($test:ident = $name:literal, $least:literal;)*) => {
        $(#[test]
        fn $test() {
            if let Some(compared) = replay($name) {
                assert!(compared >= $least, "only {compared} writes were compared");
            }
        })*
    };
}

scenarios! {
    limits = "schema-validation", 38;
    rules = "cel", 16;
    defaults = "defaulting-pruning", 10;
    tolerance = "ratcheting", 9;
    keys = "list-map-keys", 5;
    unknown_fields = "field-validation", 4;
}

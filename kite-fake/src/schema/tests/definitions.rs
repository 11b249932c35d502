//! `CustomResourceDefinition` objects against recorded answers, and against real ones.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::recorded::{causes, merge, recorded_causes, scenario};
use crate::metadata;
use crate::names::NameRule;
use crate::schema::{Schema, crd};

fn create(body: &Value) -> (Value, Vec<crate::schema::FieldError>) {
    let mut object = body.clone();
    crd::set_defaults(&mut object);
    object["status"] = crd::initial_status(&object);
    let mut errors = metadata::validate(&object, false, NameRule::Subdomain);
    errors.extend(crd::validate(&object, None));
    (object, errors)
}

#[test]
fn invalid_definitions_are_refused() {
    let Some(scenario) = scenario("crd-validation") else {
        return;
    };
    for step in scenario["steps"].as_array().unwrap() {
        let (_, errors) = create(&step["request"]["body"]);
        let (mut actual, mut expected) =
            (causes(&errors), recorded_causes(&step["response"]["body"]));
        if step["loose"].is_array() {
            // These messages quote the server's memory.
            let bare = |set: &mut std::collections::BTreeSet<(String, String, String)>| {
                *set = set
                    .iter()
                    .map(|(f, r, _)| (f.clone(), r.clone(), String::new()))
                    .collect();
            };
            bare(&mut actual);
            bare(&mut expected);
        }
        assert_eq!(actual, expected, "{}", step["id"]);
    }
}

#[test]
fn a_definition_lives() {
    let Some(scenario) = scenario("crd-lifecycle") else {
        return;
    };
    let step = |id: &str| {
        scenario["steps"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["id"] == id)
            .unwrap()
    };
    let created = step("02-create");
    let (mut object, errors) = create(&created["request"]["body"]);
    assert_eq!(errors, vec![]);
    assert_eq!(object["spec"], created["response"]["body"]["spec"]);
    assert_eq!(object["status"], created["response"]["body"]["status"]);

    object["status"] = crd::accept(&object, std::iter::empty(), "<time>");
    for (pointer, value) in step("03-established")["response"]["body"]
        .as_object()
        .unwrap()
    {
        if let Some(name) = pointer
            .strip_prefix("/status/conditions/[type=")
            .map(|s| s.trim_end_matches(']'))
        {
            let found = object["status"]["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .find(|c| c["type"] == name);
            assert_eq!(found, Some(value), "{pointer}");
        } else if pointer.starts_with("/status") {
            assert_eq!(object.pointer(pointer), Some(value), "{pointer}");
        }
    }
    let settled = object["status"].clone();
    assert_eq!(
        crd::accept(&object, std::iter::empty(), "later"),
        settled,
        "nothing moves when nothing changed"
    );

    for id in ["10-immutable-scope", "11-immutable-kind"] {
        let mut changed = object.clone();
        merge(&mut changed, &step(id)["request"]["body"]);
        let errors = crd::validate(&changed, Some(&object));
        assert_eq!(
            causes(&errors),
            recorded_causes(&step(id)["response"]["body"]),
            "{id}"
        );
    }
}

#[test]
fn names_that_another_definition_holds_are_not_accepted() {
    let definition = |plural: &str, kind: &str| {
        let names = json!({"plural": plural, "kind": kind, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")});
        json!({"metadata": {"name": format!("{plural}.a.b")}, "spec": {"group": "a.b", "names": names}, "status": {}})
    };
    let mut first = definition("pets", "Pet");
    first["status"] = crd::accept(&first, std::iter::empty(), "t");
    let status = crd::accept(&definition("animals", "Pet"), [&first].into_iter(), "t");
    assert_eq!(status["acceptedNames"], json!({"plural": "animals"}));
    assert_eq!(status["conditions"][0]["reason"], "ListKindConflict");
    assert_eq!(status["conditions"][1]["status"], "False");
}

#[test]
fn real_definitions_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/crds");
    let Ok(files) = std::fs::read_dir(&folder) else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {} is not there",
            folder.display()
        );
        return;
    };
    for file in files {
        let path = file.unwrap().path();
        let object: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let (object, errors) = create(&object);
        assert_eq!(errors, vec![], "{}", path.display());
        for version in object["spec"]["versions"].as_array().unwrap() {
            Schema::for_custom_resource(&version["schema"]["openAPIV3Schema"]).unwrap();
        }
    }
}

/// What is wrong with a definition whose `spec` has the given schema.
fn problems(schema: &Value) -> Vec<String> {
    let names = json!({"plural": "pets", "kind": "Pet"});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"spec": schema}}}});
    create(&json!({"metadata": {"name": "pets.a.b"}, "spec":
            {"group": "a.b", "scope": "Cluster", "names": names, "versions": [version]}}))
    .1
    .iter()
    .map(|e| format!("{e}").replace("spec.validation.openAPIV3Schema.properties[spec].", ""))
    .collect::<Vec<_>>()
}

/// A schema with a rule over members of all types.
fn with_rule(rule: &str) -> Value {
    {
        json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}],
        "properties": {"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 50}, "t": {"type": "string", "format": "date-time"},
            "l": {"type": "array", "maxItems": 20, "items": {"type": "object", "properties": {"k": {"type": "string", "maxLength": 50}}}},
            "m": {"type": "object", "maxProperties": 20, "additionalProperties": {"type": "integer"}},
            "i": {"x-kubernetes-int-or-string": true}}})
    }
}

#[test]
fn sound_schemas_and_rules_are_accepted() {
    for good in [
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        with_rule("self.n > 1 && self.s.startsWith('a') && size(self.l) < 5"),
        with_rule(
            "self.l.all(x, has(x.k) && x.k != '') && self.l.map(x, x.k).size() == self.l.size()",
        ),
        with_rule(
            "self.m.all(k, self.m[k] > 0) && 'a' in self.m && self.t > timestamp('2020-01-01T00:00:00Z')",
        ),
        with_rule(
            "type(self.i) == int ? self.i > 5 : quantity(self.i).isGreaterThan(quantity('1'))",
        ),
        with_rule("self.n == oldSelf.n || self.s.matches('^a')"),
        with_rule(
            "self.?s.orValue('') != 'x' && self.l.exists(x, self.l.exists_one(y, y.k == x.k))",
        ),
        with_rule("cel.bind(n, self.n, n > 1) && self.l.all(i, x, i < 3) && self.n < 2.5"),
    ] {
        assert_eq!(problems(&good), Vec::<String>::new(), "{good}");
    }
}

#[test]
fn what_a_structural_schema_may_not_have() {
    for (schema, error) in [
        (
            json!({"type": "string", "pattern": "("}),
            "pattern: Invalid value",
        ),
        (json!({"type": "array"}), "items: Required value"),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "properties": {"a": {"type": "string"}}}),
            "additionalProperties: Forbidden",
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            "anyOf[0].type: Forbidden",
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}),
            "properties[a]: Required value: because it is defined in",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            "items.x-kubernetes-map-type: Invalid value",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
            "properties[a].default: Invalid value",
        ),
        (
            json!({"type": "object", "default": {"x": 1}, "properties": {"a": {"type": "string"}}}),
            "default: Invalid value",
        ),
        (
            with_rule("size(self"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("other == 1"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("self.n"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("self.n == 'a'"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("self.n.startsWith('a')"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("self.l.all(x, x.none == 1)"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("self.l.all(x, x.k)"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("self.n + self.s == 'a'"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("nothing(self.n)"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule("self.metadata.name == 'a'"),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            with_rule(""),
            "x-kubernetes-validations[0].rule: Required value",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "has(self.a)", "fieldPath": ".b"}]}),
            "x-kubernetes-validations[0].fieldPath: Invalid value",
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'a'", "optionalOldSelf": true}]}),
            "x-kubernetes-validations[0].optionalOldSelf: Invalid value",
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'a'", "messageExpression": "1"}]}),
            "x-kubernetes-validations[0].messageExpression: Invalid value",
        ),
        (
            json!({"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}),
            "items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used",
        ),
    ] {
        let found = problems(&schema);
        assert!(
            found.len() == 1 && found[0].starts_with(error),
            "{error}: {found:?}"
        );
    }
}

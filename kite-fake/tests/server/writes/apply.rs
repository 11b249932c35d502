//! Server-side apply.

use serde_json::{Value, json};

use super::{APPLY, MAPS, MERGE, Server};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/x.io/v1/things";

/// A definition with two versions; `list` says how lists are told apart in each.
fn definition(list: [&Value; 2], more_in_v2: bool) -> Value {
    let version = |name: &str, list: &Value, more: bool| {
        let mut items = json!({"type": "array", "items": {"type": "object", "properties":
            {"k": {"type": "string"}, "v": {"type": "string"}}}});
        for (key, value) in list.as_object().unwrap() {
            items[key] = value.clone();
        }
        let mut spec = json!({"type": "object", "properties":
            {"items": items, "size": {"type": "integer"}}});
        if more {
            spec["properties"]["more"] = json!({"type": "string"});
        }
        json!({"name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [version("v1", list[0], false), version("v2", list[1], more_in_v2)]}})
}

fn thing(version: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("x.io/{version}"), "kind": "Thing", "metadata": {"name": "t"},
        "spec": spec})
}

fn keyed() -> Value {
    json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties":
            {"k": {"type": "string"}, "v": {"type": "string"}}}})
}

#[test]
fn a_manager_owns_fields_as_its_version_has_them() {
    let server = Server::new();
    // Keyed in v1, one field in v2.
    server
        .post(CRDS, &definition([&keyed(), &json!({})], false))
        .expect(201);
    let of = |manager: &str, version: &str| {
        format!("/apis/x.io/{version}/things/t?fieldManager={manager}")
    };
    let items = json!({"items": [{"k": "a", "v": "1"}]});
    server
        .patch(&of("m1", "v1"), APPLY, &thing("v1", &items))
        .expect(201);
    let told = server
        .patch(
            &of("m2", "v2"),
            APPLY,
            &thing("v2", &json!({"items": [{"k": "a", "v": "2"}]})),
        )
        .expect(409);
    assert_eq!(
        told.message(),
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.items[k=\"a\"].v"
    );
    let told = server
        .patch(
            &format!("{THINGS}/t?fieldManager=e"),
            MERGE,
            &json!({"spec": {"size": 1}}),
        )
        .expect(200);
    assert_eq!(
        told.at("/metadata/managedFields").as_array().unwrap().len(),
        2
    );
}

#[test]
fn an_apply_stays_within_what_the_versions_of_others_declare() {
    let server = Server::new();
    server
        .post(CRDS, &definition([&json!({}), &json!({})], true))
        .expect(201);
    let v2 = |manager: &str| format!("/apis/x.io/v2/things/t?fieldManager={manager}");
    // Nobody else is there yet: what the storage does not know is lost silently.
    server
        .patch(&v2("m"), APPLY, &thing("v2", &json!({"more": "x"})))
        .expect(201);
    server
        .patch(
            &format!("{THINGS}/t?fieldManager=e"),
            MERGE,
            &json!({"spec": {"size": 1}}),
        )
        .expect(200);
    let told = server
        .patch(&v2("m"), APPLY, &thing("v2", &json!({"more": "y"})))
        .expect(500);
    assert_eq!(
        told.message(),
        "failed to convert new object: .spec.more: field not declared in schema"
    );
    // Updates are not refused for it; the books are closed.
    let told = server
        .patch(&v2("u"), MERGE, &json!({"spec": {"more": "z"}}))
        .expect(200);
    assert_eq!(told.at("/metadata/managedFields"), &Value::Null);
}

#[test]
fn ownership_follows_a_schema_that_makes_a_list_one_field() {
    let server = Server::new();
    server
        .post(CRDS, &definition([&keyed(), &keyed()], false))
        .expect(201);
    let apply = format!("{THINGS}/t?fieldManager=m");
    let items = json!({"items": [{"k": "a", "v": "1"}]});
    server
        .patch(&apply, APPLY, &thing("v1", &items))
        .expect(201);
    let mut atomic = definition([&json!({}), &json!({})], false);
    let stored = server.get(&format!("{CRDS}/things.x.io"));
    atomic["metadata"]["resourceVersion"] = stored.at("/metadata/resourceVersion").clone();
    server
        .put(&format!("{CRDS}/things.x.io"), &atomic)
        .expect(200);
    let told = server
        .patch(
            &format!("{THINGS}/t?fieldManager=e"),
            MERGE,
            &json!({"spec": {"size": 1}}),
        )
        .expect(200);
    assert_eq!(
        told.at("/metadata/managedFields/0/fieldsV1/f:spec"),
        &json!({"f:items": {}})
    );
}

const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let server = Server::new();
    let path = server.map("a", &json!({"k": "v"}));
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"k": "v"}});
    let annotate = |text: String| json!({"metadata": {"annotations": {LAST: text}}});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"k": "<w>"}});
    let apply = format!("{path}?fieldManager=kubectl");
    // Another version than the request's is not looked at.
    let mut other = last.clone();
    other["apiVersion"] = json!("v2");
    server
        .patch(&path, MERGE, &annotate(other.to_string()))
        .expect(200);
    server.patch(&apply, APPLY, &config).expect(409);
    server
        .patch(&path, MERGE, &annotate(last.to_string()))
        .expect(200);
    let told = server.patch(&apply, APPLY, &config).expect(200);
    let text = told.at("/metadata/annotations")[LAST].as_str().unwrap();
    assert!(text.contains("\"k\":\"\\u003cw\\u003e\""), "{text}");
    assert!(text.ends_with("}\n"));
}

#[test]
fn the_status_of_a_custom_resource_owns_what_else_there_is() {
    let server = Server::new();
    let mut crd = definition([&json!({}), &json!({})], false);
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        version["subresources"] = json!({"status": {}});
        version["schema"]["openAPIV3Schema"]["properties"]["status"] =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        version["schema"]["openAPIV3Schema"]["properties"]["data"] = json!({"type": "string"});
    }
    server.post(CRDS, &crd).expect(201);
    server.post(THINGS, &thing("v1", &json!({}))).expect(201);
    let mut config = thing("v1", &json!({"size": 1}));
    config["status"] = json!({"n": 1});
    config["data"] = json!("x");
    let told = server
        .patch(&format!("{THINGS}/t/status?fieldManager=m"), APPLY, &config)
        .expect(200);
    assert_eq!(
        (told.at("/data"), told.at("/spec")),
        (&Value::Null, &json!({}))
    );
    assert_eq!(
        told.at("/metadata/managedFields/0/fieldsV1"),
        &json!({"f:data": {}, "f:status": {"f:n": {}}})
    );
}

/// Who admits writes is asked about those that change nothing, too.
#[test]
fn an_apply_of_what_is_there_is_admitted_like_any_other() {
    let server = Server::new();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"k": "v"}});
    let path = format!("{MAPS}/a?fieldManager=m");
    server
        .send("PATCH", &path, APPLY, body.to_string())
        .expect(201);
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["configmaps"]}]);
    server
        .post(
            policies,
            &json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "never"},
            "spec": {"matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": "false"}]}}),
        )
        .expect(201);
    server
        .post(
            &policies.replace("policies", "policybindings"),
            &json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "never"},
            "spec": {"policyName": "never", "validationActions": ["Deny"]}}),
        )
        .expect(201);
    server
        .send("PATCH", &path, APPLY, body.to_string())
        .expect(422);
    // Read as YAML, it goes another way to the same end.
    let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}";
    server.send("PATCH", &path, APPLY, yaml).expect(422);
}

/// What a client was told is stored stays, whatever the definition says later.
#[test]
fn a_default_that_came_later_is_stored_with_the_next_write() {
    let server = Server::new();
    let mut definition = definition([&json!({}), &json!({})], false);
    let path = format!("{CRDS}/things.x.io");
    server.post(CRDS, &definition).expect(201);
    let body = thing("v1", &json!({"size": 1}));
    let one = format!("{THINGS}/t?fieldManager=m");
    let apply = || server.send("PATCH", &one, APPLY, body.to_string());
    apply().expect(201);
    let mut default = |value: &str| {
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"]["tone"] =
            json!({"type": "string", "default": value});
        server
            .send("PATCH", &path, MERGE, definition.to_string())
            .expect(200);
    };
    default("low");
    let told = apply().expect(200);
    assert_eq!(told.at("/spec/tone"), "low");
    default("high");
    assert_eq!(server.get(&one).at("/spec/tone"), "low");
    // Now it is stored as it is shown: nothing more is written.
    let before = server.get(&one);
    apply().expect(200);
    let version = "/metadata/resourceVersion";
    assert_eq!(server.get(&one).at(version), before.at(version));
}

//! Custom resources as clients see them, beside what was recorded.
#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::Answer;
use crate::FakeCluster;

struct Client(FakeCluster);

impl Client {
    /// A cluster with a kind `X`, whose version is `version` and whose `spec` has the schema `spec`.
    fn with(spec: &Value, version: &Value) -> Self {
        let client = Self(FakeCluster::builder().build().unwrap());
        let mut v1 = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}});
        for (name, value) in version.as_object().into_iter().flatten() {
            v1[name] = value.clone();
        }
        let (code, answer) = client.send("POST", CRDS, &crd("xs", "X", &json!([v1])));
        assert_eq!(code, 201, "{answer}");
        client
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (code, body, _) = self.ask(method, path, "application/json", body);
        (code, body)
    }

    fn patch(&self, path: &str, body: &Value) -> (u16, Value) {
        let (code, body, _) = self.ask("PATCH", path, "application/merge-patch+json", body);
        (code, body)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: &Value,
    ) -> (u16, Value, Vec<String>) {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("authorization", format!("Bearer {}", self.0.admin_token()))
            .body(Bytes::from(text))
            .unwrap();
        let Answer::Response(response) = self.0.handle(request) else {
            panic!("no plain answer");
        };
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|w| w.to_str().unwrap().to_owned()).collect();
        let body = serde_json::from_slice(response.body()).unwrap_or(Value::Null);
        (response.status().as_u16(), body, warnings)
    }
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const XS: &str = "/apis/a.io/v1/xs";

fn crd(plural: &str, kind: &str, versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.a.io")},
        "spec": {"group": "a.io", "scope": "Cluster", "names": {"plural": plural, "kind": kind}, "versions": versions},
    })
}

fn x(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "a.io/v1", "kind": "X", "metadata": {"name": name}, "spec": spec})
}

fn scaled() -> Client {
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"x-kubernetes-preserve-unknown-fields": true}}});
    let scale = json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".spec.s"}});
    Client::with(&spec, &json!({"subresources": scale}))
}

#[test]
fn a_scale_needs_its_number() {
    let client = scaled();
    client.send("POST", XS, &x("a", &json!({})));
    let at = format!("{XS}/a/scale");
    let (code, answer) = client.send("GET", &at, &Value::Null);
    assert_eq!(
        (code, answer["reason"].as_str()),
        (500, Some("InternalError"))
    );
    assert_eq!(
        answer["message"],
        "Internal error occurred: the spec replicas field \".spec.n\" does not exist"
    );
    let (code, answer) = client.patch(&at, &json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(
        (code, &answer["message"]),
        (
            400,
            &json!("the spec replicas field \".spec.n\" cannot be empty")
        )
    );
    let (code, answer) = client.patch(&at, &json!({"spec": {"replicas": 2}}));
    assert_eq!((code, &answer["spec"]), (200, &json!({"replicas": 2})));
    let (_, object) = client.send("GET", &format!("{XS}/a"), &Value::Null);
    assert_eq!(object["spec"]["n"], 2);
    assert_eq!(object["metadata"]["generation"], 2);
}

#[test]
fn what_a_scale_reads_is_checked_in_every_write() {
    let client = scaled();
    for (spec, message) in [
        (
            json!({"n": -1}),
            ".spec.n: Invalid value: -1: should be a non-negative integer",
        ),
        (
            json!({"n": 3_000_000_000_i64}),
            ".spec.n: Invalid value: 3000000000: should be less than or equal to 2147483647",
        ),
        (
            json!({"n": 1, "s": 5}),
            ".spec.s: Invalid value: \"\": .spec.s accessor error: 5 is of the type int64, expected string",
        ),
    ] {
        let (code, answer) = client.send("POST", XS, &x("b", &spec));
        assert_eq!(code, 422);
        assert_eq!(
            answer["message"],
            format!("X.a.io \"b\" is invalid: {message}")
        );
    }
    let mut object = x("c", &json!({"n": 1}));
    object["status"] = json!({"n": "many"});
    let (code, answer) = client.send("POST", XS, &object);
    assert_eq!(
        (code, &answer["details"]["causes"][0]["field"]),
        (422, &json!(".status.n"))
    );
}

#[test]
fn an_applied_scale_is_owned_and_can_conflict() {
    let client = scaled();
    client.send("POST", XS, &x("a", &json!({"n": 1})));
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}});
    let at = |query: &str| format!("{XS}/a/scale?fieldManager=m{query}");
    let apply = "application/apply-patch+yaml";
    let (code, answer, _) = client.ask("PATCH", &at(""), apply, &config);
    assert_eq!(
        (code, &answer["details"]["causes"][0]["field"]),
        (409, &json!(".spec.n"))
    );
    let (code, _, _) = client.ask("PATCH", &at("&force=true"), apply, &config);
    assert_eq!(code, 200);
    let (_, object) = client.send("GET", &format!("{XS}/a"), &Value::Null);
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().find(|e| e["manager"] == "m").unwrap();
    assert_eq!(
        (&own["operation"], &own["subresource"]),
        (&json!("Apply"), &json!("scale"))
    );
    assert_eq!(own["fieldsV1"], json!({"f:spec": {"f:n": {}}}));
}

#[test]
fn a_name_becomes_free_for_the_one_that_waits() {
    let client = Client::with(&json!({"type": "object"}), &json!({}));
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    let mut second = crd("ys", "Y", &versions);
    second["spec"]["names"]["shortNames"] = json!(["x"]);
    client.send("POST", CRDS, &second);
    let condition = |kind: &str| {
        let (_, crd) = client.send("GET", &format!("{CRDS}/ys.a.io"), &Value::Null);
        let conditions = crd["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|c| c["type"] == kind).unwrap()
    };
    assert_eq!(condition("NamesAccepted")["reason"], "ShortNamesConflict");
    assert_eq!(
        condition("NamesAccepted")["message"],
        "\"x\" is already in use"
    );
    assert_eq!(condition("Established")["status"], "False");
    assert_eq!(client.send("GET", "/apis/a.io/v1/ys", &Value::Null).0, 404);

    client.send("DELETE", &format!("{CRDS}/xs.a.io"), &Value::Null);
    let at = format!("{CRDS}/xs.a.io");
    client.patch(&at, &json!({"metadata": {"finalizers": null}}));
    assert_eq!(condition("Established")["status"], "True");
    assert_eq!(client.send("GET", "/apis/a.io/v1/ys", &Value::Null).0, 200);
}

#[test]
fn lists_with_keys_and_sets_have_no_doubles() {
    let spec = json!({"type": "object", "properties": {
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items":
            {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}},
        "o": {"type": "object", "additionalProperties":
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}},
    }});
    let client = Client::with(&spec, &json!({}));
    let refusal = |spec: Value| {
        let (_, answer) = client.send("POST", XS, &x("a", &spec));
        answer["message"]
            .as_str()
            .unwrap_or_default()
            .replace("X.a.io \"a\" is invalid: ", "")
    };
    // The third of the same is not told again; a map's member stands in brackets.
    assert_eq!(
        refusal(json!({"m": [{"k": "a"}, {"k": "a"}, {"k": "a"}]})),
        "spec.m[1]: Duplicate value: {\"k\":\"a\"}"
    );
    assert_eq!(
        refusal(json!({"o": {"x.y": ["a", "a"]}})),
        "spec.o[x.y][1]: Duplicate value: \"a\""
    );
}

#[test]
fn rules_name_values_of_maps_in_brackets_and_are_tolerated_below_what_stays() {
    let spec = json!({"type": "object", "properties": {
        "o": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5"}]}},
        "l": {"type": "array", "maxItems": 5, "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5"}]}},
        "z": {"type": "string"},
    }});
    let client = Client::with(&spec, &json!({}));
    let (_, answer) = client.send("POST", XS, &x("a", &json!({"o": {"k": 9}})));
    assert_eq!(answer["details"]["causes"][0]["field"], "spec.o[k]");

    // The rules are loosened to let values in, and tightened again.
    let loosen = |limit: i64| {
        let (_, mut crd) = client.send("GET", &format!("{CRDS}/xs.a.io"), &Value::Null);
        let rule = json!([{"rule": format!("self < {limit}")}]);
        *crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/l/items/x-kubernetes-validations").unwrap() = rule;
        assert_eq!(client.send("PUT", &format!("{CRDS}/xs.a.io"), &crd).0, 200);
    };
    loosen(50);
    client.send("POST", XS, &x("b", &json!({"l": [9, 1]})));
    loosen(5);
    // Elements of a plain list have no previous value, but the list has: it stays.
    let at = format!("{XS}/b");
    let (code, _, warnings) = client.ask(
        "PATCH",
        &at,
        "application/merge-patch+json",
        &json!({"spec": {"z": "z"}}),
    );
    assert_eq!(code, 200);
    assert_eq!(
        warnings,
        ["299 - \"spec.l[0]: Invalid value: 9: failed rule: self < 5\""]
    );
    let (code, _) = client.patch(&at, &json!({"spec": {"l": [9]}}));
    assert_eq!(code, 422);
}

#[test]
fn columns_end_where_a_path_cannot_be_read() {
    let columns = json!([{"name": "A", "type": "string", "jsonPath": ".spec.a"}, {"name": "B", "type": "string", "jsonPath": ".spec["},
        {"name": "C", "type": "string", "jsonPath": ".spec.c"}]);
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let client = Client::with(&spec, &json!({"additionalPrinterColumns": columns}));
    client.send("POST", XS, &x("a", &json!({"a": {"b": [1]}})));
    let request = Request::builder()
        .uri(XS)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .header(
            "authorization",
            format!("Bearer {}", client.0.admin_token()),
        )
        .body(Bytes::new())
        .unwrap();
    let Answer::Response(response) = client.0.handle(request) else {
        panic!("no plain answer");
    };
    let table: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), 2);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "{\"b\":[1]}"]));
}

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy about `ConfigMaps`, and a binding of it that does `actions`.
fn bind(client: &Client, spec: &Value, binding: &Value) {
    let constraints = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["CREATE", "UPDATE", "DELETE"]}]});
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"}, "spec": {"matchConstraints": constraints}});
    for (name, value) in spec.as_object().unwrap() {
        policy["spec"][name] = value.clone();
    }
    let mut bound = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (name, value) in binding.as_object().unwrap() {
        bound["spec"][name] = value.clone();
    }
    let (code, answer) = client.send(
        "POST",
        &format!("{POLICIES}/validatingadmissionpolicies"),
        &policy,
    );
    assert_eq!(code, 201, "{answer}");
    let (code, answer) = client.send(
        "POST",
        &format!("{POLICIES}/validatingadmissionpolicybindings"),
        &bound,
    );
    assert_eq!(code, 201, "{answer}");
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

#[test]
fn a_policy_denies_with_its_message_and_reason() {
    let client = Client::with(&json!({"type": "object"}), &json!({}));
    bind(
        &client,
        &json!({
            "matchConditions": [{"name": "not-exempt", "expression": "!object.metadata.name.startsWith('exempt')"}],
            "variables": [{"name": "n", "expression": "int(object.data.n)"}, {"name": "twice", "expression": "variables.n * 2"}],
            "validations": [
                {"expression": "variables.twice <= 10", "messageExpression": "'twice is ' + string(variables.twice)"},
                {"expression": "request.userInfo.username != '' && request.operation == 'CREATE' && oldObject == null",
                 "message": "only new ones", "reason": "Forbidden"},
                {"expression": "namespaceObject.metadata.name == 'default'"},
            ],
        }),
        &json!({}),
    );
    let (code, answer) = client.send("POST", MAPS, &map("a", &json!({"n": "6"})));
    assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")));
    assert_eq!(
        answer["message"],
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: twice is 12"
    );
    assert_eq!(
        client.send("POST", MAPS, &map("a", &json!({"n": "5"}))).0,
        201
    );
    let (code, answer) = client.patch(&format!("{MAPS}/a"), &json!({"data": {"n": "4"}}));
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        client
            .send("POST", MAPS, &map("exempt-1", &json!({"n": "99"})))
            .0,
        201
    );
    // An expression that fails counts as a refusal.
    let (code, answer) = client.send("POST", MAPS, &map("b", &json!({})));
    assert_eq!(code, 422);
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("fails to evaluate"), "{message}");
    // What the policy is not about is not asked about.
    assert_eq!(client.send("POST", XS, &x("a", &json!({}))).0, 201);
}

#[test]
fn a_policy_can_warn_or_look_away() {
    let client = Client::with(&json!({"type": "object"}), &json!({}));
    let spec = json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.ok == 'yes'"}]});
    bind(&client, &spec, &json!({"validationActions": ["Warn"]}));
    let (code, _, warnings) = client.ask(
        "POST",
        MAPS,
        "application/json",
        &map("a", &json!({"ok": "no"})),
    );
    assert_eq!(code, 201);
    assert_eq!(
        warnings,
        [
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: object.data.ok == 'yes'\""
        ]
    );
    let (code, _, warnings) = client.ask("POST", MAPS, "application/json", &map("b", &json!({})));
    assert_eq!((code, warnings.len()), (201, 0));
}

#[test]
fn parameters_and_selectors_narrow_a_policy() {
    let client = Client::with(
        &json!({"type": "object", "properties": {"max": {"type": "integer"}}}),
        &json!({}),
    );
    let spec = json!({
        "paramKind": {"apiVersion": "a.io/v1", "kind": "X"},
        "validations": [{"expression": "object == null || size(object.data) <= params.spec.max"}],
    });
    let binding = json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"},
        "matchResources": {"objectSelector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]}}});
    bind(&client, &spec, &binding);
    assert_eq!(client.send("POST", MAPS, &map("a", &json!({}))).0, 422);
    client.send("POST", XS, &x("limits", &json!({"max": 1})));
    assert_eq!(
        client.send("POST", MAPS, &map("a", &json!({"a": "1"}))).0,
        201
    );
    assert_eq!(
        client
            .send("POST", MAPS, &map("b", &json!({"a": "1", "b": "2"})))
            .0,
        422
    );
    let mut free = map("c", &json!({"a": "1", "b": "2"}));
    free["metadata"]["labels"] = json!({"free": "1"});
    assert_eq!(client.send("POST", MAPS, &free).0, 201);
    assert_eq!(
        client.send("DELETE", &format!("{MAPS}/a"), &Value::Null).0,
        200
    );
}

#[test]
fn a_condition_that_is_false_counts_for_more_than_one_that_fails() {
    let client = Client::with(&json!({"type": "object"}), &json!({}));
    let spec = json!({
        "matchConditions": [{"name": "fails", "expression": "object.data.none == 'a'"},
            {"name": "decides", "expression": "object.metadata.name != 'a'"}],
        "validations": [{"expression": "true"}],
    });
    bind(&client, &spec, &json!({}));
    assert_eq!(client.send("POST", MAPS, &map("a", &json!({}))).0, 201);
    assert_eq!(client.send("POST", MAPS, &map("b", &json!({}))).0, 422);
}

#[test]
fn a_policy_about_one_version_is_asked_in_all_unless_it_says_exact() {
    for (policy, code) in [("Equivalent", 422), ("Exact", 201)] {
        let client = Client(FakeCluster::builder().build().unwrap());
        let version = |name: &str, storage: bool| {
            json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        };
        let versions = json!([version("v1", true), version("v2", false)]);
        assert_eq!(client.send("POST", CRDS, &crd("xs", "X", &versions)).0, 201);
        let spec = json!({
            "matchConstraints": {"matchPolicy": policy, "resourceRules": [{"apiGroups": ["a.io"],
                "apiVersions": ["v1"], "resources": ["xs"], "operations": ["CREATE"]}]},
            "validations": [{"expression": "object.apiVersion == 'a.io/v1' && request.kind.version == 'v1' && request.requestKind.version == 'v2' && object.metadata.name != 'a'",
                "messageExpression": "string(object.apiVersion)"}],
        });
        bind(&client, &spec, &json!({}));
        let x =
            |name: &str| json!({"apiVersion": "a.io/v2", "kind": "X", "metadata": {"name": name}});
        let path = "/apis/a.io/v2/xs";
        assert_eq!(client.send("POST", path, &x("a")).0, code, "{policy}");
        assert_eq!(client.send("POST", path, &x("b")).0, 201, "{policy}");
    }
}

#[test]
fn evictions_go_by_policies_and_budgets() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let client = Client::with(&json!({"type": "object"}), &json!({}));
    let spec = json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods/eviction"], "operations": ["CREATE"]}]},
        "validations": [{"expression": "request.kind.kind == 'Eviction' && request.name != 'kept'"}],
    });
    bind(&client, &spec, &json!({}));
    let evict = |name: &str| {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        client
            .send("POST", &format!("{PODS}/{name}/eviction"), &eviction)
            .0
    };
    for (name, phase) in [
        ("kept", "Running"),
        ("a", "Running"),
        ("b", "Running"),
        ("c", "Pending"),
    ] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "a", "image": "a"}]}});
        assert_eq!(client.send("POST", PODS, &pod).0, 201);
        let status = json!({"status": {"phase": phase}});
        assert_eq!(
            client.patch(&format!("{PODS}/{name}/status"), &status).0,
            200
        );
    }
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "p"}, "spec": {"minAvailable": 1, "selector": selector}});
    assert_eq!(client.send("POST", BUDGETS, &budget).0, 201);
    let status = json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 0,
        "expectedPods": 2, "observedGeneration": 1}});
    assert_eq!(client.patch(&format!("{BUDGETS}/p/status"), &status).0, 200);
    assert_eq!(evict("kept"), 422);
    assert_eq!(evict("a"), 201);
    assert_eq!(evict("b"), 429);
    assert_eq!(evict("c"), 201);
    let all = json!({"spec": {"selector": {"matchExpressions": null}}});
    assert_eq!(client.patch(&format!("{BUDGETS}/p"), &all).0, 200);
    assert_eq!(evict("b"), 429);
}

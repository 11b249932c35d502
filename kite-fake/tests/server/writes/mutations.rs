//! Admission policies that change what is written.

use serde_json::{Value, json};

use super::{APPLY, MAPS, MERGE, Server, Told};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

fn rules(resource: &str) -> Value {
    json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource],
        "operations": ["CREATE", "UPDATE"]}]})
}

fn applies(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patches(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn policy(name: &str, resource: &str, mutations: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "spec": {"matchConstraints": rules(resource),
        "reinvocationPolicy": "Never", "mutations": mutations}})
}

fn binding(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"policyName": name}})
}

fn put_in_force(server: &Server, policy: &Value) {
    server.post(POLICIES, policy).expect(201);
    let name = policy["metadata"]["name"].as_str().unwrap();
    server.post(BINDINGS, &binding(name)).expect(201);
}

fn make(server: &Server, name: &str, data: &Value) -> Told {
    server.post(MAPS, &json!({"metadata": {"name": name}, "data": data}))
}

#[test]
fn a_policy_applies_to_what_is_written() {
    let server = Server::new();
    let mutations = [
        applies(r#"Object{metadata: Object.metadata{labels: {"by": request.userInfo.username}}}"#),
        patches(
            r#"has(object.data) ? [JSONPatch{op: "add", path: "/data/" + jsonpatch.escapeKey("a-b"), value: object.metadata.labels.by}] : []"#,
        ),
    ];
    put_in_force(&server, &policy("mark", "configmaps", &mutations));
    let made = make(&server, "m", &json!({"a": "1"})).expect(201);
    assert_eq!(made.at("/metadata/labels/by"), "kubernetes-admin");
    assert_eq!(
        made.at("/data"),
        &json!({"a": "1", "a-b": "kubernetes-admin"})
    );
    // What a policy set is nobody's.
    let owned = made.at("/metadata/managedFields/0/fieldsV1");
    assert_eq!(owned, &json!({"f:data": {".": {}, "f:a": {}}}));
    // An update that takes it away gets it again.
    let at = format!("{MAPS}/m");
    let changed = server
        .patch(
            &at,
            MERGE,
            &json!({"metadata": {"labels": null}, "data": {"a-b": null}}),
        )
        .expect(200);
    assert_eq!(changed.at("/metadata/labels/by"), "kubernetes-admin");
    let applied = server
        .patch(
            &format!("{at}?fieldManager=x"),
            APPLY,
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "d"}}),
        )
        .expect(200);
    assert_eq!(applied.at("/data/a-b"), "kubernetes-admin");
    let secrets = "/api/v1/namespaces/default/secrets";
    let other = server
        .post(secrets, &json!({"metadata": {"name": "s"}}))
        .expect(201);
    assert!(other.at("/metadata/labels").is_null());
}

#[test]
fn what_a_policy_cannot_do_is_refused_unless_it_says_otherwise() {
    let server = Server::new();
    let refused = |name: &str, mutation: Value| {
        put_in_force(&server, &policy(name, "services", &[mutation]));
        let told = server.post(
            "/api/v1/namespaces/default/services",
            &json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        );
        server.delete(&format!("{BINDINGS}/{name}")).expect(200);
        assert_eq!(told.at("/reason"), "Invalid");
        let message = told.message().to_owned();
        let told = told.expect(403);
        let own = format!("policy '{name}' with binding '{name}' denied request: ");
        assert_eq!(told.at("/details/causes/0/message"), &message);
        message.strip_prefix(&own).unwrap().to_owned()
    };
    assert_eq!(
        refused(
            "a",
            applies(
                r#"Object{spec: Object.spec{selector: {"a": "b"}, loadBalancerSourceRanges: ["10.0.0.0/8"]}}"#
            )
        ),
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.loadBalancerSourceRanges, .spec.selector"
    );
    assert_eq!(
        refused("b", applies("Object{spec: Object.spec{nope: 1}}")),
        "error applying patch: failed to convert patch object to typed object: .spec.nope: field not declared in schema"
    );
    assert_eq!(
        refused("c", applies("Object{spec: Object.status{}}")),
        "type mismatch: unexpected type name \"Object.status\", expected \"Object.spec\", which matches field name path from root Object type"
    );
    assert_eq!(
        refused(
            "d",
            patches(r#"[JSONPatch{op: "remove", path: "/spec/x/y"}]"#)
        ),
        "JSON Patch: remove operation does not apply: doc is missing path: \"/spec/x/y\": missing value"
    );
    assert_eq!(
        refused(
            "e",
            applies("Object{metadata: Object.metadata{name: object.nope}}")
        ),
        "expression 'Object{metadata: Object.metadata{name: object.nope}}' resulted in error: no such key: nope"
    );
    let mut lenient = policy("f", "configmaps", &[applies("Object{kind: object.nope}")]);
    lenient["spec"]["failurePolicy"] = json!("Ignore");
    put_in_force(&server, &lenient);
    make(&server, "m", &json!({})).expect(201);
}

#[test]
fn a_policy_is_called_again_where_others_changed_something() {
    let server = Server::new();
    let label = |name: &str| {
        applies(&format!(
            "Object{{metadata: Object.metadata{{labels: {{\"{name}\": string(has(object.metadata.labels) ? size(object.metadata.labels) : 0)}}}}}}"
        ))
    };
    let mut first = policy("a", "configmaps", &[label("a")]);
    first["spec"]["reinvocationPolicy"] = json!("IfNeeded");
    put_in_force(&server, &first);
    put_in_force(&server, &policy("b", "configmaps", &[label("b")]));
    let made = make(&server, "m", &json!({})).expect(201);
    assert_eq!(made.at("/metadata/labels"), &json!({"a": "2", "b": "1"}));
}

#[test]
fn parameters_and_conditions_decide() {
    let server = Server::new();
    make(&server, "params", &json!({"team": "dev"})).expect(201);
    let mut limited = policy(
        "team",
        "configmaps",
        &[applies(
            "Object{metadata: Object.metadata{labels: {\"team\": variables.team}}}",
        )],
    );
    limited["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    limited["spec"]["variables"] = json!([{"name": "team", "expression": "params.data.team"}]);
    limited["spec"]["matchConditions"] =
        json!([{"name": "some", "expression": "object.metadata.name != 'params'"}]);
    server.post(POLICIES, &limited).expect(201);
    let mut bound = binding("team");
    bound["spec"]["paramRef"] = json!({"name": "params", "parameterNotFoundAction": "Deny"});
    server.post(BINDINGS, &bound).expect(201);
    let made = make(&server, "m", &json!({})).expect(201);
    assert_eq!(made.at("/metadata/labels"), &json!({"team": "dev"}));
    server.delete(&format!("{MAPS}/params")).expect(200);
    assert_eq!(
        make(&server, "n", &json!({})).expect(403).message(),
        "policy 'team' with binding 'team' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    );
}

#[test]
fn what_a_policy_may_say_is_checked() {
    let server = Server::new();
    let told = |spec: Value| {
        let body = json!({"metadata": {"name": "p"}, "spec": spec});
        let told = server.post(POLICIES, &body).expect(422);
        told.message().to_owned()
    };
    assert_eq!(
        told(json!({})),
        "MutatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: [spec.matchConstraints: Required value, spec.mutations: Required value: mutations must contain at least one item, spec.reinvocationPolicy: Required value]"
    );
    let mut deletes = rules("pods");
    deletes["resourceRules"][0]["operations"] = json!(["DELETE"]);
    assert!(told(json!({"matchConstraints": deletes, "reinvocationPolicy": "Never",
        "mutations": [applies("Object{}")]}))
    .ends_with("spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\""));
    let bad = json!({"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}});
    assert!(told(json!({"matchConstraints": rules("pods"), "reinvocationPolicy": "Never",
        "mutations": [bad]}))
    .ends_with("is invalid: [spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch, spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch]"));
    let other = told(
        json!({"matchConstraints": rules("pods"), "reinvocationPolicy": "Never",
        "mutations": [applies("Other{}")]}),
    );
    assert!(other.contains("spec.mutations[0].applyConfiguration.expression: Invalid value: \"Other{}\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'Other'"), "{other}");
    let told = server
        .post(BINDINGS, &json!({"metadata": {"name": "b"}, "spec": {}}))
        .expect(422);
    assert!(told.message().ends_with("spec.policyName: Required value"));
}

#[test]
fn what_would_not_be_changed_is_refused() {
    let server = Server::new();
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.post(pods, &pod).expect(201);
    put_in_force(&server, &policy("p", "pods/*", &[applies("Object{}")]));
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(
        server
            .post(&format!("{pods}/p/eviction"), &eviction)
            .expect(501)
            .message(),
        "the in-memory API server does not support MutatingAdmissionPolicy 'p' on pods/eviction"
    );
    server.delete(&format!("{pods}/p")).expect(200);
}

#[test]
fn a_policy_about_one_version_changes_what_is_written_in_another() {
    let server = Server::new();
    let mut old = policy(
        "old",
        "horizontalpodautoscalers",
        &[applies(
            "Object{spec: Object.spec{targetCPUUtilizationPercentage: 33}}",
        )],
    );
    let constraints = &mut old["spec"]["matchConstraints"];
    constraints["resourceRules"][0]["apiVersions"] = json!(["v1"]);
    put_in_force(&server, &old);
    let made = server
        .post(
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            &json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
        )
        .expect(201);
    let percent = "/spec/metrics/0/resource/target/averageUtilization";
    assert_eq!(made.at(percent), 33);
    assert_eq!(made.at("/apiVersion"), "autoscaling/v2");
}

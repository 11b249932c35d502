//! Without the feature `cel`, what needs it is refused, and says so.
#![cfg(not(feature = "cel"))]
#![allow(clippy::unwrap_used)]

use kite_fake::FakeCluster;
use serde_json::json;

fn kettles(rules: serde_json::Value) -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kettles.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "kettles", "kind": "Kettle"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {
                        "type": "object",
                        "properties": {"litres": {"type": "integer"}},
                        "x-kubernetes-validations": rules,
                    }},
                }},
            }],
        },
    })
}

#[test]
fn definitions_that_have_rules_are_refused() {
    let cluster = FakeCluster::builder().build().unwrap();
    let rules = json!([{"rule": "self.litres > 0"}]);
    let refused = cluster.create(kettles(rules)).unwrap_err().to_string();
    assert!(
        refused.contains("x-kubernetes-validations[0].rule") && refused.contains("`cel`"),
        "{refused}"
    );
    cluster.create(kettles(json!([]))).unwrap();
}

#[test]
fn what_a_policy_is_about_is_refused() {
    let cluster = FakeCluster::builder().build().unwrap();
    let group = "admissionregistration.k8s.io/v1";
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"],
    });
    let policy = json!({
        "apiVersion": group, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-maps"},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "true"}],
        },
    });
    let binding = json!({
        "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-maps"},
        "spec": {"policyName": "no-maps", "validationActions": ["Deny"]},
    });
    cluster.create(policy).unwrap();
    cluster.create(binding).unwrap();
    let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
    let refused = cluster.create(object("ConfigMap")).unwrap_err().to_string();
    assert!(refused.contains("`cel`"), "{refused}");
    cluster.create(object("ServiceAccount")).unwrap();
}

#[test]
fn what_a_webhook_may_be_about_is_refused() {
    let cluster = FakeCluster::builder().build().unwrap();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "maps"},
        "webhooks": [{
            "name": "maps.example.com",
            "clientConfig": {"url": "https://maps.example.com/"},
            "failurePolicy": "Ignore",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}],
            "matchConditions": [{"name": "never", "expression": "false"}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    });
    cluster.create(configuration).unwrap();
    let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
    let refused = cluster.create(object("ConfigMap")).unwrap_err().to_string();
    assert!(refused.contains("`cel`"), "{refused}");
    cluster.create(object("ServiceAccount")).unwrap();
}

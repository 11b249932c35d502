//! A built-in kind in two versions: `autoscaling/v1` beside `autoscaling/v2`.

use serde_json::{Value, json};

use super::{APPLY, JSON, MERGE, Server};

fn at(version: &str, below: &str) -> String {
    format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers{below}")
}

fn autoscaler(version: &str, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": format!("autoscaling/{version}"),
        "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    for (member, value) in spec.as_object().unwrap() {
        object["spec"][member] = value.clone();
    }
    object
}

fn percent(percent: i64) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}}])
}

#[test]
fn both_versions_are_the_same_object() {
    let server = Server::new();
    let made = server
        .post(&at("v1", ""), &autoscaler("v1", &json!({})))
        .expect(201);
    assert_eq!(made.at("/spec/targetCPUUtilizationPercentage"), 80);
    let same = server.get(&at("v2", "/h")).expect(200);
    assert_eq!(same.at("/spec/metrics"), &percent(80));
    assert_eq!(same.at("/metadata/uid"), made.at("/metadata/uid"));
    // What is changed in the one is changed in the other.
    server
        .patch(
            &at("v2", "/h"),
            MERGE,
            &json!({"spec": {"metrics": percent(60)}}),
        )
        .expect(200);
    let listed = server.get(&at("v1", "")).expect(200);
    assert_eq!(listed.at("/kind"), "HorizontalPodAutoscalerList");
    assert_eq!(
        listed.at("/items/0/spec/targetCPUUtilizationPercentage"),
        60
    );
    let group = server.get("/apis/autoscaling").expect(200);
    assert_eq!(group.at("/preferredVersion/version"), "v2");
    let kinds = server.get("/apis/autoscaling/v1").expect(200);
    assert_eq!(kinds.at("/resources/0/name"), "horizontalpodautoscalers");
    assert_eq!(
        kinds.at("/resources/1/name"),
        "horizontalpodautoscalers/status"
    );
}

#[test]
fn a_dry_run_in_the_other_version_says_what_would_be() {
    let server = Server::new();
    let tried = server
        .post(
            &format!("{}?dryRun=All", at("v1", "")),
            &autoscaler("v1", &json!({})),
        )
        .expect(201);
    assert_eq!(tried.at("/spec/targetCPUUtilizationPercentage"), 80);
    assert_eq!(tried.at("/apiVersion"), "autoscaling/v1");
    server.get(&at("v1", "/h")).expect(404);
}

#[test]
fn the_other_version_is_checked_by_the_rules_of_the_stored_one() {
    let server = Server::new();
    let told = server
        .post(&at("v1", ""), &autoscaler("v1", &json!({"maxReplicas": 0})))
        .expect(422);
    assert_eq!(
        told.message(),
        "HorizontalPodAutoscaler.autoscaling \"h\" is invalid: [spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`, spec.maxReplicas: Required value: must be set and greater than 0]"
    );
}

#[test]
fn a_status_is_changed_on_its_own_path_alone() {
    let server = Server::new();
    server
        .post(&at("v2", ""), &autoscaler("v2", &json!({})))
        .expect(201);
    let conditions = json!([{"type": "AbleToScale", "status": "True", "reason": "r"}]);
    let status = json!({"status": {"desiredReplicas": 2, "conditions": conditions}});
    server
        .patch(&at("v2", "/h/status"), MERGE, &status)
        .expect(200);
    // Who writes without the annotations loses nothing of it, nor does who makes some up.
    let key = "autoscaling.alpha.kubernetes.io/conditions";
    let known = server.get(&at("v1", "/h")).expect(200);
    assert!(known.at("/metadata/annotations")[key].is_string());
    for annotations in [json!({}), json!({key: "[]"})] {
        let mut other = autoscaler("v1", &json!({"minReplicas": 2}));
        other["metadata"]["annotations"] = annotations;
        server
            .send("PUT", &at("v1", "/h"), JSON, other.to_string())
            .expect(200);
        let kept = server.get(&at("v2", "/h")).expect(200);
        assert_eq!(kept.at("/status/conditions/0/reason"), "r");
        assert_eq!(kept.at("/spec/minReplicas"), 2);
        assert!(kept.at("/metadata/annotations").is_null());
    }
    let scaled = json!({"status": {"currentCPUUtilizationPercentage": 30, "currentReplicas": 1}});
    server
        .patch(&at("v1", "/h/status"), MERGE, &scaled)
        .expect(200);
    let kept = server.get(&at("v2", "/h")).expect(200);
    let resource = "/status/currentMetrics/0/resource";
    assert_eq!(
        kept.at(&format!("{resource}/current/averageUtilization")),
        30
    );
}

#[test]
fn a_manager_owns_fields_of_the_version_that_it_used() {
    let server = Server::new();
    let of = |version: &str, manager: &str| at(version, &format!("/h?fieldManager={manager}"));
    let first = autoscaler("v1", &json!({"targetCPUUtilizationPercentage": 50}));
    server.patch(&of("v1", "one"), APPLY, &first).expect(201);
    // Another version, the same field.
    let told = server
        .patch(
            &of("v2", "two"),
            APPLY,
            &autoscaler("v2", &json!({"metrics": percent(70)})),
        )
        .expect(409);
    assert_eq!(
        told.message(),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.targetCPUUtilizationPercentage"
    );
    // Whose change takes a field away from who has it in another version.
    let changed = server
        .patch(
            &of("v2", "three"),
            MERGE,
            &json!({"spec": {"metrics": percent(90)}}),
        )
        .expect(200);
    let entries = changed.at("/metadata/managedFields").as_array().unwrap();
    let one = entries.iter().find(|e| e["manager"] == "one").unwrap();
    assert_eq!(one["apiVersion"], "autoscaling/v1");
    assert!(one["fieldsV1"]["f:spec"]["f:targetCPUUtilizationPercentage"].is_null());
    // What it leaves out goes in the version in which it had it.
    let mut more = autoscaler("v1", &json!({}));
    more["metadata"]["labels"] = json!({"a": "b"});
    server
        .patch(&format!("{}&force=true", of("v1", "four")), APPLY, &more)
        .expect(200);
    let left = server
        .patch(&of("v2", "four"), APPLY, &autoscaler("v2", &json!({})))
        .expect(200);
    assert!(left.at("/metadata/labels").is_null());
    assert_eq!(left.at("/spec/metrics"), &percent(90));
}

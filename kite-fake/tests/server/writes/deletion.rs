//! Deletions.

use serde_json::json;

use super::{JSON, MAPS, MERGE, Server};

#[test]
fn the_code_tells_who_cascades_that_the_object_waits() {
    let server = Server::new();
    let path = server.map("a", &json!({}));
    server
        .patch(
            &path,
            MERGE,
            &json!({"metadata": {"finalizers": ["x.io/y"]}}),
        )
        .expect(200);
    server
        .delete(&format!("{path}?orphanDependents=false"))
        .expect(202);
    server
        .patch(&path, MERGE, &json!({"metadata": {"finalizers": null}}))
        .expect(200);
    let gone = server.map("b", &json!({}));
    server
        .delete(&format!("{gone}?orphanDependents=false"))
        .expect(200);
}

#[test]
fn jobs_and_replication_controllers_let_their_pods_go() {
    let server = Server::new();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": template}})
    };
    server.post(jobs, &job("a")).expect(201);
    let told = server.delete(&format!("{jobs}/a")).expect(200);
    assert_eq!(told.at("/metadata/finalizers"), &json!(["orphan"]));
    assert!(told.warnings[0].contains("child pods are preserved by default"));
    server.post(jobs, &job("b")).expect(201);
    let told = server
        .delete(&format!("{jobs}/b?propagationPolicy=Background"))
        .expect(200);
    assert_eq!(
        (told.at("/status"), told.warnings.len()),
        (&json!("Success"), 0)
    );
}

#[test]
fn options_are_checked() {
    let server = Server::new();
    let path = server.map("a", &json!({}));
    let told = server
        .delete(&format!("{path}?propagationPolicy="))
        .expect(422);
    assert!(
        told.message()
            .contains("propagationPolicy: Unsupported value: \"\"")
    );
    let told = server
        .delete(&format!("{path}?gracePeriodSeconds=soon"))
        .expect(400);
    assert_eq!(
        told.message(),
        "strconv.ParseInt: parsing \"soon\": invalid syntax"
    );
    let told = server.delete(&format!("{path}?dryRun=")).expect(422);
    assert!(
        told.message().contains("dryRun: Unsupported value: [\"\"]"),
        "{}",
        told.message()
    );
    server
        .send("DELETE", &path, JSON, "{\"gracePeriodSeconds\": \"1\"}")
        .expect(400);
    server
        .send("DELETE", &path, JSON, "{\"dryRun\": \"All\"}")
        .expect(400);
    server
        .send("DELETE", MAPS, JSON, "{\"propagationPolicy\": 1}")
        .expect(400);
    server.get(&path).expect(200);
}

#[test]
fn the_policy_exchanges_the_finalizers_of_the_collector() {
    let server = Server::new();
    let path = server.map("a", &json!({}));
    server
        .patch(
            &path,
            MERGE,
            &json!({"metadata": {"finalizers": ["foregroundDeletion", "x.io/y"]}}),
        )
        .expect(200);
    let told = server
        .delete(&format!("{path}?propagationPolicy=Foreground"))
        .expect(200);
    assert_eq!(
        told.at("/metadata/finalizers"),
        &json!(["foregroundDeletion", "x.io/y"])
    );
    let told = server
        .delete(&format!("{path}?propagationPolicy=Orphan"))
        .expect(200);
    assert_eq!(
        told.at("/metadata/finalizers"),
        &json!(["x.io/y", "orphan"])
    );
    let told = server
        .delete(&format!("{path}?propagationPolicy=Background"))
        .expect(200);
    assert_eq!(told.at("/metadata/finalizers"), &json!(["x.io/y"]));
}

//! `metadata` in creates and updates.

use serde_json::json;

use super::{APPLY, MAPS, MERGE, Server};

#[test]
fn a_generated_name_that_is_taken_is_told_otherwise() {
    let server = Server::new();
    server.map("a", &json!({}));
    let told = server
        .post(
            MAPS,
            &json!({"metadata": {"name": "a", "generateName": "g-"}}),
        )
        .expect(409);
    assert_eq!(
        told.message(),
        "configmaps \"a\" already exists, the server was not able to generate a unique name for the object"
    );
    assert_eq!(told.at("/details/retryAfterSeconds"), &json!(1));
    assert_eq!(told.retry_after.as_deref(), Some("1"));
}

#[test]
fn owners_are_kept_once() {
    let server = Server::new();
    let owner = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name,
        "uid": "11111111-1111-1111-1111-111111111111"})
    };
    let both = json!([owner("a"), owner("b"), owner("a")]);
    let told = server
        .post(
            MAPS,
            &json!({"metadata": {"name": "a", "ownerReferences": both}}),
        )
        .expect(201);
    assert_eq!(
        told.at("/metadata/ownerReferences"),
        &json!([owner("a"), owner("b")])
    );
    assert_eq!(
        told.warnings,
        [
            "299 - \".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: [11111111-1111-1111-1111-111111111111]\""
        ]
    );
    let told = server
        .patch(
            &format!("{MAPS}/a"),
            MERGE,
            &json!({"metadata": {"ownerReferences": [owner("a"), owner("a")]}}),
        )
        .expect(200);
    assert!(told.warnings[0].contains("duplicate entries after mutating admission happens;"));
}

#[test]
fn an_update_neither_sets_nor_takes_back_a_deletion() {
    let server = Server::new();
    let path = server.map("a", &json!({}));
    let told = server
        .put(
            &path,
            &json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        )
        .expect(422);
    assert_eq!(
        told.message(),
        "ConfigMap \"a\" is invalid: metadata.deletionTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable"
    );
    server
        .patch(
            &path,
            MERGE,
            &json!({"metadata": {"finalizers": ["x.io/y"]}}),
        )
        .expect(200);
    let deleted = server.delete(&path).expect(200);
    let told = server
        .put(
            &path,
            &json!({"metadata": {"name": "a", "finalizers": ["x.io/y"],
            "deletionTimestamp": "2026-01-01T00:00:00Z"}, "data": {"k": "v"}}),
        )
        .expect(200);
    assert_eq!(
        told.at("/metadata/deletionTimestamp"),
        deleted.at("/metadata/deletionTimestamp")
    );
    let told = server
        .patch(
            &path,
            MERGE,
            &json!({"metadata": {"finalizers": ["x.io/z", "x.io/y", "x.io/a"]}}),
        )
        .expect(422);
    assert!(told.message().ends_with("[]string{\"x.io/a\", \"x.io/z\"}"));
}

#[test]
fn a_namespace_in_a_cluster_scoped_object_does_not_count() {
    let server = Server::new();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    server
        .post(classes, &json!({"metadata": {"name": "p"}, "value": 1}))
        .expect(201);
    let told = server
        .put(
            &format!("{classes}/p"),
            &json!({"metadata": {"name": "p", "namespace": "x"}, "value": 1, "description": "d"}),
        )
        .expect(200);
    assert_eq!(told.at("/metadata/namespace"), &json!(null));
}

#[test]
fn names_of_managers_are_printable_and_short() {
    let server = Server::new();
    let told = server
        .patch(
            &format!("{MAPS}/a?fieldManager=a%0Ab%C2%A0&force=x&dryRun=no"),
            MERGE,
            &json!({}),
        )
        .expect(422);
    let causes = told.at("/details/causes").as_array().unwrap();
    let messages: Vec<&str> = causes
        .iter()
        .filter_map(|c| c["message"].as_str())
        .collect();
    assert_eq!(
        messages[..3],
        [
            "Forbidden: may not be specified for non-apply patch",
            "Unsupported value: [\"no\"]: supported values: \"All\"",
            "Invalid value: \"a\\nb\u{a0}\": invalid character U+000A (at position 1)",
        ]
    );
    let told = server
        .patch(
            &format!("{MAPS}/a?dryRun=no"),
            APPLY,
            &json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        )
        .expect(422);
    assert_eq!(
        told.at("/details/causes/0/message"),
        &json!("Required value: is required for apply patch")
    );
}

#[test]
fn managed_fields_of_a_client_are_checked() {
    let server = Server::new();
    let entry = |manager: &str| {
        json!({"manager": manager, "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:other": {}}}})
    };
    let map = |name: &str, entries| {
        json!({"metadata": {"name": name, "managedFields": entries},
        "data": {"k": "v"}})
    };
    let told = server
        .post(MAPS, &map("a", json!([entry(&"m".repeat(129))])))
        .expect(422);
    assert_eq!(
        told.message(),
        "ConfigMap \"a\" is invalid: metadata.managedFields[0].manager: Too long: may not be more than 128 bytes"
    );
    // What cannot be read is as if it were not there.
    let told = server
        .post(MAPS, &map("b", json!([{"manager": "m"}])))
        .expect(201);
    assert_eq!(
        told.at("/metadata/managedFields/0/manager"),
        &json!("writes")
    );
}

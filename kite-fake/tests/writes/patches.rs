//! The patch formats besides apply.

use serde_json::json;

use super::{JSON_PATCH, MERGE, STRATEGIC, Server};

#[test]
fn what_is_strange_in_operations_is_told() {
    let server = Server::new();
    let path = server.map("a", &json!({"k": "v"}));
    let odd = "[{\"op\": \"add\", \"path\": \"/data/x\", \"value\": \"1\", \"why\": 1, \"path\": \"/data/y\"}]";
    let told = server.send("PATCH", &path, JSON_PATCH, odd).expect(200);
    assert_eq!(
        told.warnings,
        [
            "299 - \"json patch unknown field \\\"[0].why\\\"\"",
            "299 - \"json patch duplicate field \\\"[0].path\\\"\""
        ]
    );
    assert_eq!(told.at("/data"), &json!({"k": "v", "y": "1"}));
    let told = server
        .send(
            "PATCH",
            &format!("{path}?fieldValidation=Strict"),
            JSON_PATCH,
            odd,
        )
        .expect(422);
    assert!(told.message().ends_with(
        "strict decoding error: json patch unknown field \"[0].why\", json patch duplicate field \"[0].path\""
    ));
    let told = server
        .send(
            "PATCH",
            &format!("{path}?fieldValidation=Ignore"),
            JSON_PATCH,
            odd,
        )
        .expect(200);
    assert!(told.warnings.is_empty());
}

#[test]
fn lists_of_a_merge_patch_keep_nulls_and_lose_null_members() {
    let server = Server::new();
    let path = server.map("a", &json!({"k": "v"}));
    let told = server
        .patch(
            &path,
            MERGE,
            &json!({"metadata": {"annotations": {"a": null, "b": "1"}}}),
        )
        .expect(200);
    assert_eq!(told.at("/metadata/annotations"), &json!({"b": "1"}));
}

#[test]
fn malformed_directives_are_the_clients_fault_or_the_servers() {
    let server = Server::new();
    let path = server.map("a", &json!({"k": "v"}));
    for (patch, code, message) in [
        (
            json!({"data": {"$retainKeys": ["k"], "x": "1"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"data": {"$patch": "keep"}}),
            500,
            "unknown patch type: keep in map: map[$patch:keep]",
        ),
        (
            json!({"$setElementOrder": []}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!([]),
            400,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ] {
        let told = server.patch(&path, STRATEGIC, &patch).expect(code);
        assert_eq!(told.message(), message, "{patch}");
    }
    let told = server
        .patch(
            &path,
            STRATEGIC,
            &json!({"data": {"$retainKeys": ["z"], "z": "1"}}),
        )
        .expect(200);
    assert_eq!(told.at("/data"), &json!({"z": "1"}));
}

//! The patch formats besides apply.

use serde_json::json;

use super::{APPLY, JSON_PATCH, MAPS, MERGE, STRATEGIC, Server};

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

#[test]
fn wrong_types_of_a_strategic_patch_are_told_in_the_converters_words() {
    let server = Server::new();
    let path = server.map("a", &json!({"k": "v"}));
    for (patch, shown, why) in [
        (
            json!({"data": {"k": 1}}),
            "map[data:map[k:1]]",
            "cannot convert int64 to string",
        ),
        (
            json!({"data": {"k": true}}),
            "map[data:map[k:true]]",
            "unrecognized type: string",
        ),
        (
            json!({"data": "x"}),
            "map[data:x]",
            "cannot restore map from string",
        ),
        (
            json!({"metadata": {"finalizers": "x"}}),
            "map[metadata:map[finalizers:x]]",
            "cannot restore slice from string",
        ),
        (
            json!({"metadata": 1}),
            "map[metadata:1]",
            "cannot restore struct from: int64",
        ),
    ] {
        let told = server.patch(&path, STRATEGIC, &patch).expect(422);
        assert_eq!(
            told.message(),
            format!(" \"\" is invalid: patch: Invalid value: \"{shown}\": {why}")
        );
    }
    let odd = json!({"zeta": 1, "alpha": 1});
    let told = server
        .patch(&format!("{path}?fieldValidation=Strict"), STRATEGIC, &odd)
        .expect(422);
    assert!(
        told.message()
            .ends_with("unknown field \"alpha\", unknown field \"zeta\"")
    );
}

#[test]
fn members_given_twice_in_yaml_are_told_by_line() {
    let server = Server::new();
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\ndata:\n  a: \"1\"\n  a: \"2\"\n";
    let told = server
        .send("POST", MAPS, "application/yaml", text)
        .expect(201);
    assert_eq!(told.at("/data"), &json!({"a": "2"}));
    assert_eq!(
        told.warnings,
        ["299 - \"line 6: key \\\"a\\\" already set in map\""]
    );
    let path = format!("{MAPS}/twice");
    let told = server
        .send(
            "PUT",
            &format!("{path}?fieldValidation=Strict"),
            "application/yaml",
            text,
        )
        .expect(400);
    assert_eq!(
        told.message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 6: key \"a\" already set in map"
    );
    let told = server
        .send(
            "PATCH",
            &format!("{path}?fieldManager=m&force=1"),
            APPLY,
            text,
        )
        .expect(200);
    assert_eq!(
        told.warnings,
        ["299 - \"line 6: key \\\"a\\\" already set in map\""]
    );
    let told = server
        .send(
            "PATCH",
            &format!("{path}?fieldManager=m&force=1&fieldValidation=Strict"),
            APPLY,
            text,
        )
        .expect(400);
    assert_eq!(
        told.message(),
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"a\" already set in map"
    );
}

#[test]
fn a_patch_does_not_change_the_type() {
    let server = Server::new();
    let path = server.map("a", &json!({"k": "v"}));
    let told = server
        .patch(&path, MERGE, &json!({"kind": "Secret"}))
        .expect(422);
    assert!(
        told.message()
            .ends_with("converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        "{}",
        told.message()
    );
    let told = server
        .patch(
            &path,
            STRATEGIC,
            &json!({"kind": "Secret", "apiVersion": "v2"}),
        )
        .expect(200);
    assert_eq!(told.at("/kind"), &json!("ConfigMap"));
}

#[test]
fn what_the_storage_does_not_take_is_refused() {
    let server = Server::new();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |bytes: usize| json!({"metadata": {"name": "p"}, "value": 1, "description": "x".repeat(bytes)});
    let told = server.post(classes, &class(1_600_000)).expect(500);
    assert_eq!(told.message(), "etcdserver: request is too large");
    let told = server.post(classes, &class(2_200_000)).expect(500);
    assert!(
        told.message()
            .starts_with("rpc error: code = ResourceExhausted")
    );
    server.post(classes, &class(1_500_000)).expect(201);
    let more = json!({"metadata": {"annotations": {"a": "x".repeat(100_000)}}});
    server
        .patch(&format!("{classes}/p"), MERGE, &more)
        .expect(500);
    server
        .patch(&format!("{classes}/p?dryRun=All"), MERGE, &more)
        .expect(200);
}

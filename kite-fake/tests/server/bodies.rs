//! What a body may be, kind by kind and encoding by encoding.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use kite_fake::FakeCluster;
use kite_fake::protobuf::{self, MEDIA_TYPE};
use serde_json::{Value, json};
use tower::ServiceExt as _;

async fn send(
    cluster: &FakeCluster,
    (method, path): (&str, &str),
    media: &str,
    body: impl Into<Bytes>,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .body(Full::new(body.into()))
        .unwrap();
    let (parts, body) = cluster
        .service()
        .oneshot(request)
        .await
        .unwrap()
        .into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (
        parts.status.as_u16(),
        serde_json::from_slice(&body).unwrap(),
    )
}

const YAML: &str = "application/yaml";
const JSON: &str = "application/json";

fn deployment(name: &str, replicas: &str) -> String {
    format!(
        r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "{name}"}}, "spec": {{
            "replicas": {replicas}, "selector": {{"matchLabels": {{"a": "b"}}}},
            "template": {{"metadata": {{"labels": {{"a": "b"}}}}, "spec": {{"containers": [{{"name": "c", "image": "x"}}]}}}}}}}}"#
    )
}

#[tokio::test]
async fn a_whole_number_with_a_point_is_one_in_yaml_alone() {
    let cluster = FakeCluster::builder().build().unwrap();
    let to = ("POST", "/apis/apps/v1/namespaces/default/deployments");
    let (code, refused) = send(&cluster, to, JSON, deployment("a", "3.0")).await;
    assert_eq!(code, 400);
    let told = |number: &str| {
        format!(
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal number {number} into Go struct field DeploymentSpec.spec.replicas of type int32"
        )
    };
    assert_eq!(refused["message"], told("3.0"));
    let (_, refused) = send(&cluster, to, JSON, deployment("a", "1e2")).await;
    assert_eq!(refused["message"], told("1e2"));
    for (name, text) in [
        ("b", deployment("b", "3.0")),
        ("c", "# YAML\n".to_owned() + &deployment("c", "3.0")),
    ] {
        let (code, made) = send(&cluster, to, YAML, text).await;
        assert_eq!(
            (code, &made["spec"]["replicas"]),
            (201, &json!(3)),
            "{name}"
        );
    }
    let (code, _) = send(&cluster, to, YAML, deployment("d", "3000000000")).await;
    assert_eq!(code, 400);
}

fn definition(schema: &Value) -> String {
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "zs.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "zs", "kind": "Z"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": status}}}}]}})
    .to_string()
}

#[tokio::test]
async fn a_schema_is_of_the_types_that_schemas_have() {
    let cluster = FakeCluster::builder().build().unwrap();
    let to = (
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    );
    let refused =
        json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": "5"}}});
    let (code, status) = send(&cluster, to, JSON, definition(&refused)).await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "CustomResourceDefinition in version \"v1\" cannot be handled as a CustomResourceDefinition: json: cannot unmarshal string into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.properties.maxLength of type int64"
    );
    let fine = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let (code, status) = send(&cluster, to, JSON, definition(&fine)).await;
    assert_eq!(code, 201, "{status}");

    // A Scale is a built-in kind, whatever is scaled.
    let zs = "/apis/example.com/v1/namespaces/default/zs";
    let z = json!({"apiVersion": "example.com/v1", "kind": "Z", "metadata": {"name": "z"}, "spec": {"replicas": 1}});
    assert_eq!(
        send(&cluster, ("POST", zs), JSON, z.to_string()).await.0,
        201
    );
    let at = format!("{zs}/z/scale");
    let (_, mut scale) = send(&cluster, ("GET", &at), JSON, "").await;
    scale["spec"]["replicas"] = json!(0);
    let body = protobuf::encode(&scale).unwrap();
    let (code, scaled) = send(&cluster, ("PUT", &at), MEDIA_TYPE, body).await;
    assert_eq!(code, 200, "{scaled}");
    let (_, z) = send(&cluster, ("GET", &format!("{zs}/z")), JSON, "").await;
    assert_eq!(z["spec"]["replicas"], 0);
}

fn pod(resources: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "x", "resources": resources}]}})
}

#[tokio::test]
async fn a_resize_changes_resources_and_nothing_else() {
    let cluster = FakeCluster::builder().build().unwrap();
    let pods = "/api/v1/namespaces/default/pods";
    let amounts = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    let (code, made) = send(&cluster, ("POST", pods), JSON, pod(&amounts).to_string()).await;
    assert_eq!(code, 201, "{made}");
    let resize = async |patch: Value| {
        let to = ("PATCH", "/api/v1/namespaces/default/pods/p/resize");
        let merge = "application/strategic-merge-patch+json";
        send(&cluster, to, merge, patch.to_string()).await
    };
    let wanted = json!({"requests": {"cpu": "200m"}});
    let (code, resized) = resize(json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "priority": 7, "containers": [{"name": "c", "image": "y", "resources": wanted}]}}))
    .await;
    assert_eq!(code, 200, "{resized}");
    let container = &resized["spec"]["containers"][0];
    assert_eq!(
        container["resources"]["requests"],
        json!({"cpu": "200m", "memory": "64Mi"})
    );
    assert_eq!(
        (&container["image"], resized["metadata"].get("labels")),
        (&json!("x"), None)
    );
    let entries = resized["metadata"]["managedFields"].as_array().unwrap();
    let owned: String = entries
        .iter()
        .filter(|it| it["subresource"] == "resize")
        .map(Value::to_string)
        .collect();
    assert!(
        owned.contains("f:resources") && !owned.contains("f:labels"),
        "{owned}"
    );
    let (code, refused) =
        resize(json!({"spec": {"containers": [{"name": "d", "image": "x"}]}})).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["message"],
        "Pod \"p\" is invalid: spec.containers: Forbidden: containers may not be added or removed on resize"
    );
}

/// What the server says of a `ConfigMap`'s body that it cannot read.
async fn complaint(media: &str, body: &[u8]) -> String {
    let cluster = FakeCluster::builder().build().unwrap();
    let to = ("POST", "/api/v1/namespaces/default/configmaps");
    let (code, refused) = send(&cluster, to, media, body.to_vec()).await;
    assert_eq!(
        (code, refused["reason"].as_str()),
        (400, Some("BadRequest"))
    );
    refused["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_cannot_be_read_is_told_in_the_words_of_go() {
    let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ";
    let open = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}"#;
    for (body, told) in [
        (
            open,
            "unexpected end of JSON input ({\"apiVersion\":\"v1\",\"kind\":\"Con ...)",
        ),
        (
            "hello",
            "invalid character 'h' looking for beginning of value (68656c6c6f)",
        ),
        ("", "unexpected end of JSON input (<empty>)"),
        (
            "[]",
            r#"json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)"#,
        ),
        (
            r#"{"kind":1}"#,
            r#"json: cannot unmarshal number into Go struct field .kind of type string ({"kind":1})"#,
        ),
    ] {
        let expected = format!("{start}{told}");
        assert_eq!(complaint(JSON, body.as_bytes()).await, expected);
    }
    let yaml = complaint(YAML, b"a: [").await;
    let start = "the object provided is unrecognized (must be of type ConfigMap): error converting YAML to JSON: yaml: ";
    assert!(yaml.starts_with(start), "{yaml}");
    let cluster = FakeCluster::builder().build().unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    send(&cluster, ("POST", maps), YAML, "metadata: {name: a}").await;
    let one = "/api/v1/namespaces/default/configmaps/a";
    let media = "application/merge-patch+json";
    let (_, refused) = send(&cluster, ("PATCH", one), media, "{\"data\":").await;
    let expected = "error decoding patch: unexpected end of JSON input";
    assert_eq!(refused["message"], expected);
}

#[tokio::test]
async fn what_is_no_unicode_is_replaced_and_of_documents_the_first_counts() {
    let cluster = FakeCluster::builder().build().unwrap();
    let to = ("POST", "/api/v1/namespaces/default/configmaps");
    let body = b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"a\":\"x\xffy\"}}";
    let (code, made) = send(&cluster, to, JSON, body.to_vec()).await;
    assert_eq!((code, &made["data"]), (201, &json!({"a": "x\u{fffd}y"})));
    let body = "metadata: {name: b}\n---\nmetadata: {name: c}\n";
    let (code, made) = send(&cluster, to, YAML, body).await;
    assert_eq!((code, made["metadata"]["name"].as_str()), (201, Some("b")));
}

//! Server-side apply.

use serde_json::json;

use super::{APPLY, MERGE, Server};

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

//! What is measured with: objects and requests.

use bytes::Bytes;
use http::Request;
use kite_fake::FakeCluster;
use kite_fake::auth::Identity;
use kite_fake::server::Answer;
use serde_json::{Value, json};

pub const ROOT: &str = "/api/v1/namespaces/default/configmaps";

/// Name of the i-th object.
pub fn name(i: usize) -> String {
    format!("m{i:05}")
}

/// An object that takes about 1.2 KB as stored: ten entries, labels, an owner.
pub fn object(i: usize) -> Value {
    let data: serde_json::Map<String, Value> = (0..10)
        .map(|n| (format!("key-{n}"), Value::from("0123456789".repeat(4))))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name(i),
            "namespace": "default",
            "labels": {"app": format!("a{}", i % 10), "tier": "web"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                "uid": "00000000-0000-4000-8000-000000000000"}],
        },
        "data": data,
    })
}

/// A request as the administrator.
pub fn request(method: &str, path: &str, body: Bytes) -> Request<Bytes> {
    let kind = match method {
        "PATCH" => "application/apply-patch+yaml",
        _ => "application/json",
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .header("user-agent", "bench/1.0")
        .extension(Identity::admin())
        .body(body)
        .unwrap()
}

/// Sends a request; the body of its answer, which must be a success.
pub fn send(cluster: &FakeCluster, method: &str, path: &str, body: Bytes) -> Bytes {
    answer(cluster, request(method, path, body))
}

/// Sends a request that is made already.
pub fn answer(cluster: &FakeCluster, request: Request<Bytes>) -> Bytes {
    match cluster.handle(request) {
        Answer::Response(response) => {
            let body = response.body().clone();
            assert!(response.status().is_success(), "{body:?}");
            body
        }
        other => panic!("{other:?}"),
    }
}

/// Applies an object.
pub fn apply(cluster: &FakeCluster, i: usize, body: Bytes) -> Bytes {
    let path = format!("{ROOT}/{}?fieldManager=bench&force=true", name(i));
    send(cluster, "PATCH", &path, body)
}

/// A cluster with so many objects, made by apply.
pub fn filled(count: usize) -> FakeCluster {
    let cluster = FakeCluster::builder().build().unwrap();
    for i in 0..count {
        apply(&cluster, i, object(i).to_string().into());
    }
    cluster
}

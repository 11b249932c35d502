//! What a client sees of writes: creates, updates, patches, applies and
//! deletions, request by request.

mod apply;
mod deletion;
mod metadata;
mod mutations;
mod patches;
mod versions;

use bytes::Bytes;
use http::Request;
use kite_fake::FakeCluster;
use kite_fake::server::Answer;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An answer.
#[derive(Debug)]
struct Told {
    code: u16,
    body: Value,
    warnings: Vec<String>,
    retry_after: Option<String>,
}

impl Told {
    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The same answer, if it has this code.
    #[track_caller]
    fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{:#}", self.body);
        self
    }

    fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }
}

struct Server(FakeCluster);

impl Server {
    fn new() -> Self {
        Self(FakeCluster::builder().build().unwrap())
    }

    fn send(&self, method: &str, path: &str, content_type: &str, body: impl AsRef<[u8]>) -> Told {
        let body = Bytes::copy_from_slice(body.as_ref());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", JSON)
            .header("user-agent", "writes/1.0");
        if !body.is_empty() {
            request = request.header("content-type", content_type);
        }
        let mut request = request.body(body).unwrap();
        request
            .extensions_mut()
            .insert(kite_fake::auth::Identity::admin());
        let Answer::Response(response) = self.0.handle(request) else {
            panic!("a whole response was expected");
        };
        let header = |name: &str| -> Vec<String> {
            let values = response.headers().get_all(name).iter();
            values.map(|v| v.to_str().unwrap().to_owned()).collect()
        };
        Told {
            code: response.status().as_u16(),
            warnings: header("warning"),
            retry_after: header("retry-after").pop(),
            body: serde_json::from_slice(response.body()).unwrap_or_default(),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Told {
        self.send("POST", path, JSON, body.to_string())
    }

    fn put(&self, path: &str, body: &Value) -> Told {
        self.send("PUT", path, JSON, body.to_string())
    }

    fn patch(&self, path: &str, format: &str, body: &Value) -> Told {
        self.send("PATCH", path, format, body.to_string())
    }

    fn delete(&self, path: &str) -> Told {
        self.send("DELETE", path, JSON, "")
    }

    fn get(&self, path: &str) -> Told {
        self.send("GET", path, JSON, "")
    }

    /// A `ConfigMap` in the default namespace.
    fn map(&self, name: &str, data: &Value) -> String {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}, "data": data});
        self.post(MAPS, &body).expect(201);
        format!("{MAPS}/{name}")
    }
}

//! Webhooks of the cluster: who is asked about a write, what they are shown, and what
//! becomes of what they say.

mod asked;
mod conversion;
#[cfg(feature = "webhooks")]
mod https;
mod mutating;
mod refusals;

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kite_fake::FakeCluster;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

/// An answer of the API server.
#[derive(Debug)]
struct Told {
    code: u16,
    body: Value,
    warnings: Vec<String>,
}

impl Told {
    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    #[track_caller]
    fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{:#}", self.body);
        self
    }
}

/// A cluster, and what webhooks in this process were asked.
struct World {
    cluster: FakeCluster,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl World {
    fn new() -> Self {
        Self {
            cluster: FakeCluster::builder().build().unwrap(),
            asked: Arc::default(),
        }
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: impl ToString) -> Told {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let response = self.cluster.service().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let warnings = parts.headers.get_all("warning").iter();
        Told {
            code: parts.status.as_u16(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            warnings: warnings.map(|w| w.to_str().unwrap().to_owned()).collect(),
        }
    }

    async fn post(&self, path: &str, body: Value) -> Told {
        self.send("POST", path, JSON, body).await
    }

    async fn put(&self, path: &str, body: Value) -> Told {
        self.send("PUT", path, JSON, body).await
    }

    async fn get(&self, path: &str) -> Told {
        self.send("GET", path, JSON, "").await
    }

    /// Writes a configuration of one webhook, named like it, that is asked about all of
    /// `ConfigMap`s at `https://<name>/`; `more` is merged into it.
    async fn configure(&self, plural: &str, name: &str, more: Value) {
        let kind = match plural {
            "mutatingwebhookconfigurations" => "MutatingWebhookConfiguration",
            _ => "ValidatingWebhookConfiguration",
        };
        let mut hook = json!({
            "name": name,
            "clientConfig": {"url": format!("https://{name}/")},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
                "resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1", "v1beta1"],
        });
        for (member, value) in more.as_object().into_iter().flatten() {
            hook[member] = value.clone();
        }
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}, "webhooks": [hook],
        });
        let path = format!("{CONFIGURATIONS}/{plural}");
        self.post(&path, configuration).await.expect(201);
    }

    async fn validate(&self, name: &str, more: Value) {
        self.configure("validatingwebhookconfigurations", name, more)
            .await;
    }

    async fn mutate(&self, name: &str, more: Value) {
        self.configure("mutatingwebhookconfigurations", name, more)
            .await;
    }

    /// Answers at `host` with what `answer` makes of the request of a review.
    fn answer(&self, host: &str, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) {
        self.reply(host, move |review| {
            let mut response = answer(&review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            Response::new(Full::new(Bytes::from(
                json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview",
                    "response": response})
                .to_string(),
            )))
        });
    }

    /// Answers at `host` with a response of any kind.
    fn reply(
        &self,
        host: &str,
        reply: impl Fn(&Value) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) {
        let (asked, reply, name) = (self.asked.clone(), Arc::new(reply), host.to_owned());
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            let (asked, reply, name) = (asked.clone(), reply.clone(), name.clone());
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let review: Value = serde_json::from_slice(&body).unwrap();
                let response = reply(&review);
                asked.lock().push((name, review["request"].clone()));
                Ok::<_, Infallible>(response)
            }
        });
        self.cluster.answer_webhooks(host, service);
    }

    /// Who was asked so far, in order; forgets it.
    fn who(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock());
        asked.into_iter().map(|(name, _)| name).collect()
    }

    /// The requests of the reviews so far; forgets them.
    fn requests(&self) -> Vec<Value> {
        let asked = std::mem::take(&mut *self.asked.lock());
        asked.into_iter().map(|(_, request)| request).collect()
    }
}

fn allowed() -> Value {
    json!({"allowed": true})
}

/// An answer with a patch.
fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch",
        "patch": STANDARD.encode(operations.to_string())})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

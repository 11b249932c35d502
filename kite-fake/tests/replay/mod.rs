//! Replays a transcript against a cluster, in process or over TLS.

pub mod compare;
pub mod normalise;
pub mod pointer;
mod wire;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kite_fake::FakeCluster;
use regex::Regex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use normalise::Normaliser;
use pointer::{ABSENT, blank, pointer};
use wire::Response;
pub use wire::Wire;

static VARIABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\{(\w+)\}").unwrap());

/// One exchange.
struct Raw {
    status: u16,
    content_type: String,
    warnings: Vec<String>,
    retry_after: Option<String>,
    text: String,
}

impl Raw {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| self.text.clone().into())
    }
}

pub struct Runner {
    cluster: FakeCluster,
    wire: Wire,
    variables: HashMap<String, Value>,
    normaliser: Normaliser,
}

fn substitute(value: &Value, variables: &HashMap<String, Value>) -> Value {
    let text = |s: &str| -> String {
        VARIABLE
            .replace_all(s, |c: &regex::Captures<'_>| match variables.get(&c[1]) {
                Some(Value::String(s)) => s.clone(),
                Some(other) => other.to_string(),
                None => format!("<never captured: {}>", &c[1]),
            })
            .into_owned()
    };
    match value {
        Value::String(s) => text(s).into(),
        Value::Array(list) => list.iter().map(|v| substitute(v, variables)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| (text(k), substitute(v, variables)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// JSON as Python writes it: the recorder's bodies are quoted in messages.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            // Recorded bodies begin with what every object has; the rest is sorted.
            let rank = |k: &str| {
                let first = ["apiVersion", "kind", "metadata"];
                first.iter().position(|f| *f == k).unwrap_or(first.len())
            };
            let mut map: Vec<_> = map.iter().collect();
            map.sort_by_key(|(k, _)| rank(k));
            let members: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{}: {}", Value::from(k.as_str()), spaced(v)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(list) => {
            let elements: Vec<String> = list.iter().map(spaced).collect();
            format!("[{}]", elements.join(", "))
        }
        other => other.to_string(),
    }
}

/// Who asked the recorded server.
const RECORDER: [(&str, &str); 3] = [
    ("Impersonate-User", "admin"),
    ("Impersonate-Uid", "1"),
    ("Impersonate-Group", "system:masters"),
];

impl Runner {
    pub fn new(cluster: FakeCluster, wire: Wire) -> Self {
        Self {
            cluster,
            wire,
            variables: HashMap::new(),
            normaliser: Normaliser::default(),
        }
    }

    /// Installs what a scenario starts from.
    pub async fn setup(&mut self, scenario: &Value) {
        let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
        for crd in list(&scenario["setup_crds"]) {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let raw = self
                .call(&json!({"method": "POST", "path": path, "body": crd}))
                .await;
            assert_eq!(raw.status, 201, "{}", raw.text);
        }
        for ns in list(&scenario["setup_namespaces"]) {
            let body = if ns.is_string() {
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}})
            } else {
                ns
            };
            let raw = self
                .call(&json!({"method": "POST", "path": "/api/v1/namespaces", "body": body}))
                .await;
            assert_eq!(raw.status, 201, "{}", raw.text);
        }
        // Controllers may have something to say to what was just created.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    fn request(&self, spec: &Value) -> Request<Full<Bytes>> {
        let text = |v: &Value, default: &str| v.as_str().unwrap_or(default).to_owned();
        let mut headers: Vec<(String, String)> = vec![
            ("User-Agent".into(), "transcripts/1.0".into()),
            ("Accept".into(), text(&spec["accept"], "application/json")),
            (
                "Authorization".into(),
                format!("Bearer {}", self.cluster.admin_token()),
            ),
        ];
        let body = match (spec["body_raw"].as_str(), spec.get("body")) {
            (Some(raw), _) => Some(raw.to_owned()),
            (None, Some(body)) => Some(spaced(body)),
            _ => None,
        };
        if body.is_some() || spec["content_type"].is_string() {
            headers.push((
                "Content-Type".into(),
                text(&spec["content_type"], "application/json"),
            ));
        }
        let own = |name: &str| {
            let mut given = spec["headers"].as_object().into_iter().flatten();
            given.any(|(n, _)| n.to_lowercase().starts_with(name))
        };
        if !own("authorization") && !own("impersonate") {
            headers.extend(RECORDER.map(|(name, value)| (name.into(), value.into())));
        }
        for (name, value) in spec["headers"].as_object().into_iter().flatten() {
            headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
            headers.push((name.clone(), text(value, "")));
        }
        let mut builder = Request::builder()
            .method(spec["method"].as_str().unwrap())
            .uri(
                text(&spec["path"], "/")
                    .replace(' ', "%20")
                    .replace('<', "%3C")
                    .replace('>', "%3E"),
            );
        for (name, value) in headers.iter().filter(|(_, v)| !v.is_empty()) {
            builder = builder.header(name, value);
        }
        builder
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .unwrap()
    }

    async fn open(&self, spec: &Value) -> Response {
        self.wire.send(&self.cluster, self.request(spec)).await
    }

    async fn call(&self, spec: &Value) -> Raw {
        let response = self.open(spec).await;
        Self::read(response).await
    }

    fn head(response: &Response) -> Raw {
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
        };
        Raw {
            status: response.status().as_u16(),
            content_type: header("content-type").unwrap_or_default(),
            warnings: response
                .headers()
                .get_all("warning")
                .iter()
                .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
                .collect(),
            retry_after: header("retry-after"),
            text: String::new(),
        }
    }

    async fn read(response: Response) -> Raw {
        let mut raw = Self::head(&response);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        raw.text = String::from_utf8_lossy(&bytes).into_owned();
        raw
    }

    fn capture(&mut self, step: &Value, document: &Value) {
        for (name, at) in step["capture"].as_object().into_iter().flatten() {
            let found = pointer(document, at.as_str().unwrap());
            self.variables.insert(name.clone(), found);
        }
    }

    /// Runs one step and gives it in its recorded form.
    pub async fn step(&mut self, step: &Value) -> Value {
        if step.get("action").is_some() {
            self.cluster.server().compact();
            return step.clone();
        }
        if step.get("watch").is_some() {
            return self.watch(step).await;
        }
        let request = substitute(&step["request"], &self.variables);
        let wait = step.get("wait_until");
        let seconds = wait.map_or(30, |w| w["timeout"].as_u64().unwrap_or(30));
        let end = Instant::now() + Duration::from_secs(seconds);
        let raw = loop {
            let raw = self.call(&request).await;
            let done = wait.is_none_or(|w| condition(w, raw.status, &raw.json()));
            if done || Instant::now() > end {
                break raw;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        };
        self.capture(step, &raw.json());
        self.finish(step, &request, &raw)
    }

    fn finish(&mut self, step: &Value, request: &Value, raw: &Raw) -> Value {
        let mut body: Value = raw.text.clone().into();
        if !raw.text.is_empty() {
            body = raw.json();
            self.normaliser.generated(request, &body);
            body = self.shape(step, &body);
        }
        let mut response =
            json!({"status": raw.status, "content_type": raw.content_type, "body": body});
        if !raw.warnings.is_empty() {
            response["warnings"] = raw
                .warnings
                .iter()
                .map(|w| self.normaliser.text(w))
                .collect();
        }
        if let Some(after) = &raw.retry_after {
            response["retry_after"] = after.as_str().into();
        }
        json!({"response": response})
    }

    fn shape(&mut self, step: &Value, body: &Value) -> Value {
        let failed = body["kind"] == "Status" && body["status"] == "Failure";
        let mut out = match step.get("select").and_then(Value::as_array) {
            Some(select) if !failed => {
                let mut out = Map::new();
                let list = body.get("items").is_some() || body.get("rows").is_some();
                for at in select.iter().filter_map(Value::as_str) {
                    let found = pointer(body, at);
                    let new = if list && at == "/metadata/resourceVersion" {
                        "<rv:*>".into()
                    } else if found == ABSENT {
                        found
                    } else {
                        let tail = at.rsplit('/').next().unwrap().to_owned();
                        let wrapped = json!({ tail.clone(): found });
                        let new = self.normaliser.apply(&wrapped);
                        new[self.normaliser.text(&tail)].clone()
                    };
                    out.insert(at.to_owned(), new);
                }
                Value::Object(out)
            }
            _ => self.normaliser.apply(body),
        };
        for at in step["ignore"].as_array().into_iter().flatten() {
            blank(&mut out, at.as_str().unwrap());
        }
        out
    }

    async fn watch(&mut self, step: &Value) -> Value {
        let request = substitute(&step["request"], &self.variables);
        let spec = &step["watch"];
        let response = self.open(&request).await;
        if response.status() != 200 {
            let raw = Self::read(response).await;
            self.capture(step, &json!({"events": []}));
            let mut out = self.finish(step, &request, &raw);
            out["watch"] = json!({"events": []});
            return out;
        }
        let mut raw = Self::head(&response);
        let during: Vec<Value> = spec["during"].as_array().cloned().unwrap_or_default();
        let mut inner = Vec::new();
        for sub in &during {
            if let Some(delay) = sub["delay_s"].as_f64() {
                tokio::time::sleep(Duration::from_secs_f64(delay)).await;
            }
            let request = substitute(&sub["request"], &self.variables);
            let raw = self.call(&request).await;
            self.capture(sub, &raw.json());
            inner.push((request, raw));
        }
        let seconds = spec["timeout"].as_f64().unwrap_or(10.0);
        let (events, plain) = read_events(response, spec, Duration::from_secs_f64(seconds)).await;
        self.capture(step, &json!({"events": events}));
        let finished: Vec<Value> = during
            .iter()
            .zip(&inner)
            .map(|(sub, (request, raw))| {
                let body = self.shape(sub, &raw.json());
                let _ = request;
                let mut response =
                    json!({"status": raw.status, "content_type": raw.content_type, "body": body});
                if !raw.warnings.is_empty() {
                    response["warnings"] = raw
                        .warnings
                        .iter()
                        .map(|w| self.normaliser.text(w))
                        .collect();
                }
                json!({"id": sub["id"], "response": response})
            })
            .collect();
        if let Some(text) = plain {
            raw.text = text;
            let mut out = self.finish(step, &request, &raw);
            out["watch"] = json!({"during": finished, "events": []});
            return out;
        }
        let mut normal: Vec<Value> = events.iter().map(|e| self.normaliser.event(e)).collect();
        for at in step["ignore"].as_array().into_iter().flatten() {
            for event in &mut normal {
                blank(event, at.as_str().unwrap());
            }
        }
        json!({
            "response": {"status": raw.status, "content_type": raw.content_type, "body": null},
            "watch": {"during": finished, "events": normal},
        })
    }
}

/// Reads events until the stream ends or the step has seen enough; an answer
/// that is no stream comes back as text.
async fn read_events(
    response: Response,
    spec: &Value,
    timeout: Duration,
) -> (Vec<Value>, Option<String>) {
    let end = Instant::now() + timeout;
    let wanted = spec["stop_after"].as_u64().unwrap_or(u64::MAX);
    let stop_on = spec["stop_on"].as_str();
    let mut body = response.into_body();
    let (mut events, mut rest) = (Vec::new(), String::new());
    'read: loop {
        while let Some((line, after)) = rest.split_once('\n') {
            let (line, after) = (line.to_owned(), after.to_owned());
            rest = after;
            if line.trim().is_empty() {
                continue;
            }
            let event: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
            let last = event["type"].as_str() == stop_on && stop_on.is_some();
            events.push(event);
            if last || events.len() as u64 >= wanted {
                break 'read;
            }
        }
        match tokio::time::timeout_at(end, body.frame()).await {
            Ok(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    rest.push_str(&String::from_utf8_lossy(&bytes));
                }
            }
            _ => break,
        }
    }
    if events.is_empty() && !rest.trim().is_empty() {
        return (events, Some(rest));
    }
    match events.as_slice() {
        [only] if only.get("object").is_none() => {
            let text = only.to_string();
            (Vec::new(), Some(text))
        }
        _ => (events, None),
    }
}

fn condition(wait: &Value, status: u16, body: &Value) -> bool {
    if wait["status"]
        .as_u64()
        .is_some_and(|s| s != u64::from(status))
    {
        return false;
    }
    let Some(at) = wait["pointer"].as_str() else {
        return true;
    };
    let found = pointer(body, at);
    wait.get("equals").is_none_or(|e| *e == found)
        && wait.get("not_equals").is_none_or(|e| *e != found)
        && wait
            .get("exists")
            .and_then(Value::as_bool)
            .is_none_or(|e| e == (found != ABSENT))
}

//! Where a check builds: a client, names of its own, and what was made, to be
//! removed again.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::response::Parts;
use http::{Method, Request, header};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::answer::{Answer, Failure};
use super::watching::Watching;

/// How long something may take that a controller does.
const PATIENCE: Duration = Duration::from_secs(45);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// What a check made.
#[derive(Debug, Default)]
struct Made {
    count: usize,
    namespaces: Vec<String>,
    /// Names of CRDs, with the path of all their objects.
    definitions: Vec<(String, String)>,
    others: Vec<String>,
}

/// See the [module documentation](self). Clones share what was made.
#[derive(Clone)]
pub(super) struct Site {
    client: Client,
    prefix: String,
    headers: Vec<(&'static str, String)>,
    made: Arc<Mutex<Made>>,
}

/// A served custom resource.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) kind: String,
}

impl Definition {
    /// The name of the CRD.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Path of the CRD.
    pub(super) fn path(&self) -> String {
        format!("{DEFINITIONS}/{}", self.name())
    }

    /// Path of the objects of a namespace, in version `v1`.
    pub(super) fn within(&self, namespace: &str) -> String {
        self.version_within("v1", namespace)
    }

    pub(super) fn version_within(&self, version: &str, namespace: &str) -> String {
        let (group, plural) = (&self.group, &self.plural);
        format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}")
    }

    /// An object in version `v1`.
    pub(super) fn object(&self, name: &str, spec: &Value) -> Value {
        let api = format!("{}/v1", self.group);
        json!({"apiVersion": api, "kind": self.kind, "metadata": {"name": name}, "spec": spec})
    }
}

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

impl Site {
    pub(super) fn new(client: Client, prefix: &str) -> Self {
        Self {
            client,
            prefix: prefix.to_owned(),
            headers: Vec::new(),
            made: Arc::default(),
        }
    }

    /// The same, with one more header on every request.
    pub(super) fn with_header(&self, name: &'static str, value: &str) -> Self {
        let mut site = self.clone();
        site.headers.retain(|(known, _)| *known != name);
        site.headers.push((name, value.to_owned()));
        site
    }

    /// The same as another user, by impersonation.
    pub(super) fn as_user(&self, user: &str) -> Self {
        self.with_header("impersonate-user", user)
    }

    /// The same, asking for another media type.
    pub(super) fn accepting(&self, media: &str) -> Self {
        self.with_header("accept", media)
    }

    /// A name that nobody else uses.
    pub(super) fn unique(&self) -> String {
        let mut made = self.made.lock();
        made.count += 1;
        format!("{}-{}", self.prefix, made.count)
    }

    /// Has something at cluster scope removed at the end.
    pub(super) fn remove_later(&self, path: String) {
        self.made.lock().others.push(path);
    }

    /// Has a namespace removed at the end.
    pub(super) fn remove_namespace_later(&self, name: &str) {
        self.made.lock().namespaces.push(name.to_owned());
    }

    /// A namespace of its own.
    pub(super) async fn namespace(&self) -> Result<String, Failure> {
        let name = self.unique();
        self.remove_namespace_later(&name);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", &object)
            .await?
            .expect(201)?;
        Ok(name)
    }

    /// A namespaced custom resource with one version, `v1`, with `schema` for
    /// the objects' own members and `extras` in the version.
    pub(super) async fn definition(
        &self,
        schema: &Value,
        extras: &Value,
    ) -> Result<Definition, Failure> {
        let mut version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}});
        for (name, value) in extras.as_object().into_iter().flatten() {
            version[name] = value.clone();
        }
        self.definition_of(&json!([version])).await
    }

    /// A namespaced custom resource with these versions.
    pub(super) async fn definition_of(&self, versions: &Value) -> Result<Definition, Failure> {
        let definition = self.new_definition();
        let object = definition_object(&definition, versions);
        self.post(DEFINITIONS, &object).await?.expect(201)?;
        for version in versions.as_array().into_iter().flatten() {
            if version["served"] == true {
                let version = version["name"].as_str().unwrap_or_default();
                let path = format!("/apis/{}/{version}/{}", definition.group, definition.plural);
                self.served(&path).await?;
            }
        }
        Ok(definition)
    }

    /// Names for a custom resource, which is removed at the end.
    pub(super) fn new_definition(&self) -> Definition {
        let definition = Definition {
            group: format!("{}.example.com", self.unique()),
            plural: "widgets".into(),
            kind: "Widget".into(),
        };
        let objects = format!("/apis/{}/v1/{}", definition.group, definition.plural);
        self.made
            .lock()
            .definitions
            .push((definition.name(), objects));
        definition
    }

    /// Waits until a new resource answers, from the watch cache, too.
    pub(super) async fn served(&self, path: &str) -> Result<(), Failure> {
        for path in [path.to_owned(), format!("{path}?resourceVersion=0")] {
            self.until(&path, "is served", |answer| answer.code == 200)
                .await?;
        }
        Ok(())
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Request<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(path);
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        for (name, value) in [
            ("user-agent", "kite-conformance"),
            ("accept", "application/json"),
        ] {
            if !self.headers.iter().any(|(given, _)| *given == name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::from(body));
        request.map_err(|error| Failure::Differs(format!("{method} {path}: {error}")))
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Answer, Failure> {
        let request = self.request(&method, path, content_type, body)?;
        let (parts, body) = self.client.send(request).await?.into_parts();
        self.read(format!("{method} {path}"), &parts, body).await
    }

    /// The whole answer to a request.
    async fn read(&self, request: String, parts: &Parts, body: Body) -> Result<Answer, Failure> {
        let bytes = body.collect_bytes().await?;
        let text = |name: &header::HeaderName| {
            let values = parts.headers.get_all(name).into_iter();
            let texts = values.filter_map(|value| value.to_str().ok().map(str::to_owned));
            texts.collect::<Vec<String>>()
        };
        let mut names = self.headers.iter().map(|(name, _)| name);
        Ok(Answer {
            request,
            impersonated: names.any(|name| name.starts_with("impersonate-")),
            code: parts.status.as_u16(),
            body: serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()),
            raw: String::from_utf8_lossy(&bytes).into_owned(),
            warnings: text(&header::WARNING),
            content_type: text(&header::CONTENT_TYPE).concat(),
        })
    }

    async fn send_json(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        self.send(method, path, media, body.to_string().into_bytes())
            .await
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, "", Vec::new()).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.send_json(Method::POST, path, "application/json", body)
            .await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.send_json(Method::PUT, path, "application/json", body)
            .await
    }

    pub(super) async fn patch(
        &self,
        path: &str,
        media: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        self.send_json(Method::PATCH, path, media, body).await
    }

    /// A merge patch.
    pub(super) async fn merge(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.patch(path, MERGE, body).await
    }

    /// Server-side apply by a manager.
    pub(super) async fn apply(
        &self,
        path: &str,
        manager: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}fieldManager={manager}");
        self.patch(&path, APPLY, body).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::DELETE, path, "", Vec::new()).await
    }

    pub(super) async fn delete_with(&self, path: &str, options: &Value) -> Result<Answer, Failure> {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        for (name, value) in options.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        self.send_json(Method::DELETE, path, "application/json", &body)
            .await
    }

    /// Opens a watch; the query goes into the path.
    pub(super) async fn watch(&self, path: &str) -> Result<Watching, Failure> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}watch=true");
        let request = self.request(&Method::GET, &path, "", Vec::new())?;
        let (parts, body) = self.client.send(request).await?.into_parts();
        let request = format!("GET {path}");
        if parts.status != 200 {
            let answer = self.read(request, &parts, body).await?;
            answer.lack()?;
            return answer.wrong("a stream was expected");
        }
        let read = BytesMut::new();
        Ok(Watching {
            request,
            body,
            read,
        })
    }

    /// Asks again until the answer is what it should become.
    pub(super) async fn until(
        &self,
        path: &str,
        what: &str,
        so: impl Fn(&Answer) -> bool,
    ) -> Result<Answer, Failure> {
        let start = tokio::time::Instant::now();
        loop {
            let answer = self.get(path).await?;
            if so(&answer) {
                return Ok(answer);
            }
            if start.elapsed() > PATIENCE {
                answer.lack()?;
                return answer.wrong(&format!("not {what} in {PATIENCE:?}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until there is nothing at the path.
    pub(super) async fn gone(&self, path: &str) -> Result<(), Failure> {
        self.until(path, "gone", |answer| answer.code == 404)
            .await?;
        Ok(())
    }

    /// A while in which controllers would have done something.
    pub(super) async fn wait(&self) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    /// Removes what was made, as far as that goes, without waiting for the end
    /// of it. Requests that fail leave something over, which is found later.
    pub(super) async fn clean_up(&self) {
        let (namespaces, definitions, others) = {
            let made = self.made.lock();
            (
                made.namespaces.clone(),
                made.definitions.clone(),
                made.others.clone(),
            )
        };
        let site = Self::new(self.client.clone(), &self.prefix);
        for (name, objects) in &definitions {
            site.release(objects).await;
            let _ = site.delete(&format!("{DEFINITIONS}/{name}")).await;
        }
        for namespace in &namespaces {
            let path = format!("/api/v1/namespaces/{namespace}");
            site.release(&format!("{path}/configmaps")).await;
            let _ = site.delete(&path).await;
        }
        for path in &others {
            let _ = site.delete(path).await;
        }
    }

    /// Takes the finalizers from all objects of a collection.
    async fn release(&self, collection: &str) {
        let Ok(list) = self.get(collection).await else {
            return;
        };
        for item in list.at("/items").as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            if !metadata["finalizers"].is_array() {
                continue;
            }
            let (namespace, name) = (text("namespace"), text("name"));
            let path = match collection.rsplit_once('/') {
                Some((root, plural)) if !namespace.is_empty() && !root.contains("/namespaces/") => {
                    format!("{root}/namespaces/{namespace}/{plural}/{name}")
                }
                _ => format!("{collection}/{name}"),
            };
            let _ = self
                .merge(&path, &json!({"metadata": {"finalizers": null}}))
                .await;
        }
    }

    /// Paths of what is still there when all had time to go.
    pub(super) async fn left_over(&self, patience: Duration) -> Vec<String> {
        let paths: Vec<String> = {
            let made = self.made.lock();
            let namespaces = made
                .namespaces
                .iter()
                .map(|n| format!("/api/v1/namespaces/{n}"));
            let definitions = made
                .definitions
                .iter()
                .map(|(n, _)| format!("{DEFINITIONS}/{n}"));
            namespaces
                .chain(definitions)
                .chain(made.others.iter().cloned())
                .collect()
        };
        let site = Self::new(self.client.clone(), &self.prefix);
        let start = tokio::time::Instant::now();
        let mut left = Vec::new();
        for path in paths {
            loop {
                match site.get(&path).await {
                    Ok(answer) if answer.code == 404 => break,
                    // What may not be read was not made either.
                    Ok(answer) if answer.code == 403 => break,
                    _ if start.elapsed() > patience => {
                        left.push(path);
                        break;
                    }
                    _ => tokio::time::sleep(LOOK).await,
                }
            }
        }
        left
    }
}

/// A namespaced CRD with these versions.
pub(super) fn definition_object(definition: &Definition, versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name()},
        "spec": {
            "group": definition.group,
            "scope": "Namespaced",
            "names": {"plural": definition.plural, "singular": "widget", "kind": definition.kind,
                "listKind": format!("{}List", definition.kind)},
            "versions": versions,
        },
    })
}

/// Path of the `ConfigMaps` of a namespace.
pub(super) fn maps(namespace: &str) -> String {
    core(namespace, "configmaps")
}

/// Path of a core resource in a namespace.
pub(super) fn core(namespace: &str, plural: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}")
}

/// A `ConfigMap`; without data if there are none, as servers write it.
pub(super) fn map(name: &str, data: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if data.as_object().is_some_and(|data| !data.is_empty()) {
        object["data"] = data.clone();
    }
    object
}

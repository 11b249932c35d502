//! Somebody else who changes the object that a request is about, just before.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::BoxError;
use super::call::Call;
use super::mode::Fault;

/// Field manager of what rivals write, and domain of the annotation that an
/// edit sets.
pub const RIVAL: &str = "rival.example.com";

/// What a rival does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Edit,
    Delete,
    Recreate,
}

impl Deed {
    pub(super) fn of(fault: Fault) -> Option<Self> {
        match fault {
            Fault::RivalEdits => Some(Self::Edit),
            Fault::RivalDeletes => Some(Self::Delete),
            Fault::RivalRecreates | Fault::HiddenRecreate => Some(Self::Recreate),
            _ => None,
        }
    }
}

/// Fields of `metadata` that the server sets.
const SET_BY_SERVER: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// Does it, if the object is there. `first` is called just before anything
/// changes. What was done: a recreation whose second half is refused was a
/// deletion.
pub(super) async fn act<S, RB>(
    service: &S,
    call: &Call,
    deed: Deed,
    number: u64,
    headers: &HeaderMap,
    first: impl FnOnce(),
) -> Option<Deed>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    RB: Body<Data = Bytes>,
{
    let path = call.object_path();
    let send = |method, path: String, kind, body: Value| {
        send(service.clone(), method, path, kind, body, headers)
    };
    let object = send(Method::GET, path.clone(), "", Value::Null).await?;
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    if deed == Deed::Edit {
        let annotation = format!("{RIVAL}/was-here");
        let edit = json!({"metadata": {"annotations": {annotation: number.to_string()}}});
        let kind = "application/merge-patch+json";
        return send(Method::PATCH, path, kind, edit).await.map(|_| deed);
    }
    if deed == Deed::Delete {
        first();
        let answer = send(Method::DELETE, path, "", Value::Null).await;
        return answer.map(|_| deed);
    }
    let json = "application/json";
    // As kubectl does it; of some kinds the server would keep the object until
    // its dependents are let go.
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": object["metadata"]["uid"]},
    });
    let mut trial = options.clone();
    trial["dryRun"] = json!(["All"]);
    // While it stays no other can take its name.
    if stays(&send(Method::DELETE, path.clone(), json, trial).await?) {
        return None;
    }
    first();
    if stays(&send(Method::DELETE, path, json, options).await?) {
        return Some(Deed::Delete);
    }
    let mut again = object;
    if let Some(metadata) = again["metadata"].as_object_mut() {
        metadata.retain(|field, _| !SET_BY_SERVER.contains(&field.as_str()));
    }
    if let Some(members) = again.as_object_mut() {
        members.remove("status");
    }
    let path = call.collection_path();
    let made = send(Method::POST, path, json, again).await;
    Some(made.map_or(Deed::Delete, |_| deed))
}

/// Whether the answer to a DELETE is that of an object which is only marked:
/// it waits for finalizers (a namespace's own included), or has time to end.
fn stays(answer: &Value) -> bool {
    let some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let is = |kind: &str| answer["apiVersion"] == "v1" && answer["kind"] == kind;
    let metadata = &answer["metadata"];
    let seconds = metadata["deletionGracePeriodSeconds"].as_i64();
    !is("Status")
        && (some(&metadata["finalizers"])
            || seconds.is_some_and(|seconds| seconds > 0)
            || (is("Namespace") && some(&answer["spec"]["finalizers"])))
}

/// The cluster's revision now, as a list shows it: one of namespaces, or of what
/// the request is about, whichever the participant may see.
pub(super) async fn revision<S, RB>(service: &S, call: &Call, headers: &HeaderMap) -> Option<u64>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    RB: Body<Data = Bytes>,
{
    for collection in ["/api/v1/namespaces".to_owned(), call.collection_path()] {
        let path = format!("{collection}?limit=1");
        let list = send(service.clone(), Method::GET, path, "", Value::Null, headers).await;
        let version = list
            .as_ref()
            .map(|list| &list["metadata"]["resourceVersion"]);
        if let Some(Ok(revision)) = version.and_then(Value::as_str).map(str::parse) {
            return Some(revision);
        }
    }
    None
}

/// The answer's body, if it is a success.
async fn send<S, RB>(
    service: S,
    method: Method,
    path: String,
    content_type: &str,
    body: Value,
    headers: &HeaderMap,
) -> Option<Value>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>>,
    S::Error: Into<BoxError>,
    RB: Body<Data = Bytes>,
{
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(USER_AGENT, RIVAL);
    if let Some(credentials) = headers.get(AUTHORIZATION) {
        request = request.header(AUTHORIZATION, credentials);
    }
    let bytes = if body.is_null() {
        Bytes::new()
    } else {
        request = request.header(CONTENT_TYPE, content_type);
        Bytes::from(body.to_string())
    };
    let request = request.body(Full::new(bytes)).ok()?;
    let response = service.oneshot(request).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let bytes = response.into_body().collect().await.ok()?.to_bytes();
    serde_json::from_slice(&bytes).ok()
}

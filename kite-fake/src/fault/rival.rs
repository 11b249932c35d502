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
/// changes. Whether anything did.
pub(super) async fn act<S, RB>(
    service: &S,
    call: &Call,
    deed: Deed,
    number: u64,
    headers: &HeaderMap,
    first: impl FnOnce(),
) -> bool
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    RB: Body<Data = Bytes>,
{
    let path = call.object_path();
    let send = |method, path: String, kind, body: Value| {
        send(service.clone(), method, path, kind, body, headers)
    };
    let Some(object) = send(Method::GET, path.clone(), "", Value::Null).await else {
        return false;
    };
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return false;
    }
    if deed == Deed::Edit {
        let annotation = format!("{RIVAL}/was-here");
        let edit = json!({"metadata": {"annotations": {annotation: number.to_string()}}});
        let kind = "application/merge-patch+json";
        return send(Method::PATCH, path, kind, edit).await.is_some();
    }
    // With a finalizer it would stay, and no other could take its name.
    let finalizers = object["metadata"]["finalizers"].as_array();
    if deed == Deed::Recreate && finalizers.is_some_and(|list| !list.is_empty()) {
        return false;
    }
    first();
    let gone = send(Method::DELETE, path, "", Value::Null).await.is_some();
    if deed == Deed::Delete || !gone {
        return gone;
    }
    let mut again = object;
    if let Some(metadata) = again["metadata"].as_object_mut() {
        metadata.retain(|field, _| !SET_BY_SERVER.contains(&field.as_str()));
    }
    if let Some(members) = again.as_object_mut() {
        members.remove("status");
    }
    let path = call.collection_path();
    send(Method::POST, path, "application/json", again).await;
    true
}

/// The cluster's revision now.
pub(super) async fn revision<S, RB>(service: &S, headers: &HeaderMap) -> Option<u64>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    RB: Body<Data = Bytes>,
{
    let path = "/api/v1/namespaces?limit=1".to_owned();
    let list = send(service.clone(), Method::GET, path, "", Value::Null, headers).await?;
    list["metadata"]["resourceVersion"].as_str()?.parse().ok()
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

//! The live list of connections on the admin port, and ending some.
//!
//! | Request | What it does |
//! |---|---|
//! | `GET /sessions` | all connections as JSON, in the order in which they came |
//! | `DELETE /sessions/7?reason=...` | ends connection 7; the user reads the reason |
//! | `DELETE /sessions?vm=kite-user-ann/web&reason=...` | ends all that are logged in to a VM |
//!
//! The port has no login, and metrics are read from elsewhere: these are answered to
//! the pod itself only, which `kubectl port-forward` is, too.

use std::net::SocketAddr;

use axum::{
    Extension, Json, Router,
    extract::{ConnectInfo, Path, Query, Request},
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::{delete, get},
};
use kite_gateway::{Sessions, VmKey};
use serde::{Deserialize, Serialize};

/// What a user reads who is told no other reason.
const NO_REASON: &str = "ended by an administrator";

#[derive(Deserialize)]
struct Ending {
    vm: Option<String>,
    reason: Option<String>,
}

impl Ending {
    fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or(NO_REASON)
    }
}

#[derive(Serialize)]
struct Ended {
    ended: usize,
}

/// The routes.
pub fn routes(sessions: Sessions) -> Router {
    Router::new()
        .route("/sessions", get(list).delete(end_of_vm))
        .route("/sessions/{connection}", delete(end))
        .layer(from_fn(from_here))
        .layer(Extension(sessions))
}

async fn from_here(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if peer.ip().to_canonical().is_loopback() {
        return next.run(request).await;
    }
    let text = "sessions are told to the pod itself only: use kubectl port-forward\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

async fn list(Extension(sessions): Extension<Sessions>) -> Response {
    Json(sessions.list()).into_response()
}

async fn end(
    Extension(sessions): Extension<Sessions>,
    Path(connection): Path<u64>,
    Query(ending): Query<Ending>,
) -> Response {
    if sessions.kill(connection, ending.reason()) {
        Json(Ended { ended: 1 }).into_response()
    } else {
        let text = format!("there is no connection {connection}: see GET /sessions\n");
        (StatusCode::NOT_FOUND, text).into_response()
    }
}

async fn end_of_vm(
    Extension(sessions): Extension<Sessions>,
    Query(ending): Query<Ending>,
) -> Response {
    let vm = ending.vm.as_deref().and_then(|vm| vm.split_once('/'));
    let Some((namespace, name)) = vm else {
        let text = "vm: name the VM as namespace/name, or a connection as /sessions/NUMBER\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let vm = VmKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let ended = sessions.kill_vm(&vm, ending.reason());
    Json(Ended { ended }).into_response()
}

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::{Body, to_bytes};
    use tower::ServiceExt as _;

    use super::*;

    async fn asked(from: &str, method: &str, path: &str) -> (StatusCode, String) {
        let peer: SocketAddr = from.parse().unwrap();
        let request = Request::builder().method(method).uri(path);
        let router = routes(Sessions::default()).layer(Extension(ConnectInfo(peer)));
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await;
        let (head, body) = answer.unwrap().into_parts();
        let text = to_bytes(body, 4096).await.unwrap();
        (head.status, String::from_utf8(text.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn sessions_are_told_to_the_pod_itself_only() {
        for here in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            let told = asked(here, "GET", "/sessions").await;
            assert_eq!(told, (StatusCode::OK, "[]".to_owned()));
        }
        for (method, path) in [
            ("GET", "/sessions"),
            ("DELETE", "/sessions/7"),
            ("DELETE", "/sessions?vm=a/b"),
        ] {
            let (status, text) = asked("10.0.0.7:1", method, path).await;
            assert_eq!(status, StatusCode::FORBIDDEN);
            assert!(text.contains("kubectl port-forward"), "{text}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_ended_is_named() {
        let here = "127.0.0.1:1";
        let (status, text) = asked(here, "DELETE", "/sessions/7?reason=over").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(text.contains("connection 7"), "{text}");
        for path in ["/sessions", "/sessions?vm=web"] {
            let (status, text) = asked(here, "DELETE", path).await;
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(text.contains("namespace/name"), "{text}");
        }
        let told = asked(here, "DELETE", "/sessions?vm=kite-user-ann/web").await;
        assert_eq!(told, (StatusCode::OK, "{\"ended\":0}".to_owned()));
    }
}

//! The live list of connections on the admin port, and ending some.
//!
//! | Request | What it does |
//! |---|---|
//! | `GET /sessions` | all connections as JSON, in the order in which they came |
//! | `DELETE /sessions/7?reason=...` | ends connection 7; the user reads the reason |
//! | `DELETE /sessions?vm=kite-user-ann/web&reason=...` | ends all that are logged in to a VM |
//!
//! Metrics are read from elsewhere: these are answered to the pod itself only, which
//! `kubectl port-forward` is, too, and with a token, as what comes from the pod itself
//! may be from elsewhere (a sidecar of a service mesh delivers it so). Without
//! `--sessions-token` they are not served.

use std::net::SocketAddr;

use axum::{
    Extension, Json, Router,
    extract::{ConnectInfo, Path, Query, Request},
    http::{StatusCode, header},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::{delete, get},
};
use clap::Args;
use kite_gateway::{Sessions, VmKey};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

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

/// Who may ask for sessions.
#[derive(Args, Clone)]
pub struct SessionsArgs {
    /// Token with which /sessions of the admin port is asked, as `Authorization: Bearer
    /// TOKEN`: 16 characters or more. Without one it is not served.
    #[arg(
        long,
        env = "KITE_SESSIONS_TOKEN",
        hide_env_values = true,
        value_parser = token,
        value_name = "TOKEN"
    )]
    sessions_token: Option<Token>,
}

/// What has to be shown.
#[derive(Clone)]
struct Token(String);

/// Fewer characters could be guessed.
const FEWEST: usize = 16;

fn token(text: &str) -> Result<Token, String> {
    let text = text.trim();
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.len() < FEWEST || !is_visible {
        return Err(format!(
            "use {FEWEST} or more letters, digits and signs without spaces, such as what \
             openssl rand -hex 32 prints"
        ));
    }
    Ok(Token(text.to_owned()))
}

/// The routes.
pub fn routes(args: SessionsArgs, sessions: Sessions) -> Router {
    Router::new()
        .route("/sessions", get(list).delete(end_of_vm))
        .route("/sessions/{connection}", delete(end))
        .layer(from_fn(from_here))
        .layer(Extension(args))
        .layer(Extension(sessions))
}

async fn from_here(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Extension(args): Extension<SessionsArgs>,
    request: Request,
    next: Next,
) -> Response {
    let refused = |text: &'static str| (StatusCode::FORBIDDEN, text).into_response();
    if !peer.ip().to_canonical().is_loopback() {
        return refused("sessions are told to the pod itself only: use kubectl port-forward\n");
    }
    let Some(Token(token)) = args.sessions_token else {
        return refused(
            "sessions are not served: put a token into the key \"token\" of the Secret \
             kite-gateway-sessions, or set --sessions-token, and start the gateway anew\n",
        );
    };
    let shown = request.headers().get(header::AUTHORIZATION);
    let shown = shown.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if !shown.is_some_and(|shown| bool::from(shown.ct_eq(token.as_bytes()))) {
        let text = "show the token of --sessions-token as \"Authorization: Bearer TOKEN\"\n";
        return (StatusCode::UNAUTHORIZED, text).into_response();
    }
    next.run(request).await
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

    const TOKEN: &str = "0123456789abcdef";

    async fn asked_with(
        authorization: Option<&str>,
        args: SessionsArgs,
        from: &str,
        method: &str,
        path: &str,
    ) -> (StatusCode, String) {
        let peer: SocketAddr = from.parse().unwrap();
        let mut request = Request::builder().method(method).uri(path);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let router = routes(args, Sessions::default()).layer(Extension(ConnectInfo(peer)));
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await;
        let (head, body) = answer.unwrap().into_parts();
        let text = to_bytes(body, 4096).await.unwrap();
        (head.status, String::from_utf8(text.to_vec()).unwrap())
    }

    fn args() -> SessionsArgs {
        SessionsArgs {
            sessions_token: Some(token(TOKEN).unwrap()),
        }
    }

    async fn asked(from: &str, method: &str, path: &str) -> (StatusCode, String) {
        let shown = format!("Bearer {TOKEN}");
        asked_with(Some(&shown), args(), from, method, path).await
    }

    const ALL: [(&str, &str); 3] = [
        ("GET", "/sessions"),
        ("DELETE", "/sessions/7"),
        ("DELETE", "/sessions?vm=a/b"),
    ];

    #[tokio::test]
    async fn sessions_are_told_to_the_pod_itself_only() {
        for here in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            let told = asked(here, "GET", "/sessions").await;
            assert_eq!(told, (StatusCode::OK, "[]".to_owned()));
        }
        for (method, path) in ALL {
            let (status, text) = asked("10.0.0.7:1", method, path).await;
            assert_eq!(status, StatusCode::FORBIDDEN);
            assert!(text.contains("kubectl port-forward"), "{text}");
        }
    }

    #[tokio::test]
    async fn the_pod_itself_has_to_show_the_token() {
        let here = "127.0.0.6:1";
        for (method, path) in ALL {
            let almost = format!("Bearer {}", &TOKEN[1..]);
            for shown in [None, Some(TOKEN), Some("Bearer "), Some(&*almost)] {
                let (status, text) = asked_with(shown, args(), here, method, path).await;
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{shown:?}");
                assert!(text.contains("--sessions-token"), "{text}");
            }
            let none = SessionsArgs {
                sessions_token: None,
            };
            for shown in [None, Some("Bearer "), Some("Bearer None")] {
                let (status, text) = asked_with(shown, none.clone(), here, method, path).await;
                assert_eq!(status, StatusCode::FORBIDDEN);
                assert!(text.contains("kite-gateway-sessions"), "{text}");
            }
        }
    }

    #[test]
    fn a_token_that_could_be_guessed_is_refused() {
        for bad in ["", "short", "0123456789 abcdef", "0123456789abcdé"] {
            let error = token(bad).err().unwrap();
            assert!(error.contains("openssl rand"), "{error}");
        }
        assert_eq!(token(&format!("{TOKEN}\n")).unwrap().0, TOKEN, "of a file");
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

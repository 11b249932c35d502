//! Who sends tokens that somebody made up does not keep others from renewing theirs.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::join_all;
use http::{Method, Request, header};
use kite_core::crd::AccessLevel;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    gate::Gate,
    refresh::Jar,
    shared_address::tell_of_node,
    world::{PASSWORD, PATIENCE, World, request, send},
};

const REFRESH: &str = "/api/v1/auth/refresh";

/// A well-formed token of nobody, of a script or of a browser.
fn made_up(n: u8, prefix: &str, length: usize) -> String {
    let mut bytes = vec![7; length];
    bytes[0] = n;
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// A request from an address of its own.
fn from(n: u8, mut request: Request<axum::body::Body>) -> Request<axum::body::Body> {
    let peer = std::net::SocketAddr::from(([198, 51, 100, n], 4000));
    request
        .extensions_mut()
        .insert(axum::extract::ConnectInfo(peer));
    request
}

#[tokio::test]
async fn renewals_go_on_beside_a_flood_of_tokens_that_nobody_has() {
    let world = World::with(|builder| builder.secure_cookies(true)).await;
    world.user("ann", AccessLevel::User).await;
    let body = json!({"username": "ann", "password": PASSWORD, "cookie": true});
    let answer = world.post("/api/v1/auth/sign-in", "", body).await;
    let mut jar = Jar::default();
    jar.take(&answer);
    let sessions = world.state.caches().sessions.list(|_| true);
    let names: Vec<String> = sessions
        .iter()
        .filter_map(|session| session.metadata.name.clone())
        .collect();
    // The API server is slow to answer about what nobody knows.
    let (router, gate) = Gate::replica(
        &world,
        |builder| builder.secure_cookies(true),
        move |request| {
            let path = request.uri().path();
            request.method() == Method::GET
                && path.contains("/kitesessions/")
                && !names.iter().any(|name| path.ends_with(name.as_str()))
        },
    )
    .await;
    let flood = async |n: u8| {
        // Of every kind, each from an address of its own.
        let ask = if n.is_multiple_of(2) {
            let token = made_up(n, "kite_", 32);
            request(Method::GET, "/api/v1/me", &token, None)
        } else {
            let mut jar = Jar::default();
            for (name, prefix) in [
                ("__Host-kite_session", "kite_at_"),
                ("__Secure-kite_refresh", "kite_rt_"),
            ] {
                jar.0.insert(name.to_owned(), made_up(n, prefix, 48));
            }
            jar.request(Method::POST, REFRESH, None)
        };
        send(&router, from(n, ask)).await
    };
    // So many that all permits are taken, though with few left some are refused by chance.
    let flooding = join_all((0..=u8::MAX).map(flood));
    let ann = async {
        for _ in 0..16 {
            gate.holds_one().await;
        }
        for _ in 0..5 {
            let renewed = send(&router, jar.request(Method::POST, REFRESH, None)).await;
            assert_eq!(renewed.status, 204, "{renewed:?}");
            jar.take(&renewed);
            assert_eq!(jar.me(&router).await, 200);
        }
        gate.let_on(64);
    };
    let (answers, ()) = tokio::join!(flooding, ann);
    let refused = answers.iter().filter(|it| it.status == 503).count();
    assert_eq!(refused, 256 - 16);
    for answer in answers {
        match answer.status.as_u16() {
            503 => assert!(answer.headers.contains_key(header::RETRY_AFTER)),
            _ => drop(answer.is_problem(401, "unauthenticated")),
        }
    }
}

#[tokio::test]
async fn an_address_tries_few_tokens_of_nothing_and_others_go_on() {
    let world = World::new().await;
    let ask = async |n: u8, address: u8| {
        let token = made_up(n, "kite_", 32);
        let ask = request(Method::GET, "/api/v1/me", &token, None);
        send(&world.router, from(address, ask))
            .await
            .status
            .as_u16()
    };
    for n in 0..64 {
        assert_eq!(ask(n, 1).await, 401, "{n}");
    }
    assert_eq!(ask(64, 1).await, 503);
    // What was found to be nothing's costs nothing, and somebody else is not that address.
    assert_eq!(ask(0, 1).await, 401);
    assert_eq!(ask(65, 2).await, 401);
    // Nor is who is signed in, though it is behind the same one.
    let ann = world.user("ann", AccessLevel::User).await;
    let me = from(1, request(Method::GET, "/api/v1/me", &ann, None));
    assert_eq!(send(&world.router, me).await.status, 200);
}

/// 192.0.2.1 is a node's; 198.51.100.0 is somebody's own.
#[tokio::test]
async fn who_sends_tokens_that_nobody_has_leaves_look_ups_for_others() {
    for (is_shared, most) in [(true, 12), (false, 8)] {
        let world = World::new().await;
        tell_of_node(&world).await;
        let (router, gate) = Gate::replica(
            &world,
            |it| it,
            |request| {
                request.method() == Method::GET && request.uri().path().contains("/kitesessions/")
            },
        )
        .await;
        let ask = |n: u8, address: Option<u8>| {
            let token = made_up(n, "kite_", 32);
            let asked = request(Method::GET, "/api/v1/me", &token, None);
            let asked = match address {
                Some(address) => from(address, asked),
                None => asked,
            };
            send(&router, asked)
        };
        let address = (!is_shared).then_some(0);
        let flooding = join_all((0..u8::MAX).map(|n| ask(n, address)));
        let other = async {
            for _ in 0..most {
                gate.holds_one().await;
            }
            // Somebody whose session may be one that this replica has not seen yet.
            let held = async {
                let held = timeout(PATIENCE, gate.holds_one()).await;
                gate.let_on(64);
                held.expect("it is not looked up");
            };
            tokio::join!(ask(u8::MAX, Some(9)), held).0
        };
        let (answers, other) = tokio::join!(flooding, other);
        other.is_problem(401, "unauthenticated");
        let refused = answers.iter().filter(|it| it.status == 503).count();
        assert_eq!(refused, usize::from(u8::MAX) - most);
        for answer in answers {
            match answer.status.as_u16() {
                503 => assert!(answer.headers.contains_key(header::RETRY_AFTER)),
                _ => drop(answer.is_problem(401, "unauthenticated")),
            }
        }
    }
}

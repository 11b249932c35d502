//! The cookies of a browser: a short-lived one, and one that renews it.

use std::{collections::BTreeMap, time::Duration};

use axum::{Router, body::Body};
use http::{Method, Request, header};
use jiff::{Timestamp, ToSpan as _};
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteSession},
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::world::{Answer, PASSWORD, World, request, send};

const ME: &str = "/api/v1/me";
const REFRESH: &str = "/api/v1/auth/refresh";
const ACCESS: &str = "__Host-kite_session";
const RENEW: &str = "__Secure-kite_refresh";

/// What a browser keeps. Paths are not looked at.
#[derive(Clone, Debug, Default)]
pub struct Jar(pub BTreeMap<String, String>);

impl Jar {
    pub fn take(&mut self, answer: &Answer) {
        for cookie in answer.headers.get_all(header::SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            let (name, rest) = cookie.split_once('=').unwrap();
            let (value, attributes) = rest.split_once(';').unwrap();
            if attributes.contains("Max-Age=0") {
                self.0.remove(name);
            } else {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    pub fn request(&self, method: Method, path: &str, body: Option<Value>) -> Request<Body> {
        let mut request = request(method, path, "", body);
        let headers = request.headers_mut();
        headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
        for (name, value) in &self.0 {
            let cookie = format!("{name}={value}").parse().unwrap();
            headers.append(header::COOKIE, cookie);
        }
        request
    }

    async fn refresh(&mut self, router: &Router) -> Answer {
        let answer = send(router, self.request(Method::POST, REFRESH, None)).await;
        self.take(&answer);
        answer
    }

    pub async fn me(&self, router: &Router) -> u16 {
        let me = self.request(Method::GET, ME, None);
        send(router, me).await.status.as_u16()
    }
}

async fn secure() -> World {
    World::with(|builder| builder.secure_cookies(true)).await
}

async fn signed_in(world: &World) -> Jar {
    let body = json!({"username": "ann", "password": PASSWORD, "cookie": true});
    let answer = world.post("/api/v1/auth/sign-in", "", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut jar = Jar::default();
    jar.take(&answer);
    jar
}

async fn only_session(world: &World) -> KiteSession {
    let sessions = world.state.caches().sessions.list(|session| {
        session.spec.tokens.is_some() && session.metadata.deletion_timestamp.is_none()
    });
    assert_eq!(sessions.len(), 1);
    let key = ObjectKey::of(sessions[0].as_ref());
    world.cluster.get(&key).await.unwrap()
}

/// As if the last renewal had been `ago`.
pub async fn age(world: &World, ago: jiff::Span) {
    let session = only_session(world).await;
    let at = Timestamp::now() - ago;
    let edited = world
        .cluster
        .merge_patch::<KiteSession>(
            FieldManager::new("test"),
            &ObjectKey::of(&session),
            &json!({"spec": {"tokens": {"rotatedAt": at}}}),
        )
        .await
        .unwrap();
    world.state.caches().sessions.caught_up_with(&edited).await;
}

#[tokio::test]
async fn both_cookies_are_renewed_and_the_old_one_soon_ends() {
    let world = secure().await;
    world.user("ann", AccessLevel::User).await;
    let mut jar = signed_in(&world).await;
    assert_eq!(jar.me(&world.router).await, 200);
    let before = jar.clone();
    let renewed = jar.refresh(&world.router).await;
    assert_eq!(renewed.status, 204, "{renewed:?}");
    for name in [ACCESS, RENEW] {
        assert_ne!(jar.0[name], before.0[name]);
    }
    assert_eq!(jar.me(&world.router).await, 200);
    // What was on its way with the old one is still answered.
    assert_eq!(before.me(&world.router).await, 200);
    let session = only_session(&world).await;
    let text = serde_json::to_string(&session).unwrap();
    for token in jar.0.values().chain(before.0.values()) {
        assert!(!text.contains(token.as_str()), "only hashes are stored");
    }
    let tokens = session.spec.tokens.unwrap();
    let old = tokens.access[0].expires_at.0;
    assert!(old <= Timestamp::now() + 60.seconds(), "{old}");
}

#[tokio::test]
async fn an_access_token_ends_by_itself_and_the_session_goes_on() {
    let world = World::with(|builder| {
        builder
            .secure_cookies(true)
            .access_lifetime(Duration::from_millis(1))
    })
    .await;
    world.user("ann", AccessLevel::User).await;
    let mut jar = signed_in(&world).await;
    world
        .until("the access token ends", async || {
            jar.me(&world.router).await == 401
        })
        .await;
    assert_eq!(jar.refresh(&world.router).await.status, 204);
    // Signing out works with an ended one, too.
    let out = jar.request(Method::POST, "/api/v1/auth/sign-out", None);
    let out = send(&world.router, out).await;
    assert_eq!(out.status, 204, "{out:?}");
    jar.take(&out);
    assert!(jar.0.is_empty(), "{:?}", jar.0);
    assert!(
        world
            .state
            .caches()
            .sessions
            .list(|session| session.spec.tokens.is_some())
            .is_empty()
    );
}

#[tokio::test]
async fn nobody_is_refused_who_asks_whether_they_are_signed_in() {
    let world = World::with(|builder| {
        builder
            .secure_cookies(true)
            .access_lifetime(Duration::from_millis(1))
    })
    .await;
    world.user("ann", AccessLevel::User).await;
    let signed_in_is = async |jar: &Jar| {
        let ask = jar.request(Method::GET, "/api/v1/auth/session", None);
        let answer = send(&world.router, ask).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["signedIn"].as_bool().unwrap()
    };
    assert!(!signed_in_is(&Jar::default()).await);
    let mut jar = signed_in(&world).await;
    world
        .until("the access token ends", async || {
            jar.me(&world.router).await == 401
        })
        .await;
    assert!(signed_in_is(&jar).await, "it can be renewed");
    let mut half = jar.clone();
    half.0.remove(RENEW);
    assert!(!signed_in_is(&half).await, "it cannot be renewed");
    let before = jar.clone();
    let out = jar.request(Method::POST, "/api/v1/auth/sign-out", None);
    jar.take(&send(&world.router, out).await);
    assert!(!signed_in_is(&jar).await);
    assert!(!signed_in_is(&before).await, "the session is over");
}

#[tokio::test]
async fn it_works_on_every_replica_at_once() {
    let world = secure().await;
    let other = world
        .replica_with(|builder| builder.secure_cookies(true))
        .await;
    world.user("ann", AccessLevel::User).await;
    let mut jar = signed_in(&world).await;
    for _ in 0..5 {
        assert_eq!(jar.refresh(&world.router).await.status, 204);
        assert_eq!(jar.me(&other).await, 200);
        assert_eq!(jar.refresh(&other).await.status, 204);
        assert_eq!(jar.me(&world.router).await, 200);
    }
}

#[tokio::test]
async fn tabs_that_ask_at_once_on_two_replicas_all_stay_signed_in() {
    let world = secure().await;
    let other = world
        .replica_with(|builder| builder.secure_cookies(true))
        .await;
    world.user("ann", AccessLevel::User).await;
    let jar = signed_in(&world).await;
    let mut tabs: Vec<Jar> = (0..8).map(|_| jar.clone()).collect();
    let asked = tabs.iter_mut().enumerate().map(|(n, tab)| {
        let router = if n % 2 == 0 { &world.router } else { &other };
        tab.refresh(router)
    });
    for answer in futures::future::join_all(asked).await {
        assert_eq!(answer.status, 204, "{answer:?}");
    }
    // Whichever answer came last is what the browser keeps.
    for mut tab in tabs {
        assert_eq!(tab.me(&world.router).await, 200);
        assert_eq!(tab.refresh(&world.router).await.status, 204);
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_is_asked_for_again() {
    let world = secure().await;
    world.user("ann", AccessLevel::User).await;
    let mut jar = signed_in(&world).await;
    let lost = jar.request(Method::POST, REFRESH, None);
    assert_eq!(send(&world.router, lost).await.status, 204);
    assert_eq!(jar.refresh(&world.router).await.status, 204);
    assert_eq!(jar.me(&world.router).await, 200);
}

#[tokio::test]
async fn a_refresh_token_in_two_hands_ends_the_session_for_both() {
    let world = secure().await;
    world.user("ann", AccessLevel::User).await;
    let bearer = world.sign_in("ann").await;
    let mut owner = signed_in(&world).await;
    let mut thief = owner.clone();
    assert_eq!(thief.refresh(&world.router).await.status, 204);
    age(&world, 61.seconds()).await;
    let found = owner.refresh(&world.router).await;
    found.is_problem(401, "unauthenticated");
    assert!(owner.0.is_empty(), "its cookies are taken away");
    assert_eq!(thief.me(&world.router).await, 401);
    let last = thief.refresh(&world.router).await;
    last.is_problem(401, "unauthenticated");
    // Other sessions go on.
    assert_eq!(world.get(ME, &bearer).await.status, 200);
}

#[tokio::test]
async fn a_planted_refresh_cookie_signs_nobody_in_as_somebody_else() {
    let world = secure().await;
    world.user("ann", AccessLevel::User).await;
    world.user("eve", AccessLevel::User).await;
    let eve = {
        let body = json!({"username": "eve", "password": PASSWORD, "cookie": true});
        let mut jar = Jar::default();
        jar.take(&world.post("/api/v1/auth/sign-in", "", body).await);
        jar
    };
    let planted = format!("{RENEW}={}", eve.0[RENEW]);
    // A browser that is not signed in.
    let mut nobody = Jar::default().request(Method::POST, REFRESH, None);
    let headers = nobody.headers_mut();
    headers.append(header::COOKIE, planted.parse().unwrap());
    let refused = send(&world.router, nobody).await;
    refused.is_problem(401, "unauthenticated");

    // And one that is: the planted one comes first, and stands in nobody's way.
    let mut ann = signed_in(&world).await;
    let mut asked = Jar::default().request(Method::POST, REFRESH, None);
    let headers = asked.headers_mut();
    headers.append(header::COOKIE, planted.parse().unwrap());
    for (name, value) in &ann.0 {
        let cookie = format!("{name}={value}").parse().unwrap();
        headers.append(header::COOKIE, cookie);
    }
    let renewed = send(&world.router, asked).await;
    assert_eq!(renewed.status, 204, "{renewed:?}");
    ann.take(&renewed);
    let me = send(&world.router, ann.request(Method::GET, ME, None)).await;
    assert_eq!(me.text("/username"), "ann");
}

#[tokio::test]
async fn another_site_cannot_renew_and_nothing_but_cookies_does() {
    let world = secure().await;
    let bearer = world.user("ann", AccessLevel::User).await;
    let jar = signed_in(&world).await;
    let mut forged = jar.request(Method::POST, REFRESH, None);
    let site = "cross-site".parse().unwrap();
    forged.headers_mut().insert("sec-fetch-site", site);
    send(&world.router, forged)
        .await
        .is_problem(403, "cross-origin");
    let mut bare = request(Method::POST, REFRESH, &bearer, None);
    let site = "same-origin".parse().unwrap();
    bare.headers_mut().insert("sec-fetch-site", site);
    send(&world.router, bare)
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn what_ends_a_session_ends_its_renewal() {
    let world = secure().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    world.user("ann", AccessLevel::User).await;
    let path = "/api/v1/admin/users/ann";

    let mut jar = signed_in(&world).await;
    let body = json!({"password": "another battery"});
    assert_eq!(world.patch(path, &admin, body).await.status, 200);
    assert_eq!(jar.refresh(&world.router).await.status, 401);

    let body = json!({"username": "ann", "password": "another battery", "cookie": true});
    let mut jar = Jar::default();
    jar.take(&world.post("/api/v1/auth/sign-in", "", body).await);
    assert_eq!(jar.refresh(&world.router).await.status, 204);
    let everyone = "/api/v1/admin/sign-out-everyone";
    assert_eq!(world.post(everyone, &admin, json!({})).await.status, 204);
    assert_eq!(jar.refresh(&world.router).await.status, 401);
}

#[tokio::test]
async fn only_the_tokens_of_a_session_can_be_changed() {
    let world = secure().await;
    world.user("ann", AccessLevel::User).await;
    signed_in(&world).await;
    let session = only_session(&world).await;
    for spec in [
        json!({"expiresAt": "2099-01-01T00:00:00Z"}),
        json!({"userUid": "other"}),
        json!({"user": "root"}),
        json!({"epoch": 7}),
        json!({"credential": null}),
        json!({"tokens": null}),
        json!({"client": "x"}),
    ] {
        let refused = world
            .cluster
            .merge_patch::<KiteSession>(
                FieldManager::new("kubectl"),
                &ObjectKey::cluster(session.name_any()),
                &json!({"spec": spec}),
            )
            .await;
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("sign in again"), "{spec}: {text}");
    }
}

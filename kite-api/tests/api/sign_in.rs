//! Sign-up, sign-in and what slows down guessing.

use std::net::SocketAddr;

use axum::{body::Body, extract::ConnectInfo};
use http::{Method, Request, header};
use kite_core::crd::{AccessLevel, SignUp};
use serde_json::json;

use crate::world::{PASSWORD, World, request, send};

const SIGN_UP: &str = "/api/v1/auth/sign-up";
const SIGN_IN: &str = "/api/v1/auth/sign-in";

#[tokio::test]
async fn defect_2_the_first_to_sign_up_is_no_administrator() {
    let world = World::new().await;
    let body = json!({"username": "ann", "email": "Ann@kite.test", "password": PASSWORD});
    let made = world.post(SIGN_UP, "", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("/user/accessLevel"), "User");
    let me = world.get("/api/v1/me", made.text("/token")).await;
    assert_eq!(me.text("/email"), "Ann@kite.test");
    assert_eq!(me.body["quota"]["vms"], 5);
    assert!(!me.body.to_string().contains("argon2"));
    world
        .get("/api/v1/admin/users", made.text("/token"))
        .await
        .is_problem(403, "forbidden");

    let level = json!({"username": "eve", "password": PASSWORD, "accessLevel": "Admin"});
    let refused = world.post(SIGN_UP, "", level).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["accessLevel"]);
}

#[tokio::test]
async fn names_and_addresses_are_taken_once() {
    let world = World::new().await;
    let ann = json!({"username": "ann", "email": "ann@kite.test", "password": PASSWORD});
    let (first, second) = tokio::join!(
        world.post(SIGN_UP, "", ann.clone()),
        world.post(
            SIGN_UP,
            "",
            json!({"username": "ann", "password": PASSWORD})
        ),
    );
    let mut codes = [first.status.as_u16(), second.status.as_u16()];
    codes.sort_unstable();
    assert_eq!(codes, [201, 409]);

    let bob = json!({"username": "bob", "email": "bob@kite.test", "password": PASSWORD});
    assert_eq!(world.post(SIGN_UP, "", bob).await.status, 201);
    let same = json!({"username": "bill", "email": "BOB@kite.test", "password": PASSWORD});
    let refused = world.post(SIGN_UP, "", same).await;
    assert_eq!(refused.is_problem(409, "taken").fields(), ["email"]);
}

#[tokio::test]
async fn the_platform_decides_who_may_sign_up() {
    let world = World::new().await;
    let body = json!({"username": "ann", "password": PASSWORD});
    for policy in [SignUp::Closed, SignUp::Invite] {
        world.platform(policy).await;
        let refused = world.post(SIGN_UP, "", body.clone()).await;
        refused.is_problem(403, "sign-up-closed");
        let config = world.get("/api/v1/config", "").await;
        assert_eq!(config.body["signUp"], json!(policy));
    }
}

#[tokio::test]
async fn who_signs_up_is_told_every_wrong_field() {
    let world = World::new().await;
    let body = json!({"username": 5, "email": "x", "password": "short", "usrname": "ann"});
    let refused = world.post(SIGN_UP, "", body).await;
    let fields = refused.is_problem(422, "invalid").fields();
    assert_eq!(fields, ["username", "email", "password", "usrname"]);

    for (field, value, remedy) in [
        ("username", "Ann Smith", "lower-case"),
        ("email", "nobody", "ann@example.org"),
    ] {
        let mut body = json!({"username": "ann", "password": PASSWORD});
        body[field] = value.into();
        let refused = world.post(SIGN_UP, "", body).await;
        refused.is_problem(422, "invalid");
        let error = refused.body["errors"]
            .as_array()
            .unwrap()
            .iter()
            .find(|error| error["field"] == field || error["field"] == "name")
            .unwrap();
        assert!(
            error["message"].as_str().unwrap().contains(remedy),
            "{error}"
        );
    }
}

#[tokio::test]
async fn unknown_users_and_wrong_passwords_get_the_same_answer() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let wrong = world
        .post(
            SIGN_IN,
            "",
            json!({"username": "ann", "password": "wrong horse"}),
        )
        .await;
    let unknown = world
        .post(
            SIGN_IN,
            "",
            json!({"username": "nobody", "password": PASSWORD}),
        )
        .await;
    wrong.is_problem(401, "wrong-credentials");
    assert_eq!(wrong.body, unknown.body);
    assert!(wrong.headers.contains_key(header::WWW_AUTHENTICATE));
}

#[tokio::test]
async fn defect_2_guessing_is_slowed_down_and_the_owner_still_gets_in() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let guess = json!({"username": "ann", "password": "wrong horse"});
    let elsewhere = |n: u8| {
        let mut guess = request(Method::POST, SIGN_IN, "", Some(guess.clone()));
        guess
            .extensions_mut()
            .insert(axum::extract::ConnectInfo(std::net::SocketAddr::from((
                [198, 51, 100, n],
                1,
            ))));
        guess
    };
    let mut waits = 0;
    for n in 0..30 {
        let answer = send(&world.router, elsewhere(n)).await;
        waits += u32::from(answer.status == 429);
    }
    assert!(
        waits > 0,
        "an account is not open to any number of addresses"
    );
    world.sign_in("ann").await;

    for _ in 0..5 {
        let refused = world.post(SIGN_IN, "", guess.clone()).await;
        refused.is_problem(401, "wrong-credentials");
    }
    let refused = world.post(SIGN_IN, "", guess).await;
    refused.is_problem(429, "too-many-requests");
    assert!(refused.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn a_cookie_is_out_of_reach_of_scripts_and_other_sites() {
    let world = World::with(|builder| builder.secure_cookies(true)).await;
    world.user("ann", AccessLevel::User).await;
    let body = json!({"username": "ann", "password": PASSWORD, "cookie": true});
    let signed_in = world.post(SIGN_IN, "", body.clone()).await;
    assert_eq!(signed_in.status, 200);
    assert!(
        signed_in.body.get("token").is_none(),
        "the page never sees it"
    );
    let cookie = signed_in.headers[header::SET_COOKIE].to_str().unwrap();
    for attribute in [
        "HttpOnly",
        "SameSite=Lax",
        "Secure",
        "Path=/",
        "Max-Age=43200",
    ] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(signed_in.headers.contains_key("strict-transport-security"));
    let cookie = cookie.split(';').next().unwrap();
    let renewing = signed_in.headers.get_all(header::SET_COOKIE).iter().nth(1);
    let renewing = renewing.unwrap().to_str().unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/api/v1/auth"] {
        assert!(renewing.contains(attribute), "{renewing}");
    }

    let with_cookie = |method: Method, path: &str, extra: &[(&'static str, &'static str)]| {
        let mut request = request(method, path, "", None);
        let headers = request.headers_mut();
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        headers.insert(header::HOST, "kite.test".parse().unwrap());
        for (name, value) in extra {
            headers.insert(*name, value.parse().unwrap());
        }
        request
    };
    let me = send(&world.router, with_cookie(Method::GET, "/api/v1/me", &[])).await;
    assert_eq!(me.text("/username"), "ann");

    let sign_out = "/api/v1/auth/sign-out";
    for extra in [
        &[][..],
        &[("origin", "https://evil.test")],
        &[("sec-fetch-site", "cross-site")],
    ] {
        let refused = send(&world.router, with_cookie(Method::POST, sign_out, extra)).await;
        refused.is_problem(403, "cross-origin");
    }
    let origin = [("origin", "https://kite.test")];
    let done = send(&world.router, with_cookie(Method::POST, sign_out, &origin)).await;
    assert_eq!(done.status, 204);
    assert!(
        done.headers[header::SET_COOKIE]
            .to_str()
            .unwrap()
            .contains("Max-Age=0")
    );
    let me = send(&world.router, with_cookie(Method::GET, "/api/v1/me", &[])).await;
    me.is_problem(401, "unauthenticated");

    let mut forged = request(Method::POST, SIGN_IN, "", Some(body));
    forged
        .headers_mut()
        .insert("sec-fetch-site", "cross-site".parse().unwrap());
    send(&world.router, forged)
        .await
        .is_problem(403, "cross-origin");
}

/// A guess at the password of somebody else each time, from somewhere else.
fn guess(n: u8) -> Request<Body> {
    let body = json!({"username": format!("user{n}"), "password": "wrong horse"});
    let mut guess = request(Method::POST, SIGN_IN, "", Some(body));
    let address = SocketAddr::from(([198, 51, 100, n], 1));
    guess.extensions_mut().insert(ConnectInfo(address));
    guess
}

fn metric(world: &World, name: &str) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    world.state.metrics().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn however_many_sign_in_at_once_only_so_many_passwords_are_hashed() {
    let world = World::with(|builder| builder.hashing_concurrency(2)).await;
    for n in [0, 1] {
        world.user(&format!("user{n}"), AccessLevel::User).await;
    }
    let guesses = (0..24).map(|n| send(&world.router, guess(n)));
    for answer in futures::future::join_all(guesses).await {
        answer.is_problem(401, "wrong-credentials");
    }
    assert_eq!(metric(&world, "kite_api_passwords_hashing_most "), 2);
    assert_eq!(metric(&world, "kite_api_passwords_hashing "), 0);
    assert_eq!(metric(&world, "kite_api_passwords_refused_total "), 0);
}

#[tokio::test]
async fn who_would_wait_for_too_long_to_sign_in_is_told_to_come_again() {
    let world = World::with(|builder| builder.hashing_concurrency(1)).await;
    let guesses = (0..64).map(|n| send(&world.router, guess(n)));
    let answers = futures::future::join_all(guesses).await;
    let (refused, answered): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 503);
    for answer in &refused {
        answer.is_problem(503, "unavailable");
        assert_eq!(answer.headers[header::RETRY_AFTER], "2");
    }
    for answer in &answered {
        answer.is_problem(401, "wrong-credentials");
    }
    assert!(!refused.is_empty());
    assert!(answered.len() >= 32, "{}", answered.len());
    let counted = metric(&world, "kite_api_passwords_refused_total ");
    assert_eq!(counted, u64::try_from(refused.len()).unwrap());
    assert_eq!(metric(&world, "kite_api_passwords_hashing_most "), 1);
}

//! Many people behind one address, and one of them guesses.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, extract::ConnectInfo};
use futures::future::join_all;
use http::{Method, header};
use kite_core::{
    cidr::Cidr,
    cluster::Cluster as _,
    crd::{AccessLevel, KitePlatform, KitePlatformSpec, KitePlatformStatus},
    names,
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    gate::Gate,
    world::{Answer, PASSWORD, PATIENCE, World, request, send},
};

const SIGN_UP: &str = "/api/v1/auth/sign-up";
const SIGN_IN: &str = "/api/v1/auth/sign-in";
const PROVE: &str = "/api/v1/auth/prove";

/// From 192.0.2.1, as most that is asked here, by nothing that says what it is.
async fn sign_in(router: &Router, username: &str, password: &str) -> Answer {
    let body = json!({"username": username, "password": password});
    send(router, request(Method::POST, SIGN_IN, "", Some(body))).await
}

/// The same by a browser.
async fn sign_in_by(browser: &str, router: &Router, username: &str, password: &str) -> Answer {
    let body = json!({"username": username, "password": password});
    let mut asked = request(Method::POST, SIGN_IN, "", Some(body));
    let headers = asked.headers_mut();
    headers.insert(header::USER_AGENT, browser.parse().unwrap());
    send(router, asked).await
}

/// Guesses 200 times, at several names; how many of the guesses were looked at.
async fn guess(router: &Router, names: &[&str]) -> usize {
    let mut looked_at = 0;
    for name in names.iter().cycle().take(200) {
        let answer = sign_in(router, name, "wrong horse").await;
        match answer.status.as_u16() {
            401 => looked_at += 1,
            _ => drop(answer.is_problem(429, "too-many-requests")),
        }
    }
    looked_at
}

/// Shows the password in a session.
async fn prove(world: &World, token: &str) {
    let proved = world
        .post(PROVE, token, json!({"password": PASSWORD}))
        .await;
    assert_eq!(proved.status, 200, "{proved:?}");
}

/// The controller says that 192.0.2.1 is a node's.
pub async fn tell_of_node(world: &World) {
    let mut platform = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
    platform.status = Some(KitePlatformStatus {
        cluster_addresses: vec!["10.42.0.0/16".to_owned(), "192.0.2.1/32".to_owned()],
        ..KitePlatformStatus::default()
    });
    let written = world
        .cluster
        .apply_status(kite_core::managers::CONTROLLER, &platform)
        .await
        .unwrap();
    let platforms = &world.state.caches().platforms;
    platforms.caught_up_with(&written).await;
}

#[tokio::test]
async fn who_is_known_signs_in_and_proves_it_next_to_somebody_who_guesses() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    // Another process knows of places what stands in the accounts.
    for router in [world.router.clone(), world.replica().await] {
        let names = [
            "eve", "mallory", "trudy", "oscar", "sybil", "wendy", "walter",
        ];
        let looked_at = guess(&router, &names).await;
        assert!(looked_at < 60, "{looked_at}");
        let known = sign_in(&router, "root", PASSWORD).await;
        assert_eq!(known.status, 200, "{known:?}");
    }
    prove(&world, &root).await;
    // Nor do guesses at the very name keep somebody out who is signed in.
    let looked_at = guess(&world.router, &["root"]).await;
    assert!(looked_at < 20, "{looked_at}");
    prove(&world, &root).await;
}

#[tokio::test]
async fn who_guesses_at_a_name_next_to_its_owner_does_not_hold_up_their_browser() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let own = "Firefox/140.0";
    let signed_in = sign_in_by(own, &world.router, "ann", PASSWORD).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    // Another process knows of browsers what stands in the accounts.
    for router in [world.router.clone(), world.replica().await] {
        let mut looked_at = 0;
        for _ in 0..100 {
            let guess = sign_in_by("Chrome/140.0", &router, "ann", "wrong horse").await;
            looked_at += u32::from(guess.status == 401);
        }
        assert!((5..20).contains(&looked_at), "{looked_at}");
        // A newer version of it is the same one.
        let signed_in = sign_in_by("Firefox/141.0", &router, "ann", PASSWORD).await;
        assert_eq!(signed_in.status, 200, "{signed_in:?}");
    }
}

#[tokio::test]
async fn who_is_in_the_network_of_an_account_does_not_find_out_that_there_is_one() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let elsewhere = async |name: &str| {
        let body = json!({"username": name, "password": "wrong horse"});
        let mut asked = request(Method::POST, SIGN_IN, "", Some(body));
        let peer = SocketAddr::from(([192, 0, 2, 77], 4000));
        asked.extensions_mut().insert(ConnectInfo(peer));
        send(&world.router, asked).await
    };
    // Until the address has to wait for longer than what follows takes: each further
    // failure doubles it.
    let mut number = 0;
    loop {
        number += 1;
        let guess = elsewhere(&format!("pupil{number}")).await;
        let wait = guess.headers.get(header::RETRY_AFTER);
        match wait.map(|it| it.to_str().unwrap().parse::<u64>().unwrap()) {
            Some(wait) if wait > 3 => break,
            Some(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            None => drop(guess.is_problem(401, "wrong-credentials")),
        }
    }
    for name in ["ann", "nobody"] {
        let guess = elsewhere(name).await;
        guess.is_problem(429, "too-many-requests");
    }
}

#[tokio::test]
async fn nobody_waits_for_the_address_of_a_node() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    tell_of_node(&world).await;
    // Guesses at a name are bounded all the same: twenty, and one in ten seconds.
    let looked_at = guess(&world.router, &["root", "eve", "mallory", "trudy"]).await;
    assert!((31..150).contains(&looked_at), "{looked_at}");
    prove(&world, &root).await;
    world.user("ann", AccessLevel::User).await;
    for n in 0..12 {
        let body = json!({"username": format!("pupil{n}"), "password": PASSWORD});
        let made = world.post(SIGN_UP, "", body).await;
        assert_eq!(made.status, 201, "{n}: {made:?}");
    }
}

#[tokio::test]
async fn nobody_waits_for_an_address_that_is_named_as_one_of_many() {
    let office: Cidr = "192.0.2.0/24".parse().unwrap();
    let world = World::with(|builder| builder.never_throttle([office])).await;
    let root = world.user("root", AccessLevel::Admin).await;
    let looked_at = guess(&world.router, &["root", "eve"]).await;
    assert!((31..100).contains(&looked_at), "{looked_at}");
    world.user("ann", AccessLevel::User).await;
    prove(&world, &root).await;
}

#[tokio::test]
async fn behind_the_address_of_a_node_more_than_a_network_s_share_are_looked_up() {
    let world = World::new().await;
    tell_of_node(&world).await;
    let (router, gate) = Gate::replica(
        &world,
        |it| it,
        |request| request.uri().path().contains("/kitepasswords/"),
    )
    .await;
    // So many are never refused by chance.
    let sign_ins = (0..16).map(|n| {
        let router = &router;
        async move { sign_in(router, &format!("pupil{n}"), "wrong horse").await }
    });
    let held = async {
        for _ in 0..16 {
            let held = timeout(PATIENCE, gate.holds_one()).await;
            held.expect("it is not looked up");
        }
        gate.let_on(16);
    };
    let (answers, ()) = tokio::join!(join_all(sign_ins), held);
    for answer in answers {
        answer.is_problem(401, "wrong-credentials");
    }
}

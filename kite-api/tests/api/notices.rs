//! What the owner of an account is told of until they have seen it.

use ::http::{Method, header};
use serde_json::{Value, json};

use kite_core::crd::AccessLevel;

use crate::{
    lists::new_vm,
    totp,
    world::{Answer, PASSWORD, World, request, send},
};

const NOTICES: &str = "/api/v1/me/notices";
const SEEN: &str = "/api/v1/me/notices/seen";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPiqyTxtME/fP/AjvyYbmGxAINhZ4sLF0vR2kkzvYbEg ann";

async fn kinds(world: &World, token: &str) -> Vec<String> {
    let answer = world.get(NOTICES, token).await;
    let items = answer.body["items"].as_array().unwrap().clone();
    let kind = |item: &Value| item["kind"].as_str().unwrap().to_owned();
    let mut kinds: Vec<_> = items.iter().map(kind).collect();
    kinds.sort();
    kinds
}

/// Puts away all that there is.
async fn see(world: &World, token: &str) -> Answer {
    let answer = world.get(NOTICES, token).await;
    let until = answer.text("/items/0/at");
    world.post(SEEN, token, json!({"until": until})).await
}

async fn sign_in_by(world: &World, agent: &str) -> Answer {
    let body = json!({"username": "ann", "password": PASSWORD});
    let mut asked = request(Method::POST, "/api/v1/auth/sign-in", "", Some(body));
    let agent = agent.parse().unwrap();
    asked.headers_mut().insert(header::USER_AGENT, agent);
    send(&world.router, asked).await
}

#[tokio::test]
async fn a_sign_in_from_a_new_place_is_told_once() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    // The first place of all is none.
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    sign_in_by(&world, "Mozilla/5.0 Firefox/140.0").await;
    let told = world.get(NOTICES, &ann).await;
    assert_eq!(told.text("/items/0/kind"), "SignIn");
    assert_eq!(told.text("/items/0/name"), "Mozilla/5.0 Firefox/140.0");
    assert_eq!(told.text("/items/0/network"), "192.0.2.0/24");
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    // A newer version of it is no other place, and neither is the first one.
    sign_in_by(&world, "Mozilla/6.0 Firefox/141.0").await;
    world.sign_in("ann").await;
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn what_opens_the_account_is_told_until_it_is_seen_on_every_replica() {
    let world = World::new().await;
    let other = world.replica().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (ann, ..) = totp::ann(&world).await;
    let user = "/api/v1/admin/users/ann";
    let token = json!({"name": "ci", "scopes": ["account:read"]});
    let made = world.post("/api/v1/me/tokens", &ann, token).await;
    assert_eq!(made.status, 201, "{made:?}");
    let keys = json!({"sshPublicKeys": [KEY]});
    assert_eq!(world.patch("/api/v1/me", &ann, keys).await.status, 200);
    let quota = json!({"quota": {"vms": 3, "cpu": 4, "memory": "8Gi", "disk": "100Gi"}});
    assert_eq!(world.patch(user, &root, quota).await.status, 200);
    let remove = json!({"removeSecondFactor": true});
    assert_eq!(world.patch(user, &root, remove).await.status, 200);
    let expected = ["Key", "Quota", "SecondFactor", "Token"];
    assert_eq!(kinds(&world, &ann).await, expected);
    // A token tells, and puts nothing away.
    let token = made.text("/token");
    assert_eq!(kinds(&world, token).await, expected);
    let refused = world
        .post(SEEN, token, json!({"until": "2026-01-01T00:00:00Z"}))
        .await;
    refused.is_problem(403, "forbidden");

    assert_eq!(see(&world, &ann).await.status, 204);
    world
        .until("they are seen there", async || {
            let asked = request(Method::GET, NOTICES, &ann, None);
            send(&other, asked).await.body["items"] == json!([])
        })
        .await;
    // Nor does what somebody says to have seen before bring them back.
    let earlier = json!({"until": "2026-01-01T00:00:00Z"});
    assert_eq!(world.post(SEEN, &ann, earlier).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    // What is still to come was seen by nobody.
    let ahead = json!({"until": "2999-01-01T00:00:00Z"});
    assert_eq!(world.post(SEEN, &ann, ahead).await.status, 204);
    let edit = json!({"sshPublicKeys": []});
    assert_eq!(world.patch("/api/v1/me", &ann, edit).await.status, 200);
    let edit = json!({"sshPublicKeys": [KEY]});
    assert_eq!(world.patch("/api/v1/me", &ann, edit).await.status, 200);
    assert_eq!(kinds(&world, &ann).await, ["Key"]);
}

#[tokio::test]
async fn a_session_in_other_hands_puts_no_notice_away() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    sign_in_by(&world, "Mozilla/5.0 Firefox/140.0").await;
    world.age_proofs().await;
    see(&world, &ann).await.is_problem(403, "proof-required");
    assert_eq!(kinds(&world, &ann).await, ["SignIn"]);
    let proof = json!({"password": PASSWORD});
    let proved = world.post("/api/v1/auth/prove", &ann, proof).await;
    assert_eq!(proved.status, 200, "{proved:?}");
    assert_eq!(see(&world, &ann).await.status, 204);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

#[tokio::test]
async fn a_vm_that_ends_soon_is_told_of_again_when_its_end_is_another() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let end = |hours: i64| (jiff::Timestamp::now() + jiff::Span::new().hours(hours)).to_string();
    let mut vm = new_vm("web");
    vm["expiresAt"] = end(100).into();
    assert_eq!(world.post("/api/v1/vms", &ann, vm).await.status, 201);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
    for hours in [2, 3] {
        let until = end(hours);
        let edit = json!({"expiresAt": until});
        let edited = world.patch("/api/v1/vms/web", &ann, edit).await;
        assert_eq!(edited.status, 200, "{edited:?}");
        let told = world.get(NOTICES, &ann).await;
        assert_eq!(told.text("/items/0/kind"), "VmExpires");
        assert_eq!(told.text("/items/0/name"), "web");
        let told: jiff::Timestamp = told.text("/items/0/until").parse().unwrap();
        assert_eq!(
            told.as_second(),
            until.parse::<jiff::Timestamp>().unwrap().as_second()
        );
        assert_eq!(see(&world, &ann).await.status, 204);
        assert_eq!(kinds(&world, &ann).await, [""; 0]);
    }
    let edit = json!({"expiresAt": end(200)});
    assert_eq!(world.patch("/api/v1/vms/web", &ann, edit).await.status, 200);
    assert_eq!(kinds(&world, &ann).await, [""; 0]);
}

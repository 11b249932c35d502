//! One's own account: password, keys, and where one is signed in.

use http::Method;
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteUser},
    password::PasswordHash,
};
use serde_json::json;

use crate::world::{PASSWORD, World, request, send};

const ME: &str = "/api/v1/me";
const NEW: &str = "another battery";

async fn sign_in(world: &World, password: &str) -> u16 {
    let body = json!({"username": "ann", "password": password});
    let answer = world.post("/api/v1/auth/sign-in", "", body).await;
    answer.status.as_u16()
}

#[tokio::test]
async fn another_password_ends_all_sessions_on_every_replica() {
    let world = World::new().await;
    let other = world.replica().await;
    let token = world.user("ann", AccessLevel::ReadOnly).await;
    let elsewhere = world.sign_in("ann").await;

    let change = |current: &str, new: &str| {
        let body = json!({"currentPassword": current, "newPassword": new});
        world.post("/api/v1/me/password", &token, body)
    };
    let refused = change("not the password", NEW).await;
    refused.is_problem(401, "wrong-credentials");
    assert_eq!(refused.fields(), ["currentPassword"]);
    let shown = refused.body.to_string();
    assert!(!shown.contains("not the password\""), "{shown}");
    change(PASSWORD, "short").await.is_problem(422, "invalid");
    change(PASSWORD, PASSWORD).await.is_problem(422, "invalid");
    change(PASSWORD, "ann").await.is_problem(422, "invalid");
    assert_eq!(world.get(ME, &elsewhere).await.status, 200);

    let changed = change(PASSWORD, NEW).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let next = changed.text("/token").to_owned();
    assert_eq!(world.get(ME, &next).await.status, 200);
    for old in [&token, &elsewhere] {
        world.get(ME, old).await.is_problem(401, "unauthenticated");
        world
            .until("the session ends there", async || {
                let asked = request(Method::GET, ME, old, None);
                send(&other, asked).await.status == 401
            })
            .await;
    }
    assert_eq!(sign_in(&world, PASSWORD).await, 401);
    assert_eq!(sign_in(&world, NEW).await, 200);
}

#[tokio::test]
async fn a_session_does_not_outlive_its_password_whoever_changed_it() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    let hash = PasswordHash::create(NEW).unwrap();
    let edited = world
        .cluster
        .merge_patch::<KiteUser>(
            FieldManager::new("kubectl"),
            &ObjectKey::cluster("ann"),
            &json!({"spec": {"passwordHash": hash}}),
        )
        .await
        .unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
    // Its object is still there: that it was begun with another password is enough.
    let sessions = world.state.caches().sessions.list(|_| true);
    assert_eq!(sessions.len(), 1);
    world
        .get(ME, &token)
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn an_administrator_gives_another_password() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let manager = world.user("max", AccessLevel::Manager).await;
    let token = world.user("ann", AccessLevel::User).await;
    let path = "/api/v1/admin/users/ann";
    let body = json!({"password": NEW});
    let refused = world.patch(path, &manager, body.clone()).await;
    refused.is_problem(403, "forbidden");
    let changed = world.patch(path, &admin, body.clone()).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert!(!changed.body.to_string().contains("argon2"));
    world
        .get(ME, &token)
        .await
        .is_problem(401, "unauthenticated");
    assert_eq!(sign_in(&world, NEW).await, 200);
    // One's own only by telling the current one.
    let own = world.patch("/api/v1/admin/users/root", &admin, body).await;
    own.is_problem(422, "invalid");
    let weak = world.patch(path, &admin, json!({"password": "x"})).await;
    weak.is_problem(422, "invalid");
    assert_eq!(weak.text("/errors/0/field"), "password");
    assert_eq!(weak.body["errors"][0].get("value"), None, "never echoed");
}

#[tokio::test]
async fn keys_and_address_are_one_s_own_to_change() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    world.user("bob", AccessLevel::User).await;
    let key =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti ann";
    let body = json!({"email": "ann@example.org", "sshPublicKeys": [key]});
    let edited = world.patch(ME, &token, body).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let me = world.get(ME, &token).await;
    assert_eq!(me.body["email"], "ann@example.org");
    assert_eq!(me.body["sshPublicKeys"], json!([key]));
    let bad = json!({"sshPublicKeys": ["not a key"]});
    let refused = world.patch(ME, &token, bad).await;
    refused.is_problem(422, "invalid");
    for (field, value) in [
        ("accessLevel", json!("Admin")),
        ("quota", json!({"vms": 99})),
        ("suspended", json!(false)),
        ("username", json!("root")),
        ("password", json!(NEW)),
    ] {
        let refused = world.patch(ME, &token, json!({field: value})).await;
        refused.is_problem(422, "invalid");
        assert_eq!(refused.text("/errors/0/field"), field);
    }
    let bob = world.sign_in("bob").await;
    let body = json!({"email": "ann@example.org"});
    world.patch(ME, &bob, body).await.is_problem(409, "taken");
    let removed = world.patch(ME, &token, json!({"email": null})).await;
    assert_eq!(removed.body.get("email"), None);

    let reader = world.user("eve", AccessLevel::ReadOnly).await;
    let body = json!({"sshPublicKeys": [key]});
    world
        .patch(ME, &reader, body)
        .await
        .is_problem(403, "forbidden");
}

#[tokio::test]
async fn where_one_is_signed_in_is_told_and_ended() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    let second = world.sign_in("ann").await;
    let third = world.sign_in("ann").await;
    let bob = world.user("bob", AccessLevel::User).await;
    let path = "/api/v1/me/sessions";
    let listed = world.get(path, &token).await;
    let items = listed.body["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), 3, "{listed:?}");
    let current: Vec<_> = items.iter().filter(|it| it["current"] == true).collect();
    assert_eq!(current.len(), 1);
    assert!(!listed.body.to_string().contains(&second));

    // Bob can end his own only.
    let other = items.iter().find(|it| it["current"] == false).unwrap();
    let one = format!("{path}/{}", other["name"].as_str().unwrap());
    world.delete(&one, &bob).await.is_problem(404, "not-found");
    assert_eq!(world.delete(&one, &token).await.status, 204);
    assert_eq!(
        world.get(path, &token).await.body["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(world.delete(path, &token).await.status, 204);
    for ended in [&second, &third] {
        world
            .get(ME, ended)
            .await
            .is_problem(401, "unauthenticated");
    }
    assert_eq!(world.get(ME, &token).await.status, 200);
    assert_eq!(world.get(ME, &bob).await.status, 200);
}

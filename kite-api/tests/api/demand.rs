//! A second factor that the platform asks for.

use ::http::Method;
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KitePlatform, SecondFactorOf},
    names,
};
use serde_json::{Value, json};

use crate::{
    totp::{self, App},
    world::{PASSWORD, World, request, send},
};

const PLATFORM: &str = "/api/v1/admin/platform";
const MISSING: &str = "second-factor-missing";

async fn ask_for(world: &World, whose: SecondFactorOf) {
    let patch = json!({"spec": {"requireSecondFactor": whose}});
    let key = ObjectKey::cluster(names::PLATFORM);
    let manager = FieldManager::new("test");
    let edited: KitePlatform = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    world.state.caches().platforms.caught_up_with(&edited).await;
}

pub async fn set_up(world: &World, token: &str) -> App {
    let body = json!({"password": PASSWORD});
    let app = App::of(&world.post("/api/v1/me/totp", token, body).await);
    let body = json!({"code": app.code(0)});
    let confirmed = world.post("/api/v1/me/totp/confirm", token, body).await;
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
    app
}

#[tokio::test]
async fn who_lacks_one_does_nothing_but_set_one_up() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    ask_for(&world, SecondFactorOf::Everybody).await;
    // Who is signed in already, and who signs in now.
    for token in [ann.clone(), world.sign_in("ann").await] {
        let me = world.get("/api/v1/me", &token).await;
        assert_eq!(me.body["secondFactorMissing"], true);
        for path in ["/api/v1/vms", "/api/v1/images", "/api/v1/me/tokens"] {
            let refused = world.get(path, &token).await;
            let detail = refused.is_problem(403, MISSING).text("/detail");
            assert!(detail.contains("/api/v1/me/totp"), "{detail}");
        }
        for (path, body) in [
            ("/api/v1/vms", crate::lists::new_vm("web")),
            (
                "/api/v1/me/tokens",
                json!({"name": "a", "scopes": ["vms:read"]}),
            ),
            (
                "/api/v1/me/password",
                json!({"currentPassword": PASSWORD, "newPassword": "another battery"}),
            ),
        ] {
            let refused = world.post(path, &token, body).await;
            refused.is_problem(403, MISSING);
        }
        assert_eq!(world.get("/api/v1/me/totp", &token).await.status, 200);
        assert_eq!(world.get("/api/v1/me/sessions", &token).await.status, 200);
    }
    let stream = request(Method::GET, "/api/v1/events", &ann, None);
    send(&world.router, stream).await.is_problem(403, MISSING);

    set_up(&world, &ann).await;
    assert_eq!(world.get("/api/v1/vms", &ann).await.status, 200);
    let me = world.get("/api/v1/me", &ann).await;
    assert_eq!(me.body["secondFactorMissing"], false);
    // Signing out is everybody's.
    let out = world.post("/api/v1/auth/sign-out", &ann, json!({})).await;
    assert_eq!(out.status, 204, "{out:?}");
}

#[tokio::test]
async fn it_is_asked_of_whom_the_setting_names() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mia = world.user("mia", AccessLevel::Manager).await;
    let root = world.user("root", AccessLevel::Admin).await;
    for (whose, expected) in [
        (SecondFactorOf::Nobody, [200, 200, 200]),
        (SecondFactorOf::Administrators, [200, 200, 403]),
        (SecondFactorOf::Everybody, [403, 403, 403]),
    ] {
        ask_for(&world, whose).await;
        let mut seen = Vec::new();
        for token in [&ann, &mia, &root] {
            seen.push(world.get("/api/v1/vms", token).await.status.as_u16());
        }
        assert_eq!(seen, expected, "{whose:?}");
    }
}

#[tokio::test]
async fn api_tokens_of_such_an_account_do_nothing_until_it_is_set_up() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let body = json!({"name": "ci", "scopes": ["vms:read", "account:read"]});
    let made = world.post("/api/v1/me/tokens", &ann, body).await;
    let token = made.text("/token");
    ask_for(&world, SecondFactorOf::Everybody).await;
    for path in ["/api/v1/vms", "/api/v1/me"] {
        world.get(path, token).await.is_problem(403, MISSING);
    }
    set_up(&world, &ann).await;
    assert_eq!(world.get("/api/v1/vms", token).await.status, 200);
}

#[tokio::test]
async fn what_is_taken_away_is_missing_again() {
    let world = World::new().await;
    let (token, _, codes) = totp::ann(&world).await;
    ask_for(&world, SecondFactorOf::Everybody).await;
    assert_eq!(world.get("/api/v1/vms", &token).await.status, 200);
    let body = json!({"password": PASSWORD, "code": codes[0]});
    let gone = request(Method::DELETE, "/api/v1/me/totp", &token, Some(body));
    assert_eq!(send(&world.router, gone).await.status, 204);
    world
        .get("/api/v1/vms", &token)
        .await
        .is_problem(403, MISSING);
}

#[tokio::test]
async fn an_administrator_without_one_keeps_nobody_out() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ask = |token: &str, whose: &str| {
        let body = json!({"requireSecondFactor": whose});
        let asked = request(Method::PATCH, PLATFORM, token, Some(body));
        send(&world.router, asked)
    };
    for whose in ["Administrators", "Everybody"] {
        let refused = ask(&root, whose).await;
        assert_eq!(
            refused.is_problem(409, "conflict").fields(),
            ["requireSecondFactor"]
        );
    }
    let refused = ask(&root, "Sometimes").await;
    assert_eq!(
        refused.is_problem(422, "invalid").fields(),
        ["requireSecondFactor"]
    );
    let seen = world.get(PLATFORM, &root).await;
    assert_eq!(seen.body.get("requireSecondFactor"), None::<&Value>);
    set_up(&world, &root).await;
    let done = ask(&root, "Everybody").await;
    assert_eq!(done.text("/requireSecondFactor"), "Everybody");
    assert_eq!(world.get("/api/v1/admin/users", &root).await.status, 200);

    // No API token says who needs one, whatever its scopes.
    let body = json!({"name": "all", "scopes": ["admin"]});
    let made = world.post("/api/v1/me/tokens", &root, body).await;
    for whose in ["Nobody", "Administrators"] {
        ask(made.text("/token"), whose)
            .await
            .is_problem(403, "forbidden");
    }
    assert_eq!(ask(&root, "Nobody").await.status, 200);
}

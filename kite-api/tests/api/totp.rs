//! The second factor: an authenticator app and recovery codes.

use std::sync::Arc;

use http::Method;
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteSecondFactor, KiteUser},
    names,
};
use serde_json::{Value, json};
use totp_rs::{Builder, Totp};

use crate::world::{Answer, PASSWORD, World, request, send};

const TOTP: &str = "/api/v1/me/totp";
const CONFIRM: &str = "/api/v1/me/totp/confirm";
const SIGN_IN: &str = "/api/v1/auth/sign-in";

/// What the app on somebody's telephone knows.
pub struct App(Totp);

impl App {
    pub fn of(begun: &Answer) -> Self {
        assert_eq!(begun.status, 201, "{begun:?}");
        let secret = totp_rs::Secret::try_from_base32(begun.text("/secret")).unwrap();
        Self(Builder::new().with_secret(secret).build().unwrap())
    }

    /// The code of a span of thirty seconds that is `ahead` of now.
    pub fn code(&self, ahead: i64) -> String {
        let at = Timestamp::now() + (ahead * 30).seconds();
        let at = u64::try_from(at.as_second()).unwrap();
        self.0.generate(at).to_string()
    }
}

fn credentials(code: Option<&str>) -> Value {
    let mut body = json!({"username": "ann", "password": PASSWORD});
    if let Some(code) = code {
        body["code"] = code.into();
    }
    body
}

fn proof(password: &str) -> Value {
    json!({"password": password})
}

pub async fn sign_in(world: &World, code: Option<&str>) -> Answer {
    world.post(SIGN_IN, "", credentials(code)).await
}

/// Ann with a second factor, for which the code of this span was used: that of the
/// next is good, too, whichever span it is by then.
pub async fn ann(world: &World) -> (String, App, Vec<String>) {
    let token = world.user("ann", AccessLevel::User).await;
    let app = App::of(&world.post(TOTP, &token, proof(PASSWORD)).await);
    let body = json!({"code": app.code(0)});
    let confirmed = world.post(CONFIRM, &token, body).await;
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
    let codes = serde_json::from_value(confirmed.body["recoveryCodes"].clone()).unwrap();
    (token, app, codes)
}

pub async fn factor(world: &World) -> KiteSecondFactor {
    let key = ObjectKey::cluster("ann");
    world.cluster.get(&key).await.unwrap()
}

#[tokio::test]
async fn signing_in_asks_for_a_code_once_one_was_told() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    let begun = world.post(TOTP, &token, proof(PASSWORD)).await;
    assert!(
        begun.text("/url").starts_with("otpauth://totp/Kite:ann?"),
        "{begun:?}"
    );
    // Not before: who never got it into the app is not locked out.
    assert_eq!(sign_in(&world, None).await.status, 200);
    let app = App::of(&world.post(TOTP, &token, proof(PASSWORD)).await);
    let wrong = world
        .post(CONFIRM, &token, json!({"code": "nothing"}))
        .await;
    wrong.is_problem(401, "wrong-credentials");
    let body = json!({"code": app.code(0)});
    let confirmed = world.post(CONFIRM, &token, body).await;
    assert_eq!(
        confirmed.body["recoveryCodes"].as_array().unwrap().len(),
        10
    );
    let state = world.get(TOTP, &token).await;
    assert_eq!(
        state.body,
        json!({"enabled": true, "recoveryCodesLeft": 10})
    );

    let refused = sign_in(&world, None).await;
    refused.is_problem(401, "second-factor-required");
    let refused = sign_in(&world, Some("000000x")).await;
    refused.is_problem(401, "second-factor-required");
    assert_eq!(refused.fields(), ["code"]);
    // Who does not know the password learns nothing of it.
    let body = json!({"username": "ann", "password": "wrong horse", "code": app.code(1)});
    let refused = world.post(SIGN_IN, "", body).await;
    refused.is_problem(401, "wrong-credentials");
    let done = sign_in(&world, Some(&app.code(1))).await;
    assert_eq!(done.status, 200, "{done:?}");

    world
        .post(TOTP, &token, proof(PASSWORD))
        .await
        .is_problem(409, "conflict");
    let body = json!({"code": app.code(1)});
    world
        .post(CONFIRM, &token, body)
        .await
        .is_problem(409, "conflict");
}

#[tokio::test]
async fn a_session_in_other_hands_locks_nobody_out() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    let begin = |body: Value| world.post(TOTP, &token, body);
    let refused = begin(json!({})).await;
    assert_eq!(refused.is_problem(422, "invalid").fields(), ["password"]);
    for _ in 0..5 {
        let refused = begin(proof("wrong horse")).await;
        refused.is_problem(401, "wrong-credentials");
        assert_eq!(refused.fields(), ["password"]);
        assert_eq!(refused.body["errors"][0].get("value"), None);
    }
    // Guesses are counted with those of signing in, and the right one comes too late, too.
    let refused = begin(proof(PASSWORD)).await;
    refused.is_problem(429, "too-many-requests");
    assert!(refused.headers.contains_key("retry-after"));
    let refused = sign_in(&world, None).await;
    refused.is_problem(429, "too-many-requests");
    let key = ObjectKey::cluster("ann");
    let made: Option<KiteSecondFactor> = world.cluster.get_opt(&key).await.unwrap();
    assert!(made.is_none());
}

#[tokio::test]
async fn who_has_no_password_has_no_second_factor_beside_it() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let key = ObjectKey::cluster("ann");
    let patch = json!({"spec": {"passwordHash": null, "credential": null}});
    let ann: KiteUser = world
        .cluster
        .merge_patch(FieldManager::new("test"), &key, &patch)
        .await
        .unwrap();
    let router = kite_api::api_router(world.state.clone())
        .layer(axum::Extension(kite_api::Principal::new(Arc::new(ann))));
    for body in [json!({}), proof(PASSWORD)] {
        let asked = request(Method::POST, TOTP, "", Some(body));
        send(&router, asked).await.is_problem(409, "conflict");
    }
}

#[tokio::test]
async fn a_code_is_good_once_on_all_replicas_together() {
    let world = World::new().await;
    let other = world.replica().await;
    let (_, app, _) = ann(&world).await;
    let code = app.code(1);
    let ask = |router| {
        let body = credentials(Some(&code));
        send(router, request(Method::POST, SIGN_IN, "", Some(body)))
    };
    let (here, there) = tokio::join!(ask(&world.router), ask(&other));
    let mut codes = [here.status.as_u16(), there.status.as_u16()];
    codes.sort_unstable();
    assert_eq!(codes, [200, 401], "{here:?} {there:?}");
    let again = ask(&other).await;
    again.is_problem(401, "second-factor-required");
    // Nor one from before.
    let earlier = sign_in(&world, Some(&app.code(0))).await;
    earlier.is_problem(401, "second-factor-required");
}

#[tokio::test]
async fn a_recovery_code_is_good_once() {
    let world = World::new().await;
    let (token, _, codes) = ann(&world).await;
    let (first, second) = tokio::join!(
        sign_in(&world, Some(&codes[0])),
        sign_in(&world, Some(&codes[0])),
    );
    let mut statuses = [first.status.as_u16(), second.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401]);
    // As people type it.
    let typed = codes[1].to_uppercase().replace('-', " ");
    assert_eq!(sign_in(&world, Some(&typed)).await.status, 200);
    let state = world.get(TOTP, &token).await;
    assert_eq!(state.body["recoveryCodesLeft"], 8);
}

#[tokio::test]
async fn guessing_codes_is_slowed_down_by_itself() {
    let world = World::new().await;
    let (_, app, _) = ann(&world).await;
    for _ in 0..5 {
        let refused = sign_in(&world, Some("123")).await;
        refused.is_problem(401, "second-factor-required");
        // The right password in between is no way around.
        let refused = sign_in(&world, None).await;
        refused.is_problem(401, "second-factor-required");
    }
    let refused = sign_in(&world, Some(&app.code(1))).await;
    refused.is_problem(429, "too-many-requests");
}

/// Whoever has a session and its browser guesses no more often for it.
#[tokio::test]
async fn codes_that_are_guessed_in_a_session_count_with_those_of_signing_in() {
    let world = World::new().await;
    let (token, app, _) = ann(&world).await;
    for _ in 0..5 {
        let mut body = proof(PASSWORD);
        body["code"] = "123".into();
        let asked = request(Method::DELETE, TOTP, &token, Some(body));
        let refused = send(&world.router, asked).await;
        refused.is_problem(401, "second-factor-required");
    }
    let refused = sign_in(&world, Some(&app.code(1))).await;
    refused.is_problem(429, "too-many-requests");
}

#[tokio::test]
async fn neither_secret_nor_codes_are_to_be_read_anywhere() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    let begun = world.post(TOTP, &token, proof(PASSWORD)).await;
    let app = App::of(&begun);
    let body = json!({"code": app.code(0)});
    let confirmed = world.post(CONFIRM, &token, body).await;
    let object = serde_json::to_string(&factor(&world).await).unwrap();
    assert!(!object.contains(begun.text("/secret")));
    for code in confirmed.body["recoveryCodes"].as_array().unwrap() {
        let code = code.as_str().unwrap();
        assert!(!object.contains(code) && !object.contains(&code.replace('-', "")));
    }
    // Somebody else's does not open in one's own place.
    let key = ObjectKey::namespaced(names::PLATFORM_NAMESPACE, names::SEAL_SECRET);
    let secret: Secret = world.cluster.get(&key).await.unwrap();
    assert_eq!(secret.data.unwrap()["key"].0.len(), 32);
}

#[tokio::test]
async fn it_is_taken_away_with_password_and_code_or_by_an_administrator() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let manager = world.user("max", AccessLevel::Manager).await;
    let (token, app, codes) = ann(&world).await;
    let remove = |password: &str, code: Option<&str>| {
        let mut body = proof(password);
        if let Some(code) = code {
            body["code"] = code.into();
        }
        send(
            &world.router,
            request(Method::DELETE, TOTP, &token, Some(body)),
        )
    };
    // Whoever knows the password alone keeps it, however fresh the session.
    remove(PASSWORD, None)
        .await
        .is_problem(401, "second-factor-required");
    remove(PASSWORD, Some("000000x"))
        .await
        .is_problem(401, "second-factor-required");
    remove("wrong horse", Some(&codes[0]))
        .await
        .is_problem(401, "wrong-credentials");
    assert_eq!(sign_in(&world, None).await.status, 401);
    assert_eq!(remove(PASSWORD, Some(&codes[0])).await.status, 204);
    remove(PASSWORD, None).await.is_problem(404, "not-found");
    assert_eq!(sign_in(&world, None).await.status, 200);
    // One that was never confirmed guards nothing.
    world.post(TOTP, &token, proof(PASSWORD)).await;
    assert_eq!(remove(PASSWORD, None).await.status, 204);

    let next = App::of(&world.post(TOTP, &token, proof(PASSWORD)).await);
    assert_ne!(next.code(0), app.code(1), "a new secret");
    let body = json!({"code": next.code(0)});
    assert_eq!(world.post(CONFIRM, &token, body).await.status, 200);
    let path = "/api/v1/admin/users/ann";
    let edit = json!({"removeSecondFactor": true});
    world
        .patch(path, &manager, edit.clone())
        .await
        .is_problem(403, "forbidden");
    assert_eq!(world.patch(path, &root, edit.clone()).await.status, 200);
    assert_eq!(sign_in(&world, None).await.status, 200);
    let own = world.patch("/api/v1/admin/users/root", &root, edit).await;
    assert_eq!(
        own.is_problem(422, "invalid").fields(),
        ["removeSecondFactor"]
    );
}

#[tokio::test]
async fn an_edit_that_is_refused_leaves_the_second_factor() {
    let world = World::new().await;
    ann(&world).await;
    let root = world.user("root", AccessLevel::Admin).await;
    let path = "/api/v1/admin/users/ann";
    let edit = |tag: &str, more: serde_json::Value| {
        let mut body = json!({"removeSecondFactor": true});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap());
        let mut edit = request(Method::PATCH, path, &root, Some(body));
        edit.headers_mut().insert("if-match", tag.parse().unwrap());
        send(&world.router, edit)
    };
    let email = json!({"email": "root@kite.test"});
    let own = world.patch("/api/v1/me", &root, email.clone()).await;
    assert_eq!(own.status, 200, "{own:?}");

    for more in [json!({}), json!({"accessLevel": "Manager"})] {
        let refused = edit("\"stale.1\"", more).await;
        refused.is_problem(412, "changed-meanwhile");
    }
    edit("*", email).await.is_problem(409, "taken");
    assert_eq!(sign_in(&world, None).await.status, 401, "it is still there");

    let tag = world.get(path, &root).await.text("/etag").to_owned();
    assert_eq!(edit(&tag, json!({})).await.status, 200);
    assert_eq!(sign_in(&world, None).await.status, 200);
}

#[tokio::test]
async fn a_second_factor_of_an_earlier_user_of_the_name_does_not_count() {
    let world = World::new().await;
    ann(&world).await;
    let patch = json!({"spec": {"userUid": "another"}});
    let key = ObjectKey::cluster("ann");
    let manager = FieldManager::new("test");
    let edited: KiteSecondFactor = world
        .cluster
        .merge_patch(manager, &key, &patch)
        .await
        .unwrap();
    assert!(edited.spec.confirmed);
    assert_eq!(sign_in(&world, None).await.status, 200);
}

#[tokio::test]
async fn no_api_token_touches_a_second_factor() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let token = world.post(
        "/api/v1/me/tokens",
        &root,
        json!({"name": "ci", "scopes": ["admin", "account:write"]}),
    );
    let token = token.await.text("/token").to_owned();
    // Nor does an API token make one.
    for (method, path) in [
        (Method::POST, TOTP),
        (Method::POST, CONFIRM),
        (Method::DELETE, TOTP),
    ] {
        let body = if path == TOTP {
            proof(PASSWORD)
        } else {
            json!({"code": "123456"})
        };
        let asked = request(method, path, &token, Some(body));
        send(&world.router, asked)
            .await
            .is_problem(403, "forbidden");
    }
}

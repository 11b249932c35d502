//! Where hashes of passwords are: sealed, and not in accounts.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::Router;
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kite_api::{ApiState, Seal, router};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KitePassword, KiteUser, KiteUserSpec},
    names,
    password::PasswordHash,
};
use kite_fake::fault::{Call, Fault, Faults, Plan};
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
    client::retry::RetryPolicy,
};
use serde_json::{Value, json};
use tower::{Layer as _, retry::RetryLayer};

use crate::{
    gate::Gate,
    invites::make,
    world::{Answer, PASSWORD, World, as_installed, request, send},
};

const ME: &str = "/api/v1/me";
const OWN: &str = "/api/v1/me/password";
const SIGN_IN: &str = "/api/v1/auth/sign-in";
const SIGN_UP: &str = "/api/v1/auth/sign-up";
const NEW: &str = "another long battery";

async fn user(world: &World, name: &str) -> KiteUser {
    world.cluster.get(&ObjectKey::cluster(name)).await.unwrap()
}

async fn password_of(world: &World, name: &str) -> KitePassword {
    let id = user(world, name).await.spec.credential.unwrap();
    world.cluster.get(&ObjectKey::cluster(id)).await.unwrap()
}

async fn sign_in(router: &Router, name: &str, password: &str) -> Answer {
    let body = json!({"username": name, "password": password});
    send(router, request(Method::POST, SIGN_IN, "", Some(body))).await
}

/// Edits as somebody does who has `kubectl`, and waits until the API has seen it.
async fn edit(world: &World, name: &str, spec: Value) -> KiteUser {
    let patch = json!({ "spec": spec });
    let key = ObjectKey::cluster(name);
    let edited = world
        .cluster
        .merge_patch::<KiteUser>(FieldManager::new("kubectl"), &key, &patch);
    let edited = edited.await.unwrap();
    world.state.caches().users.caught_up_with(&edited).await;
    edited
}

async fn edit_password(world: &World, password: &KitePassword, spec: Value) {
    let patch = json!({ "spec": spec });
    let key = ObjectKey::of(password);
    let edited =
        world
            .cluster
            .merge_patch::<KitePassword>(FieldManager::new("kubectl"), &key, &patch);
    edited.await.unwrap();
}

/// That `password` signs in, that its hash is sealed, and that it is nowhere else.
async fn is_kept(world: &World, name: &str, password: &str) {
    let account = user(world, name).await;
    assert!(account.spec.password_hash.is_none(), "{name}");
    let kept = password_of(world, name).await;
    assert_eq!(kept.spec.user, name);
    for text in [
        serde_json::to_string(&account).unwrap(),
        serde_json::to_string(&kept).unwrap(),
    ] {
        assert!(!text.contains("argon2"), "{text}");
    }
    let key = ObjectKey::namespaced(names::PLATFORM_NAMESPACE, names::SEAL_SECRET);
    let secret: Secret = world.cluster.get(&key).await.unwrap();
    let place = KitePassword::place(name, &kept.name_any());
    let hash = Seal::of_secret(&secret).unwrap();
    let hash = hash.open(&place, &kept.spec.sealed_hash).unwrap();
    let hash = PasswordHash::from_phc(String::from_utf8(hash).unwrap());
    assert!(hash.verify(password), "{name}");
    let signed_in = sign_in(&world.router, name, password).await;
    assert_eq!(signed_in.status, 200, "{name}: {signed_in:?}");
    let passwords = world.cluster.list(None, &ListParams::default()).await;
    let passwords: Vec<KitePassword> = passwords.unwrap().items;
    let theirs = passwords.iter().filter(|it| it.spec.user == name);
    assert_eq!(theirs.count(), 1, "one that is over is left of {name}");
}

#[tokio::test]
async fn however_a_password_is_set_its_hash_is_out_of_sight() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let body = json!({"username": "ann", "password": PASSWORD});
    let made = world.post(SIGN_UP, "", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    is_kept(&world, "ann", PASSWORD).await;

    let body = json!({"currentPassword": PASSWORD, "newPassword": NEW});
    let changed = world.post(OWN, made.text("/token"), body).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let me = world.get(ME, changed.text("/token")).await;
    assert_eq!(me.body["hasPassword"], true, "{me:?}");
    is_kept(&world, "ann", NEW).await;
    let old = sign_in(&world.router, "ann", PASSWORD).await;
    old.is_problem(401, "wrong-credentials");

    let path = "/api/v1/admin/users/ann";
    let edited = world
        .patch(path, &root, json!({"password": PASSWORD}))
        .await;
    assert_eq!(edited.status, 200, "{edited:?}");
    is_kept(&world, "ann", PASSWORD).await;
    let old = sign_in(&world.router, "ann", NEW).await;
    old.is_problem(401, "wrong-credentials");

    let invite = make(&world, &root, json!({})).await;
    let body = json!({
        "username": "bob", "password": PASSWORD, "invite": invite.text("/token"),
    });
    let made = world.post(SIGN_UP, "", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    is_kept(&world, "bob", PASSWORD).await;

    let body = json!({"username": "eve", "password": NEW});
    let made = world.post("/api/v1/admin/users", &root, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    is_kept(&world, "eve", NEW).await;
    let id = password_of(&world, "eve").await.name_any();
    let gone = world.delete("/api/v1/admin/users/eve", &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    let left: Option<KitePassword> = world
        .cluster
        .get_opt(&ObjectKey::cluster(id))
        .await
        .unwrap();
    assert!(left.is_none());

    // What is refused leaves nothing behind.
    let body = json!({"username": "ann", "password": NEW});
    let taken = world.post("/api/v1/admin/users", &root, body).await;
    taken.is_problem(409, "taken");
    is_kept(&world, "ann", PASSWORD).await;
}

#[tokio::test]
async fn a_hash_that_others_wrote_is_taken_in_and_sessions_go_on() {
    let world = World::new().await;
    // Both have the very same hash.
    let ann = world.user("ann", AccessLevel::User).await;
    world.user("bob", AccessLevel::User).await;
    let before = user(&world, "ann").await;
    assert!(before.spec.password_hash.is_some() && before.spec.credential.is_none());
    let builder = ApiState::builder(as_installed(&world.fake)).take_in_after(Duration::ZERO);
    let state = builder.build().await.unwrap();
    state.synced().await;
    let replica = router(state.clone());
    for name in ["ann", "bob"] {
        let signed_in = sign_in(&replica, name, PASSWORD).await;
        assert_eq!(signed_in.status, 200, "{signed_in:?}");
        // The answer tells of the account as it is by then.
        let now = user(&world, name).await;
        let generation = now.metadata.generation.unwrap();
        let tag = signed_in.text("/user/etag");
        assert!(tag.ends_with(&format!(".{generation}\"")), "{tag}");
        world.state.caches().users.caught_up_with(&now).await;
        is_kept(&world, name, PASSWORD).await;
    }
    assert_eq!(world.get(ME, &ann).await.status, 200);

    // The newer word is taken in as well, and the password before goes; and so is the same
    // once more, as from a repository.
    let hash = PasswordHash::create(NEW).unwrap();
    for _ in 0..2 {
        let edited = edit(&world, "ann", json!({ "passwordHash": hash })).await;
        state.caches().users.caught_up_with(&edited).await;
        world.get(ME, &ann).await.is_problem(401, "unauthenticated");
        assert_eq!(sign_in(&replica, "ann", NEW).await.status, 200);
        let now = user(&world, "ann").await;
        assert_eq!(now.spec.credential, Some(names::credential(&hash)));
        world.state.caches().users.caught_up_with(&now).await;
        is_kept(&world, "ann", NEW).await;
    }
    let old = sign_in(&world.router, "ann", PASSWORD).await;
    old.is_problem(401, "wrong-credentials");
}

#[tokio::test]
async fn wherever_a_change_breaks_off_one_of_both_passwords_signs_in() {
    let is_account = |call: &Call| call.plural == "kiteusers" && call.verb == "patch";
    for (fault, works) in [
        (Fault::ResetBeforeSend, PASSWORD),
        (Fault::ResetAfterCommit, NEW),
    ] {
        let world = World::new().await;
        let body = json!({"username": "ann", "password": PASSWORD});
        let made = world.post(SIGN_UP, "", body).await;
        assert_eq!(made.status, 201, "{made:?}");
        let faults = Faults::new(Plan::first("account", fault, move |call| is_account(call)));
        let service = faults.layer("kite-api").layer(world.service());
        let client = kube::Client::new(service, "default");
        let state = ApiState::builder(client).build().await.unwrap();
        state.synced().await;
        let broken = router(state);
        let body = json!({"currentPassword": PASSWORD, "newPassword": NEW});
        let asked = request(Method::POST, OWN, made.text("/token"), Some(body));
        let failed = send(&broken, asked).await;
        assert!(failed.status.is_server_error(), "{fault:?}: {failed:?}");
        assert!(faults.unfired().is_empty(), "{fault:?}");
        let now = user(&world, "ann").await;
        world.state.caches().users.caught_up_with(&now).await;
        for password in [PASSWORD, NEW] {
            let expected = if password == works { 200 } else { 401 };
            let answer = sign_in(&world.router, "ann", password).await;
            assert_eq!(answer.status, expected, "{fault:?}: {answer:?}");
        }
    }
}

/// Clients of Kubernetes send a write again that was answered by 504, though it may have
/// been done: what answers the second says nothing of the first.
#[tokio::test]
async fn a_write_that_is_sent_twice_loses_no_password() {
    for (verb, path, body) in [
        (
            "create",
            SIGN_UP,
            json!({"username": "bob", "password": NEW}),
        ),
        (
            "patch",
            OWN,
            json!({"currentPassword": PASSWORD, "newPassword": NEW}),
        ),
    ] {
        let world = World::new().await;
        let made = json!({"username": "ann", "password": PASSWORD});
        let made = world.post(SIGN_UP, "", made).await;
        let plan = Plan::first("account", Fault::Timeout, move |call| {
            call.plural == "kiteusers" && call.verb == verb && call.subresource.is_empty()
        });
        let faults = Faults::new(plan);
        let service = faults.layer("kite-api").layer(world.service());
        let twice = RetryLayer::new(RetryPolicy::server_retry()).layer(service);
        let client = kube::Client::new(twice, "default");
        let state = ApiState::builder(client).build().await.unwrap();
        state.synced().await;
        let asked = request(Method::POST, path, made.text("/token"), Some(body));
        let answer = send(&router(state), asked).await;
        assert!(faults.unfired().is_empty(), "{path}");
        let name = if path == OWN { "ann" } else { "bob" };
        let now = user(&world, name).await;
        world.state.caches().users.caught_up_with(&now).await;
        let known = sign_in(&world.router, name, NEW).await;
        assert_eq!(known.status, 200, "{path}: {answer:?}, {known:?}");
    }
}

#[tokio::test]
async fn a_password_opens_in_no_other_place() {
    let world = World::new().await;
    for (name, password) in [("ann", PASSWORD), ("bob", NEW)] {
        let body = json!({"username": name, "password": password});
        let made = world.post(SIGN_UP, "", body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let (ann, bob) = (
        password_of(&world, "ann").await,
        password_of(&world, "bob").await,
    );
    let wrong = sign_in(&world.router, "ann", "not the password").await;
    // Often enough, and not so often that one has to wait.
    let nobody_comes_in = async |name: &str| {
        let refused = sign_in(&world.router, name, PASSWORD).await;
        refused.is_problem(401, "wrong-credentials");
        assert_eq!(refused.body, wrong.body);
    };
    let swapped = json!({"sealedHash": ann.spec.sealed_hash});
    edit_password(&world, &bob, swapped).await;
    nobody_comes_in("bob").await;
    let stolen = json!({"user": "ann", "sealedHash": ann.spec.sealed_hash});
    edit_password(&world, &bob, stolen).await;
    nobody_comes_in("bob").await;
    edit(&world, "bob", json!({"credential": ann.name_any()})).await;
    nobody_comes_in("bob").await;
    assert_eq!(sign_in(&world.router, "ann", PASSWORD).await.status, 200);

    let gone = PropagationPolicy::Background;
    world.cluster.delete_by_uid(&ann, gone).await.unwrap();
    nobody_comes_in("ann").await;
}

#[tokio::test]
async fn another_key_keeps_passwords_and_tells_which_it_cannot() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    for name in ["ann", "bob"] {
        let body = json!({"username": name, "password": PASSWORD});
        let made = world.post(SIGN_UP, "", body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let (ann, bob) = (
        password_of(&world, "ann").await,
        password_of(&world, "bob").await,
    );
    let noise = json!({"sealedHash": "bm90IHNlYWxlZCBieSBhbnlib2R5LCBvciBmb3I="});
    edit_password(&world, &bob, noise).await;
    let path = "/api/v1/admin/rotate-seal-key";
    let done = world.post(path, &root, json!({})).await;
    let expected = json!({
        "keyReplaced": true, "resealed": 1, "unreadable": [], "unreadablePasswords": ["bob"],
    });
    assert_eq!(done.body, expected);
    let renewed = password_of(&world, "ann").await;
    assert_ne!(renewed.spec.sealed_hash, ann.spec.sealed_hash);
    is_kept(&world, "ann", PASSWORD).await;
}

#[tokio::test]
async fn nobody_is_looked_up_like_somebody() {
    let world = World::new().await;
    world.user("by-kubectl", AccessLevel::User).await;
    let body = json!({"username": "by-sign-up", "password": PASSWORD});
    let made = world.post(SIGN_UP, "", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let without = KiteUser::new("without", KiteUserSpec::new("without"));
    world.cluster.create(&without).await.unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    let (router, _gate) = Gate::replica(
        &world,
        |it| it,
        move |request| {
            let uri = request.uri();
            let is_watch = uri.query().is_some_and(|it| it.contains("watch="));
            let is_ours = ["/kitepasswords/", "/secrets/", "/kiteusers/"]
                .iter()
                .any(|kind| uri.path().contains(kind));
            if !is_watch && is_ours {
                // Which one it is has no part in how long it takes.
                let (kind, _) = uri.path().rsplit_once('/').unwrap();
                let line = format!("{} {kind}", request.method());
                log.lock().unwrap().push(line);
            }
            false
        },
    )
    .await;
    for name in ["nobody", "without", "by-kubectl", "by-sign-up"] {
        asked.lock().unwrap().clear();
        let refused = sign_in(&router, name, "not the password").await;
        refused.is_problem(401, "wrong-credentials");
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        let expected = [
            "GET /apis/hy3ons.github.io/v1/kitepasswords",
            "GET /api/v1/namespaces/kite/secrets",
        ];
        assert_eq!(asked, expected, "{name}");
    }
}

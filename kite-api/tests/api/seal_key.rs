//! Another key for second factors: nobody is locked out, and the old one opens none.

use http::Method;
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, KiteSecondFactor},
    names,
};
use serde_json::json;

use crate::{
    gate::Gate,
    totp::{ann, factor, sign_in},
    world::{Answer, World, request, send},
};

const ROTATE: &str = "/api/v1/admin/rotate-seal-key";

fn at() -> ObjectKey {
    ObjectKey::namespaced(names::PLATFORM_NAMESPACE, names::SEAL_SECRET)
}

async fn secret(world: &World) -> Secret {
    world.cluster.get(&at()).await.unwrap()
}

async fn rotate(world: &World, root: &str) -> Answer {
    world.post(ROTATE, root, json!({})).await
}

/// As if the last rotation had been an hour ago.
async fn an_hour_later(world: &World) {
    let then = (Timestamp::now() - 1.hour()).to_string();
    let patch = json!({"metadata": {"annotations": {"hy3ons.github.io/rotated-at": then}}});
    let at = at();
    let edited = world
        .cluster
        .merge_patch::<Secret>(kite_core::managers::API, &at, &patch);
    edited.await.unwrap();
}

/// Has the second factor of ann be sealed like this.
async fn seal_as(world: &World, sealed: &str) {
    let patch = json!({"spec": {"sealedSecret": sealed}});
    let key = ObjectKey::cluster("ann");
    let edited =
        world
            .cluster
            .merge_patch::<KiteSecondFactor>(kite_core::managers::API, &key, &patch);
    edited.await.unwrap();
}

#[tokio::test]
async fn codes_fit_after_it_and_the_key_before_opens_nothing() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (_, app, _) = ann(&world).await;
    let (first, sealed) = (secret(&world).await, factor(&world).await);
    let done = rotate(&world, &root).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(
        done.body,
        json!({"keyReplaced": true, "resealed": 1, "unreadable": [], "unreadablePasswords": []})
    );

    let (second, renewed) = (secret(&world).await, factor(&world).await);
    let key = |secret: &Secret, name: &str| secret.data.as_ref().unwrap().get(name).cloned();
    assert_ne!(key(&second, "key"), key(&first, "key"));
    assert_eq!(key(&second, "previous"), key(&first, "key"));
    assert_ne!(renewed.spec.sealed_secret, sealed.spec.sealed_secret);
    let old = kite_api::Seal::of_secret(&first).unwrap();
    let uid = &renewed.spec.user_uid;
    assert!(old.open(uid, &renewed.spec.sealed_secret).is_err());
    assert_eq!(sign_in(&world, Some(&app.code(1))).await.status, 200);

    // One after the other: requests that know the key before may be under way.
    let again = rotate(&world, &root).await;
    again.is_problem(409, "conflict");
    assert!(again.headers.contains_key("retry-after"), "{again:?}");
    an_hour_later(&world).await;
    assert_eq!(rotate(&world, &root).await.body["resealed"], 1);
    let third = secret(&world).await;
    assert_eq!(key(&third, "previous"), key(&second, "key"));
}

#[tokio::test]
async fn what_a_rotation_left_behind_is_sealed_anew_by_the_next() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (_, app, _) = ann(&world).await;
    let sealed = factor(&world).await.spec.sealed_secret;
    assert_eq!(rotate(&world, &root).await.status, 200);
    // As a replica writes that had read the key before.
    seal_as(&world, &sealed).await;
    let done = rotate(&world, &root).await;
    let went_on =
        json!({"keyReplaced": false, "resealed": 1, "unreadable": [], "unreadablePasswords": []});
    assert_eq!(done.body, went_on);
    an_hour_later(&world).await;
    let done = rotate(&world, &root).await;
    assert_eq!(done.body["keyReplaced"], true, "{done:?}");
    assert_eq!(sign_in(&world, Some(&app.code(1))).await.status, 200);
}

#[tokio::test]
async fn a_rotation_that_breaks_off_locks_nobody_out() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (_, app, _) = ann(&world).await;
    let (broken, gate) = Gate::replica(
        &world,
        |it| it,
        |request| {
            let is_factor = request.uri().path().contains("kitesecondfactors");
            is_factor && request.method() == Method::PATCH
        },
    )
    .await;
    // It has made the key, and ends before the first factor is written.
    let rotation = send(
        &broken,
        request(Method::POST, ROTATE, &root, Some(json!({}))),
    );
    tokio::select! {
        _ = rotation => panic!("it was not held"),
        () = gate.holds_one() => {}
    }
    assert!(secret(&world).await.data.unwrap().contains_key("previous"));
    assert_eq!(sign_in(&world, Some(&app.code(1))).await.status, 200);
    // At once, and with the key that was made.
    let key = secret(&world).await.data;
    let went_on =
        json!({"keyReplaced": false, "resealed": 1, "unreadable": [], "unreadablePasswords": []});
    assert_eq!(rotate(&world, &root).await.body, went_on);
    assert_eq!(secret(&world).await.data, key);
}

#[tokio::test]
async fn what_no_key_opens_is_told_and_only_administrators_do_it() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (token, _, _) = ann(&world).await;
    rotate(&world, &token).await.is_problem(403, "forbidden");
    seal_as(&world, "bm90IHNlYWxlZCBieSBhbnlib2R5LCBvciBmb3I=").await;
    let done = rotate(&world, &root).await;
    assert_eq!(
        done.body,
        json!({"keyReplaced": true, "resealed": 0, "unreadable": ["ann"], "unreadablePasswords": []})
    );
}

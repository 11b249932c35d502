//! Replicas of an earlier version, which know passwords by the hash in the account: what
//! they need stays there for as long as one of them serves.

use std::time::Duration;

use axum::Router;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kite_api::{ApiState, router};
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    connections::Instance,
    crd::{AccessLevel, KiteUser},
    labels, names,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::world::{Answer, PASSWORD, World, as_installed, request, send};

const NEW: &str = "another long battery";
const OLD_POD: &str = "kite-api-5d4f-old";
const NEW_POD: &str = "kite-api-77cc-new";

/// A pod of the API, as its Deployment makes it.
async fn pod(world: &World, name: &str) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": names::PLATFORM_NAMESPACE,
            "labels": {labels::APP_NAME: names::API_SERVICE},
        },
        "spec": {"containers": [{"name": "kite-api", "image": "registry.test/kite-api"}]},
    }))
    .unwrap();
    world.cluster.create(&pod).await.unwrap();
}

/// A replica of this version, which has seen nothing yet. `as_pod`: where it runs.
async fn replica(world: &World, as_pod: &str) -> (ApiState, Router) {
    let state = ApiState::builder(as_installed(&world.fake))
        .take_in_after(Duration::ZERO)
        .instance(Instance::new(7, Some(as_pod.to_owned())))
        .build()
        .await
        .unwrap();
    state.synced().await;
    (state.clone(), router(state))
}

async fn user(world: &World, name: &str) -> KiteUser {
    world.cluster.get(&ObjectKey::cluster(name)).await.unwrap()
}

async fn sign_in(router: &Router, name: &str, password: &str) -> Answer {
    let body = json!({"username": name, "password": password});
    let path = "/api/v1/auth/sign-in";
    send(router, request(Method::POST, path, "", Some(body))).await
}

#[tokio::test]
async fn what_replicas_of_an_earlier_version_need_stays_until_they_are_gone() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    pod(&world, OLD_POD).await;
    pod(&world, NEW_POD).await;
    let (_, new) = replica(&world, NEW_POD).await;
    // The hash that is there stays, and so does one that is new.
    assert_eq!(sign_in(&new, "ann", PASSWORD).await.status, 200);
    assert!(user(&world, "ann").await.spec.password_hash.is_some());
    let body = json!({"currentPassword": PASSWORD, "newPassword": NEW});
    let asked = request(Method::POST, "/api/v1/me/password", &ann, Some(body));
    let changed = send(&new, asked).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let body = json!({"username": "bob", "password": NEW});
    let asked = request(Method::POST, "/api/v1/auth/sign-up", "", Some(body));
    let made = send(&new, asked).await;
    assert_eq!(made.status, 201, "{made:?}");
    for name in ["ann", "bob"] {
        let spec = user(&world, name).await.spec;
        let hash = spec.password_hash.expect("the hash is shown");
        assert!(hash.verify(NEW), "{name}");
        // Sessions go on, by whichever of both they began.
        assert_eq!(spec.credential, Some(names::credential(&hash)), "{name}");
    }

    let pods: Api<Pod> = Api::namespaced(world.fake.client(), names::PLATFORM_NAMESPACE);
    let over = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    let params = PatchParams::default();
    pods.patch_status(OLD_POD, &params, &over).await.unwrap();
    // Another look, as this one has just had its own.
    let (_, new) = replica(&world, NEW_POD).await;
    for name in ["ann", "bob"] {
        assert_eq!(sign_in(&new, name, NEW).await.status, 200, "{name}");
        let spec = user(&world, name).await.spec;
        assert!(spec.password_hash.is_none(), "{name}");
        assert!(spec.credential.is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_password_that_an_earlier_version_knows_as_well_is_as_long_as_it_is() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    pod(&world, OLD_POD).await;
    pod(&world, NEW_POD).await;
    let (_, new) = replica(&world, NEW_POD).await;
    let raise = async || {
        let (path, body) = ("/api/v1/admin/users/ann", json!({"accessLevel": "Admin"}));
        send(&new, request(Method::PATCH, path, &root, Some(body))).await
    };
    // Of a hash that was found nobody knows.
    raise().await.is_problem(409, "conflict");
    let body = json!({"currentPassword": PASSWORD, "newPassword": NEW});
    let asked = request(Method::POST, "/api/v1/me/password", &ann, Some(body));
    let changed = send(&new, asked).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert!(user(&world, "ann").await.spec.password_hash.is_some());
    let raised = raise().await;
    assert_eq!(raised.status, 200, "{raised:?}");
}

//! Passwords that are gone: they are nobody's way in, and no key takes the place of one
//! that is lost.

use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KitePassword, KiteUser},
    names,
};
use kube::api::{ObjectMeta, PropagationPolicy};
use serde_json::json;

use crate::world::{PASSWORD, TOKEN, World};

const SIGN_UP: &str = "/api/v1/auth/sign-up";
const SIGN_IN: &str = "/api/v1/auth/sign-in";

async fn has_account(world: &World, name: &str) -> bool {
    let key = ObjectKey::cluster(name);
    let found: Option<KiteUser> = world.cluster.get_opt(&key).await.unwrap();
    found.is_some()
}

#[tokio::test]
async fn an_administrator_whose_password_is_gone_is_not_one_who_can_come_in() {
    let world = World::new().await;
    world.bootstrap_secret().await;
    let body = json!({
        "token": TOKEN, "username": "root", "email": "root@kite.test", "password": PASSWORD,
    });
    let made = world.post("/api/v1/auth/bootstrap", "", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let root = made.text("/token").to_owned();
    world.user("ann", AccessLevel::Admin).await;
    world.user("bob", AccessLevel::Admin).await;
    let lower = json!({"accessLevel": "User"});
    let lowered = world
        .patch("/api/v1/admin/users/bob", &root, lower.clone())
        .await;
    assert_eq!(lowered.status, 200, "{lowered:?}");

    let user: KiteUser = world
        .cluster
        .get(&ObjectKey::cluster("root"))
        .await
        .unwrap();
    let key = ObjectKey::cluster(user.spec.credential.unwrap());
    let password: KitePassword = world.cluster.get(&key).await.unwrap();
    let gone = PropagationPolicy::Background;
    world.cluster.delete_by_uid(&password, gone).await.unwrap();
    // The session goes on, and nobody could sign in after it.
    let refused = world.patch("/api/v1/admin/users/ann", &root, lower).await;
    refused.is_problem(409, "conflict");
    let detail = refused.text("/detail");
    assert!(detail.contains("no administrator left"), "{detail}");
}

#[tokio::test]
async fn no_key_takes_the_place_of_one_that_is_lost() {
    let world = World::new().await;
    let account = |name: &str| json!({"username": name, "password": PASSWORD});
    let made = world.post(SIGN_UP, "", account("ann")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let key = ObjectKey::namespaced(names::PLATFORM_NAMESPACE, names::SEAL_SECRET);
    let secret: Secret = world.cluster.get(&key).await.unwrap();
    let gone = PropagationPolicy::Background;
    world.cluster.delete_by_uid(&secret, gone).await.unwrap();

    let refused = world.post(SIGN_UP, "", account("bob")).await;
    refused.is_problem(503, "unavailable");
    let detail = refused.text("/detail");
    assert!(detail.contains(names::SEAL_SECRET), "{detail}");
    assert!(!has_account(&world, "bob").await);
    let found: Option<Secret> = world.cluster.get_opt(&key).await.unwrap();
    assert!(found.is_none(), "another key");
    let refused = world.post(SIGN_IN, "", account("ann")).await;
    refused.is_problem(401, "wrong-credentials");

    // As kite restore and kubectl put it back.
    let back = Secret {
        metadata: ObjectMeta {
            name: secret.metadata.name,
            namespace: secret.metadata.namespace,
            ..ObjectMeta::default()
        },
        data: secret.data,
        ..Secret::default()
    };
    world.cluster.create(&back).await.unwrap();
    let signed_in = world.post(SIGN_IN, "", account("ann")).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    let made = world.post(SIGN_UP, "", account("bob")).await;
    assert_eq!(made.status, 201, "{made:?}");
}

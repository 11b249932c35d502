//! Sessions: who ends them, and how fast.

use std::time::Duration;

use http::Method;
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteSession, KiteSessionSpec, KiteUser},
    names,
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::json;

use crate::world::{PASSWORD, World, request, send};

const ME: &str = "/api/v1/me";

#[tokio::test]
async fn without_a_session_nothing_is_told() {
    let world = World::new().await;
    let forged = format!("kite_{}", "A".repeat(43));
    for path in [
        ME,
        "/api/v1/vms",
        "/api/v1/vms/web",
        "/api/v1/images",
        "/api/v1/admin/users",
    ] {
        for token in ["", "nonsense", &forged] {
            world
                .get(path, token)
                .await
                .is_problem(401, "unauthenticated");
        }
    }
    let mut basic = request(Method::GET, ME, "", None);
    basic
        .headers_mut()
        .insert("authorization", "Basic YTpi".parse().unwrap());
    send(&world.router, basic)
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn the_object_does_not_hold_the_token() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    let session: KiteSession = world
        .cluster
        .get(&ObjectKey::cluster(names::session(&token)))
        .await
        .unwrap();
    assert!(!serde_json::to_string(&session).unwrap().contains(&token));
    let left = session.spec.expires_at.0.duration_since(Timestamp::now());
    assert!((11..=12).contains(&left.as_hours()), "{left:?}");
}

#[tokio::test]
async fn defect_16_a_session_holds_on_every_replica_and_so_does_its_end() {
    let world = World::new().await;
    let other = world.replica().await;
    let token = world.user("ann", AccessLevel::User).await;
    // At once, whether or not the other replica's watch has brought it.
    let me = send(&other, request(Method::GET, ME, &token, None)).await;
    assert_eq!(me.status, 200, "{me:?}");

    let sign_out = request(Method::POST, "/api/v1/auth/sign-out", &token, None);
    assert_eq!(send(&other, sign_out).await.status, 204);
    world
        .until("the session ends here", async || {
            world.get(ME, &token).await.status == 401
        })
        .await;
}

#[tokio::test]
async fn an_expired_session_opens_nothing_and_is_removed() {
    let world = World::new().await;
    let valid = world.user("ann", AccessLevel::User).await;
    let user: KiteUser = world.cluster.get(&ObjectKey::cluster("ann")).await.unwrap();
    let token = format!("kite_{}", "B".repeat(42) + "A");
    let session = KiteSession::new(
        &names::session(&token),
        KiteSessionSpec {
            user: "ann".to_owned(),
            user_uid: user.uid().unwrap(),
            credential: None,
            identity: None,
            expires_at: Time(Timestamp::now() - 1.second()),
            epoch: 0,
            tokens: None,
            proved_at: None,
            client: None,
        },
    );
    let session = world.cluster.create(&session).await.unwrap();
    world
        .get(ME, &token)
        .await
        .is_problem(401, "unauthenticated");

    tokio::time::pause();
    let key = ObjectKey::of(&session);
    while world
        .cluster
        .get_opt::<KiteSession>(&key)
        .await
        .unwrap()
        .is_some()
    {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    assert_eq!(world.get(ME, &valid).await.status, 200);
}

#[tokio::test]
async fn suspension_ends_sessions_and_pardon_does_not_bring_them_back() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let token = world.user("ann", AccessLevel::User).await;
    let path = "/api/v1/admin/users/ann";
    let suspended = world.patch(path, &admin, json!({"suspended": true})).await;
    assert_eq!(suspended.body["suspended"], true, "{suspended:?}");
    world
        .get(ME, &token)
        .await
        .is_problem(401, "unauthenticated");
    let body = json!({"username": "ann", "password": PASSWORD});
    let refused = world.post("/api/v1/auth/sign-in", "", body).await;
    refused.is_problem(403, "suspended");

    let pardoned = world.patch(path, &admin, json!({"suspended": false})).await;
    assert_eq!(pardoned.body["suspended"], false, "{pardoned:?}");
    world
        .get(ME, &token)
        .await
        .is_problem(401, "unauthenticated");
    world.sign_in("ann").await;
}

#[tokio::test]
async fn suspension_by_kubectl_ends_sessions_too() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::User).await;
    let patch = json!({"spec": {"suspended": true}});
    world
        .cluster
        .merge_patch::<KiteUser>(
            FieldManager::new("kubectl"),
            &ObjectKey::cluster("ann"),
            &patch,
        )
        .await
        .unwrap();
    world
        .until("the session ends", async || {
            world.get(ME, &token).await.status == 401
        })
        .await;
}

#[tokio::test]
async fn a_later_user_of_the_same_name_does_not_inherit_sessions() {
    let world = World::new().await;
    let token = world.user("ann", AccessLevel::Admin).await;
    let user: KiteUser = world.cluster.get(&ObjectKey::cluster("ann")).await.unwrap();
    world
        .cluster
        .delete_by_uid(&user, PropagationPolicy::Background)
        .await
        .unwrap();
    let next = KiteUser::new("ann", kite_core::crd::KiteUserSpec::new("ann"));
    let next = world.cluster.create(&next).await.unwrap();
    world.state.caches().users.caught_up_with(&next).await;
    world
        .get(ME, &token)
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_change_of_access_level_holds_at_once() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let token = world.user("ann", AccessLevel::Admin).await;
    assert_eq!(world.get("/api/v1/admin/users", &token).await.status, 200);
    let path = "/api/v1/admin/users/ann";
    world
        .patch(path, &admin, json!({"accessLevel": "User"}))
        .await;
    world
        .get("/api/v1/admin/users", &token)
        .await
        .is_problem(403, "forbidden");
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_sessions() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    for _ in 0..34 {
        let newest = world.sign_in("ann").await;
        assert_eq!(world.get(ME, &newest).await.status, 200);
    }
    assert_eq!(world.state.caches().sessions.list(|_| true).len(), 32);
}

#[tokio::test]
async fn everyone_is_signed_out_on_every_replica_by_one_write() {
    let world = World::new().await;
    let other = world.replica().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let path = "/api/v1/admin/sign-out-everyone";
    let manager = world.user("max", AccessLevel::Manager).await;
    let refused = world.post(path, &manager, json!({})).await;
    refused.is_problem(403, "forbidden");

    assert_eq!(world.post(path, &admin, json!({})).await.status, 204);
    // Their objects are still there: that they began in another epoch is enough.
    assert_eq!(world.state.caches().sessions.list(|_| true).len(), 3);
    for token in [&admin, &ann, &manager] {
        world
            .get(ME, token)
            .await
            .is_problem(401, "unauthenticated");
        world
            .until("the session ends there", async || {
                let asked = request(Method::GET, ME, token, None);
                send(&other, asked).await.status == 401
            })
            .await;
    }
    let again = world.sign_in("ann").await;
    let listed = world.get("/api/v1/me/sessions", &again).await;
    assert_eq!(listed.body["items"].as_array().unwrap().len(), 1);
    // A replica that has not heard of the new epoch asks.
    let me = send(&other, request(Method::GET, ME, &again, None)).await;
    assert_eq!(me.status, 200, "{me:?}");
}

#[tokio::test]
async fn without_a_platform_an_administrator_is_told_how_to_sign_everyone_out() {
    let world = World::new().await;
    let admin = world.user("root", AccessLevel::Admin).await;
    let key = ObjectKey::cluster(names::PLATFORM);
    let platform: kite_core::crd::KitePlatform = world.cluster.get(&key).await.unwrap();
    let gone = PropagationPolicy::Background;
    world.cluster.delete_by_uid(&platform, gone).await.unwrap();
    let refused = world
        .post("/api/v1/admin/sign-out-everyone", &admin, json!({}))
        .await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("kubectl delete"));
}

//! Creations of one name at once, and quotas that count what came to nothing.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ::http::{Method, Request};
use futures::future::join_all;
use kite_core::{cluster::Cluster as _, crd::AccessLevel, names};
use serde_json::json;

use crate::{
    data::{SNAPSHOTS, VOLUMES},
    gate::Gate,
    intake::{VMS, vm},
    world::{World, request, send},
};

/// What is answered to eight creations of one name at once, and how many of them the
/// API server hears of.
async fn repeats(world: &World, token: &str, key: Option<&'static str>) -> (Vec<u16>, usize) {
    let heard = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&heard);
    let is_creation = move |ask: &Request<kube::client::Body>| {
        // What is only tried counts for no quota.
        let is_tried = ask.uri().query().is_some_and(|it| it.contains("dryRun"));
        let is_of_vms = ask.uri().path().ends_with("/kitevirtualmachines");
        let it = ask.method() == Method::POST && is_of_vms && !is_tried;
        if it {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        it
    };
    let (router, gate) = Gate::replica(world, |builder| builder, is_creation).await;
    let asks = (0..8).map(|_| {
        let mut ask = request(Method::POST, VMS, token, Some(vm("same")));
        if let Some(key) = key {
            ask.headers_mut()
                .insert("idempotency-key", key.parse().unwrap());
        }
        let router = router.clone();
        async move { send(&router, ask).await.status.as_u16() }
    });
    gate.let_on(8);
    let mut answers = join_all(asks).await;
    answers.sort_unstable();
    (answers, heard.load(Ordering::SeqCst))
}

#[tokio::test]
async fn of_creations_of_one_name_one_reaches_the_cluster() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(repeats(&world, &ann, Some("k-1")).await, (vec![201; 8], 1));
    // It is there: nobody has to be asked.
    assert_eq!(repeats(&world, &ann, Some("k-1")).await, (vec![201; 8], 0));
    assert_eq!(repeats(&world, &ann, None).await, (vec![409; 8], 0));
    let bob = world.user("bob", AccessLevel::User).await;
    let mut once = vec![409; 8];
    once[0] = 201;
    assert_eq!(repeats(&world, &bob, None).await, (once, 1));
}

#[tokio::test]
async fn a_quota_that_counts_what_is_not_there_is_no_reason_to_delete_anything() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    // As the namespace's quota stands after attempts that came to nothing.
    let kinds = ["kitevirtualmachines", "kitesnapshots", "kitevolumes"];
    let counts = kinds.map(|kind| (format!("count/{kind}.hy3ons.github.io"), json!("0")));
    let counts: serde_json::Map<_, _> = counts.into_iter().collect();
    let quota = json!({
        "metadata": {"name": "kite-quota", "namespace": names::user_namespace("ann")},
        "spec": {"hard": counts},
    });
    let quota: k8s_openapi::api::core::v1::ResourceQuota = serde_json::from_value(quota).unwrap();
    world.cluster.create(&quota).await.unwrap();
    for (path, body) in [
        (VMS, vm("db")),
        (SNAPSHOTS, json!({"name": "first", "vm": "web"})),
        (VOLUMES, json!({"name": "data", "size": "1Gi"})),
    ] {
        let refused = world.post(path, &ann, body).await;
        refused.is_problem(503, "unavailable");
        let detail = refused.text("/detail");
        assert!(
            detail.contains("try again") && !detail.contains("delete a"),
            "{detail}"
        );
        assert!(refused.headers.contains_key("retry-after"));
    }
}

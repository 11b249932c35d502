//! Watches that fail, and objects that cannot be read.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, KubeCluster, ObjectKey},
    crd::{KiteReservation, KiteVirtualMachine},
};
use kite_fake::FakeCluster;
use kube::{
    Api, Client, CustomResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
    client::Body,
    runtime::watcher::Event,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt as _, service_fn};

use super::{CachedCluster, Caches, Feeder, lenient::Lenient, watches::Watches};
use crate::health::Health;

/// A client of `fake` whose lists and watches are refused while `is_down`.
fn breakable(fake: &FakeCluster, is_down: &Arc<AtomicBool>) -> Client {
    let (service, is_down) = (fake.service(), Arc::clone(is_down));
    let service = service_fn(move |request: Request<Body>| {
        let (service, is_down) = (service.clone(), is_down.load(Ordering::SeqCst));
        async move {
            let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
            if is_down || is_watch {
                return Err(tower::BoxError::from("connection refused"));
            }
            service
                .oneshot(request)
                .await
                .map_err(tower::BoxError::from)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_passed_by_while_its_watch_fails() {
    let fake = FakeCluster::builder().build().unwrap();
    let is_down = Arc::new(AtomicBool::new(false));
    let mut watches = Watches::new(breakable(&fake, &is_down));
    watches.watch::<Node>();
    let (caches, running) = watches.build();
    let (tried, stop) = (running.tried(), CancellationToken::new());
    tokio::spawn(running.run(Health::default(), stop.clone()));
    tried.await;
    assert!(caches.is_filled::<Node>(), "listed");
    is_down.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(caches.is_filled::<Node>(), "a short while is nothing");
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(!caches.is_filled::<Node>());
    let plain = KubeCluster::new(fake.client());
    let reader = CachedCluster::new(plain.clone(), caches.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": "node-1"}})).unwrap();
    plain.create::<Node>(&node).await.unwrap();
    let key = ObjectKey::cluster("node-1");
    assert!(reader.find::<Node>(&key).await.unwrap().is_some(), "asked");
    is_down.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mark = fake.log().mark();
    assert!(reader.find::<Node>(&key).await.unwrap().is_some());
    assert!(fake.log().since(&mark).entries.is_empty(), "listed anew");
    stop.cancel();
}

fn reservation(name: &str, claim: &str) -> DynamicObject {
    let resource = ApiResource::erase::<KiteReservation>(&());
    let holder = json!({"kind": "KiteUser", "name": "dev", "uid": "1"});
    DynamicObject::new(name, &resource).data(json!({"spec": {"claim": claim, "holder": holder}}))
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_read_does_not_hide_the_others() {
    // A CRD that admits anything, as one of a later version may.
    let mut crd = KiteReservation::crd();
    for version in &mut crd.spec.versions {
        let lax = json!({"openAPIV3Schema": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        }});
        version.schema = Some(serde_json::from_value(lax).unwrap());
    }
    let fake = FakeCluster::builder().crds([crd]).build().unwrap();
    let resource = ApiResource::erase::<KiteReservation>(&());
    let raw: Api<DynamicObject> = Api::all_with(fake.client(), &resource);
    let post = PostParams::default();
    for (name, claim) in [("good", "Username"), ("bad", "Unheard-of")] {
        raw.create(&post, &reservation(name, claim)).await.unwrap();
    }
    let mut watches = Watches::new(fake.client());
    watches.watch::<KiteReservation>();
    let (caches, running) = watches.build();
    let stop = CancellationToken::new();
    tokio::spawn(running.run(Health::default(), stop.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let reader = CachedCluster::new(KubeCluster::new(fake.client()), caches.clone());
    let find = async |name: &str| {
        reader
            .find::<KiteReservation>(&ObjectKey::cluster(name))
            .await
    };

    let mark = fake.log().mark();
    assert!(find("good").await.unwrap().is_some());
    assert!(fake.log().since(&mark).entries.is_empty(), "no request");
    assert!(find("bad").await.is_err(), "that it cannot be read is told");
    // The watch goes on.
    raw.create(&post, &reservation("later", "Email"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = ListParams::default();
    let found = reader.list::<KiteReservation>(None, &all).await.unwrap();
    assert_eq!(found.items.len(), 2);
    // Mended, it is like all others.
    let mended = json!({"spec": {"claim": "Username"}});
    let patch = kube::api::Patch::Merge(mended);
    raw.patch("bad", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(find("bad").await.unwrap().is_some());
    stop.cancel();
}

#[test]
fn an_object_that_became_unreadable_is_asked_for() {
    let mut builder = Caches::builder();
    let mut feeder: Feeder<ConfigMap> = builder.packed(None, |_| {});
    let caches = builder.build();
    let map = |data: serde_json::Value| -> Lenient<ConfigMap> {
        let metadata = json!({"name": "a", "namespace": "default", "resourceVersion": "1"});
        serde_json::from_value(json!({"metadata": metadata, "data": data})).unwrap()
    };
    let key = ObjectKey::namespaced("default", "a");
    let is_asked = || {
        let known = caches.table::<ConfigMap>().unwrap().known(&key);
        matches!(known, super::table::Known::Ask)
    };
    for event in [
        Event::Init,
        Event::InitApply(map(json!({}))),
        Event::InitDone,
    ] {
        feeder.apply_lenient(event, |_| {});
    }
    assert!(!is_asked());
    feeder.apply_lenient(Event::Apply(map(json!(5))), |_| {});
    assert!(is_asked());
    let mut gone = 0;
    feeder.apply_lenient(Event::Delete(map(json!(5))), |_| gone += 1);
    assert!(!is_asked());
    assert_eq!(gone, 1, "whoever knew it hears that it went");
    // Without a name it is no object.
    assert!(serde_json::from_value::<Lenient<KiteVirtualMachine>>(json!({"spec": 1})).is_err());
}

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
use kite_cluster::{Cluster as _, ClusterExt as _, KubeCluster, Lenient, ObjectKey};
use kite_fake::FakeCluster;
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
    client::Body,
    runtime::watcher::Event,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt as _, service_fn};

use super::{CacheWriter, CachedCluster, Caches, uncached, watches::Watches};
use crate::{health::Health, kinds::Whole};

/// A kind with a field that not everything fits.
#[derive(Clone, Debug, CustomResource, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.org", version = "v1", kind = "Claim")]
struct ClaimSpec {
    claim: Claimed,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
enum Claimed {
    Username,
    Email,
}

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
    let mut watches = Watches::<Whole>::new(breakable(&fake, &is_down));
    watches.watch::<Node>();
    let (caches, running) = watches.build();
    let (tried, stop) = (running.tried(), CancellationToken::new());
    tokio::spawn(running.run(Health::default(), stop.clone()));
    tried.await;
    assert!(caches.is_synced::<Node>(), "listed");
    is_down.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(caches.is_synced::<Node>(), "a short while is nothing");
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(!caches.is_synced::<Node>());
    let plain = KubeCluster::new(fake.client());
    let reader = CachedCluster::new(plain.clone(), caches.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": "node-1"}})).unwrap();
    plain.create::<Node>(&node).await.unwrap();
    let key = ObjectKey::cluster("node-1");
    assert!(
        reader.get_opt::<Node>(&key).await.unwrap().is_some(),
        "asked"
    );
    is_down.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mark = fake.log().mark();
    assert!(reader.get_opt::<Node>(&key).await.unwrap().is_some());
    assert!(fake.log().since(&mark).entries.is_empty(), "listed anew");
    stop.cancel();
}

fn object(name: &str, claim: &str) -> DynamicObject {
    let resource = ApiResource::erase::<Claim>(&());
    let labels = [("of".to_owned(), "these".to_owned())];
    let mut object = DynamicObject::new(name, &resource);
    object.metadata.labels = Some(labels.into());
    object.data(json!({"spec": {"claim": claim}}))
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_read_does_not_hide_the_others() {
    // A CRD that admits anything, as one of a later version may.
    let mut crd = Claim::crd();
    for version in &mut crd.spec.versions {
        let lax = json!({"openAPIV3Schema": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        }});
        version.schema = Some(serde_json::from_value(lax).unwrap());
    }
    let fake = FakeCluster::builder().crds([crd]).build().unwrap();
    let resource = ApiResource::erase::<Claim>(&());
    let raw: Api<DynamicObject> = Api::all_with(fake.client(), &resource);
    let post = PostParams::default();
    for (name, claim) in [("good", "Username"), ("bad", "Unheard-of")] {
        raw.create(&post, &object(name, claim)).await.unwrap();
    }
    let mut watches = Watches::<Whole>::new(fake.client());
    watches.watch::<Claim>();
    let (caches, running) = watches.build();
    let stop = CancellationToken::new();
    tokio::spawn(running.run(Health::default(), stop.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let reader = CachedCluster::new(KubeCluster::new(fake.client()), caches.clone());
    let find = async |name: &str| reader.get_opt::<Claim>(&ObjectKey::cluster(name)).await;

    let mark = fake.log().mark();
    assert!(find("good").await.unwrap().is_some());
    assert!(fake.log().since(&mark).entries.is_empty(), "no request");
    assert!(find("bad").await.is_err(), "that it cannot be read is told");
    // The watch goes on.
    raw.create(&post, &object("later", "Email")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = ListParams::default();
    let list = || reader.list::<Claim>(None, &all);
    // From the cache as from the API server.
    for found in [list().await.unwrap(), uncached(list()).await.unwrap()] {
        assert_eq!(found.items.len(), 2);
        let told = found.complete().unwrap_err().to_string();
        assert!(
            told.contains("bad") && told.contains("Unheard-of"),
            "{told}"
        );
    }
    let other = ListParams::default().labels("of=another");
    let found = reader.list::<Claim>(None, &other).await.unwrap();
    assert!(found.complete().is_ok(), "it is not among these");
    // Mended, it is like all others.
    let mended = json!({"spec": {"claim": "Username"}});
    let patch = kube::api::Patch::Merge(mended);
    raw.patch("bad", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(find("bad").await.unwrap().is_some());
    assert_eq!(list().await.unwrap().complete().unwrap().len(), 3);
    stop.cancel();
}

/// A cache that hears of objects which may not be readable.
struct Hears {
    caches: Caches,
    writer: CacheWriter<ConfigMap>,
}

impl Hears {
    fn new() -> Self {
        let mut builder = Caches::builder();
        let writer = builder.packed(None, |_| {});
        let caches = builder.build();
        Self { caches, writer }
    }

    /// Who is told of, whether as gone, and whether something was mended.
    fn hear(
        &mut self,
        events: impl IntoIterator<Item = Event<Lenient<ConfigMap>>>,
    ) -> (Vec<(String, bool)>, bool) {
        let (mut told, mut is_mended) = (Vec::new(), false);
        for event in events {
            is_mended |= self.writer.apply_lenient(event, |map| {
                let is_gone = map.metadata.deletion_timestamp.is_some();
                told.push((map.metadata.name.clone().unwrap(), is_gone));
            });
        }
        told.sort();
        (told, is_mended)
    }

    fn list<const N: usize>(
        &mut self,
        objects: [&Lenient<ConfigMap>; N],
    ) -> (Vec<(String, bool)>, bool) {
        let objects = objects.into_iter().cloned().map(Event::InitApply);
        let events = [Event::Init].into_iter().chain(objects);
        self.hear(events.chain([Event::InitDone]))
    }

    fn is_asked(&self, name: &str) -> bool {
        let key = ObjectKey::namespaced("default", name);
        let known = self.caches.table::<ConfigMap>().unwrap().known(&key);
        matches!(known, super::table::Known::Ask)
    }
}

/// The first can be read, the second cannot.
fn both(name: &str) -> [Lenient<ConfigMap>; 2] {
    [json!({}), json!(5)].map(|data| {
        let metadata =
            json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"});
        serde_json::from_value(json!({"metadata": metadata, "data": data})).unwrap()
    })
}

fn told(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    let names = names.iter();
    names
        .map(|(name, gone)| ((*name).to_owned(), *gone))
        .collect()
}

#[test]
fn an_object_that_became_unreadable_is_asked_for() {
    let mut it = Hears::new();
    let [good, bad] = both("a");
    it.list([&good]);
    assert!(!it.is_asked("a"));
    let as_it_was = (told(&[("a", false)]), false);
    assert_eq!(it.hear([Event::Apply(bad.clone())]), as_it_was);
    assert!(it.is_asked("a"));
    // Once more is no news, nor is a list.
    assert_eq!(it.hear([Event::Apply(bad.clone())]), (told(&[]), false));
    assert_eq!(it.list([&bad]), (told(&[]), false));
    assert!(it.is_asked("a"));
    let gone = (told(&[("a", true)]), true);
    assert_eq!(it.hear([Event::Delete(bad)]), gone, "whoever knew it hears");
    assert!(!it.is_asked("a"));
    // Without a name it is no object.
    assert!(serde_json::from_value::<Lenient<Claim>>(json!({"spec": 1})).is_err());
}

#[test]
fn what_a_list_cannot_read_is_not_told_to_be_gone() {
    let mut it = Hears::new();
    let ([a, bad_a], [b, bad_b]) = (both("a"), both("b"));
    it.list([&a, &b]);
    assert_eq!(
        it.list([&bad_a, &bad_b]),
        (told(&[("a", false), ("b", false)]), false)
    );
    assert!(it.is_asked("a") && it.is_asked("b"));
    // One went while nobody watched, the other was mended.
    let (told_of, is_mended) = it.list([&a]);
    assert!(told_of.contains(&("a".to_owned(), false)));
    assert!(told_of.contains(&("b".to_owned(), true)), "{told_of:?}");
    assert!(is_mended && !it.is_asked("a") && !it.is_asked("b"));
    assert!(!told_of.contains(&("a".to_owned(), true)));
    // By events, too.
    it.hear([Event::Apply(bad_a)]);
    let (_, is_mended) = it.hear([Event::Apply(a)]);
    assert!(is_mended && !it.is_asked("a"));
}

#[test]
fn the_end_of_what_could_never_be_read_is_told_without_a_name() {
    let mut it = Hears::new();
    let [_, bad] = both("a");
    assert_eq!(it.list([&bad]), (told(&[]), false));
    assert_eq!(it.list([]), (told(&[]), true));
    it.hear([Event::Apply(bad.clone())]);
    assert_eq!(it.hear([Event::Delete(bad)]), (told(&[]), true));
}

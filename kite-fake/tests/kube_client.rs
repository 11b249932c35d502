//! kube-rs on the in-memory server: clients and reflectors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kite_fake::FakeCluster;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::json;

fn config_map(name: &str) -> ConfigMap {
    let data = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    let mut object = ConfigMap {
        data: Some(data),
        ..ConfigMap::default()
    };
    object.metadata.name = Some(name.to_owned());
    object
}

#[tokio::test(start_paused = true)]
async fn a_client_creates_reads_patches_and_deletes() {
    let cluster = FakeCluster::builder().build().unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let created = api
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    assert!(created.uid().is_some());
    let patch = Patch::Merge(json!({"data": {"k": "w"}}));
    let patched = api
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap()["k"], "w");
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let gone = api.get_opt("a").await.unwrap();
    assert!(gone.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_both_kinds_of_lists() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let cluster = FakeCluster::builder().build().unwrap();
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        api.create(&PostParams::default(), &config_map("before"))
            .await
            .unwrap();
        let (store, writer) = reflector::store();
        let stream = watcher(api.clone(), config)
            .reflect(writer)
            .applied_objects();
        let task = tokio::spawn(stream.for_each(|_| async {}));
        store.wait_until_ready().await.unwrap();
        assert_eq!(store.len(), 1);
        api.create(&PostParams::default(), &config_map("after"))
            .await
            .unwrap();
        tokio::time::timeout(Duration::from_secs(5), async {
            while store.len() < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("the watch brings the second object");
        task.abort();
    }
}

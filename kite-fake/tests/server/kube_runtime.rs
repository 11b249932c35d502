//! kube-rs's runtime on the in-memory server, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kite_fake::FakeCluster;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

const FINALIZER: &str = "example.com/copies";

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(String);

struct Context {
    client: Client,
    passes: AtomicUsize,
}

/// Keeps a Secret next to each `ConfigMap`, and takes it away with it.
async fn reconcile(map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Failed> {
    context.passes.fetch_add(1, Ordering::SeqCst);
    let namespace = map.namespace().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
    finalizer(&maps, FINALIZER, map, |event| async {
        match event {
            Event::Apply(map) => {
                let name = map.name_any();
                let copy = json!({
                    "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                    "stringData": map.data,
                });
                secrets
                    .patch(
                        &name,
                        &PatchParams::apply("copier").force(),
                        &Patch::Apply(copy),
                    )
                    .await?;
            }
            Event::Cleanup(map) => {
                secrets
                    .delete(&map.name_any(), &DeleteParams::default())
                    .await?;
            }
        }
        Ok::<_, kube::Error>(Action::requeue(Duration::from_secs(3600)))
    })
    .await
    .map_err(|e| Failed(e.to_string()))
}

/// Lets what is under way come to an end.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_with_a_finalizer_lives_a_day_in_a_moment() {
    let cluster = FakeCluster::builder()
        .objects_yaml(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {k: v}}",
        )
        .build()
        .unwrap();
    let client = cluster.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let context = Arc::new(Context {
        client,
        passes: AtomicUsize::new(0),
    });
    let controller = Controller::new(maps.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, error, _| panic!("{error}"),
            Arc::clone(&context),
        )
        .for_each(|_| async {});
    let task = tokio::spawn(controller);
    settle().await;
    let copy = secrets.get("a").await.unwrap();
    assert_eq!(copy.data.unwrap()["k"].0, b"v");

    // A settled cluster sees no writes, however long it runs.
    cluster.server().clear_log();
    let before = context.passes.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert!(context.passes.load(Ordering::SeqCst) >= before + 23);
    {
        let server = cluster.server();
        let changes: Vec<_> = server
            .log()
            .entries()
            .filter(|e| !matches!(e.verb.as_str(), "get" | "list" | "watch" | "patch"))
            .collect();
        assert!(changes.is_empty(), "{changes:?}");
    }
    let again = secrets.get("a").await.unwrap();
    assert_eq!(
        again.metadata.resource_version,
        copy.metadata.resource_version
    );

    maps.delete("a", &DeleteParams::default()).await.unwrap();
    settle().await;
    assert!(maps.get_opt("a").await.unwrap().is_none());
    assert!(secrets.get_opt("a").await.unwrap().is_none());
    task.abort();
}

//! What the controllers of a cluster make of nodes and classes.

use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::control_plane;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, discovery};
use serde_json::{Value, json};

async fn settled(cluster: &FakeCluster) {
    assert!(cluster.settled(Duration::from_secs(60)).await);
}

fn api(cluster: &FakeCluster, version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
    Api::all_with(cluster.client(), &discovery::ApiResource::from_gvk(&kind))
}

async fn merge(api: &Api<DynamicObject>, name: &str, patch: Value) -> Value {
    let params = PatchParams::default();
    let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
    patched.unwrap().data
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nodes_are_tainted_by_what_they_say() {
    let cluster = FakeCluster::builder()
        .actors(control_plane())
        .build()
        .unwrap();
    settled(&cluster).await;
    let nodes = api(&cluster, "v1", "Node");
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        assert!(node.data["spec"]["taints"].is_null(), "{node:?}");
    }
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}});
    let made = nodes
        .create(&PostParams::default(), &object(body))
        .await
        .unwrap();
    let fresh = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    assert_eq!(made.data["spec"]["taints"], fresh);
    settled(&cluster).await;
    assert_eq!(
        nodes.get("mine").await.unwrap().data["spec"]["taints"],
        fresh
    );
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes
        .patch_status("mine", &PatchParams::default(), &Patch::Merge(ready))
        .await
        .unwrap();
    merge(&nodes, "mine", json!({"spec": {"unschedulable": true}})).await;
    settled(&cluster).await;
    let taints = nodes.get("mine").await.unwrap().data["spec"]["taints"].clone();
    assert_eq!(taints.as_array().map(Vec::len), Some(1));
    assert_eq!(taints[0]["key"], "node.kubernetes.io/unschedulable");
    assert!(taints[0]["timeAdded"].is_string());
    merge(&nodes, "mine", json!({"spec": {"unschedulable": null}})).await;
    settled(&cluster).await;
    assert!(nodes.get("mine").await.unwrap().data["spec"]["taints"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_class_of_attributes_is_held_while_a_claim_has_it() {
    let cluster = FakeCluster::builder()
        .actors(control_plane())
        .build()
        .unwrap();
    let classes = api(&cluster, "storage.k8s.io/v1", "VolumeAttributesClass");
    for name in ["used", "free"] {
        let body = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
            "metadata": {"name": name}, "driverName": "x.io", "parameters": {"a": "b"}});
        let made = classes
            .create(&PostParams::default(), &object(body))
            .await
            .unwrap();
        let held = made.metadata.finalizers.unwrap();
        assert_eq!(held, ["kubernetes.io/vac-protection"]);
    }
    let claims: Api<DynamicObject> = Api::namespaced_with(
        cluster.client(),
        "default",
        &discovery::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "",
            "v1",
            "PersistentVolumeClaim",
        )),
    );
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": "used",
            "resources": {"requests": {"storage": "1Gi"}}}});
    claims
        .create(&PostParams::default(), &object(claim))
        .await
        .unwrap();
    for name in ["used", "free"] {
        classes
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    settled(&cluster).await;
    assert!(classes.get_opt("free").await.unwrap().is_none());
    assert!(classes.get_opt("used").await.unwrap().is_some());
    claims.delete("c", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    settled(&cluster).await;
    assert!(classes.get_opt("used").await.unwrap().is_none());
}

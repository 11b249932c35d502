//! What tests have of snapshots and volumes, as the controller would have made them.

use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, Object, ObjectKey},
    crd::{KiteSnapshot, KiteVirtualMachine, KiteVolume},
    managers::CONTROLLER,
    names,
};
use kube::api::PropagationPolicy;
use serde_json::{Value, json};

use crate::world::World;

pub const SNAPSHOTS: &str = "/api/v1/snapshots";
pub const VOLUMES: &str = "/api/v1/volumes";

/// A snapshot of the VM, of which the controller has told what `more` says beside the usual.
pub async fn snapshot(
    world: &World,
    vm: &KiteVirtualMachine,
    name: &str,
    more: Value,
) -> KiteSnapshot {
    let uid = vm.metadata.uid.as_ref().unwrap();
    let place = json!({"name": name, "namespace": vm.metadata.namespace});
    let spec = json!({"vm": vm.metadata.name, "vmUid": uid});
    let object = json!({"metadata": place, "spec": spec});
    let object: KiteSnapshot = serde_json::from_value(object).unwrap();
    let made = world.cluster.create(&object).await.unwrap();
    let mut status = json!({
        "observedGeneration": 1,
        "phase": "Ready",
        "takenAt": "2026-05-04T08:00:00Z",
        "consistency": "Quiesced",
        "size": "4Gi",
        "granted": true,
        "source": {
            "vmUid": uid, "claim": "web-disk", "claimUid": "c-1", "image": "debian-12",
            "cpu": 1, "memory": "1Gi",
        },
    });
    for (field, value) in more.as_object().unwrap() {
        status[field] = value.clone();
    }
    let told = KiteSnapshot {
        status: serde_json::from_value(status).unwrap(),
        metadata: object.metadata.clone(),
        spec: made.spec.clone(),
    };
    let told = world.cluster.apply_status(CONTROLLER, &told).await.unwrap();
    world.state.caches().snapshots.caught_up_with(&told).await;
    told
}

/// A volume, of which the controller has told this.
pub async fn volume(world: &World, owner: &str, name: &str, status: Value) -> KiteVolume {
    let place = json!({"name": name, "namespace": names::user_namespace(owner)});
    let object = json!({"metadata": place, "spec": {"size": "2Gi"}});
    let object: KiteVolume = serde_json::from_value(object).unwrap();
    world.cluster.create(&object).await.unwrap();
    let told = KiteVolume {
        status: serde_json::from_value(status).unwrap(),
        ..object
    };
    let told = world.cluster.apply_status(CONTROLLER, &told).await.unwrap();
    world.state.caches().volumes.caught_up_with(&told).await;
    told
}

/// What the controller tells of the VM as it is now.
pub async fn tell(world: &World, vm: &KiteVirtualMachine, mut status: Value) {
    let key = ObjectKey::of(vm);
    let mut told: KiteVirtualMachine = world.cluster.get(&key).await.unwrap();
    told.metadata.managed_fields = None;
    told.metadata.resource_version = None;
    status["observedGeneration"] = json!(told.metadata.generation);
    told.status = serde_json::from_value(status).unwrap();
    let told = world.cluster.apply_status(CONTROLLER, &told).await.unwrap();
    world.state.caches().vms.caught_up_with(&told).await;
}

/// A condition of a VM.
pub fn condition(kind: &str, holds: bool, reason: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": kind, "status": status, "reason": reason, "message": "it is so",
           "lastTransitionTime": "2026-05-04T08:00:00Z"})
}

/// Deletes it while somebody holds it.
pub async fn let_go<K: Object>(world: &World, object: &K) -> K {
    let key = ObjectKey::of(object);
    let hold = json!({"metadata": {"finalizers": ["test.kite/hold"]}});
    let manager = FieldManager::new("test");
    let now: K = world
        .cluster
        .merge_patch(manager, &key, &hold)
        .await
        .unwrap();
    let how = PropagationPolicy::Background;
    world.cluster.delete_by_uid(&now, how).await.unwrap();
    world.cluster.get(&key).await.unwrap()
}

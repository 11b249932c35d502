//! What `KubeVirt`, CDI and storage refuse is told, and is over when it is mended.

use kite_fake_kubevirt::stages;
use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{LimitRange, PersistentVolumeClaim, ResourceQuota},
    storage::v1::StorageClass,
};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, FieldManager, Object},
    conditions::find,
    crd::{KiteVirtualMachine, VmPhase},
    quantity::Bytes,
};
use kite_fake::actors::{Rule, Selector, Stage};
use kite_fake_kubevirt::kinds::STORAGE_PROFILE;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";

/// Reason and message of a condition.
fn says(vm: &KiteVirtualMachine, condition: &str) -> (String, String) {
    let status = vm.status.as_ref().unwrap();
    let found = find(&status.conditions, condition).unwrap().clone();
    (found.reason, found.message)
}

fn phase(vm: &KiteVirtualMachine) -> VmPhase {
    vm.status.as_ref().unwrap().phase.unwrap()
}

fn quota(name: &str, hard: &Value) -> ResourceQuota {
    let object = json!({"metadata": {"name": name, "namespace": ANN}, "spec": {"hard": hard}});
    serde_json::from_value(object).unwrap()
}

/// Lets those try again who do so from time to time.
async fn later(world: &World) {
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.settle().await;
}

async fn runs(world: &World) {
    later(world).await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "Ready").0, "Running", "{:#?}", vm.status);
    assert_eq!(phase(&vm), VmPhase::Running);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_kubevirt_may_not_make_is_told() {
    let world = World::played().await;
    let none = quota(
        "none",
        &json!({"count/virtualmachineinstances.kubevirt.io": "0"}),
    );
    let none = world.create(none).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    for condition in ["VirtualMachineReady", "Ready"] {
        let (reason, message) = says(&vm, condition);
        assert_eq!(reason, "StartBlocked");
        assert!(message.contains("FailedCreate: "), "{message}");
        assert!(message.contains("exceeded quota: none"), "{message}");
    }
    assert_eq!(phase(&vm), VmPhase::Failed);
    world.delete(&none).await;
    runs(&world).await;
}

/// Kite's usual class, whose volumes are made where what uses them first is to run.
fn late_storage() -> StorageClass {
    let class = json!({
        "metadata": {"name": "kite-vm-storage"}, "provisioner": "csi.example.org",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    serde_json::from_value(class).unwrap()
}

/// A disk is filled once the VM's launcher is on a node: no node has room for it.
#[tokio::test(start_paused = true)]
async fn a_first_start_for_which_there_is_no_room_is_told() {
    let world = World::played().await;
    world.create(late_storage()).await;
    let why = "0/3 nodes are available: 3 Insufficient memory.";
    let full = Rule::fail(Stage::POD_SCHEDULED, Selector::all(), "Unschedulable", why);
    world.rules.add(full);
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "DiskReady").0, "WaitingForStart");
    let (reason, message) = says(&vm, "Ready");
    assert_eq!(reason, "Unschedulable", "{message}");
    assert!(message.contains("Insufficient memory"), "{message}");
    assert_eq!(phase(&vm), VmPhase::Failed);
    world.rules.clear(Stage::POD_SCHEDULED);
    runs(&world).await;
}

/// What fills a disk at the VM's first start is kept from starting as the VM may be.
#[tokio::test(start_paused = true)]
async fn what_a_disk_waits_for_at_its_first_start_is_told() {
    let none = json!({"count/virtualmachineinstances.kubevirt.io": "0"});
    let world = World::played().await;
    world.create(late_storage()).await;
    let none = world.create(quota("none", &none)).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "DiskReady").0, "WaitingForStart");
    for condition in ["VirtualMachineReady", "Ready"] {
        let (reason, message) = says(&vm, condition);
        assert_eq!(reason, "StartBlocked", "{message}");
        assert!(message.contains("exceeded quota: none"), "{message}");
    }
    assert_eq!(phase(&vm), VmPhase::Failed);
    world.delete(&none).await;
    runs(&world).await;
}

/// Of somebody else's, beside Kite's.
fn limit_range(of: &str) -> LimitRange {
    let object = json!({
        "metadata": {"name": "tight", "namespace": ANN},
        "spec": {"limits": [{"type": of, "max": {"memory": "1Gi"}}]},
    });
    serde_json::from_value(object).unwrap()
}

/// That the launcher is refused beside this, in these words, which are told until it goes.
async fn a_launcher_is_refused_beside<K: Object>(bound: K, words: &str) {
    for is_late in [false, true] {
        let world = World::played().await;
        if is_late {
            world.create(late_storage()).await;
        }
        let bound = world.create(bound.clone()).await;
        launcher_is_refused(&world, bound, words).await;
    }
}

async fn launcher_is_refused<K: Object>(world: &World, bound: K, words: &str) {
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    for condition in ["VirtualMachineReady", "Ready"] {
        let (reason, message) = says(&vm, condition);
        assert_eq!(reason, "StartBlocked", "{message}");
        let refused = "FailedCreate: failed to create virtual machine pod: ";
        assert!(message.contains(refused), "{message}");
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(phase(&vm), VmPhase::Failed);
    world.delete(&bound).await;
    runs(world).await;
}

#[tokio::test(start_paused = true)]
async fn a_launcher_that_a_limit_range_has_no_room_for_is_told() {
    for (of, words) in [
        ("Pod", "maximum memory usage per Pod is 1Gi"),
        // Its maximum becomes the limit of what has none, below what the launcher asks for.
        (
            "Container",
            "must be less than or equal to memory limit of 1Gi",
        ),
    ] {
        a_launcher_is_refused_beside(limit_range(of), words).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_launcher_that_a_quota_of_others_has_no_room_for_is_told() {
    let tight = quota("tight", &json!({"requests.memory": "1Gi"}));
    a_launcher_is_refused_beside(tight, "exceeded quota: tight").await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_a_quota_has_no_room_for_is_told() {
    let world = World::played().await;
    let tight = quota("tight", &json!({"requests.storage": "1Gi"}));
    let tight = world.create(tight).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let (reason, message) = says(&vm, "DiskReady");
    assert_eq!(reason, "CloneBlocked");
    assert!(message.contains("exceeded quota: tight"), "{message}");
    assert_eq!(says(&vm, "Ready").0, "CloneBlocked");
    assert_eq!(phase(&vm), VmPhase::Provisioning);
    world.delete(&tight).await;
    runs(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_class_without_access_modes_is_told() {
    let world = World::played().await;
    let class = json!({
        "metadata": {"name": "kite-vm-storage"}, "provisioner": "kubernetes.io/no-provisioner",
    });
    let class: StorageClass = serde_json::from_value(class).unwrap();
    world.create(class).await;
    world.settle().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let (reason, message) = says(&world.vm("web").await, "DiskReady");
    assert_eq!(reason, "CloneBlocked");
    let words = "ErrClaimNotValid: no accessMode specified in StorageProfile kite-vm-storage";
    assert!(message.contains(words), "{message}");
    let profiles = STORAGE_PROFILE.api(world.cluster.client(), None);
    let sets = json!([{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]);
    let patch = Patch::Merge(json!({"spec": {"claimPropertySets": sets}}));
    let params = PatchParams::default();
    profiles
        .patch("kite-vm-storage", &params, &patch)
        .await
        .unwrap();
    runs(&world).await;
}

/// Has CDI say this of a disk.
async fn cdi_says(world: &World, disk: &DataVolume, phase: &str, reason: &str) {
    let mut said = disk.clone();
    let status = said.status.get_or_insert_default();
    status.phase = Some(phase.to_owned());
    let condition = json!({
        "type": "Ready", "status": "False", "reason": reason, "message": "in its words",
    });
    status.conditions = vec![serde_json::from_value(condition).unwrap()];
    said.metadata.managed_fields = None;
    said.metadata.resource_version = None;
    let player = FieldManager::new("cdi");
    world.cluster.apply_status(player, &said).await.unwrap();
}

async fn disk(world: &World) -> DataVolume {
    world.find(ANN, "web-disk").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_too_small_is_made_anew_when_it_is_asked_to_be_larger() {
    let world = World::played().await;
    let of_disk = Selector::named("web-disk");
    world.rules.add(Rule::hold(stages::DISK_SCHEDULED, of_disk));
    world.create(vm_named("web")).await;
    world.settle().await;
    let stuck = disk(&world).await;
    cdi_says(&world, &stuck, "CloneScheduled", "CloneValidationFailed").await;
    world.settle().await;
    let vm = world.vm("web").await;
    let (reason, message) = says(&vm, "DiskReady");
    assert_eq!(reason, "CloneBlocked");
    assert!(message.contains("set a larger spec.disk"), "{message}");
    assert_eq!(disk(&world).await.metadata.uid, stuck.metadata.uid);

    world.edit(&vm, json!({"spec": {"disk": "12Gi"}})).await;
    world.settle().await;
    world.rules.clear(stages::DISK_SCHEDULED);
    runs(&world).await;
    assert_ne!(disk(&world).await.metadata.uid, stuck.metadata.uid);
    let claim: PersistentVolumeClaim = world.find(ANN, "web-disk").await.unwrap();
    let requests = claim.spec.unwrap().resources.unwrap().requests.unwrap();
    let bytes: Bytes = requests["storage"].0.parse().unwrap();
    assert!(bytes >= "12Gi".parse().unwrap(), "{bytes}");
    let size = world.vm("web").await.status.unwrap().disk.unwrap().size;
    assert_eq!(size.unwrap().as_str(), "12Gi");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_filled_is_never_made_anew_to_grow() {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let made = disk(&world).await;
    for phase in ["Succeeded", "Unknown", "CloneInProgress"] {
        cdi_says(&world, &made, phase, "SomethingOfTomorrow").await;
        let vm = world.vm("web").await;
        let size = vm.spec.disk.bytes() + (1 << 30);
        let size = json!({"spec": {"disk": size.to_string()}});
        world.edit(&vm, size).await;
        world.pass().await;
        world.pass().await;
        let same = disk(&world).await;
        assert_eq!(same.metadata.uid, made.metadata.uid, "{phase}");
        assert_eq!(same.metadata.deletion_timestamp, None, "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_storage_says_of_a_claim_that_nobody_knows_is_told() {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(world.cluster.client().clone(), ANN);
    let condition = json!({
        "type": "ModifyVolumeError", "status": "True", "message": "no such class of volumes",
    });
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let params = PatchParams::default();
    claims
        .patch_status("web-disk", &params, &patch)
        .await
        .unwrap();
    world.settle().await;
    let vm = world.vm("web").await;
    let (reason, message) = says(&vm, "DiskReady");
    assert_eq!(reason, "DiskWithFault");
    let words = "ModifyVolumeError: no such class of volumes";
    assert!(message.contains(words), "{message}");
    assert_eq!(phase(&vm), VmPhase::Running, "it can be used");
}

#[tokio::test(start_paused = true)]
async fn that_a_pod_has_the_claim_is_no_fault() {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(world.cluster.client().clone(), ANN);
    // As Kubernetes 1.37 has it of every claim.
    let condition = json!({
        "type": "Unused", "status": "False", "reason": "PodUsingPVC",
        "message": "A pod is using this PVC",
    });
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let params = PatchParams::default();
    claims
        .patch_status("web-disk", &params, &patch)
        .await
        .unwrap();
    world.settle().await;
    let vm = world.vm("web").await;
    let (reason, message) = says(&vm, "DiskReady");
    assert_eq!(reason, "Filled", "{message}");
    assert_eq!(phase(&vm), VmPhase::Running);
}

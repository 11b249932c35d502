//! Volumes: disks apart from VMs, of which one VM at a time has each.

mod account;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, ResourceQuota, Secret},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, FieldManager, ObjectKey},
    conditions,
    crd::{
        KiteReservation, KiteUser, KiteVirtualMachine, KiteVolume, KiteVolumeSpec,
        KiteVolumeStatus, VolumePhase,
    },
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    names,
    quantity::Bytes,
};
use kube::api::{ObjectMeta, PropagationPolicy};
use serde_json::{Value, json};

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";

fn volume_named(name: &str, size: &str) -> KiteVolume {
    let mut volume = KiteVolume::new(name, KiteVolumeSpec::new(size.parse().unwrap()));
    volume.metadata.namespace = Some(ANN.to_owned());
    volume
}

/// A VM that is to have these volumes.
fn vm_with(name: &str, volumes: Value) -> KiteVirtualMachine {
    let mut vm = vm_named(name);
    vm.spec.volumes = serde_json::from_value(volumes).unwrap();
    vm
}

/// A world in which there is the volume `data`.
async fn world() -> World {
    let world = World::played().await;
    world.create(volume_named("data", "20Gi")).await;
    world.settle().await;
    world
}

/// The same, where the VM `web` runs with it.
async fn attached() -> World {
    let world = world().await;
    let listed = json!([{"volume": "data", "path": "/data"}]);
    world.create(vm_with("web", listed)).await;
    world.settle().await;
    world
}

async fn volume(world: &World, name: &str) -> KiteVolume {
    world.find(ANN, name).await.expect("the volume is there")
}

async fn status(world: &World, name: &str) -> KiteVolumeStatus {
    volume(world, name).await.status.expect("it was looked at")
}

async fn phase(world: &World, name: &str) -> VolumePhase {
    status(world, name).await.phase.unwrap()
}

/// Reason and message of what is told of a volume.
async fn told(world: &World, name: &str) -> (String, String) {
    let status = status(world, name).await;
    let ready = conditions::find(&status.conditions, "Ready").unwrap();
    (ready.reason.clone(), ready.message.clone())
}

/// The same of a VM's volumes.
async fn said(world: &World, vm: &str) -> (String, String) {
    let status = world.vm(vm).await.status.unwrap();
    let found = conditions::find(&status.conditions, "VolumesAttached");
    let found = found.unwrap_or_else(|| panic!("nothing is told: {status:#?}"));
    (found.reason.clone(), found.message.clone())
}

/// Has the VM list these volumes.
async fn list(world: &World, vm: &str, volumes: Value) {
    let listed = json!({"spec": {"volumes": volumes}});
    world.edit(&world.vm(vm).await, listed).await;
    world.settle().await;
}

async fn power(world: &World, vm: &str, state: &str) {
    let state = json!({"spec": {"powerState": state}});
    world.edit(&world.vm(vm).await, state).await;
    world.settle().await;
}

async fn restart(world: &World, vm: &str) {
    let at = json!({"spec": {"restartedAt": world.now().to_string()}});
    world.edit(&world.vm(vm).await, at).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.settle().await;
    }
}

/// Disks of what runs of the VM.
async fn running(world: &World, vm: &str) -> Vec<String> {
    let instance = world.find::<VirtualMachineInstance>(ANN, vm).await;
    let volumes = instance.into_iter().flat_map(|it| it.spec.volumes);
    let disks = volumes.filter_map(|it| it.data_volume);
    disks.map(|it| it.name).collect()
}

/// No two machines have one volume, whether they run or not.
async fn assert_exclusive(world: &World) {
    let machines: Vec<VirtualMachine> = world.all().await;
    let machines = machines
        .into_iter()
        .map(|it| (it.metadata.name, it.spec.template.spec.volumes));
    let instances: Vec<VirtualMachineInstance> = world.all().await;
    let instances = instances
        .into_iter()
        .map(|it| (it.metadata.name, it.spec.volumes));
    let mut users = std::collections::BTreeMap::new();
    for (name, volumes) in machines.chain(instances) {
        for disk in volumes.into_iter().filter_map(|it| it.data_volume) {
            let user = users.entry(disk.name.clone()).or_insert(name.clone());
            assert_eq!(*user, name, "both have {}", disk.name);
        }
    }
}

/// Somebody deletes an object by hand, in the way of `kubectl delete`.
async fn delete<K: kite_core::cluster::Object>(world: &World, name: &str) {
    let object = world.find::<K>(ANN, name).await.unwrap();
    world.delete(&object).await;
    world.settle().await;
}

async fn is_there<K: kite_core::cluster::Object>(world: &World, name: &str) -> bool {
    world.find::<K>(ANN, name).await.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_and_a_vm_has_it() {
    let world = world().await;
    let found = status(&world, "data").await;
    assert_eq!(found.phase, Some(VolumePhase::Available), "{found:#?}");
    assert_eq!(found.granted, Some("20Gi".parse().unwrap()));
    assert_eq!(found.asking, None);
    let disk = found.disk.unwrap();
    assert_eq!(disk.name, "data-volume");
    let claim: PersistentVolumeClaim = world.find(ANN, "data-volume").await.unwrap();
    assert_eq!(disk.claim_uid, claim.metadata.uid);
    let made: DataVolume = world.find(ANN, "data-volume").await.unwrap();
    assert!(made.spec.source.unwrap().blank.is_some());
    assert_eq!(made.metadata.owner_references, None);
    // Its own object alone tells which VM has it.
    let listed = json!([{"volume": "data", "path": "/data"}]);
    let web = world.create(vm_with("web", listed)).await;
    world.settle().await;
    assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
    let to = status(&world, "data").await.attached_to.unwrap();
    assert_eq!((to.vm.as_str(), Some(to.uid)), ("web", web.metadata.uid));
    assert_eq!(phase(&world, "data").await, VolumePhase::Attached);
    assert_eq!(said(&world, "web").await.0, "Attached");
    // The guest knows it by what the volume says, and mounts it at each boot.
    let serial = status(&world, "data").await.serial.unwrap();
    let machine: VirtualMachine = world.find(ANN, "web").await.unwrap();
    let disks = machine.spec.template.spec.domain.devices.disks;
    assert_eq!(disks.last().unwrap().serial.as_ref(), Some(&serial));
    let secret = names::cloud_init_secret("web");
    let secret: Secret = world.find(ANN, &secret).await.unwrap();
    let data = String::from_utf8(secret.data.unwrap()["userdata"].0.clone()).unwrap();
    assert!(data.contains(&serial) && data.contains("/data"), "{data}");
    world.writes();
    world.settle().await;
    assert!(world.writes().is_empty(), "it is at rest");
}

#[tokio::test(start_paused = true)]
async fn one_vm_has_it_and_another_waits_and_is_not_started() {
    let world = attached().await;
    world
        .create(vm_with("late", json!([{"volume": "data"}])))
        .await;
    world.settle().await;
    let (reason, message) = said(&world, "late").await;
    assert_eq!(reason, "VolumeBusy");
    assert!(message.contains("VM kite-user-ann/web has"), "{message}");
    assert!(running(&world, "late").await.is_empty(), "it has to wait");
    let ready = world.vm("late").await.status.unwrap().conditions;
    let ready = conditions::find(&ready, "Ready").unwrap().clone();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "VolumeBusy"));
    // What runs has it until it stops.
    list(&world, "web", json!([])).await;
    assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
    assert_eq!(said(&world, "late").await.0, "VolumeBusy");
    assert_exclusive(&world).await;
    restart(&world, "web").await;
    assert_eq!(running(&world, "web").await, ["web-disk"]);
    assert_eq!(running(&world, "late").await, ["late-disk", "data-volume"]);
    assert_eq!(said(&world, "late").await.0, "Attached");
    assert_eq!(status(&world, "data").await.attached_to.unwrap().vm, "late");
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_runs_gets_it_when_it_starts_next() {
    let world = world().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    list(&world, "web", json!([{"volume": "data"}])).await;
    assert_eq!(said(&world, "web").await.0, "AttachedAtNextStart");
    let told = world.vm("web").await.status.unwrap().conditions;
    assert!(conditions::is_true(&told, "Ready"), "{told:#?}");
    assert!(conditions::is_true(&told, "RestartRequired"), "{told:#?}");
    assert_eq!(running(&world, "web").await, ["web-disk"]);
    restart(&world, "web").await;
    assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
    assert_eq!(said(&world, "web").await.0, "Attached");
}

#[tokio::test(start_paused = true)]
async fn it_outlives_its_vm_and_another_has_it_then() {
    let world = attached().await;
    let before = status(&world, "data").await.disk.unwrap();
    delete::<KiteVirtualMachine>(&world, "web").await;
    world.assert_no_trace_of("web").await;
    assert_eq!(phase(&world, "data").await, VolumePhase::Available);
    world
        .create(vm_with("next", json!([{"volume": "data"}])))
        .await;
    world.settle().await;
    assert_eq!(running(&world, "next").await, ["next-disk", "data-volume"]);
    let after = status(&world, "data").await.disk.unwrap();
    assert_eq!(after.claim_uid, before.claim_uid);
}

#[tokio::test(start_paused = true)]
async fn one_that_a_vm_has_is_deleted_once_that_has_let_go() {
    let world = attached().await;
    delete::<KiteVolume>(&world, "data").await;
    let (reason, message) = told(&world, "data").await;
    assert_eq!(reason, "InUse");
    assert!(message.contains("VM kite-user-ann/web"), "{message}");
    assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
    let machine: VirtualMachine = world.find(ANN, "web").await.unwrap();
    let volumes = machine.spec.template.spec.volumes;
    let mut disks = volumes.into_iter().filter_map(|it| it.data_volume);
    assert!(
        disks.any(|it| it.name == "data-volume"),
        "should it restart"
    );
    // Off, it has it as well.
    power(&world, "web", "Off").await;
    assert!(is_there::<DataVolume>(&world, "data-volume").await);
    // Nobody starts it on what goes.
    power(&world, "web", "On").await;
    assert_eq!(said(&world, "web").await.0, "VolumeDeleted");
    assert!(running(&world, "web").await.is_empty());
    list(&world, "web", json!([])).await;
    assert!(!is_there::<KiteVolume>(&world, "data").await);
    assert!(!is_there::<DataVolume>(&world, "data-volume").await);
    assert!(!is_there::<PersistentVolumeClaim>(&world, "data-volume").await);
    assert_eq!(running(&world, "web").await, ["web-disk"]);
}

#[tokio::test(start_paused = true)]
async fn one_whose_vm_was_taken_off_by_force_can_be_deleted() {
    let world = attached().await;
    let vm = world.vm("web").await;
    world.delete(&vm).await;
    let vm = world.vm("web").await;
    let none = json!({"metadata": {"finalizers": null}});
    world.edit(&vm, none).await;
    world.settle().await;
    assert!(world.find::<KiteVirtualMachine>(ANN, "web").await.is_none());
    delete::<KiteVolume>(&world, "data").await;
    assert!(!is_there::<KiteVolume>(&world, "data").await);
    let claims: Vec<KiteReservation> = world.all().await;
    let left = claims.iter().filter_map(|it| it.metadata.name.as_ref());
    let left: Vec<_> = left.filter(|it| it.starts_with("volume.")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_is_told_and_nothing_empty_takes_its_place() {
    let world = attached().await;
    power(&world, "web", "Off").await;
    delete::<DataVolume>(&world, "data-volume").await;
    assert_eq!(phase(&world, "data").await, VolumePhase::Lost);
    assert!(!is_there::<DataVolume>(&world, "data-volume").await);
    power(&world, "web", "On").await;
    let (reason, message) = said(&world, "web").await;
    assert_eq!(reason, "VolumeLost");
    assert!(message.contains("create another"), "{message}");
    assert!(running(&world, "web").await.is_empty());
    // Nor is one of its name taken for it.
    let mut empty: DataVolume = serde_json::from_value(json!({
        "metadata": {}, "spec": {
            "source": {"blank": {}},
            "storage": {"resources": {"requests": {"storage": "20Gi"}}},
        },
    }))
    .unwrap();
    let labels = kite_core::labels::for_volume("data");
    empty.metadata = ObjectMeta {
        name: Some("data-volume".to_owned()),
        namespace: Some(ANN.to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    world.create(empty).await;
    world.settle().await;
    assert_eq!(phase(&world, "data").await, VolumePhase::Lost);
    assert!(running(&world, "web").await.is_empty());
}

/// CDI makes claims anew that somebody deletes, and `KubeVirt` starts guests on them.
#[tokio::test(start_paused = true)]
async fn an_empty_claim_takes_no_place_while_the_vm_runs() {
    let world = attached().await;
    let claim: PersistentVolumeClaim = world.find(ANN, "data-volume").await.unwrap();
    world.delete(&claim).await;
    world.settle().await;
    // It is there as long as the guest runs.
    assert!(is_there::<PersistentVolumeClaim>(&world, "data-volume").await);
    assert_eq!(phase(&world, "data").await, VolumePhase::Lost);
    restart(&world, "web").await;
    assert!(!is_there::<PersistentVolumeClaim>(&world, "data-volume").await);
    assert_eq!(phase(&world, "data").await, VolumePhase::Lost);
    let instance = world.find::<VirtualMachineInstance>(ANN, "web").await;
    let status = instance.and_then(|it| it.status);
    let phase = status.and_then(|it| it.phase);
    assert_ne!(phase.as_deref(), Some("Running"), "without its data");
}

#[tokio::test(start_paused = true)]
async fn one_whose_labels_somebody_takes_off_is_still_it() {
    let world = attached().await;
    for labels in [
        json!({"hy3ons.github.io/managed-by": null}),
        json!({"hy3ons.github.io/kite-volume-name": "another"}),
        json!({"hy3ons.github.io/kite-vm-name": "web"}),
    ] {
        let made: DataVolume = world.find(ANN, "data-volume").await.unwrap();
        world
            .edit(&made, json!({"metadata": {"labels": labels}}))
            .await;
        world.settle().await;
        assert_eq!(
            phase(&world, "data").await,
            VolumePhase::Attached,
            "{labels}"
        );
    }
    list(&world, "web", json!([])).await;
    restart(&world, "web").await;
    delete::<KiteVolume>(&world, "data").await;
    assert!(!is_there::<PersistentVolumeClaim>(&world, "data-volume").await);
}

#[tokio::test(start_paused = true)]
async fn what_it_has_not_grown_by_is_taken_back() {
    let world = world().await;
    world.refuse("apply PersistentVolumeClaim kite-user-ann/data-volume");
    let larger = json!({"spec": {"size": "100Gi"}});
    world.edit(&volume(&world, "data").await, larger).await;
    world.settle().await;
    let hundred: Bytes = "100Gi".parse().unwrap();
    assert_eq!(status(&world, "data").await.granted, Some(hundred));
    let back = json!({"spec": {"size": "25Gi"}});
    world.edit(&volume(&world, "data").await, back).await;
    world.settle().await;
    let less: Bytes = "25Gi".parse().unwrap();
    assert_eq!(status(&world, "data").await.granted.as_ref(), Some(&less));
    world.refuse("");
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.settle().await;
    let found = status(&world, "data").await;
    assert_eq!(found.disk.unwrap().size, Some(less));
    let claim: PersistentVolumeClaim = world.find(ANN, "data-volume").await.unwrap();
    let asked = &claim.spec.unwrap().resources.unwrap().requests.unwrap()["storage"];
    assert!(asked.0.parse::<Bytes>().unwrap() < "28Gi".parse().unwrap());
}

/// As administrators do to look at a disk.
#[tokio::test(start_paused = true)]
async fn what_another_machine_has_by_its_claim_no_vm_gets() {
    let world = world().await;
    let other: VirtualMachine = serde_json::from_value(json!({
        "metadata": {"name": "rescue", "namespace": ANN},
        "spec": {"runStrategy": "Halted", "template": {"spec": {
            "domain": {"memory": {"guest": "1Gi"}, "devices": {"disks": [{"name": "it", "disk": {"bus": "virtio"}}]}},
            "volumes": [{"name": "it", "persistentVolumeClaim": {"claimName": "data-volume"}}],
        }}},
    }))
    .unwrap();
    let other = world.create(other).await;
    world
        .create(vm_with("web", json!([{"volume": "data"}])))
        .await;
    world.settle().await;
    // How far one is that has not been started is told every few seconds.
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.settle().await;
    let (reason, message) = said(&world, "web").await;
    assert_eq!(reason, "VolumeBusy");
    assert!(message.contains("rescue"), "{message}");
    world.delete(&other).await;
    world.settle().await;
    assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_want_the_same_one_gets_all() {
    let world = world().await;
    world.create(volume_named("more", "5Gi")).await;
    world.settle().await;
    let both = |first: &str, second: &str| json!([{"volume": first}, {"volume": second}]);
    world.create(vm_with("one", both("data", "more"))).await;
    world.create(vm_with("two", both("more", "data"))).await;
    world.settle().await;
    let counts = [
        running(&world, "one").await.len(),
        running(&world, "two").await.len(),
    ];
    assert!(counts == [3, 0] || counts == [0, 3], "{counts:?}");
    assert_exclusive(&world).await;
}

#[tokio::test(start_paused = true)]
async fn its_claim_alone_is_enough() {
    let world = attached().await;
    // As CDI does where it tidies up.
    let made: DataVolume = world.find(ANN, "data-volume").await.unwrap();
    let key = ObjectKey::of(&made);
    let uid = made.metadata.uid.unwrap();
    let orphan = PropagationPolicy::Orphan;
    let deleted = world.cluster.delete::<DataVolume>(&key, &uid, orphan).await;
    deleted.unwrap();
    world.settle().await;
    assert!(!is_there::<DataVolume>(&world, "data-volume").await);
    assert_eq!(phase(&world, "data").await, VolumePhase::Attached);
    list(&world, "web", json!([])).await;
    restart(&world, "web").await;
    delete::<KiteVolume>(&world, "data").await;
    assert!(!is_there::<PersistentVolumeClaim>(&world, "data-volume").await);
    assert!(!is_there::<KiteVolume>(&world, "data").await);
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_back_without_its_status_has_its_data() {
    let world = world().await;
    let before = status(&world, "data").await.disk.unwrap();
    let manager = FieldManager::new("person");
    let key = ObjectKey::namespaced(ANN, "data");
    let lost = json!({"status": null});
    let patched = world
        .cluster
        .merge_patch_status::<KiteVolume>(manager, &key, &lost);
    patched.await.unwrap();
    world.settle().await;
    let after = status(&world, "data").await;
    assert_eq!(after.disk, Some(before));
    assert_eq!(after.granted, Some("20Gi".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn it_grows_whoever_has_it() {
    let world = attached().await;
    for (state, size) in [("On", "25Gi"), ("Off", "30Gi")] {
        power(&world, "web", state).await;
        let larger = json!({"spec": {"size": size}});
        world.edit(&volume(&world, "data").await, larger).await;
        world.settle().await;
        let found = status(&world, "data").await;
        let wanted: Bytes = size.parse().unwrap();
        assert_eq!(found.disk.unwrap().size.as_ref(), Some(&wanted));
        assert_eq!(found.granted.as_ref(), Some(&wanted));
        let claim: PersistentVolumeClaim = world.find(ANN, "data-volume").await.unwrap();
        let asked = claim.spec.unwrap().resources.unwrap().requests.unwrap()["storage"]
            .0
            .parse::<Bytes>()
            .unwrap();
        // A file system takes some of it.
        assert!(asked > wanted, "{asked}");
    }
    let smaller = json!({"spec": {"size": "20Gi"}});
    let refused = world.try_edit(&volume(&world, "data").await, smaller).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("size can only grow"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn storage_that_cannot_grow_is_told_of_and_vms_have_it_all_the_same() {
    let world = attached().await;
    world.refuse("apply PersistentVolumeClaim kite-user-ann/data-volume");
    let larger = json!({"spec": {"size": "25Gi"}});
    world.edit(&volume(&world, "data").await, larger).await;
    world.settle().await;
    let (reason, _) = told(&world, "data").await;
    assert_eq!(reason, "GrowthRefused");
    assert_eq!(phase(&world, "data").await, VolumePhase::Attached);
    let found = status(&world, "data").await;
    assert_eq!(found.disk.unwrap().size, Some("20Gi".parse().unwrap()));
    power(&world, "web", "Off").await;
    power(&world, "web", "On").await;
    assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
}

/// Bytes of all claims that there may be in the namespace.
async fn room_for_disks(world: &World) -> u64 {
    let quota = world.find::<ResourceQuota>(ANN, "kite-quota").await;
    let hard = quota.unwrap().spec.unwrap().hard.unwrap();
    hard["requests.storage"].0.parse::<Bytes>().unwrap().bytes()
}

#[tokio::test(start_paused = true)]
async fn quotas_bound_how_many_there_are_and_how_large() {
    let world = world().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let quota = json!({
        "vms": 5, "cpu": 8, "memory": "16Gi", "disk": "100Gi", "volumes": 3, "volumeDisk": "50Gi",
    });
    world.edit(&ann, json!({"spec": {"quota": quota}})).await;
    world.settle().await;
    // Of two that ask at once for more than there is, one gets it.
    world.create(volume_named("first", "20Gi")).await;
    world.create(volume_named("second", "20Gi")).await;
    world.settle().await;
    let mut phases = [phase(&world, "first").await, phase(&world, "second").await];
    phases.sort_by_key(|it| *it == VolumePhase::Pending);
    assert_eq!(phases, [VolumePhase::Available, VolumePhase::Pending]);
    let (waits, has) = if phase(&world, "first").await == VolumePhase::Pending {
        ("first", "second")
    } else {
        ("second", "first")
    };
    let (reason, message) = told(&world, waits).await;
    assert_eq!(reason, "QuotaExceeded");
    assert!(message.contains("spec.quota.volumeDisk"), "{message}");
    assert!(!is_there::<DataVolume>(&world, &names::volume_disk(waits)).await);
    // The API server counts them.
    let fourth = world.try_create(volume_named("fourth", "1Gi")).await;
    let fourth = fourth.unwrap_err().to_string();
    assert!(fourth.contains("exceeded quota"), "{fourth}");
    // What one cannot grow by it does not lose.
    let larger = json!({"spec": {"size": "40Gi"}});
    world.edit(&volume(&world, has).await, larger).await;
    world.settle().await;
    assert_eq!(told(&world, has).await.0, "QuotaExceeded");
    assert_eq!(phase(&world, has).await, VolumePhase::Available);
    let back = json!({"spec": {"size": "20Gi"}});
    world.edit(&volume(&world, has).await, back).await;
    world.settle().await;
    assert_eq!(told(&world, has).await.0, "Available");
    // A quota that becomes smaller takes no room from VMs' disks.
    let smaller = json!({"spec": {"quota": {"volumeDisk": "1Gi"}}});
    let before = room_for_disks(&world).await;
    world.edit(&ann, smaller).await;
    world.settle().await;
    let after = room_for_disks(&world).await;
    // Of 50Gi they have 40Gi, and there is room for twice of each.
    let less = before - after;
    assert!(less < 24 << 30, "{before} {after}");
    let back = json!({"spec": {"quota": {"volumeDisk": "50Gi"}}});
    world.edit(&ann, back).await;
    world.settle().await;
    // There is room again.
    delete::<KiteVolume>(&world, "data").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.settle().await;
    assert_eq!(phase(&world, waits).await, VolumePhase::Available);
}

#[tokio::test(start_paused = true)]
async fn a_vm_waits_for_one_that_is_not_there_yet() {
    let world = World::played().await;
    world
        .create(vm_with("web", json!([{"volume": "data"}])))
        .await;
    world.settle().await;
    let (reason, message) = said(&world, "web").await;
    assert_eq!(reason, "VolumeMissing");
    assert!(message.contains("create it"), "{message}");
    assert!(running(&world, "web").await.is_empty());
    world.create(volume_named("data", "5Gi")).await;
    world.settle().await;
    assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_runs_goes_on_whatever_it_lists() {
    let world = attached().await;
    let listed = json!([{"volume": "data"}, {"volume": "none"}]);
    list(&world, "web", listed).await;
    assert_eq!(said(&world, "web").await.0, "VolumeMissing");
    assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
    let machine: VirtualMachine = world.find(ANN, "web").await.unwrap();
    assert_eq!(machine.spec.run_strategy.as_deref(), Some("Always"));
    assert_eq!(phase(&world, "data").await, VolumePhase::Attached);
}

/// Whoever deletes a reservation by hand cannot have two guests write to one disk.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_deleted_gives_nobody_a_disk_that_another_has() {
    let world = attached().await;
    world
        .create(vm_with("late", json!([{"volume": "data"}])))
        .await;
    world.settle().await;
    let name = names::volume_reservation(ANN, "data");
    // Whoever is first: the one that waits, and then the one that has it.
    for first in ["late", "web"] {
        let claim: KiteReservation = world.find("", &name).await.unwrap();
        world.delete(&claim).await;
        let vm = world.vm(first).await;
        let reconciled = kite_reconcile::vm::reconcile(&vm, &world.context).await;
        reconciled.unwrap();
        world.settle().await;
        assert_exclusive(&world).await;
        assert_eq!(running(&world, "web").await, ["web-disk", "data-volume"]);
        assert!(running(&world, "late").await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_vm_keeps_its_volumes() {
    let world = attached().await;
    let machine: VirtualMachine = world.find(ANN, "web").await.unwrap();
    let mut pointed = machine.clone();
    kite_render::restore::point(&mut pointed, "web-disk-2", None);
    let disks = |it: &VirtualMachine| {
        let volumes = it.spec.template.spec.volumes.clone().into_iter();
        let disks = volumes.filter_map(|it| it.data_volume);
        disks.map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(disks(&machine), ["web-disk", "data-volume"]);
    assert_eq!(disks(&pointed), ["web-disk-2", "data-volume"]);
}

#[tokio::test(start_paused = true)]
async fn what_has_its_name_is_left_alone() {
    let world = World::played().await;
    let mut other: DataVolume = serde_json::from_value(json!({
        "metadata": {}, "spec": {
            "source": {"blank": {}},
            "storage": {"resources": {"requests": {"storage": "1Gi"}}},
        },
    }))
    .unwrap();
    other.metadata.name = Some("data-volume".to_owned());
    other.metadata.namespace = Some(ANN.to_owned());
    world.create(other).await;
    world.create(volume_named("data", "5Gi")).await;
    world.settle().await;
    let (reason, message) = told(&world, "data").await;
    assert_eq!(reason, "NameTaken", "{message}");
    delete::<KiteVolume>(&world, "data").await;
    assert!(!is_there::<KiteVolume>(&world, "data").await);
    assert!(is_there::<DataVolume>(&world, "data-volume").await);
}

#[test]
fn of_one_that_cannot_be_read_nothing_is_made_and_it_can_go() {
    let mut volume = volume_named("data", "5Gi");
    volume.metadata.uid = Some("its-uid".to_owned());
    volume.metadata.finalizers = Some(vec![kite_core::labels::VOLUME_FINALIZER.to_owned()]);
    volume.spec.unreadable = Some("spec.size: much".to_owned());
    let plan = |it: &KiteVolume| {
        let seen = kite_reconcile::volume::Observed::default();
        kite_reconcile::volume::plan(it, &seen).unwrap()
    };
    let stays = plan(&volume);
    assert!(stays.steps.is_empty(), "{:?}", stays.steps);
    let told = &stays.conditions[0];
    assert_eq!(told.reason, "Unreadable");
    assert!(told.message.contains("spec.size: much"), "{}", told.message);
    volume.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let goes = plan(&volume).steps;
    assert!(
        matches!(goes[..], [kite_reconcile::plan::Step::RemoveFinalizer(_)]),
        "{goes:?}"
    );
}

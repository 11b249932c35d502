//! A disk whose `DataVolume` somebody has deleted behind the VM's back, and not its claim:
//! nothing is lost.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    cluster::ClusterExt as _,
    conditions::find,
    crd::{KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachine,
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::json;

use crate::{
    lost::{ANN, claim, disk, phase, power, replace, restorable, running, says, warns},
    world::World,
};

/// Takes the `DataVolume` away and leaves its claim, as CDI does where it clears away what
/// is done, and `kubectl delete --cascade=orphan`. What was there.
async fn orphan(world: &World) -> (DataVolume, PersistentVolumeClaim) {
    let (made, left) = (disk(world).await.unwrap(), claim(world).await.unwrap());
    let orphan = PropagationPolicy::Orphan;
    world.cluster.delete_by_uid(&made, orphan).await.unwrap();
    world.settle().await;
    (made, left)
}

/// Whether a condition holds.
fn holds(vm: &KiteVirtualMachine, condition: &str) -> bool {
    let status = vm.status.as_ref().unwrap();
    find(&status.conditions, condition).is_some_and(|it| it.status == "True")
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_left_alone_is_told_and_nothing_takes_its_place() {
    let world = running().await;
    let before = world.vm("web").await;
    let (made, left) = orphan(&world).await;
    let vm = world.vm("web").await;
    let (reason, message) = says(&vm, "DiskReady");
    assert_eq!(reason, "DiskUnmanaged");
    assert!(
        message.contains("its data is in PersistentVolumeClaim web-disk"),
        "{message}"
    );
    assert!(holds(&vm, "DiskReady"), "it can be used");
    assert_eq!(says(&vm, "Ready").0, "Running");
    assert!(!warns(&before, &vm, "DiskUnmanaged"));
    let off = power(&world, "Off").await;
    assert_eq!(says(&off, "Ready").0, "Stopped");
    let on = power(&world, "On").await;
    assert_eq!(
        (phase(&on), says(&on, "Ready").0.as_str()),
        (VmPhase::Running, "Running"),
        "KubeVirt takes the claim as it is"
    );
    // Nor when another is asked for: what is on it is not gone.
    let asked = replace(&world, &made.uid().unwrap()).await;
    assert_eq!(says(&asked, "DiskReady").0, "DiskUnmanaged");
    assert_eq!(disk(&world).await, None);
    assert_eq!(claim(&world).await.unwrap().uid(), left.uid());
    // What the VM had of the disk it is told of, and charged with, as before.
    let of = |vm: &KiteVirtualMachine| vm.status.clone().unwrap();
    assert_eq!(of(&asked).disk, of(&before).disk);
    assert_eq!(of(&asked).granted, of(&before).granted);
}

#[tokio::test(start_paused = true)]
async fn a_vm_whose_claim_is_left_alone_is_made_and_sized_and_its_disk_is_not() {
    let world = running().await;
    let (_, left) = orphan(&world).await;
    let off = power(&world, "Off").await;
    let machine: VirtualMachine = world.find(ANN, "web").await.unwrap();
    world.delete(&machine).await;
    world
        .edit(&off, json!({"spec": {"cpu": 3, "disk": "20Gi"}}))
        .await;
    world.settle().await;
    let vm = world.vm("web").await;
    let granted = vm.status.as_ref().unwrap().granted.clone().unwrap();
    assert_eq!(
        (granted.cpu, granted.disk),
        (Some(3), Some("10Gi".parse().unwrap())),
        "what it cannot have it is not charged with"
    );
    let (reason, message) = says(&vm, "DiskReady");
    assert_eq!(reason, "DiskUnmanaged");
    assert!(
        message.contains("does not grow to 20Gi and keeps its 10Gi"),
        "{message}"
    );
    assert!(!holds(&vm, "DiskReady"), "it has not what is asked for");
    assert_eq!(claim(&world).await.unwrap().spec, left.spec);
    let anew: VirtualMachine = world.find(ANN, "web").await.unwrap();
    assert_ne!(anew.uid(), machine.uid());
    assert_eq!(phase(&power(&world, "On").await), VmPhase::Running);

    let vm = world.vm("web").await;
    world.edit(&vm, json!({"spec": {"disk": "10Gi"}})).await;
    world.settle().await;
    assert!(holds(&world.vm("web").await, "DiskReady"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_left_alone_goes_with_its_vm() {
    let world = running().await;
    orphan(&world).await;
    world.delete(&world.vm("web").await).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_the_disks_is_neither_taken_for_it_nor_deleted() {
    let world = running().await;
    power(&world, "Off").await;
    let (_, left) = orphan(&world).await;
    let strange = json!({"metadata": {"labels": null}});
    world.edit(&claim(&world).await.unwrap(), strange).await;
    world.settle().await;
    let vm = world.vm("web").await;
    for condition in ["DiskReady", "Ready"] {
        let (reason, message) = says(&vm, condition);
        assert_eq!(reason, "DiskLost");
        assert!(message.contains("is not the disk's"), "{message}");
    }
    assert_eq!(disk(&world).await, None, "nothing is made over it");
    world.delete(&vm).await;
    world.settle().await;
    assert_eq!(world.find::<KiteVirtualMachine>(ANN, "web").await, None);
    assert_eq!(claim(&world).await.unwrap().uid(), left.uid());
}

/// As `docs/resources.md` says what mends it.
#[tokio::test(start_paused = true)]
async fn a_datavolume_that_is_made_again_over_its_claim_takes_it_up() {
    let world = running().await;
    let (made, left) = orphan(&world).await;
    let filled = json!({
        "metadata": {"annotations": {"cdi.kubevirt.io/storage.populatedFor": "web-disk"}},
    });
    world.edit(&claim(&world).await.unwrap(), filled).await;
    let mut again = restorable(&made);
    again.metadata.owner_references = None;
    let again = world.create(again).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "DiskReady").0, "Filled");
    assert_eq!(says(&vm, "Ready").0, "Running", "{:#?}", vm.status);
    assert_eq!(vm.status.unwrap().disk.unwrap().uid, again.uid());
    let claim = claim(&world).await.unwrap();
    assert_eq!(claim.uid(), left.uid());
    let owners = claim.metadata.owner_references.unwrap();
    assert!(
        owners
            .iter()
            .any(|it| Some(&it.uid) == again.metadata.uid.as_ref())
    );
}

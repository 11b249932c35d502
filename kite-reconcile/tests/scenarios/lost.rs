//! What a VM cannot do without, and somebody has deleted behind its back: its disk
//! with all that is on it, and its keys.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kite_core::{
    cdi::{DataVolume, HAS_ITS_DATA, POPULATED_FOR},
    cluster::{Cluster as _, FieldManager, ObjectKey},
    conditions::find,
    crd::{KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachineInstance,
    labels,
};
use kite_reconcile::{Settings, story::story};
use kube::ResourceExt as _;
use serde_json::json;

use crate::world::{World, vm_named};

pub const ANN: &str = "kite-user-ann";

pub async fn running() -> World {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    assert_eq!(says(&world.vm("web").await, "Ready").0, "Running");
    world
}

/// Reason and message of a condition.
pub fn says(vm: &KiteVirtualMachine, condition: &str) -> (String, String) {
    let status = vm.status.as_ref().unwrap();
    let found = find(&status.conditions, condition);
    let found = found.unwrap_or_else(|| panic!("{condition}: {status:#?}"));
    (found.reason.clone(), found.message.clone())
}

pub fn phase(vm: &KiteVirtualMachine) -> VmPhase {
    vm.status.as_ref().unwrap().phase.unwrap()
}

pub async fn disk(world: &World) -> Option<DataVolume> {
    world.find(ANN, "web-disk").await
}

pub async fn claim(world: &World) -> Option<PersistentVolumeClaim> {
    world.find(ANN, "web-disk").await
}

pub async fn power(world: &World, power: &str) -> KiteVirtualMachine {
    let vm = world.vm("web").await;
    world
        .edit(&vm, json!({"spec": {"powerState": power}}))
        .await;
    world.settle().await;
    world.vm("web").await
}

/// Asks for another disk instead of the lost one of this uid.
pub async fn replace(world: &World, uid: &str) -> KiteVirtualMachine {
    let vm = world.vm("web").await;
    let asked = json!({"metadata": {"annotations": {labels::REPLACE_DISK: uid}}});
    world.edit(&vm, asked).await;
    world.settle().await;
    world.vm("web").await
}

/// What a backup has of an object.
pub fn restorable(disk: &DataVolume) -> DataVolume {
    let mut disk = disk.clone();
    disk.metadata.uid = None;
    disk.metadata.resource_version = None;
    disk.metadata.creation_timestamp = None;
    disk.metadata.managed_fields = None;
    disk.status = None;
    disk
}

/// Whether the change from one status to the other is told as a warning.
pub fn warns(before: &KiteVirtualMachine, after: &KiteVirtualMachine, reason: &str) -> bool {
    let of = |vm: &KiteVirtualMachine| vm.status.clone().unwrap().conditions;
    let told = story(&of(before), &of(after));
    told.iter()
        .any(|record| record.reason == reason && record.severity.as_str() == "Warning")
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_deleted_is_told_and_no_other_comes_by_itself() {
    let world = running().await;
    let before = world.vm("web").await;
    let made = disk(&world).await.unwrap();
    world.delete(&claim(&world).await.unwrap()).await;
    world.settle().await;
    let leaving = world.vm("web").await;
    assert_eq!(says(&leaving, "DiskReady").0, "DiskLeaving");
    assert_eq!(says(&leaving, "Ready").0, "DiskLeaving");
    assert_eq!(
        phase(&leaving),
        VmPhase::Running,
        "it runs as long as it runs"
    );
    assert!(warns(&before, &leaving, "DiskLeaving"));

    let off = power(&world, "Off").await;
    assert!(claim(&world).await.is_none());
    for condition in ["DiskReady", "Ready"] {
        let (reason, message) = says(&off, condition);
        assert_eq!(reason, "DiskLost");
        assert!(
            message.contains("no PersistentVolumeClaim web-disk"),
            "{message}"
        );
    }
    assert!(warns(&leaving, &off, "DiskLost"));
    let on = power(&world, "On").await;
    assert_eq!(says(&on, "Ready").0, "DiskLost");
    assert_eq!(phase(&on), VmPhase::Failed);
    assert_eq!(disk(&world).await.unwrap().uid(), made.uid());

    // Another one comes when it is asked for, of that very disk.
    let uid = made.uid().unwrap();
    assert_eq!(
        says(&replace(&world, "another").await, "Ready").0,
        "DiskLost"
    );
    assert!(!runs(&world).await, "whatever claim comes");
    let anew = replace(&world, &uid).await;
    assert_eq!(says(&anew, "Ready").0, "Running", "{:#?}", anew.status);
    let new = disk(&world).await.unwrap();
    assert_ne!(new.uid(), made.uid());
    let told = anew.status.unwrap().disk.unwrap();
    assert_eq!(told.uid, new.uid());
    assert_eq!(told.has_run_on, claim(&world).await.unwrap().uid());

    // Once: the next loss is another.
    world.delete(&claim(&world).await.unwrap()).await;
    assert_eq!(says(&power(&world, "Off").await, "Ready").0, "DiskLost");
    assert_eq!(disk(&world).await.unwrap().uid(), new.uid());
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_was_deleted_is_told_and_no_other_comes_by_itself() {
    let world = running().await;
    let made = disk(&world).await.unwrap();
    world.delete(&made).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "DiskReady").0, "DiskLeaving");
    assert_eq!(phase(&vm), VmPhase::Running);
    assert_eq!(disk(&world).await, None, "its place is kept free");
    power(&world, "Off").await;
    let vm = power(&world, "On").await;
    assert_eq!(says(&vm, "Ready").0, "DiskLost");
    let uid = made.uid().unwrap();
    assert!(says(&vm, "Ready").1.contains(&uid));
    assert_eq!((disk(&world).await, claim(&world).await), (None, None));
    assert!(
        world
            .find::<VirtualMachineInstance>(ANN, "web")
            .await
            .is_none_or(|it| { it.status.unwrap().phase.as_deref() != Some("Running") })
    );
    // What it was granted stays its own.
    assert!(vm.status.as_ref().unwrap().granted.is_some());

    let anew = replace(&world, &uid).await;
    assert_eq!(says(&anew, "Ready").0, "Running", "{:#?}", anew.status);
    assert_ne!(disk(&world).await.unwrap().uid(), made.uid());
}

/// As of a VM from before disks were told that they have their data, or of which somebody has
/// taken that off.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cdi_makes_anew_is_not_taken_for_the_one_that_was() {
    let world = running().await;
    let made = disk(&world).await.unwrap();
    let had = claim(&world).await.unwrap();
    let had_uid = had.uid().unwrap();
    world.delete(&had).await;
    world.settle().await;
    // Whatever was forgotten is said again while its claim goes.
    let forgotten = json!({"metadata": {"annotations": {HAS_ITS_DATA: null}}});
    world.edit(&made, forgotten.clone()).await;
    world.settle().await;
    assert!(has_its_data(&disk(&world).await.unwrap()));
    power(&world, "Off").await;
    assert_eq!(claim(&world).await, None);
    // Somebody takes it off after that.
    world.edit(&made, forgotten).await;
    world.settle().await;
    let off = world.vm("web").await;
    let anew = claim(&world).await.expect("CDI makes another");
    assert_ne!(anew.uid(), had.uid());
    let (reason, message) = says(&off, "DiskReady");
    assert_eq!(reason, "DiskLost");
    assert!(message.contains("CDI has made another"), "{message}");
    let disk_told = |vm: &KiteVirtualMachine| vm.status.clone().unwrap().disk.unwrap();
    assert_eq!(disk_told(&off).uid, made.uid());
    let on = power(&world, "On").await;
    assert_eq!(says(&on, "Ready").0, "DiskLost");
    assert_eq!(phase(&on), VmPhase::Failed);
    assert_eq!(disk_told(&on).has_run_on.as_ref(), Some(&had_uid));
    assert!(!runs(&world).await, "no guest begins anew on it");

    // It is taken where somebody says so, as it is.
    let disk_uid = made.uid().unwrap();
    assert_eq!(
        says(&replace(&world, &disk_uid).await, "Ready").0,
        "DiskLost"
    );
    let vm = replace(&world, &had_uid).await;
    assert_eq!(says(&vm, "Ready").0, "Running", "{:#?}", vm.status);
    assert_eq!(disk(&world).await.unwrap().uid(), made.uid());
    assert_eq!(claim(&world).await.unwrap().uid(), anew.uid());
    assert_eq!(disk_told(&vm).has_run_on, anew.uid());
    assert!(has_its_data(&disk(&world).await.unwrap()));
}

/// A guest that was started from one is told of, too.
#[tokio::test(start_paused = true)]
async fn a_guest_that_runs_on_a_claim_that_was_made_anew_is_told_of() {
    let world = running().await;
    let had = claim(&world).await.unwrap();
    // As if all of it had happened while no controller ran.
    let ran_on = json!({"status": {"disk": {"hasRunOn": "another"}}});
    let key = ObjectKey::namespaced(ANN, "web");
    let told = world.cluster.merge_patch_status::<KiteVirtualMachine>(
        FieldManager::new("person"),
        &key,
        &ran_on,
    );
    told.await.unwrap();
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running, "it runs as long as it runs");
    for condition in ["DiskReady", "Ready"] {
        assert_eq!(says(&vm, condition).0, "DiskLost");
    }
    let vm = replace(&world, "another").await;
    assert_eq!(says(&vm, "Ready").0, "Running");
    assert_eq!(vm.status.unwrap().disk.unwrap().has_run_on, had.uid());
}

#[tokio::test(start_paused = true)]
async fn a_disk_says_that_it_has_its_data_once_it_has() {
    let world = World::with_ann().await;
    let fills = &world.stage.fills_disks;
    fills.store(false, std::sync::atomic::Ordering::SeqCst);
    world.create(vm_named("web")).await;
    world.settle().await;
    assert!(!has_its_data(&disk(&world).await.unwrap()));
    let world = running().await;
    assert!(has_its_data(&disk(&world).await.unwrap()));
}

/// Whether there is an instance of `web`.
async fn runs(world: &World) -> bool {
    world
        .find::<VirtualMachineInstance>(ANN, "web")
        .await
        .is_some()
}

fn has_its_data(disk: &DataVolume) -> bool {
    disk.annotations().contains_key(HAS_ITS_DATA)
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_comes_back_from_a_backup_is_taken() {
    let world = running().await;
    power(&world, "Off").await;
    let made = disk(&world).await.unwrap();
    let claim_made = claim(&world).await.unwrap();
    world.delete(&made).await;
    world.settle().await;
    assert_eq!(says(&world.vm("web").await, "Ready").0, "DiskLost");
    world.create(restorable(&made)).await;
    let vm = power(&world, "On").await;
    // Nothing is made from the image for it.
    assert_eq!(says(&vm, "Ready").0, "DiskLost");
    assert_eq!(claim(&world).await, None);

    // What a backup brings back belongs to nobody. CDI asks whose data it is.
    let mut back = claim_made.clone();
    let meta = &mut back.metadata;
    (meta.uid, meta.resource_version, meta.creation_timestamp) = (None, None, None);
    (meta.owner_references, meta.managed_fields) = (None, None);
    (meta.finalizers, meta.annotations) = (None, None);
    back.status = None;
    let spec = back.spec.as_mut().unwrap();
    (spec.volume_name, spec.data_source, spec.data_source_ref) = (None, None, None);
    world.create(back).await;
    world.settle().await;
    let (reason, message) = says(&world.vm("web").await, "DiskReady");
    assert_eq!(reason, "DiskLost");
    assert!(!runs(&world).await, "not before all of it is back");
    let (_, asked) = message.split_once("-n kite-user-ann web-disk ").unwrap();
    let (key, value) = asked.trim_end_matches(')').split_once('=').unwrap();
    let said = json!({"metadata": {"annotations": {key: value}}});
    world.edit(&claim(&world).await.unwrap(), said).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "Ready").0, "Running", "{:#?}", vm.status);
    assert_eq!(
        vm.status.unwrap().disk.unwrap().uid,
        disk(&world).await.unwrap().uid()
    );
}

/// As Velero brings a claim back under a disk that stayed: with all that CDI wrote on it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_comes_back_alone_is_not_taken_for_one_made_anew() {
    let world = running().await;
    let had = claim(&world).await.unwrap();
    world.delete(&had).await;
    power(&world, "Off").await;
    assert_eq!(claim(&world).await, None);
    let mut back = had.clone();
    let meta = &mut back.metadata;
    (meta.uid, meta.resource_version, meta.creation_timestamp) = (None, None, None);
    (meta.owner_references, meta.managed_fields) = (None, None);
    meta.finalizers = None;
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(POPULATED_FOR.to_owned(), "web-disk".to_owned());
    back.status = None;
    let spec = back.spec.as_mut().unwrap();
    (spec.volume_name, spec.data_source, spec.data_source_ref) = (None, None, None);
    world.create(back).await;
    let vm = power(&world, "On").await;
    assert_eq!(says(&vm, "Ready").0, "Running", "{:#?}", vm.status);
    let present = claim(&world).await.unwrap();
    assert_ne!(present.uid(), had.uid());
    assert_eq!(vm.status.unwrap().disk.unwrap().has_run_on, present.uid());
}

#[tokio::test(start_paused = true)]
async fn a_vm_without_its_disk_goes_like_any_other() {
    let world = running().await;
    world.delete(&disk(&world).await.unwrap()).await;
    world.settle().await;
    let vm = world.vm("web").await;
    world.delete(&vm).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_had_no_data_yet_is_made_anew_at_once() {
    let world = World::with_ann().await;
    world
        .stage
        .fills_disks
        .store(false, std::sync::atomic::Ordering::SeqCst);
    world.create(vm_named("web")).await;
    world.settle().await;
    let made = disk(&world).await.unwrap();
    world.delete(&made).await;
    world.settle().await;
    let anew = disk(&world).await.unwrap();
    assert_ne!(anew.uid(), made.uid());
    // How far the disk is need not be told at every step.
    tokio::time::sleep(Settings::default().progress_every).await;
    world.settle().await;
    assert_eq!(says(&world.vm("web").await, "DiskReady").0, "Cloning");
}

#[tokio::test(start_paused = true)]
async fn keys_that_were_lost_are_told_until_the_guest_has_the_new_ones() {
    let world = running().await;
    let before = world.vm("web").await;
    assert!(before.status.as_ref().unwrap().guest_key.is_some());
    let secret: Secret = world.find(ANN, "web-ssh-key").await.unwrap();
    world.delete(&secret).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let (reason, message) = says(&vm, "Accessible");
    assert_eq!(reason, "KeysReplaced");
    assert!(message.contains("cloud-init clean --reboot"), "{message}");
    assert!(warns(&before, &vm, "KeysReplaced"));
    assert_eq!(phase(&vm), VmPhase::Running);
    let known = |vm: &KiteVirtualMachine| vm.status.clone().unwrap().guest_key;
    assert_eq!(known(&vm), known(&before));

    // The former one comes back from a backup.
    let made: Secret = world.find(ANN, "web-ssh-key").await.unwrap();
    world.delete(&made).await;
    let mut restored = secret.clone();
    restored.metadata.uid = None;
    restored.metadata.resource_version = None;
    restored.metadata.creation_timestamp = None;
    restored.metadata.managed_fields = None;
    world.create(restored).await;
    world.settle().await;
    let mended = world.vm("web").await;
    let conditions = mended.status.clone().unwrap().conditions;
    assert!(find(&conditions, "Accessible").is_none_or(|it| it.reason != "KeysReplaced"));

    // Or the guest has taken the new one over.
    let back: Secret = world.find(ANN, "web-ssh-key").await.unwrap();
    world.delete(&back).await;
    world.settle().await;
    assert_eq!(says(&world.vm("web").await, "Accessible").0, "KeysReplaced");
    let present: Secret = world.find(ANN, "web-ssh-key").await.unwrap();
    let public = present.data.unwrap()["id_ed25519.pub"].0.clone();
    let public = String::from_utf8(public).unwrap().trim().to_owned();
    let said = json!({"metadata": {"annotations": {labels::GUEST_KEY: public}}});
    world.edit(&mended, said).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(known(&vm), Some(public));
    let conditions = vm.status.unwrap().conditions;
    assert!(find(&conditions, "Accessible").is_none_or(|it| it.reason != "KeysReplaced"));
}

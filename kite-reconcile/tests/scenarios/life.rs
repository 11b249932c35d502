//! Creation, power, drift.

use std::sync::atomic::Ordering;

use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Secret, Service},
    networking::v1::Ingress,
};
use kite_core::{
    cdi::DataVolume,
    conditions::{find, is_true},
    crd::{KitePlatform, KiteUser, KiteVirtualMachine, PowerState, VmPhase},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kite_reconcile::Settings;
use serde_json::json;

use crate::world::{Fault, FaultMode, World, vm_named};

const ANN: &str = "kite-user-ann";

fn phase(vm: &KiteVirtualMachine) -> VmPhase {
    vm.status.as_ref().unwrap().phase.unwrap()
}

fn reason<'a>(vm: &'a KiteVirtualMachine, condition: &str) -> &'a str {
    let conditions = &vm.status.as_ref().unwrap().conditions;
    &find(conditions, condition).unwrap().reason
}

#[tokio::test(start_paused = true)]
async fn from_nothing_to_running() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("shop".to_owned());
    world.create(vm).await;
    world.settle().await;

    let vm = world.vm("web").await;
    let status = vm.status.as_ref().unwrap();
    assert_eq!(phase(&vm), VmPhase::Running);
    assert_eq!(status.power_state, Some(PowerState::On));
    assert_eq!(status.node_name.as_deref(), Some("node-a"));
    assert!(status.ip_address.is_some());
    assert_eq!(status.observed_generation, vm.metadata.generation);
    for condition in [
        "Ready",
        "Reserved",
        "ImageReady",
        "DiskReady",
        "VirtualMachineReady",
    ] {
        assert!(
            is_true(&status.conditions, condition),
            "{condition}: {status:#?}"
        );
    }
    assert_eq!(
        reason(&vm, "Exposed"),
        "NoAddress",
        "there is no ingress controller"
    );
    let access = status.access.as_ref().unwrap();
    assert_eq!(
        access.ssh_command.as_deref(),
        Some("ssh id-web@vm.example.org")
    );
    assert_eq!(access.domain.as_deref(), Some("shop.vm.example.org"));
    assert_eq!(access.service, "vps-access-web");
    let disk = status.disk.as_ref().unwrap();
    assert_eq!(disk.phase.as_deref(), Some("Succeeded"));
    assert!(world.find::<Ingress>(ANN, "web").await.is_some());
    let secret = world.find::<Secret>(ANN, &access.key_secret).await.unwrap();
    assert_eq!(secret.data.unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_settled_world_is_not_written_to() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("shop".to_owned());
    world.create(vm).await;
    world.settle().await;

    world.reads();
    for _ in 0..3 {
        let errors = world.pass().await;
        assert!(errors.is_empty(), "{errors:?}");
    }
    assert_eq!(world.writes(), Vec::<String>::new());
    // What the settings name is looked at once for each setting, beside all else.
    let is_named = |read: &&String| {
        ["list StorageClass *", "get Namespace kite-images"].contains(&read.as_str())
    };
    let (named, reads): (Vec<_>, Vec<_>) = world.reads().into_iter().partition(|it| is_named(&it));
    assert_eq!(named.len(), 3 * 2, "{named:#?}");
    assert!(
        reads.len() <= 3 * 34,
        "a settled pass without caches over one user, image and VM stays small: {reads:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cloning_disk_is_progress_and_no_failure() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.pass().await;
    world.stage.play().await;
    // How far the disk is need not be told at every step.
    tokio::time::sleep(Settings::default().progress_every).await;
    world.pass().await;

    // The stage says ErrorUnschedulable now, as KubeVirt does.
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Provisioning);
    assert_eq!(reason(&vm, "DiskReady"), "Cloning");
    let disk = vm.status.unwrap().disk.unwrap();
    assert_eq!(disk.progress.as_deref(), Some("42.0%"));
}

#[tokio::test(start_paused = true)]
async fn power_off_and_on() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;

    let vm = world.vm("web").await;
    world
        .edit(&vm, json!({"spec": {"powerState": "Off"}}))
        .await;
    world.pass().await;
    world.stage.play().await;
    world.pass().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopping);
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Stopped);
    assert_eq!(reason(&vm, "Ready"), "Stopped");
    let status = vm.status.as_ref().unwrap();
    assert!(is_true(&status.conditions, "Ready"));
    assert_eq!(
        (status.power_state, &status.node_name),
        (Some(PowerState::Off), &None)
    );
    assert!(
        world
            .find::<VirtualMachineInstance>(ANN, "web")
            .await
            .is_none()
    );
    assert!(
        world.find::<DataVolume>(ANN, "web-disk").await.is_some(),
        "the disk stays"
    );

    world.edit(&vm, json!({"spec": {"powerState": "On"}})).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_owner_keeps_vms_off() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.edit(&ann, json!({"spec": {"suspended": true}})).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Stopped);
    assert_eq!(reason(&vm, "Ready"), "Suspended");
    assert_eq!(
        vm.spec.power_state,
        PowerState::On,
        "what the owner asked for is kept"
    );

    world.edit(&ann, json!({"spec": {"suspended": null}})).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
}

#[tokio::test(start_paused = true)]
async fn a_disk_grows_through_its_claim() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    world.edit(&vm, json!({"spec": {"disk": "12Gi"}})).await;
    world.pass().await;
    world.settle().await;
    let claim = world
        .find::<PersistentVolumeClaim>(ANN, "web-disk")
        .await
        .unwrap();
    let size = &claim.spec.unwrap().resources.unwrap().requests.unwrap()["storage"];
    assert_eq!(size.0, "12Gi");
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
}

#[tokio::test(start_paused = true)]
async fn defect_10_status_does_not_flap() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let before = world.vm("web").await.status.unwrap();

    // A Service changes, KubeVirt says something new, time goes by.
    let service = world.find::<Service>(ANN, "vps-web-web").await.unwrap();
    world
        .edit(&service, json!({"metadata": {"annotations": {"a": "b"}}}))
        .await;
    tokio::time::advance(std::time::Duration::from_secs(3600)).await;
    world.settle().await;
    assert_eq!(world.vm("web").await.status.unwrap(), before);

    world.stage.runs_machines.store(false, Ordering::SeqCst);
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    world.stage.machine_says(&machine, "Hibernating").await;
    world.settle().await;
    let vm = world.vm("web").await;
    let ready = find(
        &vm.status.as_ref().unwrap().conditions,
        "VirtualMachineReady",
    )
    .unwrap();
    assert_eq!(
        ready.status, "Unknown",
        "an unknown state is not shown as ready"
    );
    assert!(
        ready.last_transition_time
            > find(&before.conditions, "VirtualMachineReady")
                .unwrap()
                .last_transition_time
    );
    let disk = find(&vm.status.as_ref().unwrap().conditions, "DiskReady").unwrap();
    assert_eq!(
        disk.last_transition_time,
        find(&before.conditions, "DiskReady")
            .unwrap()
            .last_transition_time
    );
}

#[tokio::test(start_paused = true)]
async fn defect_11_drift_of_a_settled_vm_is_repaired() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("shop".to_owned());
    world.create(vm).await;
    world.settle().await;
    let generation = world.vm("web").await.metadata.generation;

    let service = world.find::<Service>(ANN, "vps-access-web").await.unwrap();
    world
        .edit(
            &service,
            json!({"spec": {"selector": {"vm.kubevirt.io/name": "other"}}}),
        )
        .await;
    let ingress = world.find::<Ingress>(ANN, "web").await.unwrap();
    world.delete(&ingress).await;
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    world
        .edit(&machine, json!({"spec": {"runStrategy": "Halted"}}))
        .await;
    let secret = world
        .find::<Secret>(ANN, "web-cloud-init-userdata")
        .await
        .unwrap();
    world
        .edit(&secret, json!({"data": {"userdata": "aGk="}}))
        .await;
    world.settle().await;

    let service = world.find::<Service>(ANN, "vps-access-web").await.unwrap();
    assert_eq!(
        service.spec.unwrap().selector.unwrap()["vm.kubevirt.io/name"],
        "web"
    );
    assert!(world.find::<Ingress>(ANN, "web").await.is_some());
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    assert_eq!(vm.metadata.generation, generation);
    let mended = world
        .find::<Secret>(ANN, "web-cloud-init-userdata")
        .await
        .unwrap();
    assert_eq!(mended.data, secret.data);
}

#[tokio::test(start_paused = true)]
async fn defect_13_keys_are_made_once_and_lost_labels_are_put_back() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let keys = world.find::<Secret>(ANN, "web-ssh-key").await.unwrap();
    world
        .edit(
            &keys,
            json!({"metadata": {"labels": {"hy3ons.github.io/kite-vm-name": "other"}}}),
        )
        .await;
    world.settle().await;
    let after = world.find::<Secret>(ANN, "web-ssh-key").await.unwrap();
    assert_eq!(after.data, keys.data);
    assert_eq!(after.metadata.labels, keys.metadata.labels);
    assert_eq!(after.metadata.uid, keys.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn defect_14_a_machine_is_never_there_before_its_secret_and_disk() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    let written = world.settle().await;
    let at = |what: &str| {
        written
            .iter()
            .position(|line| line.starts_with(what))
            .unwrap_or_else(|| panic!("{what} was not written: {written:#?}"))
    };
    let machine = at("apply VirtualMachine kite-user-ann/web");
    assert!(at("finalizers KiteVirtualMachine") < at("create KiteReservation ssh-id.id-web"));
    assert!(
        at("create KiteReservation ssh-id.id-web") < at("create Secret kite-user-ann/web-ssh-key")
    );
    assert!(at("create Secret kite-user-ann/web-ssh-key") < machine);
    assert!(at("apply Secret kite-user-ann/web-cloud-init-userdata") < machine);
    assert!(at("apply DataVolume kite-user-ann/web-disk") < machine);
}

#[tokio::test(start_paused = true)]
async fn defect_17_everything_of_a_vm_is_owned_by_it() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("shop".to_owned());
    world.create(vm).await;
    world.settle().await;
    let uid = world.vm("web").await.metadata.uid.unwrap();
    macro_rules! owned {
        ($($kind:ty: $name:expr),*) => { $(
            let object = world.find::<$kind>(ANN, $name).await.unwrap();
            let owners = object.metadata.owner_references.unwrap();
            assert!(owners.iter().any(|o| o.uid == uid && o.controller == Some(true)), "{}", $name);
        )* };
    }
    owned!(
        Secret: "web-ssh-key",
        Secret: "web-cloud-init-userdata",
        DataVolume: "web-disk",
        VirtualMachine: "web",
        Service: "vps-access-web",
        Service: "vps-web-web",
        Ingress: "web"
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_with_a_broken_part_can_still_be_switched_off() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let keys = world.find::<Secret>(ANN, "web-ssh-key").await.unwrap();
    world.delete(&keys).await;
    let mut broken = Secret::default();
    broken.metadata.name = keys.metadata.name;
    broken.metadata.namespace = keys.metadata.namespace;
    broken.metadata.labels = keys.metadata.labels;
    broken.metadata.owner_references = keys.metadata.owner_references;
    world.create(broken).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(reason(&vm, "Ready"), "CloudInit");
    world
        .edit(&vm, json!({"spec": {"powerState": "Off"}}))
        .await;
    world.settle().await;
    assert!(
        world
            .find::<VirtualMachineInstance>(ANN, "web")
            .await
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn storage_that_cannot_grow_does_not_hold_up_the_rest() {
    let mut world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    world.only_vms = true;
    let vm = world.vm("web").await;
    let patch = json!({"spec": {"disk": "12Gi", "powerState": "Off"}});
    world.edit(&vm, patch).await;
    // After the VirtualMachine, which is told to stop first, and after the owner's
    // other VMs have been told how much this one is to have.
    world.inject(Fault {
        after: 2,
        mode: FaultMode::Refused,
    });
    assert!(
        world.pass().await.is_empty(),
        "a refusal is told, and no error"
    );
    let vm = world.vm("web").await;
    assert_eq!(reason(&vm, "DiskReady"), "GrowthRefused");
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    assert_eq!(machine.spec.run_strategy.as_deref(), Some("Halted"));

    // What it did not get can be taken back, and nothing is told any more.
    let refused = world.try_edit(&vm, json!({"spec": {"disk": "9Gi"}})).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("disk can only grow")
    );
    world.edit(&vm, json!({"spec": {"disk": "10Gi"}})).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(reason(&vm, "DiskReady"), "Filled");
    let granted = vm.status.unwrap().granted.unwrap();
    assert_eq!(granted.disk, Some("10Gi".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_wanted_any_more_is_taken_back() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("shop".to_owned());
    world.create(vm).await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let exposure = json!({
        "ingressClassName": "nginx", "certificate": {"clusterIssuer": "letsencrypt"},
    });
    world
        .edit(&platform, json!({"spec": {"exposure": exposure}}))
        .await;
    world.settle().await;
    let ingress = world.find::<Ingress>(ANN, "web").await.unwrap();
    assert_eq!(
        ingress.spec.unwrap().ingress_class_name.as_deref(),
        Some("nginx")
    );
    assert_eq!(ingress.metadata.annotations.unwrap().len(), 1);

    let exposure = json!({"ingressClassName": null, "certificate": {"clusterIssuer": null}});
    world
        .edit(&platform, json!({"spec": {"exposure": exposure}}))
        .await;
    world.settle().await;
    let ingress = world.find::<Ingress>(ANN, "web").await.unwrap();
    assert_eq!(ingress.spec.unwrap().ingress_class_name, None);
    assert_eq!(ingress.metadata.annotations, None);
    world.pass().await;
    assert_eq!(world.writes(), Vec::<String>::new());
}

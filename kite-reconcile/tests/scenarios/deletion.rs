//! How VMs and users go.

use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Service};
use kite_core::{
    cdi::DataVolume,
    crd::{KiteReservation, KiteUser, VmPhase},
    kubevirt::VirtualMachine,
};
use serde_json::json;

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";

#[tokio::test(start_paused = true)]
async fn deletion_leaves_nothing() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("web".to_owned());
    world.create(vm).await;
    world.create(vm_named("other")).await;
    world.settle().await;
    world.delete(&world.vm("web").await).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
    let other = world.vm("other").await.status.unwrap();
    assert_eq!(
        other.phase,
        Some(VmPhase::Running),
        "its neighbour is unharmed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_never_came_to_be_goes_too() {
    let world = World::with_ann().await;
    world.stage.fills_disks.store(false, Ordering::SeqCst);
    let mut unknown = vm_named("unknown");
    unknown.spec.image = "beos".to_owned();
    world.create(unknown).await;
    world.create(vm_named("early")).await;
    world.settle().await;
    for name in ["unknown", "early"] {
        world.delete(&world.vm(name).await).await;
    }
    world.settle().await;
    world.assert_no_trace_of("unknown").await;
    world.assert_no_trace_of("early").await;
}

#[tokio::test(start_paused = true)]
async fn nobody_reaches_a_vm_that_goes_and_its_disk_outlives_its_instance() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    world.delete(&world.vm("web").await).await;
    // KubeVirt holds its object until the guest is down.
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    world
        .edit(
            &machine,
            json!({"metadata": {"finalizers": ["kubevirt.io/virtualMachineControllerFinalize"]}}),
        )
        .await;
    world.settle().await;

    assert!(world.find::<Service>(ANN, "vps-access-web").await.is_none());
    let status = world.vm("web").await.status.unwrap();
    assert_eq!(
        (status.phase, status.access),
        (Some(VmPhase::Deleting), None)
    );
    assert!(world.find::<DataVolume>(ANN, "web-disk").await.is_some());
    assert!(
        world
            .find::<KiteReservation>("", "ssh-id.id-web")
            .await
            .is_some()
    );

    world
        .edit(&machine, json!({"metadata": {"finalizers": null}}))
        .await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn defect_13_objects_without_our_labels_do_not_hold_up_deletion() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let service = world.find::<Service>(ANN, "vps-web-web").await.unwrap();
    world
        .edit(&service, json!({"metadata": {"labels": null}}))
        .await;
    world.delete(&world.vm("web").await).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_somebody_else_is_left_alone() {
    let world = World::with_ann().await;
    let mut foreign = Service::default();
    foreign.metadata.name = Some("vps-web-web".to_owned());
    foreign.metadata.namespace = Some(ANN.to_owned());
    foreign.spec = Some(k8s_openapi::api::core::v1::ServiceSpec {
        ports: Some(vec![k8s_openapi::api::core::v1::ServicePort {
            port: 1,
            ..Default::default()
        }]),
        ..Default::default()
    });
    let foreign = world.create(foreign).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let conditions = vm.status.as_ref().unwrap().conditions.clone();
    let ready = kite_core::conditions::find(&conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "NameTaken");
    assert!(ready.message.contains("vps-web-web"), "{}", ready.message);
    world.delete(&vm).await;
    world.settle().await;
    let left = world.find::<Service>(ANN, "vps-web-web").await.unwrap();
    assert_eq!(left.metadata.uid, foreign.metadata.uid);
    assert_eq!(left.spec.unwrap().ports.unwrap()[0].port, 1);
}

#[tokio::test(start_paused = true)]
async fn defect_15_a_user_goes_with_vms_first_and_network_policies_last() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    let written = world.settle().await;
    let at = |what: &str| {
        written
            .iter()
            .position(|line| line.starts_with(what))
            .unwrap()
    };
    let gone = written
        .iter()
        .rposition(|line| line == "finalizers KiteVirtualMachine kite-user-ann/web")
        .unwrap();
    assert!(at("delete VirtualMachine") < gone);
    assert!(gone < at("delete Namespace kite-user-ann"));
    assert!(
        written
            .iter()
            .all(|line| !line.starts_with("delete NetworkPolicy"))
    );
    assert!(at("delete Namespace kite-user-ann") < at("delete KiteReservation username.ann"));

    assert!(world.find::<KiteUser>("", "ann").await.is_none());
    assert!(world.find::<Namespace>("", ANN).await.is_none());
    assert!(world.held().await.is_empty());
    let claims = world.all::<PersistentVolumeClaim>().await;
    assert!(
        claims
            .iter()
            .all(|claim| claim.metadata.namespace.as_deref() != Some(ANN))
    );
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_somebody_elses_disk_is_left_alone() {
    let world = World::with_ann().await;
    let mut foreign = DataVolume::default();
    foreign.metadata.name = Some("web-disk".to_owned());
    foreign.metadata.namespace = Some(ANN.to_owned());
    foreign.spec.storage = Some(
        serde_json::from_value(json!({"resources": {"requests": {"storage": "1Gi"}}})).unwrap(),
    );
    world.create(foreign).await;
    world.settle().await;
    let claim = world
        .find::<PersistentVolumeClaim>(ANN, "web-disk")
        .await
        .unwrap();
    world.create(vm_named("web")).await;
    world.settle().await;
    world.delete(&world.vm("web").await).await;
    world.settle().await;
    let left = world
        .find::<PersistentVolumeClaim>(ANN, "web-disk")
        .await
        .unwrap();
    assert_eq!(
        (left.metadata.uid, left.metadata.deletion_timestamp),
        (claim.metadata.uid, None)
    );
    assert!(world.find::<DataVolume>(ANN, "web-disk").await.is_some());
}

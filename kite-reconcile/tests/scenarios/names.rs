//! Names of which there can be one, and names that lead nowhere.

use k8s_openapi::api::{core::v1::Secret, networking::v1::Ingress};
use kite_core::{
    conditions::find,
    crd::{KiteImage, KiteReservation, KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachine,
};
use serde_json::json;

use crate::world::{World, image, vm_named};

const ANN: &str = "kite-user-ann";

fn condition(vm: &KiteVirtualMachine, type_: &str) -> (String, String, String) {
    let found = find(&vm.status.as_ref().unwrap().conditions, type_).unwrap();
    (
        found.status.clone(),
        found.reason.clone(),
        found.message.clone(),
    )
}

#[tokio::test(start_paused = true)]
async fn defect_3_a_duplicate_ssh_id_harms_nobody_but_its_second_bearer() {
    let world = World::with_ann().await;
    world.create(vm_named("first")).await;
    world.settle().await;
    let mut second = vm_named("second");
    second.spec.ssh_id = "id-first".to_owned();
    world.create(second).await;
    world.settle().await;

    let first = world.vm("first").await.status.unwrap();
    assert_eq!(first.phase, Some(VmPhase::Running));
    let second = world.vm("second").await;
    let (status, reason, message) = condition(&second, "Reserved");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "SshIdTaken"));
    assert!(
        message.contains("kite-user-ann/first") && message.contains("another sshId"),
        "{message}"
    );
    assert_eq!(condition(&second, "Ready").1, "SshIdTaken");
    let status = second.status.as_ref().unwrap();
    assert_eq!(
        (status.phase, &status.access),
        (Some(VmPhase::Failed), &None)
    );
    assert!(world.find::<VirtualMachine>(ANN, "second").await.is_none());
    assert!(world.find::<Secret>(ANN, "second-ssh-key").await.is_none());

    // It gets its turn when the name is free.
    world.delete(&world.vm("first").await).await;
    world.settle().await;
    let second = world.vm("second").await;
    assert_eq!(
        second.status.as_ref().unwrap().phase,
        Some(VmPhase::Running)
    );
    let holder = world
        .find::<KiteReservation>("", "ssh-id.id-first")
        .await
        .unwrap();
    assert_eq!(Some(holder.spec.holder.uid), second.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_of_a_holder_that_is_gone_is_taken_over() {
    let world = World::with_ann().await;
    let left_behind: KiteReservation = serde_json::from_value(json!({
        "apiVersion": "hy3ons.github.io/v1",
        "kind": "KiteReservation",
        "metadata": {"name": "ssh-id.id-web"},
        "spec": {"claim": "SshId", "holder": {
            "kind": "KiteVirtualMachine", "namespace": ANN, "name": "web", "uid": "of-an-earlier-life",
        }},
    }))
    .unwrap();
    world.create(left_behind).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));
    let holder = world
        .find::<KiteReservation>("", "ssh-id.id-web")
        .await
        .unwrap();
    assert_eq!(Some(holder.spec.holder.uid), vm.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn a_taken_domain_leaves_the_vm_running_and_a_dropped_one_is_free() {
    let world = World::with_ann().await;
    for name in ["first", "second"] {
        let mut vm = vm_named(name);
        vm.spec.domain_prefix = Some("shop".to_owned());
        world.create(vm).await;
        world.settle().await;
    }
    let second = world.vm("second").await;
    assert_eq!(
        second.status.as_ref().unwrap().phase,
        Some(VmPhase::Running)
    );
    assert!(second.status.as_ref().unwrap().access.is_some());
    assert_eq!(condition(&second, "Reserved").1, "DomainTaken");
    assert_eq!(condition(&second, "Exposed").0, "False");
    assert!(world.find::<Ingress>(ANN, "second").await.is_none());

    let first = world.vm("first").await;
    world
        .edit(&first, json!({"spec": {"domainPrefix": null}}))
        .await;
    world.settle().await;
    assert!(world.find::<Ingress>(ANN, "first").await.is_none());
    let second = world.vm("second").await;
    assert_eq!(condition(&second, "Exposed").0, "Unknown");
    assert_eq!(condition(&second, "Ready").0, "True");
    let first = world.vm("first").await.status.unwrap();
    assert_eq!(first.access.unwrap().domain, None);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_image_names_those_that_are_there() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.image = "beos".to_owned();
    world.create(vm).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let (status, reason, message) = condition(&vm, "ImageReady");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "UnknownImage")
    );
    assert!(
        message.contains("\"beos\"") && message.contains("debian-12"),
        "{message}"
    );
    assert!(world.find::<VirtualMachine>(ANN, "web").await.is_none());

    world.create(image("beos")).await;
    world.settle().await;
    assert_eq!(
        world.vm("web").await.status.unwrap().phase,
        Some(VmPhase::Running)
    );
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_too_small_says_how_large_it_must_be() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.disk = "2Gi".parse().unwrap();
    world.create(vm).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let (_, reason, message) = condition(&vm, "ImageReady");
    assert_eq!(reason, "DiskTooSmall");
    assert!(message.contains("at least 5Gi"), "{message}");
    world.edit(&vm, json!({"spec": {"disk": "6Gi"}})).await;
    world.settle().await;
    assert_eq!(
        world.vm("web").await.status.unwrap().phase,
        Some(VmPhase::Running)
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_whose_image_has_gone_lives_on() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let debian = world.find::<KiteImage>("", "debian-12").await.unwrap();
    world.delete(&debian).await;
    world.settle().await;
    assert!(world.find::<KiteImage>("", "debian-12").await.is_none());
    let vm = world.vm("web").await;
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));
    world
        .edit(&vm, json!({"spec": {"powerState": "Off"}}))
        .await;
    world.settle().await;
    assert_eq!(
        world.vm("web").await.status.unwrap().phase,
        Some(VmPhase::Stopped)
    );
}

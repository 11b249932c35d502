//! What is changed about a VM that runs: size, keys, password, system family.

use k8s_openapi::api::{core::v1::PersistentVolumeClaim, storage::v1::StorageClass};
use kite_core::{
    cluster::Cluster as _,
    conditions::find,
    crd::{ImageSource, KiteImage, KiteVirtualMachine, NamedSource, OsFamily, VmPhase},
    kubevirt::{
        KubeVirt, KubeVirtSpec, VirtualMachine, VirtualMachineInstance, WorkloadUpdateStrategy,
    },
    quantity::Bytes,
};
use kite_fake::actors::{Rule, Selector};
use kite_fake_kubevirt::kinds::STORAGE_PROFILE;
use kite_fake_kubevirt::stages;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::{World, image, vm_named};

const ANN: &str = "kite-user-ann";

async fn instance(world: &World) -> VirtualMachineInstance {
    world.find(ANN, "web").await.unwrap()
}

fn sockets(instance: &VirtualMachineInstance) -> Option<u32> {
    instance
        .spec
        .domain
        .cpu
        .as_ref()
        .and_then(|cpu| cpu.sockets)
}

fn message(vm: &KiteVirtualMachine, type_: &str) -> Option<String> {
    let status = vm.status.as_ref().unwrap();
    find(&status.conditions, type_).map(|found| found.message.clone())
}

/// Has disks that several nodes can attach, as a VM needs that is to migrate.
async fn share_storage(world: &World) {
    let class = json!({
        "metadata": {"name": "kite-vm-storage"}, "provisioner": "csi.example.org",
    });
    let class: StorageClass = serde_json::from_value(class).unwrap();
    world.create(class).await;
    world.settle().await;
    let profiles = STORAGE_PROFILE.api(world.cluster.client(), None);
    let sets = json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]);
    let patch = Patch::Merge(json!({"spec": {"claimPropertySets": sets}}));
    let params = PatchParams::default();
    profiles
        .patch("kite-vm-storage", &params, &patch)
        .await
        .unwrap();
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_grows_while_it_runs_where_kubevirt_can() {
    let world = World::played().await;
    share_storage(&world).await;
    let strategy = WorkloadUpdateStrategy {
        workload_update_methods: vec!["LiveMigrate".to_owned()],
    };
    let spec = KubeVirtSpec {
        workload_update_strategy: Some(strategy),
        ..KubeVirtSpec::default()
    };
    let mut kubevirt = KubeVirt::new("kubevirt", spec);
    kubevirt.metadata.namespace = Some("kite".to_owned());
    world.create(kubevirt).await;
    world
        .rules
        .add(Rule::hold(stages::GUEST_BOOTED, Selector::all()));
    world.create(vm_named("web")).await;
    world.settle().await;
    // What KubeVirt sets by its live update configuration when it makes one.
    let bounds = json!({"cpu": {"maxSockets": 8}, "memory": {"maxGuest": "8Gi"}});
    world
        .edit(&instance(&world).await, json!({"spec": {"domain": bounds}}))
        .await;
    world.rules.clear(stages::GUEST_BOOTED);
    world.settle().await;
    let before = instance(&world).await;

    let vm = world.vm("web").await;
    world
        .edit(&vm, json!({"spec": {"cpu": 4, "memory": "4Gi"}}))
        .await;
    world.settle().await;
    let after = instance(&world).await;
    assert_eq!(
        after.metadata.uid, before.metadata.uid,
        "it was not restarted"
    );
    assert_eq!(sockets(&after), Some(4));
    let vm = world.vm("web").await;
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));
    assert_eq!(message(&vm, "RestartRequired"), None);
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_restart_says_so_and_is_done_by_one() {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    world.edit(&vm, json!({"spec": {"cpu": 1}})).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(sockets(&instance(&world).await), Some(2));
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));
    let told = message(&vm, "RestartRequired").unwrap();
    assert!(told.contains("spec.restartedAt"), "{told}");

    let restart = json!({"spec": {"restartedAt": "2026-05-04T08:00:00Z"}});
    world.edit(&vm, restart).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(sockets(&instance(&world).await), Some(1));
    assert_eq!(message(&vm, "RestartRequired"), None);
}

#[tokio::test(start_paused = true)]
async fn keys_and_password_change_at_any_time_without_touching_the_guest() {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let before = instance(&world).await;
    let vm = world.vm("web").await;
    // The gateway reads them from the spec: the guest knows the gateway's key only.
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ a";
    let hash = "$2y$10$abcdefghijklmnopqrstuuW2a8FN1Y4A4uyhTxyd0hRFpoMJk2n8a";
    world
        .edit(
            &vm,
            json!({"spec": {"sshPublicKeys": [key], "sshPasswordHash": hash}}),
        )
        .await;
    let written = world.settle().await;
    assert_eq!(written, ["status KiteVirtualMachine kite-user-ann/web"]);
    let after = instance(&world).await;
    assert_eq!(
        after.metadata.resource_version,
        before.metadata.resource_version
    );
    assert_eq!(message(&world.vm("web").await, "RestartRequired"), None);
}

#[tokio::test(start_paused = true)]
async fn a_windows_image_makes_a_windows_vm_and_keeps_it_one_without_the_image() {
    let world = World::played().await;
    let mut windows = image("windows-11");
    windows.spec.os_family = OsFamily::Windows;
    world.create(windows).await;
    let mut vm = vm_named("web");
    vm.spec.image = "windows-11".to_owned();
    world.create(vm).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    assert!(machine.spec.template.spec.domain.devices.tpm.is_some());

    let image = world.find::<KiteImage>("", "windows-11").await.unwrap();
    world.delete(&image).await;
    world.settle().await;
    world
        .edit(&vm, json!({"spec": {"powerState": "Off"}}))
        .await;
    world.settle().await;
    let after = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    assert_eq!(after.spec.run_strategy.as_deref(), Some("Halted"));
    assert_eq!(after.spec.template, machine.spec.template);
}

#[tokio::test(start_paused = true)]
async fn a_login_name_that_windows_cannot_have_is_told_before_anything_is_made() {
    let world = World::played().await;
    let mut windows = image("windows-11");
    windows.spec.os_family = OsFamily::Windows;
    world.create(windows).await;
    let mut vm = vm_named("web");
    vm.spec.image = "windows-11".to_owned();
    vm.spec.ssh_id = "a-name-that-is-too-long".to_owned();
    world.create(vm).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Failed));
    let told = message(&vm, "Ready").unwrap();
    assert!(told.contains("spec.sshId") && told.contains("20"), "{told}");
    assert!(world.find::<VirtualMachine>(ANN, "web").await.is_none());
}

/// The size of the claim of `web`.
async fn claimed(world: &World) -> u64 {
    let claim: PersistentVolumeClaim = world.find(ANN, "web-disk").await.unwrap();
    let requests = claim.spec.unwrap().resources.unwrap().requests.unwrap();
    requests["storage"].0.parse::<Bytes>().unwrap().bytes()
}

/// What KubeVirt makes of a volume with a file system.
fn guest_has(claim: u64) -> u64 {
    claim * 945 / 1000
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_grows_has_room_beside_what_the_file_system_takes() {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    for (power, size) in [
        ("On", "10.5Gi"),
        ("On", "12Gi"),
        ("Off", "13Gi"),
        ("Off", "16Gi"),
    ] {
        let vm = world.vm("web").await;
        world
            .edit(&vm, json!({"spec": {"disk": size, "powerState": power}}))
            .await;
        world.settle().await;
        let wanted = size.parse::<Bytes>().unwrap();
        let claim = claimed(&world).await;
        assert!(guest_has(claim) >= wanted.bytes(), "{size}: {claim}");
        assert!(
            guest_has(claim) < wanted.bytes() + (2 << 20),
            "{size}: {claim}"
        );
        let disk = world.vm("web").await.status.unwrap().disk.unwrap();
        assert_eq!(disk.size, Some(wanted), "{size}");
        assert_eq!(disk.filesystem_overhead.as_deref(), Some("0.055"));
    }
    // Switching it on and off changes nothing about it.
    let claim = claimed(&world).await;
    for power in ["On", "Off"] {
        let vm = world.vm("web").await;
        world
            .edit(&vm, json!({"spec": {"powerState": power}}))
            .await;
        let written = world.settle().await;
        assert!(
            !written.iter().any(|it| it.contains("Claim")),
            "{written:?}"
        );
        assert_eq!(claimed(&world).await, claim);
    }
}

/// As a version of Kite left it that forgot the file system.
#[tokio::test(start_paused = true)]
async fn a_disk_that_was_grown_by_too_little_is_grown_to_its_size() {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let claim: PersistentVolumeClaim = world.find(ANN, "web-disk").await.unwrap();
    let bare = json!({"spec": {"resources": {"requests": {"storage": "12Gi"}}}});
    world.edit(&claim, bare).await;
    let mut vm = world.vm("web").await;
    vm = world.edit(&vm, json!({"spec": {"disk": "12Gi"}})).await;
    let status = vm.status.as_mut().unwrap();
    let size = "12Gi".parse::<Bytes>().unwrap();
    status.granted.as_mut().unwrap().disk = Some(size.clone());
    let disk = status.disk.as_mut().unwrap();
    (disk.size, disk.filesystem_overhead, disk.uid) = (Some(size.clone()), None, None);
    vm.metadata.managed_fields = None;
    world
        .cluster
        .apply_status(kite_core::managers::CONTROLLER, &vm)
        .await
        .unwrap();
    world.settle().await;
    assert!(guest_has(claimed(&world).await) >= size.bytes());
    let disk = world.vm("web").await.status.unwrap().disk.unwrap();
    assert_eq!(disk.size, Some(size));
}

#[tokio::test(start_paused = true)]
async fn a_disk_must_hold_what_the_image_has_turned_out_to_be() {
    let world = World::played().await;
    let golden = json!({
        "metadata": {"name": "golden", "namespace": "kite-images"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "kite-vm-storage",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    });
    let golden: PersistentVolumeClaim = serde_json::from_value(golden).unwrap();
    world.create(golden).await;
    let mut spec = image("golden");
    spec.spec.source = ImageSource {
        pvc: Some(NamedSource {
            name: "golden".to_owned(),
        }),
        ..ImageSource::default()
    };
    spec.spec.min_disk = "1Gi".parse().unwrap();
    world.create(spec).await;
    world.settle().await;
    let known: KiteImage = world.find("", "golden").await.unwrap();
    assert_eq!(known.least_disk().as_str(), "5Gi", "{:?}", known.status);
    let mut vm = vm_named("web");
    vm.spec.image = "golden".to_owned();
    vm.spec.disk = "2Gi".parse().unwrap();
    let vm = world.create(vm).await;
    world.settle().await;
    let told = message(&world.vm("web").await, "ImageReady").unwrap();
    assert!(told.contains("at least 5Gi"), "{told}");
    world.edit(&vm, json!({"spec": {"disk": "5Gi"}})).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));
}

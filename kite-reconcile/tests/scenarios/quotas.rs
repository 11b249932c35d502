//! What a user may have at most, whatever they ask for afterwards.

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, FieldManager, ObjectKey},
    conditions::find,
    crd::{Charge, KiteUser, KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachine,
};
use kite_reconcile::{Context, vm};
use serde_json::{Value, json};

use crate::world::{World, named, vm_named};

const ANN: &str = "kite-user-ann";

/// Ann, who may have 4 CPUs, 8Gi of memory and 30Gi of disk, and her VM `web`
/// with 2 CPUs, 2Gi and 10Gi.
async fn with_quota() -> World {
    let world = World::with_ann().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let quota = json!({"vms": 5, "cpu": 4, "memory": "8Gi", "disk": "30Gi"});
    world.edit(&ann, json!({"spec": {"quota": quota}})).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    world
}

/// Asks for something else of `web`.
async fn ask(world: &World, spec: Value) -> KiteVirtualMachine {
    let vm = world.vm("web").await;
    world.edit(&vm, json!({"spec": spec})).await;
    world.settle().await;
    world.vm("web").await
}

/// Reason and message of a condition.
fn says(vm: &KiteVirtualMachine, condition: &str) -> (String, String) {
    let status = vm.status.as_ref().unwrap();
    let found = find(&status.conditions, condition).unwrap().clone();
    (found.reason, found.message)
}

/// CPUs and memory of the machine of `name`.
async fn machine(world: &World, name: &str) -> (Option<u32>, Option<String>) {
    let machine: VirtualMachine = world.find(ANN, name).await.unwrap();
    let domain = machine.spec.template.spec.domain;
    let memory = domain.memory.and_then(|memory| memory.guest);
    (
        domain.cpu.and_then(|cpu| cpu.sockets),
        memory.map(|memory| memory.0),
    )
}

async fn claimed(world: &World) -> String {
    let claim: PersistentVolumeClaim = world.find(ANN, "web-disk").await.unwrap();
    claim.spec.unwrap().resources.unwrap().requests.unwrap()["storage"]
        .0
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_made_more_of_than_the_quota_has_stays_as_it_is() {
    let world = with_quota().await;
    let vm = ask(&world, json!({"cpu": 5, "memory": "9Gi"})).await;
    assert_eq!(
        machine(&world, "web").await,
        (Some(2), Some("2Gi".to_owned()))
    );
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));
    let (reason, message) = says(&vm, "Ready");
    assert_eq!(reason, "QuotaExceeded");
    for part in ["spec.cpu", "5 CPUs", "0 CPUs", "4 CPUs"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    world.pass().await;
    assert_eq!(world.writes(), Vec::<String>::new(), "told once");

    // One of the two fits, and the other is still told.
    let vm = ask(&world, json!({"cpu": 4})).await;
    assert_eq!(
        machine(&world, "web").await,
        (Some(4), Some("2Gi".to_owned()))
    );
    let (_, message) = says(&vm, "VirtualMachineReady");
    assert!(message.contains("spec.memory") && message.contains("9Gi"));

    // What is refused holds up nothing else.
    ask(&world, json!({"powerState": "Off"})).await;
    let stopped: VirtualMachine = world.find(ANN, "web").await.unwrap();
    assert_eq!(stopped.spec.run_strategy.as_deref(), Some("Halted"));

    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world
        .edit(&ann, json!({"spec": {"quota": {"memory": "9Gi"}}}))
        .await;
    world.settle().await;
    assert_eq!(
        machine(&world, "web").await,
        (Some(4), Some("9Gi".to_owned()))
    );
    assert_eq!(says(&world.vm("web").await, "Ready").0, "Stopped");
}

#[tokio::test(start_paused = true)]
async fn a_disk_does_not_grow_beyond_the_quota() {
    let world = with_quota().await;
    let vm = ask(&world, json!({"disk": "31Gi"})).await;
    assert_eq!(claimed(&world).await, "10Gi");
    let (reason, message) = says(&vm, "DiskReady");
    assert_eq!(reason, "QuotaExceeded");
    for part in ["spec.disk", "31Gi", "30Gi"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));

    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world
        .edit(&ann, json!({"spec": {"quota": {"disk": "40Gi"}}}))
        .await;
    world.settle().await;
    assert_eq!(claimed(&world).await, "31Gi");
    // Now that it has grown it cannot become smaller any more.
    let vm = world.vm("web").await;
    let smaller = json!({"spec": {"disk": "30Gi"}});
    let refused = world.try_edit(&vm, smaller).await.unwrap_err().to_string();
    assert!(refused.contains("spec.disk") && refused.contains("disk can only grow"));
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_in_vain_holds_up_no_other_and_is_taken_back() {
    let world = with_quota().await;
    let vm = ask(
        &world,
        json!({"cpu": 200, "memory": "900Gi", "disk": "900Gi"}),
    )
    .await;
    assert_eq!(says(&vm, "DiskReady").0, "QuotaExceeded");
    // There are 2 CPUs, 6Gi and 20Gi left, whatever the first one wants.
    world.create(vm_named("other")).await;
    world.settle().await;
    assert_eq!(says(&world.vm("other").await, "Ready").0, "Running");

    let vm = ask(&world, json!({"cpu": 2, "memory": "2Gi", "disk": "10Gi"})).await;
    assert_eq!(says(&vm, "Ready").0, "Running");
    assert_eq!(says(&vm, "DiskReady").0, "Filled");
    assert_eq!(claimed(&world).await, "10Gi");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_whatever_reason_holds_up_no_other() {
    for (of, why) in [
        (json!({"image": "nosuch"}), "UnknownImage"),
        (json!({"sshId": "id-web"}), "SshIdTaken"),
        (json!({"expiresAt": "2020-01-01T00:00:00Z"}), "Expired"),
    ] {
        let world = with_quota().await;
        let mut vain = serde_json::to_value(vm_named("first")).unwrap();
        vain["spec"]["cpu"] = json!(2);
        for (field, value) in of.as_object().unwrap() {
            vain["spec"][field] = value.clone();
        }
        let vain: KiteVirtualMachine = serde_json::from_value(vain).unwrap();
        world.create(vain).await;
        world.settle().await;
        assert_eq!(says(&world.vm("first").await, "Ready").0, why);
        // It would have fitted, and is older.
        let mut other = vm_named("other");
        other.spec.cpu = 2;
        world.create(other).await;
        world.settle().await;
        assert_eq!(
            says(&world.vm("other").await, "Ready").0,
            "Running",
            "{why}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_never_fitted_can_ask_for_less() {
    let world = with_quota().await;
    let mut large = vm_named("large");
    large.spec.disk = "900Gi".parse().unwrap();
    let large = world.create(large).await;
    world.settle().await;
    assert_eq!(says(&world.vm("large").await, "Ready").0, "QuotaExceeded");
    world.edit(&large, json!({"spec": {"disk": "20Gi"}})).await;
    world.settle().await;
    assert_eq!(says(&world.vm("large").await, "Ready").0, "Running");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_ask_for_the_last_of_it_none_gets_what_the_other_has() {
    let world = with_quota().await;
    let mut other = vm_named("young");
    other.spec.cpu = 1;
    world.create(other).await;
    world.settle().await;
    for (name, cpu) in [("web", 3), ("young", 2)] {
        let vm = world.vm(name).await;
        world.edit(&vm, json!({"spec": {"cpu": cpu}})).await;
    }
    world.settle().await;
    // The older one gets it.
    assert_eq!(machine(&world, "web").await.0, Some(3));
    assert_eq!(machine(&world, "young").await.0, Some(1));
    assert_eq!(says(&world.vm("web").await, "Ready").0, "Running");
    assert_eq!(says(&world.vm("young").await, "Ready").0, "QuotaExceeded");

    // Whoever gives way lets the other have it, as soon as it uses it no more.
    ask(&world, json!({"cpu": 2, "powerState": "Off"})).await;
    assert_eq!(machine(&world, "young").await.0, Some(2));
    assert_eq!(says(&world.vm("young").await, "Ready").0, "Running");
}

#[tokio::test(start_paused = true)]
async fn what_still_runs_is_not_given_to_another() {
    let world = World::played().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let quota = json!({"vms": 5, "cpu": 4, "memory": "8Gi", "disk": "30Gi"});
    world.edit(&ann, json!({"spec": {"quota": quota}})).await;
    let mut web = vm_named("web");
    web.spec.cpu = 3;
    world.create(web).await;
    let mut other = vm_named("other");
    other.spec.cpu = 1;
    let other = world.create(other).await;
    world.settle().await;
    // Less takes a restart.
    ask(&world, json!({"cpu": 1})).await;
    world.edit(&other, json!({"spec": {"cpu": 3}})).await;
    world.settle().await;
    assert_eq!(says(&world.vm("other").await, "Ready").0, "QuotaExceeded");
    assert_eq!(machine(&world, "other").await.0, Some(1));

    ask(&world, json!({"restartedAt": "2026-05-04T08:00:00Z"})).await;
    assert_eq!(machine(&world, "other").await.0, Some(3));
}

/// Each of two sees the other ask while it asks itself.
#[tokio::test(start_paused = true)]
async fn two_that_ask_in_the_same_moment_do_not_both_get_the_last_of_it() {
    for name in ["web", "other"] {
        let world = with_quota().await;
        let mut other = vm_named("other");
        other.spec.cpu = 1;
        world.create(other).await;
        world.settle().await;
        let vm = world.vm(name).await;
        world
            .edit(&vm, json!({"spec": {"cpu": vm.spec.cpu + 1}}))
            .await;
        // The other one asks, and is given it, while this one is about to tell that
        // it asks.
        let rival = world.vm(if name == "web" { "other" } else { "web" }).await;
        let (cluster, clock) = (world.cluster.clone(), world.context.shared.clock.clone());
        let by_rival = async move {
            let key = ObjectKey::of(&rival);
            let patch = json!({"spec": {"cpu": rival.spec.cpu + 1}});
            let person = FieldManager::new("person");
            let rival: KiteVirtualMachine =
                cluster.merge_patch(person, &key, &patch).await.unwrap();
            let context = Context::new(cluster).with_clock(move || clock());
            vm::reconcile(&rival, &context).await.unwrap();
        };
        world.meanwhile(&format!("status KiteVirtualMachine {ANN}/{name}"), by_rival);
        world.settle().await;
        assert!(!world.meanwhile_is_left());
        let cpus = [
            machine(&world, "web").await.0,
            machine(&world, "other").await.0,
        ];
        let sum: u32 = cpus.iter().flatten().sum();
        assert_eq!(sum, 4, "{name}: {cpus:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_somebody_deleted_is_made_anew_with_what_it_was_granted() {
    let world = with_quota().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let none = json!({"cpu": 1, "memory": "1Gi", "disk": "1Gi"});
    world.edit(&ann, json!({"spec": {"quota": none}})).await;
    let deleted: VirtualMachine = world.find(ANN, "web").await.unwrap();
    world.delete(&deleted).await;
    let vm = ask(&world, json!({"cpu": 256})).await;
    let (cpu, memory) = machine(&world, "web").await;
    assert_eq!((cpu, memory), (Some(2), Some("2Gi".to_owned())));
    assert_eq!(says(&vm, "Ready").0, "QuotaExceeded");
    assert!(world.find::<DataVolume>(ANN, "web-disk").await.is_some());

    let vm = ask(&world, json!({"cpu": 2})).await;
    assert_eq!(says(&vm, "Ready").0, "Running");
}

/// As an earlier version of Kite left it.
#[tokio::test(start_paused = true)]
async fn one_that_was_made_before_grants_were_told_keeps_what_it_has() {
    let world = with_quota().await;
    let mut vm = world.vm("web").await;
    let status = vm.status.as_mut().unwrap();
    (status.granted, status.asking) = (None, None);
    status.disk.as_mut().unwrap().size = None;
    vm.metadata.managed_fields = None;
    let controller = kite_core::managers::CONTROLLER;
    world.cluster.apply_status(controller, &vm).await.unwrap();
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let none = json!({"cpu": 1, "memory": "1Gi", "disk": "1Gi"});
    world.edit(&ann, json!({"spec": {"quota": none}})).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "Ready").0, "Running");
    let granted = vm.status.unwrap().granted.unwrap();
    assert_eq!(Charge::from(&granted), Charge::from(&vm.spec));
}

#[tokio::test(start_paused = true)]
async fn what_a_smaller_quota_leaves_no_room_for_runs_on() {
    let world = with_quota().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world
        .edit(&ann, json!({"spec": {"quota": {"cpu": 1}}}))
        .await;
    world.settle().await;
    assert_eq!(machine(&world, "web").await.0, Some(2));
    assert_eq!(says(&world.vm("web").await, "Ready").0, "Running");
    // Drift is put right as before.
    let drifted: VirtualMachine = world.find(ANN, "web").await.unwrap();
    let patch = json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 9}}}}}});
    world.edit(&drifted, patch).await;
    world.settle().await;
    assert_eq!(machine(&world, "web").await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_in_a_users_namespace_without_the_user() {
    let world = World::with_ann().await;
    world
        .create(Namespace {
            metadata: named("kite-user-ghost"),
            ..Namespace::default()
        })
        .await;
    let mut vm = vm_named("web");
    vm.metadata.namespace = Some("kite-user-ghost".to_owned());
    world.create(vm).await;
    world.settle().await;
    let vm: KiteVirtualMachine = world.find("kite-user-ghost", "web").await.unwrap();
    let (reason, message) = says(&vm, "Ready");
    assert_eq!(reason, "UserMissing");
    assert!(message.contains("KiteUser ghost"), "{message}");
    assert!(
        world
            .find::<DataVolume>("kite-user-ghost", "web-disk")
            .await
            .is_none()
    );
}

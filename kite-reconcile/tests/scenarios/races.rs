//! What others do between the last look and the write.

use k8s_openapi::api::core::v1::{Secret, Service};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    conditions::find,
    crd::{KiteImage, KiteReservation, KiteUser, KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachine,
    labels,
};
use kite_reconcile::Failure as _;
use kite_reconcile::{
    keys::{KeySource as _, RandomKeys},
    vm,
};
use kite_render::{Vm, cloud_init::CloudConfig, keys};
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::world::{Fault, FaultMode, World, named, vm_named};

const ANN: &str = "kite-user-ann";
const BACKUP: &str = "example.org/backup";

#[tokio::test(start_paused = true)]
async fn what_came_in_the_place_of_a_deleted_object_stays() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    world.delete(&world.vm("web").await).await;
    let cluster = world.cluster.clone();
    world.meanwhile("delete Service kite-user-ann/vps-web-web", async move {
        let key = ObjectKey::namespaced(ANN, "vps-web-web");
        let ours: Service = cluster.get(&key).await.unwrap();
        let gone = cluster.delete_by_uid(&ours, PropagationPolicy::Background);
        gone.await.unwrap();
        let mut theirs = Service {
            metadata: named("vps-web-web"),
            spec: ours.spec,
            status: None,
        };
        theirs.metadata.namespace = Some(ANN.to_owned());
        cluster.create(&theirs).await.unwrap();
    });
    world.settle().await;
    assert!(!world.meanwhile_is_left());
    let left = world.find::<Service>(ANN, "vps-web-web").await;
    assert!(left.is_some(), "somebody else's Service was deleted");
    let vm = world.find::<KiteVirtualMachine>(ANN, "web").await;
    assert!(vm.is_none(), "the VM is held up by it");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_put_on_meanwhile_stays() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    let cluster = world.cluster.clone();
    world.meanwhile("finalizers KiteVirtualMachine", async move {
        let key = ObjectKey::namespaced(ANN, "web");
        let patch = json!({"metadata": {"finalizers": [BACKUP]}});
        let edited =
            cluster.merge_patch::<KiteVirtualMachine>(FieldManager::new("backup"), &key, &patch);
        edited.await.unwrap();
    });
    world.settle().await;
    assert!(!world.meanwhile_is_left());
    let finalizers = world.vm("web").await.metadata.finalizers.unwrap();
    assert_eq!(finalizers.len(), 2, "{finalizers:?}");
    assert!(finalizers.iter().any(|it| it == BACKUP));
}

#[tokio::test(start_paused = true)]
async fn the_finalizers_of_others_are_theirs_to_take_off() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.metadata.finalizers = Some(vec![BACKUP.to_owned()]);
    world.create(vm).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let finalizers = vm.metadata.finalizers.clone().unwrap();
    assert_eq!(finalizers, [BACKUP, labels::VM_FINALIZER]);
    world.delete(&vm).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(
        vm.metadata.finalizers.as_deref(),
        Some(&[BACKUP.to_owned()][..])
    );
    let machine = world.find::<VirtualMachine>(ANN, "web").await;
    assert!(machine.is_none(), "what Kite made is gone");
    world
        .edit(&vm, json!({"metadata": {"finalizers": null}}))
        .await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_goes_also_without_the_finalizer_that_somebody_took_off() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    // Who may edit the VM could keep it so, out of reach of suspension and expiry.
    let theirs = json!({"metadata": {"finalizers": [BACKUP]}});
    world.edit(&vm, theirs).await;
    world.delete(&world.vm("web").await).await;
    let written = world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(
        vm.metadata.finalizers.as_deref(),
        Some(&[BACKUP.to_owned()][..])
    );
    assert!(world.find::<VirtualMachine>(ANN, "web").await.is_none());
    assert!(world.find::<DataVolume>(ANN, "web-disk").await.is_none());
    assert_eq!(world.held().await.len(), 1, "the user's");
    let finalizers = |line: &&String| line.starts_with("finalizers KiteVirtualMachine");
    assert_eq!(written.iter().filter(finalizers).count(), 0, "{written:#?}");
    world.settle().await;
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_status_is_for_the_object_that_was_looked_at() {
    let world = World::with_ann().await;
    let mut unknown = vm_named("web");
    unknown.spec.image = "beos".to_owned();
    world.create(unknown.clone()).await;
    let cluster = world.cluster.clone();
    world.meanwhile("status KiteVirtualMachine", async move {
        let key = ObjectKey::namespaced(ANN, "web");
        let former: KiteVirtualMachine = cluster.get(&key).await.unwrap();
        let former = cluster.set_finalizers(&former, Vec::new()).await.unwrap();
        let gone = cluster.delete_by_uid(&former, PropagationPolicy::Background);
        gone.await.unwrap();
        cluster.create(&unknown).await.unwrap();
    });
    let seen = world.vm("web").await;
    let refused = vm::reconcile(&seen, &world.context).await.unwrap_err();
    assert!(!world.meanwhile_is_left());
    assert_eq!(refused.category(), "conflict", "{refused}");
    let present = world.vm("web").await;
    assert_ne!(present.metadata.uid, seen.metadata.uid);
    assert!(present.status.is_none(), "it has the status of another");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_was_first_to_claim_is_lost() {
    let world = World::with_ann().await;
    for name in ["first", "second"] {
        let mut vm = vm_named(name);
        vm.spec.ssh_id = "both".to_owned();
        world.create(vm).await;
    }
    let second = world.vm("second").await;
    let cluster = world.cluster.clone();
    world.meanwhile("create KiteReservation ssh-id.both", async move {
        let vm = Vm::of(&second).unwrap();
        let claims = kite_render::reservation::of_vm(&vm);
        cluster.create(&claims[0]).await.unwrap();
    });
    vm::reconcile(&world.vm("first").await, &world.context)
        .await
        .unwrap();
    assert!(!world.meanwhile_is_left());
    world.settle().await;
    let (first, second) = (world.vm("first").await, world.vm("second").await);
    let phase = |vm: &KiteVirtualMachine| vm.status.as_ref().unwrap().phase;
    assert_eq!(
        (phase(&first), phase(&second)),
        (Some(VmPhase::Failed), Some(VmPhase::Running))
    );
    let reserved = find(&first.status.unwrap().conditions, "Reserved")
        .unwrap()
        .clone();
    assert_eq!(reserved.reason, "SshIdTaken");
    let holder = world
        .find::<KiteReservation>("", "ssh-id.both")
        .await
        .unwrap()
        .spec
        .holder;
    assert_eq!(Some(holder.uid), second.metadata.uid);
    for name in ["first-ssh-key", "first-cloud-init-userdata"] {
        assert!(
            world.find::<Secret>(ANN, name).await.is_none(),
            "{name} was made"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn defect_13_keys_that_another_was_first_to_make_are_the_ones_used() {
    let world = World::with_ann().await;
    let vm = world.create(vm_named("web")).await;
    let made = RandomKeys.generate("web").unwrap();
    let theirs = keys::secret(&Vm::of(&vm).unwrap(), &made);
    let cluster = world.cluster.clone();
    world.meanwhile(" Secret kite-user-ann/web-ssh-key", async move {
        cluster.create(&theirs).await.unwrap();
    });
    let written = world.settle().await;
    let told = written
        .iter()
        .filter(|it| it.ends_with("/web-cloud-init-userdata"));
    assert_eq!(told.count(), 1, "told of other keys first: {written:#?}");
    assert!(!world.meanwhile_is_left());
    let stored = world.find::<Secret>(ANN, "web-ssh-key").await.unwrap();
    assert!(
        keys::VmKeys::from_secret(&stored).unwrap() == made,
        "the keys were replaced"
    );
    let user_data = world
        .find::<Secret>(ANN, "web-cloud-init-userdata")
        .await
        .unwrap();
    let user_data = String::from_utf8(user_data.data.unwrap()["userdata"].0.clone()).unwrap();
    let told: CloudConfig = serde_saphyr::from_str(&user_data).unwrap();
    assert_eq!(
        told.users[0].ssh_authorized_keys,
        [made.client_public.trim_end()]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_built_on_what_may_not_be_there() {
    let mut world = World::with_ann().await;
    world.only_vms = true;
    for after in 0..20 {
        world.create(vm_named("web")).await;
        world.inject(Fault {
            after,
            mode: FaultMode::Lost,
        });
        let errors = world.pass().await;
        if world.fault_is_left() {
            assert!(after > 5, "a VM takes more than {after} writes");
            return;
        }
        assert_eq!(
            errors.len(),
            1,
            "write {after} was lost, and nobody says so"
        );
        if world.find::<VirtualMachine>(ANN, "web").await.is_some() {
            let user_data = world.find::<Secret>(ANN, "web-cloud-init-userdata").await;
            assert!(user_data.is_some(), "write {after} was lost");
            let disk = world.find::<DataVolume>(ANN, "web-disk").await;
            assert!(disk.is_some(), "write {after} was lost");
        }
        world.settle().await;
        world.delete(&world.vm("web").await).await;
        world.settle().await;
    }
    panic!("a VM takes no more than 20 writes");
}

#[tokio::test(start_paused = true)]
async fn a_status_says_which_generation_it_speaks_of() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    world
        .edit(&vm, json!({"spec": {"powerState": "Off"}}))
        .await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert!(vm.metadata.generation > Some(1));
    assert_eq!(
        vm.status.unwrap().observed_generation,
        vm.metadata.generation
    );
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    assert_eq!(
        ann.status.unwrap().observed_generation,
        ann.metadata.generation
    );
    let image = world.find::<KiteImage>("", "debian-12").await.unwrap();
    assert_eq!(
        image.status.unwrap().observed_generation,
        image.metadata.generation
    );
}

//! Reconcilers whose caches are behind: what they believe is old, and what they
//! do is right all the same.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{PersistentVolumeClaim, Secret, Service},
    networking::v1::Ingress,
};
use kite_core::{
    activity,
    cdi::DataVolume,
    cluster::{Cluster as _, Object},
    conditions::find,
    crd::{
        KiteImage, KitePlatform, KiteReservation, KiteUser, KiteVirtualMachine,
        KiteVirtualMachineOffer, KiteVirtualMachineOfferSpec, VmPhase,
    },
    gateway_api::HttpRoute,
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kite_reconcile::{
    Context,
    cache::{CacheWriter, CachedCluster, Caches},
    vm,
};
use kite_render::{Vm, reservation};
use kube::{ResourceExt as _, api::PropagationPolicy, runtime::watcher::Event};
use serde_json::json;

use crate::world::{Recorder, World, vm_named};

const ANN: &str = "kite-user-ann";

/// Caches of all that VMs depend on, which hear nothing unless they are told.
struct Behind {
    context: Context<CachedCluster<Recorder>>,
    vms: CacheWriter<KiteVirtualMachine>,
    claims: CacheWriter<KiteReservation>,
    ingresses: CacheWriter<Ingress>,
}

impl Behind {
    /// Caches that know of a platform, a user and an image, and of nothing that
    /// belongs to a VM.
    async fn of(world: &World) -> Self {
        let mut caches = Caches::builder();
        macro_rules! empty {
            ($($kind:ty),*) => { $( drop(listed(caches.writer::<$kind>(None, |_| {}), Vec::new())); )* };
        }
        empty!(
            Secret,
            Service,
            PersistentVolumeClaim,
            DataVolume,
            HttpRoute,
            VirtualMachine,
            VirtualMachineInstance
        );
        listed(
            caches.writer(None, |_| {}),
            world.all::<KitePlatform>().await,
        );
        listed(caches.writer(None, |_| {}), world.all::<KiteUser>().await);
        listed(caches.writer(None, |_| {}), world.all::<KiteImage>().await);
        let vms = listed(caches.writer(None, |_| {}), Vec::new());
        let claims = listed(caches.writer(None, |_| {}), Vec::new());
        let ingresses = listed(caches.writer(None, |_| {}), Vec::new());
        Self {
            context: world.context.cached(caches.build()),
            vms,
            claims,
            ingresses,
        }
    }

    /// Reconciles a new VM of ann: once until it has told what it asks for, and once
    /// more when that has come back, which is all that is ever heard.
    async fn make(&mut self, world: &World, vm: &KiteVirtualMachine) {
        vm::reconcile(vm, &self.context).await.unwrap();
        let told = world.vm(&vm.name_any()).await;
        self.vms.apply(Event::Apply(told.clone()), |_| {});
        vm::reconcile(&told, &self.context).await.unwrap();
    }
}

fn listed<K: Object>(mut writer: CacheWriter<K>, objects: Vec<K>) -> CacheWriter<K> {
    let objects = objects.into_iter().map(Event::InitApply);
    for event in [Event::Init]
        .into_iter()
        .chain(objects)
        .chain([Event::InitDone])
    {
        writer.apply(event, |_| {});
    }
    writer
}

#[tokio::test(start_paused = true)]
async fn what_was_made_is_not_made_again_though_no_watch_shows_it() {
    let world = World::with_ann().await;
    let mut behind = Behind::of(&world).await;
    let seen = world.create(vm_named("web")).await;
    world.writes();
    behind.make(&world, &seen).await;
    let made = world.writes();
    assert!(made.len() > 8, "{made:#?}");
    world.reads();
    // The controller's own store may be behind too.
    for vm in [seen, world.vm("web").await] {
        vm::reconcile(&vm, &behind.context).await.unwrap();
        assert_eq!(
            (world.writes(), world.reads()),
            (Vec::<String>::new(), Vec::<String>::new())
        );
    }
}

/// Where the watch is stuck, the API server is asked who else there is, in time.
#[tokio::test(start_paused = true)]
async fn a_vm_is_made_though_no_watch_shows_what_it_asks_for() {
    let world = World::with_ann().await;
    let behind = Behind::of(&world).await;
    let vm = world.create(vm_named("web")).await;
    vm::reconcile(&vm, &behind.context).await.unwrap();
    assert!(world.find::<VirtualMachine>(ANN, "web").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_no_cache_knows_keeps_its_claim() {
    let world = World::with_ann().await;
    world.create(vm_named("first")).await;
    world.settle().await;
    let mut behind = Behind::of(&world).await;
    for claim in world.all::<KiteReservation>().await {
        behind.claims.apply(Event::Apply(claim), |_| {});
    }
    let mut second = vm_named("second");
    second.spec.ssh_id = "id-first".to_owned();
    let second = world.create(second).await;
    behind.vms.apply(Event::Apply(second.clone()), |_| {});
    for _ in 0..3 {
        vm::reconcile(&second, &behind.context).await.unwrap();
    }
    let claim = world.find::<KiteReservation>("", "ssh-id.id-first").await;
    assert_eq!(claim.unwrap().spec.holder.name, "first");
    let status = world.vm("second").await.status.unwrap();
    assert_eq!(status.phase, Some(VmPhase::Failed));
}

#[tokio::test(start_paused = true)]
async fn a_vm_does_not_go_before_what_no_cache_knows_of() {
    let world = World::with_ann().await;
    let vm = world.create(vm_named("web")).await;
    world.settle().await;
    let behind = Behind::of(&world).await;
    world.delete(&vm).await;
    for _ in 0..20 {
        let Some(vm) = world.find::<KiteVirtualMachine>(ANN, "web").await else {
            break;
        };
        let is_left = world.find::<DataVolume>(ANN, "web-disk").await.is_some();
        vm::reconcile(&vm, &behind.context).await.unwrap();
        if world.find::<KiteVirtualMachine>(ANN, "web").await.is_none() {
            assert!(!is_left, "the VM went before its disk");
        }
        world.stage.play().await;
        // Garbage is collected in its own time.
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    }
    let left = world.find::<KiteVirtualMachine>(ANN, "web").await;
    assert!(left.is_none(), "{:#?}", left.unwrap().status);
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_outlives_an_instance_that_no_cache_knows_of() {
    for knows_machine in [false, true] {
        let world = World::with_ann().await;
        world.create(vm_named("web")).await;
        world.settle().await;
        let instance = world.find::<VirtualMachineInstance>(ANN, "web").await;
        // KubeVirt holds it until the guest is down.
        let held = json!({"metadata": {"finalizers": ["kubevirt.io/held"]}});
        world.edit(&instance.unwrap(), held).await;
        let mut caches = Caches::builder();
        macro_rules! all {
            ($($kind:ty),*) => { $(
                drop(listed(caches.writer::<$kind>(None, |_| {}), world.all::<$kind>().await));
            )* };
        }
        all!(
            DataVolume,
            HttpRoute,
            Ingress,
            KiteImage,
            KitePlatform,
            KiteReservation,
            KiteUser,
            KiteVirtualMachine,
            PersistentVolumeClaim,
            Secret,
            Service
        );
        let mut machines = world.all::<VirtualMachine>().await;
        machines.retain(|_| knows_machine);
        drop(listed(caches.writer(None, |_| {}), machines));
        let none = Vec::<VirtualMachineInstance>::new();
        drop(listed(caches.writer(None, |_| {}), none));
        let context = world.context.cached(caches.build());

        world.delete(&world.vm("web").await).await;
        let vm = world.vm("web").await;
        vm::reconcile(&vm, &context).await.unwrap();
        assert!(world.find::<VirtualMachine>(ANN, "web").await.is_none());
        let instance = world.find::<VirtualMachineInstance>(ANN, "web").await;
        assert!(instance.is_some());
        let disk = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
        assert_eq!(disk.metadata.deletion_timestamp, None, "{knows_machine}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_others_made_in_the_place_of_ours_stays() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("web".to_owned());
    world.create(vm).await;
    world.settle().await;
    let mut behind = Behind::of(&world).await;
    let ours = world.find::<Ingress>(ANN, "web").await.unwrap();
    behind.ingresses.apply(Event::Apply(ours.clone()), |_| {});
    world.delete(&ours).await;
    let mut theirs = ours.clone();
    theirs.metadata = crate::world::named("web");
    theirs.metadata.namespace = Some(ANN.to_owned());
    let theirs = world.create(theirs).await;

    // The cache still shows ours, and it is not wanted any more.
    let vm = world.vm("web").await;
    let vm = world
        .edit(&vm, json!({"spec": {"domainPrefix": null}}))
        .await;
    let _ = vm::reconcile(&vm, &behind.context).await;
    let left = world.find::<Ingress>(ANN, "web").await.unwrap();
    assert_eq!(left.uid(), theirs.uid());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_put_back_though_the_cache_has_it_still() {
    let world = World::with_ann().await;
    let mut behind = Behind::of(&world).await;
    let vm = world.create(vm_named("web")).await;
    behind.make(&world, &vm).await;
    let service = world.find::<Service>(ANN, "vps-web-web").await.unwrap();
    world.delete(&service).await;
    // No watch ever tells: what was written is not believed for ever.
    tokio::time::sleep(std::time::Duration::from_secs(11)).await;
    vm::reconcile(&world.vm("web").await, &behind.context)
        .await
        .unwrap();
    let again = world.find::<Service>(ANN, "vps-web-web").await.unwrap();
    assert_ne!(again.uid(), service.uid());
    let gone = kite_core::cluster::ClusterExt::delete_by_uid(
        &world.cluster,
        &again,
        PropagationPolicy::Background,
    );
    gone.await.unwrap();
}

/// An object as somebody else makes it: under a name of ours, with nothing of ours.
fn somebodys<K: Object>(ours: &K) -> K {
    let mut theirs = ours.clone();
    *theirs.meta_mut() = crate::world::named(&ours.name_any());
    theirs.meta_mut().namespace = Some(ANN.to_owned());
    theirs
}

/// Who has applied the object: people create theirs.
fn appliers<K: Object>(object: &K) -> Vec<String> {
    let fields = object.managed_fields().iter();
    let applied = fields.filter(|field| field.operation.as_deref() == Some("Apply"));
    applied.filter_map(|field| field.manager.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_others_have_made_unseen_is_told_of_and_not_taken() {
    let world = World::with_ann().await;
    world.create(vm_named("model")).await;
    world.settle().await;
    let mut behind = Behind::of(&world).await;
    let mut theirs = world.find::<DataVolume>(ANN, "model-disk").await.unwrap();
    theirs.metadata.name = Some("web-disk".to_owned());
    let theirs = world.create(somebodys(&theirs)).await;

    // No cache knows of it.
    let vm = world.create(vm_named("web")).await;
    behind.make(&world, &vm).await;
    let left = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    assert_eq!((left.uid(), &left.metadata.labels), (theirs.uid(), &None));
    assert_eq!(appliers(&left), Vec::<String>::new());
    let status = world.vm("web").await.status.unwrap();
    let told = status.conditions.iter().find(|c| c.reason == "NameTaken");
    let told = told.unwrap_or_else(|| panic!("{:#?}", status.conditions));
    assert!(told.message.contains("DataVolume web-disk"), "{told:?}");

    // Nor does it go with the VM.
    let vm = world.vm("web").await;
    world.delete(&vm).await;
    world.settle().await;
    let left = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    assert_eq!(left.uid(), theirs.uid());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_others_made_in_the_place_of_ours_is_not_taken_over() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("web".to_owned());
    world.create(vm).await;
    world.settle().await;
    let mut behind = Behind::of(&world).await;
    let ours = world.find::<Ingress>(ANN, "web").await.unwrap();
    behind.ingresses.apply(Event::Apply(ours.clone()), |_| {});
    world.delete(&ours).await;
    let theirs = world.create(somebodys(&ours)).await;

    // The cache still shows ours, which is to lead from another domain.
    let vm = world.vm("web").await;
    let vm = world
        .edit(&vm, json!({"spec": {"domainPrefix": "shop"}}))
        .await;
    vm::reconcile(&vm, &behind.context).await.unwrap();
    let left = world.find::<Ingress>(ANN, "web").await.unwrap();
    assert_eq!((left.uid(), &left.spec), (theirs.uid(), &theirs.spec));
    assert_eq!(appliers(&left), Vec::<String>::new());
    let status = world.vm("web").await.status.unwrap();
    assert!(
        status.conditions.iter().any(|c| c.reason == "NameTaken"),
        "{:#?}",
        status.conditions
    );
}

/// A claim to an offer that is gone, and to which the VM has no right any more.
#[tokio::test(start_paused = true)]
async fn nothing_is_made_of_an_offer_that_only_a_cache_knows() {
    let world = World::with_ann().await;
    let mut behind = Behind::of(&world).await;
    let mut vm = vm_named("web");
    vm.spec.offer = Some("gold".to_owned());
    let vm = world.create(vm).await;
    let spec = &vm.spec;
    let mut offer = KiteVirtualMachineOffer::new(
        "gold",
        KiteVirtualMachineOfferSpec {
            cpu: spec.cpu,
            memory: spec.memory.clone(),
            disk: spec.disk.clone(),
            image: spec.image.clone(),
            expires_at: None,
            lifetime: None,
            user: None,
            unreadable: None,
        },
    );
    offer.metadata.uid = Some("withdrawn".to_owned());
    let mut claim = reservation::of_offer(&Vm::of(&vm).unwrap(), &offer);
    claim.metadata.uid = Some("given-back".to_owned());
    claim.metadata.resource_version = Some("1".to_owned());
    behind.claims.apply(Event::Apply(claim), |_| {});
    behind.vms.apply(Event::Apply(vm.clone()), |_| {});
    for _ in 0..3 {
        let vm = world.vm("web").await;
        vm::reconcile(&vm, &behind.context).await.unwrap();
    }
    assert_eq!(world.find::<DataVolume>(ANN, "web-disk").await, None);
    let status = world.vm("web").await.status.unwrap();
    let said = find(&status.conditions, "OfferClaimed").unwrap();
    assert_eq!(said.reason, "OfferUnknown");
}

/// The decision that a VM is idle stands in its status, and then it is used.
#[tokio::test(start_paused = true)]
async fn use_that_no_cache_knows_of_keeps_a_vm_on() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.idle_timeout = Some("10m".parse().unwrap());
    world.create(vm).await;
    world.settle().await;
    tokio::time::sleep(std::time::Duration::from_secs(601)).await;
    let vm = world.vm("web").await;
    vm::reconcile(&vm, &world.context).await.unwrap();
    let vm = world.vm("web").await;
    assert!(vm.status.as_ref().unwrap().idle.is_some());

    let mut caches = Caches::builder();
    macro_rules! all {
        ($($kind:ty),*) => { $(
            drop(listed(caches.writer::<$kind>(None, |_| {}), world.all::<$kind>().await));
        )* };
    }
    all!(
        DataVolume,
        HttpRoute,
        Ingress,
        KiteImage,
        KitePlatform,
        KiteReservation,
        KiteUser,
        KiteVirtualMachine,
        Lease,
        Secret,
        Service,
        VirtualMachine,
        VirtualMachineInstance
    );
    let context = world.context.cached(caches.build());
    let uid = vm.metadata.uid.as_deref().unwrap();
    let used = activity::report(ANN, "web", uid, world.now());
    let gateway = kite_core::managers::GATEWAY;
    world.cluster.apply(gateway, &used).await.unwrap();
    vm::reconcile(&vm, &context).await.unwrap();
    let machine: VirtualMachine = world.find(ANN, "web").await.unwrap();
    assert_eq!(machine.spec.run_strategy.as_deref(), Some("Always"));
    assert_eq!(world.vm("web").await.status.unwrap().idle, None);
}

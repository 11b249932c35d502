//! Offers: claimed once, by one, and never used up by a failure.

use std::{sync::atomic::Ordering, time::Duration};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Secret, Service, ServicePort, ServiceSpec};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, ClusterError, FieldManager, ObjectKey},
    conditions::find,
    crd::{
        KiteReservation, KiteUser, KiteUserSpec, KiteVirtualMachine, KiteVirtualMachineOffer,
        KiteVirtualMachineOfferSpec, OfferClaim, OfferPhase, VmPhase,
    },
};
use kite_reconcile::vm;
use serde_json::json;

use crate::world::{Fault, FaultMode, World, vm_named};

const ANN: &str = "kite-user-ann";
const BOB: &str = "kite-user-bob";

/// An offer of what `vm_named` asks for.
fn gold() -> KiteVirtualMachineOffer {
    KiteVirtualMachineOffer::new(
        "gold",
        KiteVirtualMachineOfferSpec {
            cpu: 2,
            memory: "2Gi".parse().unwrap(),
            disk: "10Gi".parse().unwrap(),
            image: "debian-12".to_owned(),
            expires_at: None,
            lifetime: None,
            user: None,
            unreadable: None,
        },
    )
}

/// A VM that claims the offer.
fn claiming(namespace: &str, name: &str) -> KiteVirtualMachine {
    let mut vm = vm_named(name);
    vm.metadata.namespace = Some(namespace.to_owned());
    vm.spec.offer = Some("gold".to_owned());
    vm
}

async fn with_bob() -> World {
    let world = World::with_ann().await;
    let bob = KiteUser::new("bob", KiteUserSpec::new("bob"));
    world.create(bob).await;
    world.create(gold()).await;
    world.settle().await;
    world
}

async fn offer(world: &World) -> (OfferPhase, Option<OfferClaim>) {
    let offer: KiteVirtualMachineOffer = world.find("", "gold").await.unwrap();
    let status = offer.status.unwrap();
    (status.phase.unwrap(), status.claimed_by)
}

async fn get(world: &World, namespace: &str, name: &str) -> KiteVirtualMachine {
    world.find(namespace, name).await.expect("the VM is there")
}

fn phase(vm: &KiteVirtualMachine) -> VmPhase {
    vm.status.as_ref().unwrap().phase.unwrap()
}

/// Reason and message of a condition.
fn says(vm: &KiteVirtualMachine, condition: &str) -> (String, String) {
    let conditions = &vm.status.as_ref().unwrap().conditions;
    let found = find(conditions, condition).unwrap();
    (found.reason.clone(), found.message.clone())
}

async fn remove(world: &World, vm: &KiteVirtualMachine) {
    world.delete(vm).await;
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn an_offer_is_claimed_by_the_vm_that_names_it() {
    let world = with_bob().await;
    assert_eq!(offer(&world).await, (OfferPhase::Available, None));
    world.create(claiming(ANN, "web")).await;
    world.settle().await;

    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    assert_eq!(says(&vm, "OfferClaimed").0, "Fulfilled");
    let claim: KiteReservation = world.find("", "offer.gold").await.unwrap();
    assert!(claim.spec.fulfilled);
    let (phase, claim) = offer(&world).await;
    let claim = claim.unwrap();
    assert_eq!(phase, OfferPhase::Claimed);
    assert_eq!(claim.user.as_deref(), Some("ann"));
    assert_eq!((&*claim.namespace, &*claim.name), (ANN, "web"));
    assert_eq!(Some(claim.uid), vm.metadata.uid);
    assert!(claim.fulfilled);
    assert_eq!(world.settle().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_offer_is_used_once_even_when_its_vm_is_gone() {
    let world = with_bob().await;
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    remove(&world, &world.vm("web").await).await;
    let (phase_now, claim) = offer(&world).await;
    assert_eq!(phase_now, OfferPhase::Claimed);
    assert!(claim.unwrap().fulfilled);

    world.create(claiming(BOB, "late")).await;
    world.settle().await;
    let late = get(&world, BOB, "late").await;
    assert_eq!(phase(&late), VmPhase::Failed);
    let (reason, message) = says(&late, "Ready");
    assert_eq!(reason, "OfferTaken");
    assert!(message.contains("user ann (VM web)"), "{message}");
    assert!(world.find::<DataVolume>(BOB, "late-disk").await.is_none());
    // Its name goes with the VM; the claim of the offer goes with the offer.
    remove(&world, &late).await;
    let offer: KiteVirtualMachineOffer = world.find("", "gold").await.unwrap();
    world.delete(&offer).await;
    world.settle().await;
    let left = world.held().await;
    let left = left.iter().filter_map(|it| it.metadata.name.as_deref());
    assert_eq!(left.collect::<Vec<_>>(), ["username.ann", "username.bob"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_users_at_once_one_wins_and_the_other_is_told_who() {
    let world = with_bob().await;
    let (mine, theirs) = tokio::join!(
        world.create(claiming(ANN, "mine")),
        world.create(claiming(BOB, "theirs")),
    );
    for _ in 0..12 {
        let views = (
            get(&world, ANN, "mine").await,
            get(&world, BOB, "theirs").await,
        );
        let (a, b) = tokio::join!(
            vm::reconcile(&views.0, &world.context),
            vm::reconcile(&views.1, &world.context),
        );
        assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
    }
    world.settle().await;
    let vms = [
        get(&world, ANN, "mine").await,
        get(&world, BOB, "theirs").await,
    ];
    let (winner, loser) = match offer(&world).await.1.unwrap().uid {
        uid if Some(&uid) == mine.metadata.uid.as_ref() => (&vms[0], &vms[1]),
        uid => {
            assert_eq!(Some(uid), theirs.metadata.uid);
            (&vms[1], &vms[0])
        }
    };
    assert_eq!(phase(winner), VmPhase::Running);
    assert_eq!(phase(loser), VmPhase::Failed);
    let (reason, message) = says(loser, "OfferClaimed");
    assert_eq!(reason, "OfferTaken");
    let user = winner.metadata.namespace.as_deref().unwrap();
    let user = user.trim_start_matches("kite-user-");
    assert!(message.contains(&format!("user {user}")), "{message}");
    assert_eq!(world.all::<DataVolume>().await.len(), 2, "image and disk");
}

/// Makes a VM impossible.
type Spoil = fn(&mut KiteVirtualMachine);

#[tokio::test(start_paused = true)]
async fn defect_14_a_vm_that_cannot_be_made_does_not_use_up_its_offer() {
    let world = with_bob().await;
    let mut taken = vm_named("first");
    taken.spec.ssh_id = "id-web".to_owned();
    world.create(taken).await;
    world.settle().await;
    let spoiled: [(&str, Spoil); 4] = [
        ("SshIdTaken", |_| {}),
        ("OfferMismatch", |vm| {
            vm.spec.ssh_id = "id-cpu".to_owned();
            vm.spec.cpu = 3;
        }),
        ("UnknownImage", |vm| {
            vm.spec.ssh_id = "id-image".to_owned();
            vm.spec.image = "plan-9".to_owned();
        }),
        ("QuotaExceeded", |vm| {
            vm.spec.ssh_id = "id-quota".to_owned();
        }),
    ];
    for (reason, spoil) in spoiled {
        if reason == "QuotaExceeded" {
            let bob: KiteUser = world.find("", "bob").await.unwrap();
            let quota = json!({"vms": 9, "cpu": 1, "memory": "64Gi", "disk": "500Gi"});
            world.edit(&bob, json!({"spec": {"quota": quota}})).await;
        }
        let mut vm = claiming(BOB, "web");
        spoil(&mut vm);
        world.create(vm).await;
        world.settle().await;
        let vm = get(&world, BOB, "web").await;
        assert_eq!(says(&vm, "Ready").0, reason, "{:?}", says(&vm, "Ready"));
        let state = offer(&world).await;
        assert_eq!(state, (OfferPhase::Available, None), "{reason}");
        remove(&world, &vm).await;
    }
    // Somebody else still gets it.
    world.create(claiming(ANN, "shop")).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("shop").await), VmPhase::Running);
}

/// A Secret that is not the VM's is in the way: seen only after other things of
/// the VM may be made.
#[tokio::test(start_paused = true)]
async fn what_turns_up_after_the_claim_gives_it_back() {
    let world = with_bob().await;
    let stranger = Secret {
        metadata: kube::api::ObjectMeta {
            name: Some("web-cloud-init-userdata".to_owned()),
            namespace: Some(ANN.to_owned()),
            ..kube::api::ObjectMeta::default()
        },
        ..Secret::default()
    };
    let stranger = world.create(stranger).await;
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "Ready").0, "NameTaken");
    assert_eq!(offer(&world).await, (OfferPhase::Available, None));

    world.delete(&stranger).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
    assert_eq!(offer(&world).await.0, OfferPhase::Claimed);
}

/// A Service that is not the VM's is in the way, which holds up nothing but
/// itself where no offer is asked for.
#[tokio::test(start_paused = true)]
async fn without_the_claim_no_disk_is_made() {
    let world = with_bob().await;
    let stranger = Service {
        metadata: kube::api::ObjectMeta {
            name: Some("vps-web-web".to_owned()),
            namespace: Some(ANN.to_owned()),
            ..kube::api::ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            ports: Some(vec![ServicePort {
                port: 80,
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    let stranger = world.create(stranger).await;
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    assert_eq!(says(&world.vm("web").await, "Ready").0, "NameTaken");
    assert_eq!(world.find::<DataVolume>(ANN, "web-disk").await, None);
    assert_eq!(offer(&world).await, (OfferPhase::Available, None));

    world.delete(&stranger).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
    assert_eq!(offer(&world).await.0, OfferPhase::Claimed);
}

/// Terms cannot be changed: whoever wants others makes the offer again.
#[tokio::test(start_paused = true)]
async fn an_offer_that_is_made_again_is_not_used_up_by_what_came_of_the_former() {
    let world = with_bob().await;
    world.stage.fills_disks.store(false, Ordering::SeqCst);
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    assert_eq!(offer(&world).await.0, OfferPhase::Claimed);
    let former: KiteVirtualMachineOffer = world.find("", "gold").await.unwrap();
    world.delete(&former).await;
    world.settle().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut other = gold();
    other.spec.cpu += 1;
    world.create(other).await;
    world.stage.fills_disks.store(true, Ordering::SeqCst);
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
    assert_eq!(offer(&world).await, (OfferPhase::Available, None));
}

/// Somebody else's disk, filled, under the name of the VM's: nobody got what was
/// offered by that.
#[tokio::test(start_paused = true)]
async fn a_disk_of_others_uses_up_no_offer() {
    let world = with_bob().await;
    world.create(vm_named("model")).await;
    world.settle().await;
    let model = world.find::<DataVolume>(ANN, "model-disk").await.unwrap();
    let theirs = DataVolume {
        metadata: kube::api::ObjectMeta {
            name: Some("web-disk".to_owned()),
            namespace: Some(ANN.to_owned()),
            ..kube::api::ObjectMeta::default()
        },
        spec: model.spec.clone(),
        ..DataVolume::default()
    };
    let theirs = world.create(theirs).await;
    world.settle().await;
    let filled = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    let phase_of = filled.status.and_then(|status| status.phase);
    assert_eq!(phase_of.as_deref(), Some("Succeeded"));

    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(says(&vm, "Ready").0, "NameTaken");
    assert_ne!(says(&vm, "DiskReady").0, "Filled");
    assert_eq!(vm.status.clone().unwrap().disk, None);
    assert_ne!(says(&vm, "OfferClaimed").0, "Fulfilled");
    assert_eq!(offer(&world).await, (OfferPhase::Available, None));

    // Nor once it is gone, before the VM has a disk of its own.
    world.delete(&theirs).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
    let (_, claim) = offer(&world).await;
    assert!(claim.unwrap().fulfilled);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_api_server_gives_the_offer_back() {
    let mut world = with_bob().await;
    world.only_vms = true;
    let mut given_back = 0;
    for after in 0..20 {
        world.create(claiming(ANN, "web")).await;
        let mode = FaultMode::Refused;
        world.inject(Fault { after, mode });
        let vm = world.vm("web").await;
        let refused = vm::reconcile(&vm, &world.context).await.is_err();
        let claim = world.find::<KiteReservation>("", "offer.gold").await;
        let disk = world.find::<DataVolume>(ANN, "web-disk").await;
        assert!(
            !refused || claim.is_none() || disk.is_some(),
            "write {after} was refused, and the offer is kept"
        );
        given_back += usize::from(refused && claim.is_none());
        let done = world.fault_is_left();
        world.stage.fills_disks.store(false, Ordering::SeqCst);
        world.settle().await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        world.settle().await;
        // Tried again after a while, it works.
        assert_eq!(phase(&world.vm("web").await), VmPhase::Provisioning);
        // Its disk was not filled: the offer is not used up.
        remove(&world, &world.vm("web").await).await;
        let claim = world.find::<KiteReservation>("", "offer.gold").await;
        assert_eq!(claim, None, "after {after} writes");
        if done {
            assert!(given_back > 3, "{given_back} of {after}");
            return;
        }
    }
    panic!("one reconcile takes no more than 20 writes");
}

/// What is given back wakes whoever wants it, and that is the one that gave it back.
#[tokio::test(start_paused = true)]
async fn what_is_always_refused_claims_its_offer_once_in_a_while() {
    let world = with_bob().await;
    world.refuse("apply DataVolume");
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    let (reason, message) = says(&world.vm("web").await, "Ready");
    assert_eq!(reason, "OfferGivenBack", "{message}");
    assert!(message.contains("it cannot be"), "{message}");
    assert_eq!(offer(&world).await, (OfferPhase::Available, None));
    for turn in 1..=3 {
        tokio::time::sleep(Duration::from_secs(600)).await;
        world.settle().await;
        assert!(world.times_refused() <= 1 + turn, "at turn {turn}");
    }
    // Whoever changes the VM is heard at once.
    world.refuse("");
    let on = json!({"spec": {"powerState": "Off"}});
    world.edit(&world.vm("web").await, on).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
    assert!(offer(&world).await.1.unwrap().fulfilled);
}

#[tokio::test(start_paused = true)]
async fn an_offer_says_to_whom_until_when_and_how_long() {
    let world = with_bob().await;
    let gold: KiteVirtualMachineOffer = world.find("", "gold").await.unwrap();
    let end = world.now() + SignedDuration::from_mins(5);
    let limits = json!({"spec": {"user": "bob", "expiresAt": end.to_string()}});
    world.edit(&gold, limits).await;
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    let (reason, message) = says(&world.vm("web").await, "Ready");
    assert_eq!(reason, "OfferNotYours");
    assert!(!message.contains("bob"), "{message}");
    assert_eq!(offer(&world).await.0, OfferPhase::Available);

    tokio::time::sleep(Duration::from_secs(301)).await;
    world.settle().await;
    assert_eq!(offer(&world).await.0, OfferPhase::Expired);
    world.create(claiming(BOB, "late")).await;
    world.settle().await;
    let (reason, message) = says(&get(&world, BOB, "late").await, "Ready");
    assert_eq!(reason, "OfferExpired");
    assert!(message.contains(&end.to_string()), "{message}");

    // Offered again for longer, it is had.
    let gold: KiteVirtualMachineOffer = world.find("", "gold").await.unwrap();
    world
        .edit(&gold, json!({"spec": {"expiresAt": null}}))
        .await;
    world.settle().await;
    assert_eq!(phase(&get(&world, BOB, "late").await), VmPhase::Running);
}

#[tokio::test(start_paused = true)]
async fn a_vm_of_an_offer_lasts_as_long_as_was_offered() {
    let world = World::with_ann().await;
    let mut gold = gold();
    gold.spec.lifetime = Some("24h".parse().unwrap());
    world.create(gold).await;
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    let (reason, message) = says(&world.vm("web").await, "Ready");
    assert_eq!(reason, "OfferMismatch");
    let latest = message.split("set it to ").nth(1).unwrap();
    let latest = latest.trim_end_matches(" or earlier").to_owned();

    let set = json!({"spec": {"expiresAt": latest}});
    world.edit(&world.vm("web").await, set).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);

    // It cannot be made larger or to last longer afterwards.
    for (patch, remedy) in [
        (json!({"cpu": 8}), "what was offered"),
        (json!({"disk": "100Gi"}), "what was offered"),
        (json!({"offer": null}), "offer cannot be changed"),
        (json!({"expiresAt": null}), "earlier time"),
        (json!({"expiresAt": "2100-01-01T00:00:00Z"}), "earlier time"),
    ] {
        let key = ObjectKey::namespaced(ANN, "web");
        let patch = json!({"spec": patch});
        let person = FieldManager::new("person");
        let refused = world
            .cluster
            .merge_patch::<KiteVirtualMachine>(person, &key, &patch)
            .await;
        match refused {
            Err(ClusterError::Invalid { status, .. }) => {
                assert!(status.message.contains(remedy), "{}", status.message);
            }
            other => panic!("{patch}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_vanished_unmade_gives_its_offer_back() {
    let world = with_bob().await;
    world.stage.fills_disks.store(false, Ordering::SeqCst);
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    let (phase_now, claim) = offer(&world).await;
    assert_eq!(phase_now, OfferPhase::Claimed);
    assert!(!claim.unwrap().fulfilled);

    // Somebody takes the finalizer off.
    let vm = world.vm("web").await;
    let vm = world.cluster.set_finalizers(&vm, Vec::new()).await.unwrap();
    world.delete(&vm).await;
    world.settle().await;
    let claim = world.find::<KiteReservation>("", "offer.gold").await;
    assert_eq!(claim, None);
    assert_eq!(offer(&world).await, (OfferPhase::Available, None));
}

async fn claim_with(mode: FaultMode) {
    let mut world = with_bob().await;
    world.only_vms = true;
    for after in 0..40 {
        world.stage.fills_disks.store(false, Ordering::SeqCst);
        world.create(claiming(ANN, "web")).await;
        world.create(claiming(BOB, "shop")).await;
        world.inject(Fault { after, mode });
        world.settle().await;
        let vms = [
            get(&world, ANN, "web").await,
            get(&world, BOB, "shop").await,
        ];
        let provisioned = vms.iter().filter(|vm| phase(vm) == VmPhase::Provisioning);
        assert_eq!(provisioned.count(), 1, "{mode:?} at write {after}");
        let was_last = world.fault_is_left();
        for vm in vms {
            remove(&world, &vm).await;
        }
        let claim = world.find::<KiteReservation>("", "offer.gold").await;
        assert_eq!(claim, None, "{mode:?} at write {after}");
        if was_last {
            assert!(after > 12, "claiming takes more than {after} writes");
            return;
        }
    }
    panic!("claiming takes no more than 40 writes");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_write_changes_nothing_in_who_has_the_offer() {
    Box::pin(claim_with(FaultMode::Lost)).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_changes_nothing_in_who_has_the_offer() {
    Box::pin(claim_with(FaultMode::AnswerLost)).await;
}

/// Reconciles the VMs of a namespace, and nothing else, until nothing moves.
async fn settle_vms(world: &World, namespace: &str) {
    loop {
        for vm in world.all::<KiteVirtualMachine>().await {
            if vm.metadata.namespace.as_deref() == Some(namespace) {
                vm::reconcile(&vm, &world.context).await.unwrap();
            }
        }
        let moved = world.stage.play().await;
        if world.writes().is_empty() && !moved {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_used_up_offer_stays_so_though_nobody_noted_it_before_the_vm_went() {
    let world = with_bob().await;
    // The controller of offers is down, all through the life of the VM.
    world.create(claiming(ANN, "web")).await;
    settle_vms(&world, ANN).await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    world.delete(&vm).await;
    settle_vms(&world, ANN).await;
    let gone: Option<KiteVirtualMachine> = world.find(ANN, "web").await;
    assert_eq!(gone, None);

    world.create(claiming(BOB, "shop")).await;
    world.settle().await;
    let (phase_now, claim) = offer(&world).await;
    let claim = claim.unwrap();
    assert_eq!(phase_now, OfferPhase::Claimed);
    assert_eq!(
        (claim.fulfilled, claim.user.as_deref()),
        (true, Some("ann"))
    );
    let shop = get(&world, BOB, "shop").await;
    assert_eq!(says(&shop, "Ready").0, "OfferTaken");
    let disk: Option<DataVolume> = world.find(BOB, "shop-disk").await;
    assert_eq!(disk, None);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_goes_right_after_its_disk_was_filled_notes_it_on_its_way() {
    for mode in [FaultMode::Lost, FaultMode::AnswerLost] {
        let world = with_bob().await;
        world.stage.fills_disks.store(false, Ordering::SeqCst);
        world.create(claiming(ANN, "web")).await;
        settle_vms(&world, ANN).await;
        let disk: DataVolume = world.find(ANN, "web-disk").await.unwrap();
        world.stage.disk_says(&disk, "Succeeded", "100.0%").await;
        world.delete(&world.vm("web").await).await;
        world.inject(Fault { after: 0, mode });
        let vm = world.vm("web").await;
        vm::reconcile(&vm, &world.context).await.unwrap_err();
        settle_vms(&world, ANN).await;
        world.settle().await;
        let (phase_now, claim) = offer(&world).await;
        assert_eq!(phase_now, OfferPhase::Claimed, "{mode:?}");
        assert!(claim.unwrap().fulfilled, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn that_an_offer_is_used_up_cannot_be_taken_back() {
    let world = with_bob().await;
    world.create(claiming(ANN, "web")).await;
    world.settle().await;
    let claim: KiteReservation = world.find("", "offer.gold").await.unwrap();
    for patch in [json!({"fulfilled": false}), json!({"fulfilled": null})] {
        let error = world.try_edit(&claim, json!({"spec": patch})).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("the offer is used up"), "{error}");
    }
    let other = json!({"spec": {"holder": {"name": "other"}}});
    let error = world.try_edit(&claim, other).await.unwrap_err().to_string();
    assert!(error.contains("a reservation cannot be changed"), "{error}");
    let login: KiteReservation = world.find("", "ssh-id.id-web").await.unwrap();
    let error = world
        .try_edit(&login, json!({"spec": {"fulfilled": true}}))
        .await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("for claims of offers")
    );
}

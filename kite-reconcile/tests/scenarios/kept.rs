//! Names that were given back: kept for who had them, and nobody else's. And names that
//! no VM gets.

use std::time::Duration;

use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    conditions::find,
    crd::{
        KEPT_FOR, KitePlatform, KiteReservation, KiteUser, KiteUserSpec, KiteVirtualMachine,
        VmPhase,
    },
};
use kite_reconcile::{kept, vm};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::json;

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";
const BOB: &str = "kite-user-bob";

/// A VM in `namespace` that wants the names of ann's VM `web`.
fn wanting(namespace: &str, name: &str) -> KiteVirtualMachine {
    let mut vm = vm_named(name);
    vm.metadata.namespace = Some(namespace.to_owned());
    "id-web".clone_into(&mut vm.spec.ssh_id);
    vm.spec.domain_prefix = Some("shop".to_owned());
    vm
}

/// Ann, whose VM `web` has come and gone, and bob.
async fn with_bob() -> World {
    let world = World::with_ann().await;
    world
        .create(KiteUser::new("bob", KiteUserSpec::new("bob")))
        .await;
    world.create(wanting(ANN, "web")).await;
    world.settle().await;
    world
}

async fn remove(world: &World, namespace: &str, name: &str) {
    let vm: KiteVirtualMachine = world.find(namespace, name).await.unwrap();
    world.delete(&vm).await;
    world.settle().await;
}

async fn claim(world: &World, name: &str) -> KiteReservation {
    world.find("", name).await.expect("it is reserved")
}

/// Phase, and reason and message of the condition `Reserved`.
async fn says(world: &World, namespace: &str, name: &str) -> (VmPhase, String, String) {
    let vm: KiteVirtualMachine = world.find(namespace, name).await.unwrap();
    let status = vm.status.unwrap();
    let reserved = find(&status.conditions, "Reserved").unwrap().clone();
    (status.phase.unwrap(), reserved.reason, reserved.message)
}

#[tokio::test(start_paused = true)]
async fn a_released_name_is_its_former_owners_and_nobody_elses() {
    let world = with_bob().await;
    remove(&world, ANN, "web").await;
    let before = [
        claim(&world, "ssh-id.id-web").await,
        claim(&world, "domain.shop").await,
    ];
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    for claim in &before {
        let kept = claim.spec.kept.as_ref().unwrap();
        assert_eq!(kept.user_uid, ann.metadata.uid);
        let left = kept.until.0.duration_since(world.now());
        assert!(left <= KEPT_FOR && left.as_hours() >= 29 * 24, "{left}");
    }

    world.create(wanting(BOB, "thief")).await;
    world.settle().await;
    let (phase, reason, message) = says(&world, BOB, "thief").await;
    assert_eq!((phase, reason.as_str()), (VmPhase::Failed, "SshIdKept"));
    let until = before[0].spec.kept.as_ref().unwrap().until.0.to_string();
    for part in [
        &until,
        "spec.sshId",
        "id-web",
        "kubectl delete kitereservation ssh-id.id-web",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(
        !message.contains("ann"),
        "whose it was is nobody's concern: {message}"
    );

    world.create(wanting(ANN, "again")).await;
    let written = world.settle().await;
    assert_eq!(says(&world, ANN, "again").await.0, VmPhase::Running);
    let freed = written
        .iter()
        .filter(|line| line.starts_with("delete KiteReservation"));
    assert_eq!(
        freed.count(),
        0,
        "for a moment it was anybody's: {written:#?}"
    );
    let again: KiteVirtualMachine = world.find(ANN, "again").await.unwrap();
    for before in before {
        let now = claim(&world, &before.name_any()).await;
        assert_eq!(now.uid(), before.uid());
        assert_eq!(Some(&now.spec.holder.uid), again.metadata.uid.as_ref());
        assert_eq!(now.spec.kept, None);
    }
    assert_eq!(says(&world, BOB, "thief").await.0, VmPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_domain_that_was_dropped_is_kept_too() {
    let world = with_bob().await;
    let web = world.vm("web").await;
    let web = world
        .edit(&web, json!({"spec": {"domainPrefix": null}}))
        .await;
    world.settle().await;
    let mut thief = wanting(BOB, "thief");
    thief.spec.ssh_id = "id-thief".to_owned();
    world.create(thief).await;
    world.settle().await;
    let (phase, reason, message) = says(&world, BOB, "thief").await;
    assert_eq!((phase, reason.as_str()), (VmPhase::Running, "DomainKept"));
    assert!(
        message.contains("kubectl delete kitereservation domain.shop"),
        "{message}"
    );
    world
        .edit(&web, json!({"spec": {"domainPrefix": "shop"}}))
        .await;
    world.settle().await;
    assert_eq!(says(&world, ANN, "web").await.1, "Reserved");
}

#[tokio::test(start_paused = true)]
async fn a_later_user_of_the_same_name_is_a_stranger_until_an_administrator_releases_it() {
    let world = with_bob().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    assert!(world.find::<KiteUser>("", "ann").await.is_none());
    world
        .create(KiteUser::new("ann", KiteUserSpec::new("ann")))
        .await;
    world.settle().await;
    world.create(wanting(ANN, "web")).await;
    world.settle().await;
    assert_eq!(says(&world, ANN, "web").await.1, "SshIdKept");

    for name in ["ssh-id.id-web", "domain.shop"] {
        world.delete(&claim(&world, name).await).await;
    }
    world.settle().await;
    let (phase, reason, _) = says(&world, ANN, "web").await;
    assert_eq!((phase, reason.as_str()), (VmPhase::Running, "Reserved"));
}

/// Somebody took the finalizer off the user, and another has the name while the VM of the
/// first is still there.
#[tokio::test(start_paused = true)]
async fn what_a_vm_gives_back_is_not_that_of_a_user_who_came_after_it() {
    let world = with_bob().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let ann = world
        .edit(&ann, json!({"metadata": {"finalizers": null}}))
        .await;
    world.delete(&ann).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world
        .create(KiteUser::new("ann", KiteUserSpec::new("ann")))
        .await;
    let web = world.vm("web").await;
    world.delete(&web).await;
    world.settle().await;
    for name in ["ssh-id.id-web", "domain.shop"] {
        let kept = claim(&world, name).await.spec.kept.unwrap();
        assert_eq!(kept.user_uid, None, "{name}");
    }
}

/// Whoever takes names and drops them all day does not hold all of them.
#[tokio::test(start_paused = true)]
async fn beyond_a_number_names_are_free_at_once() {
    let world = with_bob().await;
    for n in 0..60 {
        let web = world.vm("web").await;
        let label = format!("label-{n}");
        world
            .edit(&web, json!({"spec": {"domainPrefix": label}}))
            .await;
        world.settle().await;
    }
    let all = world.all::<KiteReservation>().await;
    let kept = all.iter().filter(|claim| claim.spec.kept.is_some());
    assert_eq!(kept.count(), 50);
    let mut heir = wanting(BOB, "heir");
    "heir".clone_into(&mut heir.spec.ssh_id);
    heir.spec.domain_prefix = Some("label-58".to_owned());
    world.create(heir).await;
    world.settle().await;
    assert_eq!(says(&world, BOB, "heir").await.1, "Reserved");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_free_when_its_time_is_over_and_not_before() {
    let world = with_bob().await;
    remove(&world, ANN, "web").await;
    kept::release(&world.context).await.unwrap();
    let ssh_id = claim(&world, "ssh-id.id-web").await;
    let until = (world.now() - jiff::SignedDuration::from_secs(1)).to_string();
    world
        .edit(&ssh_id, json!({"spec": {"kept": {"until": until}}}))
        .await;
    kept::release(&world.context).await.unwrap();
    assert!(
        world
            .find::<KiteReservation>("", "ssh-id.id-web")
            .await
            .is_none()
    );
    claim(&world, "domain.shop").await;
    let mut heir = wanting(BOB, "heir");
    heir.spec.domain_prefix = None;
    world.create(heir).await;
    world.settle().await;
    assert_eq!(says(&world, BOB, "heir").await.0, VmPhase::Running);
}

/// Another controller was faster, and the owner has the name again: who is late does not
/// take it from the new VM.
#[tokio::test(start_paused = true)]
async fn a_name_that_was_taken_back_is_not_given_back_by_who_is_late() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let mut again = vm_named("again");
    again.spec.ssh_id = "id-web".to_owned();
    let again = world.create(again).await;
    let (cluster, new_uid) = (world.cluster.clone(), again.uid());
    world.meanwhile("edit KiteReservation ssh-id.id-web", async move {
        let key = ObjectKey::cluster("ssh-id.id-web");
        let there: KiteReservation = cluster.get(&key).await.unwrap();
        let kept = json!({"until": "2100-01-01T00:00:00Z"});
        let manager = || FieldManager::new("another");
        for spec in [
            json!({"kept": kept}),
            json!({"kept": null, "holder": {"name": "again", "uid": new_uid}}),
        ] {
            let patch = json!({"metadata": {"uid": there.uid()}, "spec": spec});
            cluster
                .merge_patch::<KiteReservation>(manager(), &key, &patch)
                .await
                .unwrap();
        }
    });
    let web = world.vm("web").await;
    world.delete(&web).await;
    world.settle().await;
    assert!(!world.meanwhile_is_left());
    assert!(world.find::<KiteVirtualMachine>(ANN, "web").await.is_none());
    let claim = claim(&world, "ssh-id.id-web").await;
    assert_eq!(
        (Some(claim.spec.holder.uid), claim.spec.kept),
        (again.uid(), None)
    );
    assert_eq!(says(&world, ANN, "again").await.0, VmPhase::Running);
}

/// Two VMs of one owner want what is kept for them: one gets it.
#[tokio::test(start_paused = true)]
async fn of_two_that_take_it_back_at_once_one_has_it() {
    let world = with_bob().await;
    remove(&world, ANN, "web").await;
    world.create(wanting(ANN, "first")).await;
    let second = world.create(wanting(ANN, "second")).await;
    let (cluster, uid) = (world.cluster.clone(), second.uid());
    world.meanwhile("edit KiteReservation ssh-id.id-web", async move {
        let key = ObjectKey::cluster("ssh-id.id-web");
        let spec = json!({"kept": null, "holder": {"name": "second", "uid": uid}});
        let patch = json!({"spec": spec});
        let manager = FieldManager::new("another");
        cluster
            .merge_patch::<KiteReservation>(manager, &key, &patch)
            .await
            .unwrap();
    });
    vm::reconcile(&world.vm("first").await, &world.context)
        .await
        .ok();
    assert!(!world.meanwhile_is_left());
    world.settle().await;
    let claim = claim(&world, "ssh-id.id-web").await;
    assert_eq!(
        (Some(claim.spec.holder.uid), claim.spec.kept),
        (second.uid(), None)
    );
    assert_eq!(says(&world, ANN, "first").await.1, "SshIdTaken");
}

/// Whoever takes the finalizer off takes the name from nobody but themselves.
#[tokio::test(start_paused = true)]
async fn the_name_of_a_vm_that_went_without_its_controller_is_kept_for_its_owner() {
    let world = with_bob().await;
    let web = world.vm("web").await;
    let web = world
        .cluster
        .set_finalizers(&web, Vec::new())
        .await
        .unwrap();
    let gone = world
        .cluster
        .delete_by_uid(&web, PropagationPolicy::Background);
    gone.await.unwrap();
    world.create(wanting(BOB, "thief")).await;
    world.settle().await;
    assert_eq!(says(&world, BOB, "thief").await.1, "SshIdKept");
    assert!(claim(&world, "ssh-id.id-web").await.spec.kept.is_some());
    world.create(wanting(ANN, "again")).await;
    world.settle().await;
    assert_eq!(says(&world, ANN, "again").await.0, VmPhase::Running);
}

#[tokio::test(start_paused = true)]
async fn no_vm_gets_a_domain_that_stands_for_the_platform_but_who_has_it_keeps_it() {
    let world = World::with_ann().await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let reserve = async |labels: serde_json::Value| {
        let patch = json!({"spec": {"reservedDomainPrefixes": labels}});
        world.edit(&platform, patch).await;
    };
    reserve(json!([])).await;
    let mut web = vm_named("web");
    web.spec.domain_prefix = Some("www".to_owned());
    world.create(web).await;
    world.settle().await;
    assert_eq!(says(&world, ANN, "web").await.1, "Reserved");

    reserve(serde_json::Value::Null).await;
    for (name, prefix) in [("one", "login"), ("two", "xn--80ak6aa92e")] {
        let mut vm = vm_named(name);
        vm.spec.domain_prefix = Some(prefix.to_owned());
        world.create(vm).await;
    }
    world.settle().await;
    assert_eq!(
        says(&world, ANN, "web").await.1,
        "Reserved",
        "it had it before"
    );
    for (name, said) in [("one", "spec.reservedDomainPrefixes"), ("two", "xn--")] {
        let (phase, reason, message) = says(&world, ANN, name).await;
        // The VM itself is not affected.
        assert_eq!(
            (phase, reason.as_str()),
            (VmPhase::Running, "DomainReserved")
        );
        assert!(
            message.contains(said) && message.contains("choose"),
            "{message}"
        );
    }
    assert!(
        world
            .find::<KiteReservation>("", "domain.login")
            .await
            .is_none()
    );
}

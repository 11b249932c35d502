//! Laws for the plans of VMs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kite_core::{
    cluster::Object,
    crd::{Charge, HolderKind},
};
use kite_reconcile::{
    claims::ClaimState,
    objects::AnyObject,
    plan::{Change, Step},
};
use proptest::prelude::*;

use crate::{
    found::{BOB, Found, found, found_ours, is_foreign, other_holder},
    vms::{ANN, World, world, world_of},
};

fn law(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

/// Whether what is there was there and is not ours.
fn is_theirs<K: Object>(there: &Option<K>) -> bool {
    let uid = there.as_ref().and_then(|it| it.meta().uid.as_deref());
    uid.is_some_and(|uid| uid.starts_with("theirs-"))
}

/// A disk, and all that a VM cannot be made from again, goes on request only.
fn nothing_is_lost_unasked(world: &World, step: &Step) -> Result<(), String> {
    // Its own end is asked for by its spec, and its owner has read of it.
    if matches!(step, Step::DeleteSelf) {
        let told = world
            .object
            .status
            .as_ref()
            .and_then(|it| it.expiry.as_ref());
        let expires_at = world.object.spec.expires_at.as_ref();
        law(
            expires_at.is_some_and(|at| at.0 <= world.seen.now),
            "it has not expired",
        )?;
        return law(told.is_some(), "nobody was told");
    }
    if let Step::Change(Change::DeleteUnchanged(object)) = step {
        // Of a disk that was never filled nothing is lost.
        let AnyObject::DataVolume(disk) = object else {
            return Err("it is no disk".to_owned());
        };
        let phase = disk.status.as_ref().and_then(|it| it.phase.as_deref());
        return law(phase != Some("Succeeded"), "it is filled");
    }
    let Step::Change(Change::Delete(object, _)) = step else {
        return Ok(());
    };
    law(
        world.is_deleting() || ["Ingress", "HttpRoute"].contains(&object.kind()),
        "nobody has asked for it",
    )
}

fn nothing_of_others_is_touched(_: &World, step: &Step) -> Result<(), String> {
    match step {
        Step::Change(Change::Delete(object, _)) => {
            law(!is_foreign(object), "it is somebody else's")?;
            law(
                object.metadata().deletion_timestamp.is_none(),
                "it is going already",
            )
        }
        _ => Ok(()),
    }
}

/// What is applied has no uid: what has its place is looked up.
fn nothing_of_others_is_written_to(world: &World, step: &Step) -> Result<(), String> {
    let seen = &world.seen;
    macro_rules! at {
        ($slot:ident) => {
            seen.$slot.as_ref().map(|it| it.metadata.clone())
        };
    }
    let there = match step {
        Step::Change(Change::Apply(object) | Change::Expose(object)) => {
            match (object.kind(), object.key().name.as_str()) {
                ("DataVolume", "web-disk") => at!(disk),
                ("VirtualMachine", "web") => at!(machine),
                ("Secret", "web-ssh-key") => at!(key_secret),
                ("Secret", "web-cloud-init-userdata") => at!(cloud_init),
                ("Service", "vps-access-web") => at!(access_service),
                ("Service", "vps-web-web") => at!(web_service),
                ("Ingress", "web") => at!(ingress),
                ("HttpRoute", "web") => at!(route),
                (kind, name) => return Err(format!("{kind} {name} is no object of a VM")),
            }
        }
        Step::Change(Change::Grow(_)) => at!(claim),
        Step::Change(Change::CreateKeys(_)) => {
            return law(seen.key_secret.is_none(), "there are keys");
        }
        _ => None,
    };
    let Some(there) = there else { return Ok(()) };
    law(
        !there.uid.is_some_and(|uid| uid.starts_with("theirs-")),
        "what is there is somebody else's",
    )?;
    law(
        there.deletion_timestamp.is_none(),
        "what is there is on its way out",
    )
}

fn no_step_leaves_the_tenant(world: &World, step: &Step) -> Result<(), String> {
    match step {
        Step::Change(Change::Apply(object) | Change::Expose(object)) => {
            law(
                object.key().namespace.as_deref() == Some(ANN),
                "it lies elsewhere",
            )?;
            let text = format!("{object:?}");
            law(!text.contains(BOB), "it speaks of another tenant")?;
            let owners = object.metadata().owner_references.iter().flatten();
            for owner in owners {
                law(owner.uid == "uid-web", "it has another owner")?;
            }
            law(
                object.metadata().owner_references.iter().flatten().count() == 1,
                "nobody owns it",
            )
        }
        Step::Change(Change::Delete(object, _)) => law(
            object.key().namespace.as_deref() == Some(ANN),
            "it lies elsewhere",
        ),
        Step::Change(Change::Grow(claim)) => law(
            claim.metadata.namespace.as_deref() == Some(ANN),
            "it lies elsewhere",
        ),
        Step::Change(Change::CreateKeys(keys)) => law(
            keys.metadata.namespace.as_deref() == Some(ANN),
            "they lie elsewhere",
        ),
        Step::Change(Change::Claim(claim)) => {
            let holder = &claim.spec.holder;
            law(
                holder.uid == "uid-web" && holder.kind == HolderKind::KiteVirtualMachine,
                "for another",
            )
        }
        // Its own, or that of one who is gone.
        Step::Change(Change::Unclaim(claim) | Change::Keep(claim, _)) => {
            law(claim.spec.holder.uid != "uid-alive", "its holder lives")
        }
        Step::Change(Change::TakeBack(kept, claim)) => {
            law(kept.spec.kept.is_some(), "it was not given back")?;
            let namespace = kept.spec.holder.namespace.as_deref();
            law(namespace == Some(ANN), "it is kept for another")?;
            law(claim.spec.holder.uid == "uid-web", "for another")
        }
        Step::Change(Change::Move(order)) => law(
            order.metadata.namespace.as_deref() == Some(ANN),
            "it lies elsewhere",
        ),
        Step::Change(Change::Restart { machine, .. }) => law(
            machine.namespace.as_deref() == Some(ANN) && !is_theirs(&world.seen.machine),
            "it is somebody else's",
        ),
        _ => Ok(()),
    }
}

/// Unreachable first, then the machine, then its disk, then the rest, then the
/// names, and the finalizer last.
fn it_goes_in_order(world: &World, step: &Step) -> Result<(), String> {
    if !world.is_deleting() {
        return law(
            !matches!(step, Step::RemoveFinalizer(_)),
            "the VM is to stay",
        );
    }
    let left = world.left_behind();
    let is_left = |what: &[&str]| left.iter().any(|left| what.contains(left));
    const WAYS_IN: [&str; 4] = ["ingress", "route", "access_service", "web_service"];
    // That of somebody else's machine is theirs.
    let machine = world
        .seen
        .machine
        .as_ref()
        .map(|it| it.metadata.uid.clone());
    let runs = world.seen.instance.as_ref().is_some_and(|it| {
        let mut owners = it.metadata.owner_references.iter().flatten();
        owners.any(|owner| machine != Some(Some(owner.uid.clone())))
    });
    match step {
        Step::Change(Change::Delete(object, _)) => match object.kind() {
            "Ingress" | "HttpRoute" | "Service" => Ok(()),
            "VirtualMachine" => law(!is_left(&WAYS_IN), "it can still be reached"),
            "DataVolume" => {
                law(!is_left(&WAYS_IN), "it can still be reached")?;
                law(!is_left(&["machine"]), "its machine is still there")?;
                law(!runs, "an instance still writes to it")
            }
            "Secret" | "PersistentVolumeClaim" => {
                law(!is_left(&["machine"]), "its machine is still there")?;
                law(!is_left(&["disk"]), "its disk is still there")
            }
            kind => Err(format!("a VM has no {kind}")),
        },
        Step::Change(Change::Unclaim(_) | Change::Keep(..)) => {
            law(left.is_empty(), &format!("left behind: {left:?}"))
        }
        Step::RemoveFinalizer(_) => {
            law(left.is_empty(), &format!("left behind: {left:?}"))?;
            law(!runs, "its instance is still there")?;
            law(!world.has_names(), "it still has names")
        }
        other => Err(format!("{} is no way to go", other.describe())),
    }
}

fn it_is_made_in_order(world: &World, step: &Step) -> Result<(), String> {
    if world.is_deleting() || matches!(step, Step::AddFinalizer(_)) {
        return Ok(());
    }
    let finalizers = world.object.metadata.finalizers.iter().flatten();
    law(
        finalizers
            .into_iter()
            .any(|it| it == kite_core::labels::VM_FINALIZER),
        "nothing holds it yet",
    )?;
    let Step::Change(Change::Apply(object)) = step else {
        return Ok(());
    };
    if object.kind() == "VirtualMachine" && world.seen.machine.is_none() {
        law(world.seen.key_secret.is_some(), "it has no keys")?;
        law(world.seen.cloud_init.is_some(), "it has no user data")?;
        law(world.seen.disk.is_some(), "it has no disk")?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256,
        max_global_rejects: 8192, ..ProptestConfig::default() })]

    #[test]
    fn disks_are_deleted_on_request_only((mut world, _) in world()) {
        world.to_rest(nothing_is_lost_unasked)?;
    }

    /// What was not looked at may be there, and need the disk.
    #[test]
    fn no_disk_goes_before_its_snapshots_were_looked_at((mut world, _) in world()) {
        world.seen.snapshots = None;
        world.to_rest(|world, step| {
            let Step::Change(Change::Delete(object, _)) = step else {
                return Ok(());
            };
            let has_data = matches!(object.kind(), "DataVolume" | "PersistentVolumeClaim");
            law(!(has_data && world.is_deleting()), "it is deleted unseen")
        })?;
    }

    #[test]
    fn what_belongs_to_others_is_left_alone((mut world, _) in world()) {
        world.to_rest(|world, step| {
            nothing_of_others_is_touched(world, step)?;
            nothing_of_others_is_written_to(world, step)
        })?;
    }

    #[test]
    fn no_tenant_reaches_another((mut world, _) in world()) {
        world.to_rest(no_step_leaves_the_tenant)?;
    }

    #[test]
    fn a_vm_comes_and_goes_in_order((mut world, _) in world()) {
        world.to_rest(|world, step| {
            it_is_made_in_order(world, step)?;
            it_goes_in_order(world, step)
        })?;
    }

    /// At rest the plan stays what it is: a second pass does nothing.
    #[test]
    fn a_world_at_rest_stays_at_rest((mut world, _) in world()) {
        world.to_rest(|_, _| Ok(()))?;
        if !world.gone {
            let again = world.plan();
            prop_assert!(again.steps.is_empty());
            prop_assert_eq!(again, world.plan());
        }
    }

    /// What a step did is never done again nor undone: every step brings the
    /// world nearer to what is wanted.
    #[test]
    fn no_step_is_repeated_or_undone((mut world, _) in world()) {
        let mut before = Vec::<String>::new();
        world.to_rest(|world, step| {
            let (verb, what) = match step {
                // Closed while it would lead to what is somebody else's, and opened
                // when that has gone.
                Step::Change(Change::Delete(object, _))
                    if ["Ingress", "HttpRoute"].contains(&object.kind())
                        && is_theirs(&world.seen.web_service) =>
                {
                    ("close", format!("{} {}", object.kind(), object.key()))
                }
                // Cut down to what it may have, and then made what it was granted; kept off
                // while its disk goes, and started from another.
                Step::Change(Change::Apply(AnyObject::VirtualMachine(machine))) => {
                    let domain = &machine.spec.template.spec.domain;
                    let (name, strategy) = (&machine.metadata.name, &machine.spec.run_strategy);
                    ("put", format!("{name:?} {strategy:?} with {:?} {:?}", domain.cpu, domain.memory))
                }
                // Put right, and said to have its data once that is told of.
                Step::Change(Change::Apply(AnyObject::DataVolume(disk))) => {
                    let is_said = kite_render::restore::DiskNotes::of(&disk.metadata).has_its_data;
                    ("put", format!("{:?}, filled: {is_said}", disk.metadata.name))
                }
                Step::Change(Change::Apply(object) | Change::Expose(object)) => ("put", format!("{} {}", object.kind(), object.key())),
                Step::Change(Change::Delete(object, _)) => ("take", format!("{} {}", object.kind(), object.key())),
                Step::Change(Change::Claim(claim)) => ("put", format!("claim {:?}", claim.metadata.name)),
                // Freed of the dead, and then made: never the other way.
                Step::Change(Change::Unclaim(claim) | Change::Keep(claim, _)) => {
                    ("free", format!("claim {:?}", claim.metadata.name))
                }
                Step::Change(Change::TakeBack(_, claim)) => ("put", format!("claim {:?}", claim.metadata.name)),
                other => ("do", other.describe()),
            };
            let done = format!("{verb} {what}");
            let undone = match verb {
                "put" => format!("take {what}"),
                "take" | "free" => format!("put {what}"),
                _ => String::new(),
            };
            law(!before.contains(&done), "it was done already")?;
            law(!before.contains(&undone), "it undoes an earlier step")?;
            before.push(done);
            Ok(())
        })?;
    }

    /// A crash between any two steps, and planning anew, ends where no crash
    /// would have ended.
    #[test]
    fn a_crash_at_any_step_changes_nothing(
        (mut world, _) in world(),
        crashes in proptest::collection::vec(0_usize..4, 40),
    ) {
        let mut crashing = world.clone();
        world.to_rest(|_, _| Ok(()))?;
        for after in crashes {
            let planned = crashing.plan();
            if planned.steps.is_empty() && !crashing.let_go() {
                break;
            }
            for step in planned.steps.into_iter().take(1 + after) {
                if !crashing.gone {
                    crashing.carry_out(step);
                }
            }
            if crashing.gone {
                break;
            }
        }
        if !crashing.gone {
            crashing.to_rest(|_, _| Ok(()))?;
        }
        prop_assert_eq!(crashing.gone, world.gone);
        prop_assert_eq!(crashing.plan(), world.plan());
        prop_assert_eq!(crashing.left_behind(), world.left_behind());
    }

    /// What is held and is to go goes, whatever was found, and takes all of its
    /// own with it.
    #[test]
    fn a_vm_that_is_to_go_goes_for_good((mut world, _) in world_of(Just(true).boxed(), found)) {
        let finalizers = world.object.metadata.finalizers.clone().unwrap();
        let held = finalizers.iter().any(|it| it == kite_core::labels::VM_FINALIZER);
        prop_assume!(held);
        world.to_rest(|_, _| Ok(()))?;
        prop_assert!(world.gone, "it waits for {:?}", world.plan().conditions);
        prop_assert_eq!(world.left_behind(), Vec::<&str>::new());
        let others = world.object.metadata.finalizers.clone().unwrap();
        prop_assert_eq!(others, vec!["example.org/backup".to_owned()]);
    }

    /// Where nobody is in the way, a VM that has its names and was made before
    /// has everything in the end.
    #[test]
    fn a_vm_that_was_made_is_made_whole((mut world, at) in world_of(Just(false).boxed(), found_ours)) {
        // Keys that cannot be read are for a person to look at.
        prop_assume!(at.keys != Found::Drifted);
        prop_assume!(matches!(world.seen.image, kite_reconcile::vm::ImageSeen::Found(_)));
        prop_assume!(!matches!(at.disk, Found::Not | Found::Leaving));
        // One that has lost its disk is made anew when that is asked for.
        let phase = world.seen.disk.as_ref().and_then(|it| it.status.as_ref()?.phase.as_deref());
        // Another disk's claim is collected as garbage.
        let of_disk = |owner: &OwnerReference| {
            world.seen.disk.as_ref().is_some_and(|disk| disk.metadata.uid.as_ref() == Some(&owner.uid))
        };
        let claim = world.seen.claim.iter().flat_map(|it| &it.metadata.owner_references);
        prop_assume!(phase != Some("Succeeded") || claim.flatten().any(of_disk));
        world.object.spec.expires_at = None;
        // What it was granted it keeps, however little its owner may have by now.
        let wish = Charge::from(&world.object.spec);
        let status = world.object.status.as_ref();
        let granted = status.and_then(|it| it.granted.as_ref()).map(Charge::from);
        let has_it_all = match granted {
            Some(granted) => granted.or_more(wish) == granted,
            // Made before there was such a status: it was granted what it has.
            None => at.machine.is_ours() && at.machine != Found::Leaving,
        };
        let others = world.seen.siblings.all.iter();
        let others = others.fold(Charge::default(), |all, it| all.plus(it.charge()));
        let quota = world.seen.owner.as_ref().map(|owner| Charge::from(&owner.spec.effective_quota()));
        world.to_rest(|_, _| Ok(()))?;
        prop_assume!(world.has_its_names());
        let planned = world.plan();
        let ready = planned.conditions.iter().find(|it| it.type_ == "VirtualMachineReady").unwrap();
        let seen = &world.seen;
        prop_assert!(seen.key_secret.is_some() && seen.cloud_init.is_some());
        prop_assert!(seen.disk.is_some());
        if seen.machine.is_none() {
            // It never had one, and there is no room for one.
            prop_assert!(!has_it_all);
            prop_assert!(["QuotaExceeded", "WaitingForQuota"].contains(&ready.reason.as_str()), "{:?}", ready);
            let fits = quota.is_some_and(|quota| {
                let all = others.plus(wish);
                all.cpu <= quota.cpu && all.memory <= quota.memory
            });
            prop_assert!(!fits || ready.reason == "WaitingForQuota" || !seen.siblings.all.is_empty(), "{:?}", ready);
        }
        prop_assert!(seen.access_service.is_some() && seen.web_service.is_some());
        let exposed = world.object.spec.domain_prefix.is_some() && seen.platform.base_domain.is_some();
        let by_gateway = seen.platform.exposure.gateway.is_some();
        prop_assert_eq!(seen.ingress.is_some(), exposed && !by_gateway);
        prop_assert_eq!(seen.route.is_some(), exposed && by_gateway);
    }

    #[test]
    fn the_same_world_gives_the_same_plan((world, _) in world()) {
        prop_assert_eq!(world.plan(), world.plan());
    }

    /// Whoever has lost a name to somebody who lives makes nothing.
    #[test]
    fn a_loser_makes_nothing((mut world, _) in world_of(Just(false).boxed(), || Just(Found::Not).boxed())) {
        for claim in &mut world.seen.claims.wanted {
            let mut reservation = claim.wanted.clone();
            reservation.spec.holder = other_holder(true);
            claim.state = ClaimState::Held { reservation, alive: true, user_uid: None };
        }
        world.seen.claim = None;
        world.object.spec.expires_at = None;
        let done = world.to_rest(|_, _| Ok(()))?;
        prop_assert!(
            done.iter().all(|step| matches!(step, Step::AddFinalizer(_) | Step::Change(Change::Keep(..)))),
            "{:?}", done
        );
        prop_assert!(world.plan().status.access.is_none());
    }

    #[test]
    fn whoever_is_let_in_has_the_name((world, _) in world()) {
        if world.plan().status.access.is_some() {
            prop_assert!(world.seen.claims.wanted[0].is_mine());
            prop_assert!(!world.is_deleting());
        }
    }
}

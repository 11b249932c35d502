//! Laws for the plans of users.

use kite_core::{crd::HolderKind, labels};
use kite_reconcile::{
    claims::WantedClaim,
    plan::{Change, Step},
};
use proptest::prelude::*;

use crate::{
    found::{BOB, Found, found, found_ours, is_foreign},
    users::{ANN, World, world, world_of},
};

fn law(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

fn nothing_is_lost_unasked(world: &World, step: &Step) -> Result<(), String> {
    law(
        world.is_deleting()
            || !matches!(
                step,
                Step::Change(Change::Delete(..)) | Step::RemoveFinalizer(_)
            ),
        "nobody has asked for it",
    )
}

fn no_step_leaves_the_tenant(world: &World, step: &Step) -> Result<(), String> {
    match step {
        Step::Change(Change::Apply(object) | Change::Delete(object, _)) => {
            let key = object.key();
            let home = if object.kind() == "Namespace" {
                &key.name
            } else {
                key.namespace.as_ref().unwrap()
            };
            law(home == ANN, "it lies elsewhere")?;
            law(
                !format!("{object:?}").contains(BOB),
                "it speaks of another tenant",
            )?;
            // Whatever lies in somebody else's namespace is somebody else's.
            let theirs = world
                .seen
                .namespace
                .as_ref()
                .and_then(|it| it.metadata.uid.as_deref())
                .is_some_and(|uid| uid.starts_with("theirs-"));
            law(!theirs, "the namespace is somebody else's")
        }
        Step::Change(Change::Claim(claim)) => {
            let holder = &claim.spec.holder;
            law(
                holder.uid == "uid-ann" && holder.kind == HolderKind::KiteUser,
                "for another",
            )
        }
        Step::Change(Change::Unclaim(claim)) => {
            law(claim.spec.holder.uid != "uid-alive", "its holder lives")
        }
        _ => Ok(()),
    }
}

/// VMs first, each by its own reconciler, while the network policies stand; then the
/// namespace; then the names; the finalizer last.
fn it_goes_in_order(world: &World, step: &Step) -> Result<(), String> {
    if !world.is_deleting() {
        return Ok(());
    }
    let seen = &world.seen;
    if let Step::Change(Change::RemoveFinalizerFrom(object, _)) = step {
        law(
            object.metadata().deletion_timestamp.is_some(),
            "nobody deleted it",
        )?;
        law(!seen.has_machines, "there are machines behind it")?;
        let namespace = seen.namespace.as_ref();
        let is_leaving = namespace.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
        return law(is_leaving, "the namespace stays");
    }
    let has_namespace = seen.namespace.as_ref().is_some_and(|it| {
        it.metadata
            .uid
            .as_deref()
            .is_none_or(|uid| uid.starts_with("ours-"))
    });
    match step {
        Step::Change(Change::Delete(object, _)) => match object.kind() {
            "KiteVirtualMachine" => law(
                object.metadata().deletion_timestamp.is_none(),
                "it is going already",
            ),
            "Namespace" => {
                law(!is_foreign(object), "it is somebody else's")?;
                law(seen.vms.is_empty(), "there are VMs in it")
            }
            kind => Err(format!("a {kind} goes with its namespace")),
        },
        // No VM comes any more, and the network policies are kept up.
        Step::Change(Change::Apply(object))
            if ["ResourceQuota", "NetworkPolicy"].contains(&object.kind()) =>
        {
            law(has_namespace, "there is no namespace to close")
        }
        // That nothing is in it that is to be kept.
        Step::Change(Change::Apply(object)) if object.kind() == "Namespace" => {
            let metadata = object.metadata();
            let marks = metadata.annotations.iter().flatten();
            let is_noted = marks.map(|(key, _)| key).any(|it| it == labels::EMPTIED);
            law(is_noted && !is_foreign(object), "it is made anew")?;
            law(seen.vms.is_empty(), "there are VMs in it")?;
            law(seen.volumes.is_empty(), "there are volumes in it")
        }
        Step::Change(Change::Unclaim(_)) => law(!has_namespace, "the namespace is still there"),
        Step::RemoveFinalizer(_) => {
            law(!has_namespace, "the namespace is still there")?;
            let claims = &seen.claims;
            let has_names =
                !claims.stale.is_empty() || claims.wanted.iter().any(WantedClaim::is_mine);
            law(!has_names, "the user still has names")
        }
        other => Err(format!("{} is no way to go", other.describe())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, max_global_rejects: 8192, ..ProptestConfig::default() })]

    #[test]
    fn vms_and_namespaces_are_deleted_on_request_only((mut world, _) in world()) {
        world.to_rest(nothing_is_lost_unasked)?;
    }

    #[test]
    fn no_tenant_reaches_another((mut world, _) in world()) {
        world.to_rest(no_step_leaves_the_tenant)?;
    }

    #[test]
    fn vms_go_first_and_network_policies_last((mut world, _) in world()) {
        world.to_rest(it_goes_in_order)?;
    }

    #[test]
    fn no_step_is_repeated((mut world, _) in world()) {
        let mut before = Vec::new();
        world.to_rest(|_, step| {
            law(!before.contains(&step.describe()), "it was done already")?;
            // What is let go is made anew, if the user stays.
            if let Step::Change(Change::RemoveFinalizerFrom(object, _)) = step {
                let made = Step::Change(Change::Apply(object.clone())).describe();
                before.retain(|done| *done != made);
            }
            before.push(step.describe());
            Ok(())
        })?;
    }

    /// Nobody is told of a namespace before its network policies and its quota stand.
    #[test]
    fn a_namespace_is_named_when_its_network_policies_stand(
        (mut world, _) in world_of(Just(false).boxed(), found()),
    ) {
        loop {
            let planned = world.plan();
            if planned.status.namespace.is_some() {
                prop_assert!(planned.steps.is_empty(), "{:?}", planned.steps);
                prop_assert!(world.seen.quota.is_some());
                prop_assert!(world.seen.policies.len() >= 3);
                break;
            }
            let done = world.to_rest(|_, _| Ok(()))?;
            if done.is_empty() {
                break;
            }
        }
    }

    /// Where nobody is in the way, a user who has the name and the address has
    /// everything in the end: what is found is never a reason to stop half-way.
    #[test]
    fn a_user_who_is_welcome_has_everything(
        (mut world, _) in world_of(Just(false).boxed(), found_ours()),
    ) {
        world.to_rest(|_, _| Ok(()))?;
        prop_assume!(world.seen.claims.wanted.iter().all(WantedClaim::is_mine));
        let planned = world.plan();
        prop_assert_eq!(planned.status.namespace.as_deref(), Some(ANN));
        prop_assert!(world.seen.namespace.is_some() && world.seen.quota.is_some());
        let user = kite_render::User::of(&world.object).unwrap();
        for policy in kite_render::isolation::policies(
            &user,
            &kite_reconcile::Settings::default().isolation,
            &world.seen.image_namespaces,
        ) {
            let stands = world.seen.policies.iter().find(|it| it.metadata.name == policy.metadata.name);
            prop_assert_eq!(stands.and_then(|it| it.spec.as_ref()), policy.spec.as_ref());
        }
    }

    /// What is deleted of the network policies of a user who stays falls when there are no machines
    /// behind it, and is made anew at once unless the namespace goes.
    #[test]
    fn network_policies_that_fall_are_made_anew(
        (mut world, _) in world_of(Just(false).boxed(), found()),
    ) {
        world.to_rest(|world, step| {
            let Step::Change(Change::RemoveFinalizerFrom(object, _)) = step else { return Ok(()) };
            law(object.metadata().deletion_timestamp.is_some(), "nobody deleted it")?;
            let seen = &world.seen;
            let namespace = seen.namespace.as_ref();
            law(!seen.has_machines, "there are machines behind it")?;
            if namespace.is_none_or(|it| it.metadata.deletion_timestamp.is_some()) {
                return Ok(());
            }
            let mut after = world.clone();
            after.carry_out(step.clone());
            let is_next = |next: &Step| matches!(next, Step::Change(Change::Apply(next)) if next.key() == object.key());
            law(after.plan().steps.iter().any(is_next), "it is not made anew")
        })?;
    }

    #[test]
    fn a_user_who_is_to_go_goes_for_good(
        (mut world, of_namespace) in world_of(Just(true).boxed(), found()),
    ) {
        let finalizers = world.object.metadata.finalizers.clone().unwrap();
        prop_assume!(finalizers.iter().any(|it| it == labels::USER_FINALIZER));
        world.to_rest(|_, _| Ok(()))?;
        prop_assert!(world.gone);
        let namespace_left = world.seen.namespace.is_some();
        prop_assert!(!(namespace_left && of_namespace.is_ours()));
        let others = world.object.metadata.finalizers.clone().unwrap();
        prop_assert_eq!(others, vec!["example.org/backup".to_owned()]);
    }

    #[test]
    fn nothing_is_made_for_one_without_the_name(
        (mut world, _) in world_of(Just(false).boxed(), Just(Found::Not).boxed()),
    ) {
        let lost = world.seen.claims.wanted.iter().any(|claim| {
            matches!(claim.state, kite_reconcile::claims::ClaimState::Held { alive: true, .. })
        });
        prop_assume!(lost);
        let done = world.to_rest(|_, _| Ok(()))?;
        prop_assert!(done.iter().all(|step| !matches!(step, Step::Change(Change::Apply(_)))), "{:?}", done);
    }
}

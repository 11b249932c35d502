//! Whom a reservation concerns.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Mutex, PoisonError},
};

use kite_core::{
    cluster::Object,
    crd::{Claim, KiteReservation, KiteUser, KiteVirtualMachine},
    names::{self, VmClaim},
};
use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};

use super::{has_disk, select};

/// Tells claims that stand from those that may be free. As long as a reservation is
/// there as it was, and its holder, it concerns nobody else; when one of them is gone, or
/// the claim was given back, all who want it are worth a look.
#[derive(Default)]
pub(super) struct Claims {
    /// Reservations that were heard of: hashes of their uids, and of their
    /// versions. A listener that does not mark what is gone shows it at least in
    /// another version.
    known: Mutex<HashMap<u64, u64>>,
    hasher: RandomState,
}

impl Claims {
    /// The objects that `claim` concerns, of which `wants` picks those that want
    /// the same.
    fn concerned<K: Object>(
        &self,
        claim: &KiteReservation,
        store: &Store<K>,
        wants: impl Fn(&K) -> bool,
    ) -> Vec<ObjectRef<K>> {
        let holder = &claim.spec.holder;
        let mut reference = ObjectRef::<K>::new(&holder.name);
        reference.namespace.clone_from(&holder.namespace);
        let is_held = store
            .get(&reference)
            .is_some_and(|held_by| held_by.meta().uid.as_ref() == Some(&holder.uid));
        // What is kept is given back, and concerns whoever wants it.
        if self.stands(claim) && is_held && claim.spec.kept.is_none() {
            return vec![reference];
        }
        select(store, wants)
    }

    /// Whether the reservation is there, as far as can be told.
    fn stands(&self, claim: &KiteReservation) -> bool {
        let metadata = &claim.metadata;
        let id = self.hasher.hash_one(&metadata.uid);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if metadata.deletion_timestamp.is_some() {
            known.remove(&id);
            return false;
        }
        let version = self.hasher.hash_one(&metadata.resource_version);
        let before = known.insert(id, version);
        before.is_none_or(|before| before == version)
    }
}

/// The VMs that `claim` concerns: when it goes, one that wants the same may have
/// it.
pub(super) fn claimants(
    claims: &Claims,
    vms: &Store<KiteVirtualMachine>,
    claim: &KiteReservation,
) -> Vec<ObjectRef<KiteVirtualMachine>> {
    let name = claim.name_any();
    match names::vm_claim_of_reservation(&name) {
        Some(VmClaim::SshId(ssh_id)) => claims.concerned(claim, vms, |vm| vm.spec.ssh_id == ssh_id),
        Some(VmClaim::Domain(prefix)) => claims.concerned(claim, vms, |vm| {
            vm.spec.domain_prefix.as_deref() == Some(prefix)
        }),
        Some(VmClaim::Offer(offer)) => claims.concerned(claim, vms, |vm| {
            vm.spec.offer.as_deref() == Some(offer) && !has_disk(vm)
        }),
        Some(VmClaim::Volume { namespace, volume }) => claims.concerned(claim, vms, |vm| {
            vm.metadata.namespace.as_deref() == Some(namespace) && lists(vm, volume)
        }),
        None => Vec::new(),
    }
}

/// Whether the VM is to have the volume of this name beside it.
pub(super) fn lists(vm: &KiteVirtualMachine, volume: &str) -> bool {
    vm.spec.volumes.iter().any(|it| it.volume == volume)
}

/// The users that `claim` concerns.
pub(super) fn namesakes(
    claims: &Claims,
    users: &Store<KiteUser>,
    claim: &KiteReservation,
) -> Vec<ObjectRef<KiteUser>> {
    let name = claim.name_any();
    match claim.spec.claim {
        Claim::Username => claims.concerned(claim, users, |user| {
            names::username_reservation(&user.spec.username) == name
        }),
        Claim::Email => claims.concerned(claim, users, |user| {
            let email = user.spec.email.as_deref();
            email.is_some_and(|email| names::email_reservation(email) == name)
        }),
        Claim::Identity => claims.concerned(claim, users, |user| {
            let mut identities = user.spec.identities.iter();
            identities.any(|identity| identity.reservation() == name)
        }),
        Claim::SshId | Claim::Domain | Claim::Offer | Claim::Volume => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kite_core::crd::{Holder, HolderKind, Kept, KiteReservationSpec, KiteVirtualMachineSpec};
    use kube::runtime::{reflector, watcher};

    use super::*;

    fn vm(name: &str) -> KiteVirtualMachine {
        let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
        let spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "web");
        let mut vm = KiteVirtualMachine::new(name, spec);
        vm.metadata.namespace = Some("dev".to_owned());
        vm.metadata.uid = Some(format!("uid-of-{name}"));
        vm
    }

    fn claim_of(vm: &KiteVirtualMachine) -> KiteReservation {
        let holder = Holder {
            kind: HolderKind::KiteVirtualMachine,
            namespace: vm.namespace(),
            name: vm.name_any(),
            uid: vm.uid().unwrap(),
        };
        let claim = Claim::SshId;
        let mut reservation = KiteReservation::new(
            &names::ssh_id_reservation("web"),
            KiteReservationSpec::new(claim, holder),
        );
        reservation.metadata.uid = Some("uid-of-the-claim".to_owned());
        reservation
    }

    fn names(found: Vec<ObjectRef<KiteVirtualMachine>>) -> Vec<String> {
        let mut names: Vec<String> = found.into_iter().map(|vm| vm.name).collect();
        names.sort();
        names
    }

    fn gone(mut claim: KiteReservation) -> KiteReservation {
        claim.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        claim
    }

    #[test]
    fn a_claim_concerns_its_holder_while_it_stands_and_everybody_when_it_goes() {
        let (vms, mut writer) = reflector::store();
        let (first, second) = (vm("first"), vm("second"));
        for vm in [&first, &second] {
            writer.apply_watcher_event(&watcher::Event::Apply(vm.clone()));
        }
        let claims = Claims::default();
        let mut claim = claim_of(&first);
        claim.metadata.resource_version = Some("7".to_owned());
        let concerned = |claim: &KiteReservation| names(claimants(&claims, &vms, claim));
        assert_eq!(concerned(&claim), ["first"], "made");
        assert_eq!(concerned(&claim), ["first"], "listed again");
        // Released, though its holder lives on.
        assert_eq!(concerned(&gone(claim.clone())), ["first", "second"]);
        assert!(claims.known.lock().unwrap().is_empty());
        // A listener that does not mark it has it in another version at least.
        assert_eq!(concerned(&claim), ["first"]);
        claim.metadata.resource_version = Some("8".to_owned());
        assert_eq!(concerned(&claim), ["first", "second"]);
        // Whatever is heard of the claim of one that is gone.
        writer.apply_watcher_event(&watcher::Event::Delete(first));
        assert_eq!(concerned(&claim), ["second"]);
        assert_eq!(concerned(&claim), ["second"]);
    }

    #[test]
    fn a_release_is_heard_though_the_claims_were_listed_before_the_vms() {
        let (vms, mut writer) = reflector::store();
        let (first, second) = (vm("first"), vm("second"));
        let (claims, claim) = (Claims::default(), claim_of(&first));
        for _ in 0..2 {
            assert!(claimants(&claims, &vms, &claim).is_empty());
        }
        for vm in [first, second] {
            writer.apply_watcher_event(&watcher::Event::Apply(vm));
        }
        let woken = names(claimants(&claims, &vms, &gone(claim)));
        assert_eq!(woken, ["first", "second"]);
    }

    #[test]
    fn a_release_is_heard_though_the_claim_was_not() {
        let (vms, mut writer) = reflector::store();
        for name in ["first", "second"] {
            writer.apply_watcher_event(&watcher::Event::Apply(vm(name)));
        }
        let claim = gone(claim_of(&vm("first")));
        let woken = names(claimants(&Claims::default(), &vms, &claim));
        assert_eq!(woken, ["first", "second"]);
    }

    #[test]
    fn a_claim_that_is_kept_concerns_everybody_though_its_holder_is_still_there() {
        let (vms, mut writer) = reflector::store();
        let (first, second) = (vm("first"), vm("second"));
        let mut claim = claim_of(&first);
        for vm in [first, second] {
            writer.apply_watcher_event(&watcher::Event::Apply(vm));
        }
        claim.spec.kept = Some(Kept {
            until: Time(jiff::Timestamp::MAX),
            user_uid: None,
        });
        // Heard of for the first time, as after a restart.
        let woken = names(claimants(&Claims::default(), &vms, &claim));
        assert_eq!(woken, ["first", "second"]);
    }

    #[test]
    fn users_do_not_hear_of_claims_of_vms() {
        let (users, _writer) = reflector::store();
        let claims = Claims::default();
        assert!(namesakes(&claims, &users, &claim_of(&vm("first"))).is_empty());
        assert!(claims.known.lock().unwrap().is_empty());
    }
}

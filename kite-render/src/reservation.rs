//! Reservations: objects whose name is a claim of which there can be one.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kite_core::{
    crd::{Claim, KiteReservation, KiteReservationSpec, KiteVirtualMachineOffer},
    labels, names,
};
use kube::{Resource as _, ResourceExt as _};

use crate::{User, Vm};

/// The claims of a VM: its login name, its domain if it has one, and its volumes. A VM
/// cannot own a cluster-scoped object, so its finalizer releases them.
pub fn of_vm(vm: &Vm<'_>) -> Vec<KiteReservation> {
    let spec = &vm.object.spec;
    let claim = |name, claim| KiteReservation {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels::for_vm(vm.namespace, vm.name)),
            ..ObjectMeta::default()
        },
        spec: KiteReservationSpec::new(claim, vm.holder()),
    };
    let ssh_id = claim(names::ssh_id_reservation(&spec.ssh_id), Claim::SshId);
    let domain = spec
        .domain_prefix
        .as_deref()
        .map(|prefix| claim(names::domain_reservation(prefix), Claim::Domain));
    // In one order for all VMs: of two that want the same, one gets all of it.
    let volumes: BTreeSet<_> = spec.volumes.iter().map(|it| &*it.volume).collect();
    let volumes = volumes.into_iter().map(|it| {
        let name = names::volume_reservation(vm.namespace, it);
        claim(name, Claim::Volume)
    });
    [ssh_id].into_iter().chain(domain).chain(volumes).collect()
}

/// The claim of a VM to the offer that it is made from. It belongs to the offer
/// and goes with it: once the VM is made it outlasts the VM, so that an offer is
/// used once.
pub fn of_offer(vm: &Vm<'_>, offer: &KiteVirtualMachineOffer) -> KiteReservation {
    KiteReservation {
        metadata: ObjectMeta {
            name: Some(names::offer_reservation(&offer.name_any())),
            labels: Some(labels::for_vm(vm.namespace, vm.name)),
            owner_references: offer.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: KiteReservationSpec::new(Claim::Offer, vm.holder()),
    }
}

/// The claims of a user: the username, the email address if there is one, and who
/// the user is at OpenID Connect providers.
/// They are released by the user's finalizer, not by garbage collection, so
/// that a name is free only once everything of its last bearer is gone.
pub fn of_user(user: &User<'_>) -> Vec<KiteReservation> {
    let spec = &user.object.spec;
    let claim = |name, claim| KiteReservation {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels::for_user(user.name)),
            ..ObjectMeta::default()
        },
        spec: KiteReservationSpec::new(claim, user.holder()),
    };
    let username = claim(names::username_reservation(&spec.username), Claim::Username);
    let email = spec
        .email
        .as_deref()
        .map(|email| claim(names::email_reservation(email), Claim::Email));
    let identities = spec
        .identities
        .iter()
        .map(|identity| claim(identity.reservation(), Claim::Identity));
    [username]
        .into_iter()
        .chain(email)
        .chain(identities)
        .collect()
}

//! What came of a change, in what was seen.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    crd::{Claim, KiteVirtualMachine},
};
use kite_render::Vm;
use kube::ResourceExt as _;

use super::{
    data::{Found, is_named},
    disks::{Known, View},
    observe::Observed,
};
use crate::{
    objects::AnyObject,
    plan::{Outcome, Refusal},
};

impl Observed {
    /// Takes in what was refused a while ago.
    pub(super) fn recall(&mut self, refusal: Refusal) {
        self.refused.retain(|it| it.of != refusal.of);
        self.refused.push(refusal);
    }

    /// Takes in what came of a change for the VM.
    pub fn absorb(&mut self, object: &KiteVirtualMachine, outcome: Outcome) {
        let (made, is_gone) = match outcome {
            Outcome::Claimed(claim, state) => {
                return match &mut self.offer {
                    Some(offer) if claim.spec.claim == Claim::Offer => offer.absorb(*state),
                    _ => {
                        super::volumes::claimed(self, &claim);
                        self.claims.absorb(&claim, *state);
                    }
                };
            }
            Outcome::RestartAsked => {
                self.restart_asked = true;
                return;
            }
            Outcome::Refused(refusal) => {
                self.recall(refusal);
                return;
            }
            Outcome::Stored(object) => (object, false),
            Outcome::Gone(object) => (object, true),
            Outcome::Froze | Outcome::Thawed => return,
        };
        match made {
            AnyObject::VirtualMachineInstanceMigration(order) => {
                if let Some(moves) = &mut self.moves {
                    moves.absorb(*order, is_gone);
                }
            }
            AnyObject::KiteSnapshot(snapshot) => {
                let uid = snapshot.metadata.uid.clone();
                let all = self.snapshots.get_or_insert_default();
                all.retain(|it| it.metadata.uid != uid);
                if !is_gone {
                    all.push(*snapshot);
                }
            }
            AnyObject::DataVolume(disk) => self.take_disk(object, *disk, is_gone),
            AnyObject::PersistentVolumeClaim(claim) => self.take_claim(object, *claim, is_gone),
            made => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                self.made.take(name, made, is_gone);
                if let Ok(vm) = Vm::of(object) {
                    self.choose(&vm);
                }
            }
        }
    }

    fn take_claim(
        &mut self,
        object: &KiteVirtualMachine,
        claim: PersistentVolumeClaim,
        is_gone: bool,
    ) {
        let Ok(vm) = Vm::of(object) else {
            return;
        };
        let claims = &mut self.disks.claims;
        claims.extend(self.claim.take());
        claims.retain(|it| it.name_any() != claim.name_any());
        if !is_gone && is_named(&vm, &claim) {
            claims.push(claim);
        }
        self.choose(&vm);
    }

    fn take_disk(&mut self, object: &KiteVirtualMachine, disk: DataVolume, is_gone: bool) {
        let Ok(vm) = Vm::of(object) else {
            return;
        };
        self.disks.others.extend(self.disk.take());
        self.disks
            .others
            .retain(|it| it.name_any() != disk.name_any());
        if !is_gone && is_named(&vm, &disk) {
            self.disks.others.push(disk);
        }
        self.choose(&vm);
    }

    /// Puts the disk that counts in its place, out of all.
    fn choose(&mut self, vm: &Vm<'_>) {
        let name = View::of(vm, Known::of(self)).current();
        let mut all = std::mem::take(&mut self.disks);
        all.others.extend(self.disk.take());
        all.claims.extend(self.claim.take());
        let found = Found::of(&name, all);
        (self.disk, self.claim, self.disks) = (found.disk, found.claim, found.disks);
    }
}

//! What the controller of volumes hears of.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    crd::{KiteReservation, KiteUser, KiteVolume},
    names::{self, VmClaim},
};
use kube::{ResourceExt as _, runtime::reflector::ObjectRef};

use super::{Listener, edits::Edits, everything, managed, owners::volume_of, select};

/// All that the controller of volumes hears of.
pub fn volumes<L: Listener<KiteVolume>>(listener: L) -> L {
    listener
        .on(managed(), || |o: &DataVolume, _: &_| volume_of(o))
        .on(managed(), || {
            |o: &PersistentVolumeClaim, _: &_| volume_of(o)
        })
        .on(managed(), || {
            |claim: &KiteReservation, _: &_| {
                // Which VM has it.
                let name = claim.name_any();
                match names::vm_claim_of_reservation(&name) {
                    Some(VmClaim::Volume { namespace, volume }) => {
                        vec![ObjectRef::new(volume).within(namespace)]
                    }
                    _ => Vec::new(),
                }
            }
        })
        .on(everything(), || {
            let edits = Edits::default();
            move |user: &KiteUser, all: &_| {
                // How large the quota is.
                if !edits.is_one(user, ()) {
                    return Vec::new();
                }
                let namespace = Some(names::user_namespace(&user.name_any()));
                select(all, |it: &KiteVolume| it.metadata.namespace == namespace)
            }
        })
}

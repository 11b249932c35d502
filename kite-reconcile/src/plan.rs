//! What a reconciler decides: steps to carry out, and the status to report.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cluster::ObjectKey,
    crd::{Claim, KiteReservation, KiteSnapshot},
    kubevirt::VirtualMachineInstanceMigration,
};
use kube::api::PropagationPolicy;

pub use kite_runtime::plan::Refusal;

use crate::{claim_state::ClaimState, objects::AnyObject};

/// What there is to do, and the status to report.
pub type Plan<S> = kite_runtime::plan::Plan<S, Change>;

/// One step of a plan.
pub type Step = kite_runtime::plan::Step<Change>;

/// One change to the cluster, beside those of the reconciled object itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Make a claim; whether it was won is seen when planning again.
    Claim(KiteReservation),
    /// Remove a claim: one's own, or one whose holder is gone.
    Unclaim(KiteReservation),
    /// Give a claim back in the same way, but keep it for the user of this uid.
    Keep(KiteReservation, Option<String>),
    /// Take back the first, which is kept for the owner of the reconciled object, as the
    /// second has it.
    TakeBack(Box<KiteReservation>, Box<KiteReservation>),
    /// Have a claim say that its holder got what it stands for.
    Fulfil(KiteReservation),
    /// Make the key Secret of a VM, unless there is one. The object has
    /// everything but the keys.
    CreateKeys(Box<k8s_openapi::api::core::v1::Secret>),
    /// Server-side apply. A uid in the metadata names the object that it is for,
    /// and [`ABSENT`](kite_core::cluster::ABSENT) as its resourceVersion says that
    /// there must be none yet; so with the other two that apply.
    Apply(AnyObject),
    /// Server-side apply of a claim with its new size. When the API server
    /// refuses (storage that cannot grow, a quota), that is told, and the rest
    /// goes on.
    Grow(Box<PersistentVolumeClaim>),
    /// Server-side apply of what exposes a VM. When the API server refuses (a
    /// policy, a cluster without such a kind), that is told, and the rest goes on.
    Expose(AnyObject),
    /// Write the status of this plan, on the condition that the object is unchanged
    /// since it was read, and then restart the VM, if the instance of this uid is
    /// still the one that runs. The only step of its plan.
    Restart {
        /// Namespace and name of the `VirtualMachine`.
        machine: ObjectKey,
        /// Uid of the instance that is to end.
        instance: String,
    },
    /// Have an instance moved to another launcher, unless that was ordered already: there
    /// is one order of a name. When the API server or `KubeVirt` refuses, that is told,
    /// and the rest goes on.
    Move(Box<VirtualMachineInstanceMigration>),
    /// Take back an order to move an instance that has not begun, on the condition that it
    /// has not since; why is told, and the next one is given a while later.
    CallOff(Box<VirtualMachineInstanceMigration>, String),
    /// Server-side apply of a snapshot by a schedule, of the request to storage for one, or of a
    /// disk for a restore, of which there is none yet. When the API server refuses (a quota, a
    /// policy), that is told, and the rest goes on.
    Take(AnyObject),
    /// Have the guest of the instance of this uid frozen, if it is still the one that runs.
    /// What is refused is told, and the rest goes on.
    Freeze {
        /// Namespace and name of the instance.
        instance: ObjectKey,
        /// Its uid.
        uid: String,
        /// When it goes on by itself at the latest.
        limit: Duration,
    },
    /// Have the guest of the instance of this uid go on, if it is still the one that runs.
    Thaw {
        /// Namespace and name of the instance.
        instance: ObjectKey,
        /// Its uid.
        uid: String,
    },
    /// Delete the object as it was observed: this uid and no other.
    Delete(AnyObject, PropagationPolicy),
    /// Delete the object on the condition that it is unchanged since it was read: what
    /// has come of it meanwhile may be worth something.
    DeleteUnchanged(AnyObject),
    /// The same of a snapshot that is too old. When the API server refuses (a policy), that is
    /// told, and the rest goes on.
    Clear(Box<KiteSnapshot>),
    /// Take the finalizer off an object that is on its way out, as it was observed:
    /// nothing needs it any more.
    RemoveFinalizerFrom(AnyObject, &'static str),
}

impl kite_runtime::plan::Change for Change {
    fn is_destructive(&self) -> bool {
        match self {
            Self::Unclaim(_)
            | Self::Keep(..)
            // Who the owner is must be true and not old, too.
            | Self::TakeBack(..)
            | Self::Restart { .. }
            | Self::RemoveFinalizerFrom(..)
            | Self::CallOff(..)
            | Self::DeleteUnchanged(_)
            | Self::Clear(_)
            | Self::Delete(..) => true,
            Self::Claim(_)
            | Self::Fulfil(_)
            | Self::CreateKeys(_)
            | Self::Apply(_)
            | Self::Expose(_)
            | Self::Move(_)
            | Self::Take(_)
            | Self::Freeze { .. }
            | Self::Thaw { .. }
            | Self::Grow(_) => false,
        }
    }

    fn may_be_contested(&self) -> bool {
        matches!(
            self,
            Self::Apply(_) | Self::Expose(_) | Self::Grow(_) | Self::Take(_)
        )
    }

    fn is_told_first(&self) -> bool {
        matches!(self, Self::Restart { .. })
    }

    fn stands_by_itself(&self, of: &str) -> bool {
        match self {
            Self::Delete(what, _) => {
                let mut owners = what.metadata().owner_references.iter().flatten();
                owners.any(|owner| owner.controller == Some(true) && owner.uid == of)
            }
            // Whether an offer was had is told by the object's status.
            Self::Unclaim(claim) | Self::Keep(claim, _) => {
                claim.spec.claim != Claim::Offer && claim.spec.holder.uid == of
            }
            _ => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Claim(claim) => format!("claim {}", name(claim)),
            Self::Unclaim(claim) => format!("release {}", name(claim)),
            Self::Keep(claim, _) => format!("give back {}", name(claim)),
            Self::TakeBack(claim, _) => format!("take back {}", name(claim)),
            Self::Fulfil(claim) => format!("fulfil {}", name(claim)),
            Self::CreateKeys(secret) => {
                format!(
                    "create keys {}",
                    secret.metadata.name.as_deref().unwrap_or_default()
                )
            }
            Self::Grow(claim) => {
                format!(
                    "grow claim {}",
                    claim.metadata.name.as_deref().unwrap_or_default()
                )
            }
            Self::Restart { machine, .. } => format!("restart VirtualMachine {machine}"),
            Self::Clear(snapshot) => {
                let name = snapshot.metadata.name.as_deref();
                format!("clear away snapshot {}", name.unwrap_or_default())
            }
            Self::Take(object) => format!("take {} {}", object.kind(), object.key()),
            Self::Freeze { instance, .. } => format!("freeze the guest of {instance}"),
            Self::Thaw { instance, .. } => format!("let the guest of {instance} go on"),
            Self::Move(order) => format!("move {}", order.spec.vmi_name),
            Self::CallOff(order, _) => format!("call off the move of {}", order.spec.vmi_name),
            Self::Expose(object) => format!("expose by {} {}", object.kind(), object.key()),
            Self::Apply(object) => format!("apply {} {}", object.kind(), object.key()),
            Self::Delete(object, _) | Self::DeleteUnchanged(object) => {
                format!("delete {} {}", object.kind(), object.key())
            }
            Self::RemoveFinalizerFrom(object, _) => {
                format!("remove a finalizer of {} {}", object.kind(), object.key())
            }
        }
    }
}

fn name(claim: &KiteReservation) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

/// What came of a step, to be taken into what was observed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The object is in the cluster like this now.
    Stored(AnyObject),
    /// The object is gone.
    Gone(AnyObject),
    /// Something is not done for now, and the rest goes on.
    Refused(Refusal),
    /// The VM's restart was asked for.
    RestartAsked,
    /// The guest was asked to freeze, and has said that it does.
    Froze,
    /// The guest goes on, or is gone.
    Thawed,
    /// The claim stands like this now.
    Claimed(Box<KiteReservation>, Box<ClaimState>),
}

impl Outcome {
    pub(crate) fn claimed(claim: &KiteReservation, state: ClaimState) -> Self {
        Self::Claimed(Box::new(claim.clone()), Box::new(state))
    }
}

/// What is left of an object that should go.
pub(crate) fn left_of(object: &AnyObject, left: Option<AnyObject>) -> Outcome {
    match left {
        Some(left) => Outcome::Stored(left),
        None => Outcome::Gone(object.clone()),
    }
}

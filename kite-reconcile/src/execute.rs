//! Carries the changes of a plan out, one request or two for each.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, FieldManager, Object, ObjectKey},
    crd::{KEPT_FOR, Kept, KiteReservation, KiteSnapshot},
    kubevirt::{self, VirtualMachine, VirtualMachineInstance},
};
use kube::{
    ResourceExt as _,
    api::{ObjectMeta, PropagationPolicy},
};

use kite_runtime::{
    events::EventRecord,
    plan::{Done, Executor, PlanError as _},
};

use crate::{
    Error,
    cache::{
        reading::{going, seeing_off},
        uncached,
    },
    claims::{self, ClaimState},
    context::Tools,
    ending::goes_with_namespace,
    freezing, kept,
    keys::KeySource,
    moves,
    objects::AnyObject,
    plan::{Change, Outcome, left_of},
    refused::Refused,
    story::story,
};

/// Gives a name back, which is kept for the user of this uid, as far as there is room.
async fn keep<C: Cluster>(
    claim: &KiteReservation,
    user_uid: Option<String>,
    cluster: &C,
    tools: Tools<'_>,
) -> Result<ClaimState, Error> {
    if kept::is_full(cluster, claim, user_uid.as_deref()).await? {
        // Another VM of the owner's may have taken it back meanwhile, and it is the same object.
        let deleted = cluster.delete_unchanged(claim, PropagationPolicy::Background);
        return match deleted.await {
            Ok(()) | Err(ClusterError::NotFound { .. }) => Ok(ClaimState::Free),
            Err(error) => Err(error.into()),
        };
    }
    let over = (tools.clock)().saturating_add(KEPT_FOR);
    let over = over.unwrap_or(Timestamp::MAX);
    // No finer than other times of the API.
    let until = Timestamp::from_second(over.as_second()).unwrap_or(over);
    let kept = Kept {
        until: Time(until),
        user_uid,
    };
    let state = claims::keep(cluster, tools.settings.manager, claim, kept).await?;
    if matches!(&state, ClaimState::Kept(claim) if claim.spec.kept.is_none()) {
        return Err(outdated_crd("spec.kept"));
    }
    Ok(state)
}

/// Notes that what an offer stands for was had.
async fn fulfil<C: Cluster>(
    claim: &KiteReservation,
    cluster: &C,
    manager: FieldManager,
) -> Result<ClaimState, Error> {
    let state = claims::fulfil(cluster, manager, claim).await?;
    // A CRD that does not know the field has it dropped.
    if matches!(&state, ClaimState::Mine(claim) if !claim.spec.fulfilled) {
        return Err(outdated_crd("spec.fulfilled"));
    }
    Ok(state)
}

/// Has a disk's claim grow for the object of `meta`, which may be refused.
async fn grow<C: Cluster>(
    claim: &PersistentVolumeClaim,
    meta: &ObjectMeta,
    cluster: &C,
    tools: Tools<'_>,
) -> Result<Done<Outcome>, Error> {
    let grown = cluster.apply(tools.settings.manager, claim).await;
    match grown {
        Ok(grown) => Ok(Outcome::Stored(grown.into()).into()),
        Err(error) => told(Refused::Growth, error, meta, tools),
    }
}

/// What was refused to the object of `meta`, which is told; any other error is one.
fn told(
    what: Refused,
    error: ClusterError,
    meta: &ObjectMeta,
    tools: Tools<'_>,
) -> Result<Done<Outcome>, Error> {
    let error = Error::from(error);
    match error.refusal() {
        Some(refusal) => Ok(what.done(&refusal.to_string(), meta, tools.clock)),
        None => Err(error),
    }
}

/// Makes a snapshot or what is copied from one, which may be refused.
async fn take<C: Cluster>(
    wanted: &AnyObject,
    meta: &ObjectMeta,
    cluster: &C,
    tools: Tools<'_>,
) -> Result<Done<Outcome>, Error> {
    let asked = wanted.apply(cluster, tools.settings.manager).await;
    let what = match wanted {
        AnyObject::DataVolume(_) => Refused::Copying,
        _ => Refused::Taking,
    };
    match asked {
        Ok(asked) => Ok(Outcome::Stored(asked).into()),
        Err(error) => told(what, error, meta, tools),
    }
}

/// Deletes a snapshot that is too old, as it was seen, which may be refused.
async fn clear<C: Cluster>(
    snapshot: &KiteSnapshot,
    meta: &ObjectMeta,
    cluster: &C,
    tools: Tools<'_>,
) -> Result<Done<Outcome>, Error> {
    let what = AnyObject::from(snapshot.clone());
    match what.delete_unchanged(cluster).await {
        // It is another by now, and looked at once more.
        Ok(()) | Err(ClusterError::Conflict { .. }) => {
            let left = uncached(what.find(cluster)).await?;
            Ok(left_of(&what, left).into())
        }
        Err(error) => told(Refused::Clearing, error, meta, tools),
    }
}

/// Makes a way to the VM of `meta`, which may be refused.
async fn expose<C: Cluster>(
    desired: &AnyObject,
    meta: &ObjectMeta,
    cluster: &C,
    tools: Tools<'_>,
) -> Result<Done<Outcome>, Error> {
    match desired.apply(cluster, tools.settings.manager).await {
        Ok(stored) => Ok(Outcome::Stored(stored).into()),
        Err(
            refusal @ (ClusterError::Invalid { .. }
            | ClusterError::Forbidden { .. }
            | ClusterError::NotFound { .. }),
        ) => Ok(Refused::Exposure.done(&refusal.to_string(), meta, tools.clock)),
        Err(error) => Err(error.into()),
    }
}

#[async_trait]
impl Executor for Tools<'_> {
    type Change = Change;
    type Outcome = Outcome;
    type Error = Error;

    fn manager(&self) -> FieldManager {
        self.settings.manager
    }

    fn progress_every(&self) -> Duration {
        self.settings.progress_every
    }

    fn story(&self, old: &[Condition], new: &[Condition]) -> Vec<EventRecord> {
        story(old, new)
    }

    async fn execute<K: Object, C: Cluster>(
        &self,
        change: &Change,
        object: &K,
        cluster: &C,
    ) -> Result<Done<Outcome>, Error> {
        let manager = self.settings.manager;
        let outcome = match change {
            Change::Claim(claim) => {
                let state = claims::make(cluster, claim).await?;
                Outcome::claimed(claim, state)
            }
            Change::Unclaim(claim) => {
                claims::give_up(cluster, claim).await?;
                Outcome::claimed(claim, ClaimState::Free)
            }
            Change::Keep(claim, user_uid) => {
                let state = keep(claim, user_uid.clone(), cluster, *self).await?;
                Outcome::claimed(claim, state)
            }
            Change::TakeBack(kept, wanted) => {
                let state = claims::take_back(cluster, manager, kept, wanted).await?;
                Outcome::claimed(wanted, state)
            }
            Change::Fulfil(claim) => {
                let state = fulfil(claim, cluster, manager).await?;
                Outcome::claimed(claim, state)
            }
            Change::CreateKeys(template) => {
                let stored = create_keys(template, cluster, self.keys).await?;
                Outcome::Stored(stored)
            }
            Change::Apply(desired) => Outcome::Stored(desired.apply(cluster, manager).await?),
            Change::Grow(claim) => return grow(claim, object.meta(), cluster, *self).await,
            Change::Expose(desired) => {
                return expose(desired, object.meta(), cluster, *self).await;
            }
            Change::Restart { machine, instance } => {
                restart(cluster, machine, instance).await?;
                Outcome::RestartAsked
            }
            Change::Freeze {
                instance,
                uid,
                limit,
            } => {
                let guest = (instance, &**uid);
                return freezing::freeze(guest, *limit, object.meta(), cluster, self.clock).await;
            }
            Change::Thaw { instance, uid } => {
                let guest = (instance, &**uid);
                return freezing::thaw(guest, object.meta(), cluster, self.clock).await;
            }
            Change::Take(wanted) => return take(wanted, object.meta(), cluster, *self).await,
            Change::Move(order) => return moves::order(order, cluster, self.clock).await,
            Change::CallOff(order, why) => {
                return moves::call_off(order, why, cluster, self.clock).await;
            }
            Change::Delete(what, propagation) => {
                let deletion = what.delete(cluster, propagation.clone());
                let left = match seeing_off(going(object), deletion).await {
                    Err(error) if matches!(what, AnyObject::Secret(_)) => {
                        let namespace = what.metadata().namespace.as_deref();
                        if !goes_with_namespace(cluster, namespace, &error).await {
                            return Err(error.into());
                        }
                        None
                    }
                    removed => removed?,
                };
                left_of(what, left)
            }
            Change::DeleteUnchanged(object) => {
                object.delete_unchanged(cluster).await?;
                let left = uncached(object.find(cluster)).await?;
                left_of(object, left)
            }
            Change::Clear(snapshot) => return clear(snapshot, object.meta(), cluster, *self).await,
            Change::RemoveFinalizerFrom(object, finalizer) => {
                object.remove_finalizer(cluster, finalizer).await?;
                // Of what is not Kite's own, a cache need not have what tells whose it is.
                let left = uncached(object.find(cluster)).await?;
                left_of(object, left)
            }
        };
        Ok(outcome.into())
    }
}

/// A CRD that does not know a field of reservations has it dropped.
fn outdated_crd(field: &'static str) -> Error {
    Error::OutdatedCrd {
        kind: "KiteReservation",
        field,
    }
}

/// Restarts a VM, unless another instance runs already. `KubeVirt` takes the name
/// of a VM and no uid, so this looks right before it asks.
async fn restart<C: Cluster>(
    cluster: &C,
    machine: &ObjectKey,
    instance: &str,
) -> Result<(), ClusterError> {
    let running = uncached(cluster.get_opt::<VirtualMachineInstance>(machine)).await?;
    let is_meant = running.is_some_and(|running| {
        running.uid().as_deref() == Some(instance) && running.metadata.deletion_timestamp.is_none()
    });
    if !is_meant {
        return Ok(());
    }
    let options = serde_json::json!({});
    let asked = cluster.put_subresource::<VirtualMachine>(
        kubevirt::SUBRESOURCES,
        machine,
        "restart",
        &options,
    );
    match asked.await {
        // It is restarting already, or is not running any more.
        Ok(()) | Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates the key Secret of a VM, or reads the one that another was first to
/// create: keys are never replaced.
async fn create_keys<C: Cluster>(
    template: &k8s_openapi::api::core::v1::Secret,
    cluster: &C,
    keys: &dyn KeySource,
) -> Result<AnyObject, Error> {
    let vm = template.labels().get(kite_core::labels::VM_NAME);
    let keys = keys.generate(vm.map(String::as_str).unwrap_or_default())?;
    let secret = AnyObject::from(kite_render::keys::fill(template.clone(), &keys));
    match secret.create(cluster).await {
        Ok(made) => Ok(made),
        Err(error @ ClusterError::AlreadyExists { .. }) => {
            // Gone again within the same breath: let it be tried anew.
            Ok(secret.find(cluster).await?.ok_or(error)?)
        }
        Err(error) => Err(error.into()),
    }
}

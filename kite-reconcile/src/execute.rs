//! Carries the steps of a plan out, one request or two for each.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::Time};
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey},
    crd::{KEPT_FOR, Kept, KiteReservation},
    kubevirt::{self, VirtualMachine, VirtualMachineInstance},
};
use kube::ResourceExt as _;

use super::{Reconciler, moves};
use crate::{
    Error,
    cache::{
        live,
        reading::{going, seeing_off},
    },
    claims::{self, ClaimState},
    context::Context,
    ending::goes_with_namespace,
    kept,
    objects::AnyObject,
    plan::{Outcome, Step},
};

/// What came of a step.
pub(super) enum Done<K> {
    /// Something else changed.
    Outcome(Box<Outcome>),
    /// The reconciled object changed.
    Changed(Box<K>),
    /// The reconciled object may be gone.
    Finished,
}

impl<K> Done<K> {
    fn outcome(outcome: Outcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}

/// Gives a name back, which is kept for the user of this uid, as far as there is room.
async fn keep<C: Cluster>(
    claim: &KiteReservation,
    user_uid: Option<String>,
    context: &Context<C>,
) -> Result<ClaimState, Error> {
    let cluster = &context.cluster;
    if kept::is_full(cluster, claim, user_uid.as_deref()).await? {
        claims::give_up(cluster, claim).await?;
        return Ok(ClaimState::Free);
    }
    let over = (context.clock)().saturating_add(KEPT_FOR);
    let over = over.unwrap_or(Timestamp::MAX);
    // No finer than other times of the API.
    let until = Timestamp::from_second(over.as_second()).unwrap_or(over);
    let kept = Kept {
        until: Time(until),
        user_uid,
    };
    let state = claims::keep(cluster, context.settings.manager, claim, kept).await?;
    if matches!(&state, ClaimState::Kept(claim) if claim.spec.kept.is_none()) {
        return Err(outdated_crd("spec.kept"));
    }
    Ok(state)
}

/// Notes that what an offer stands for was had.
async fn fulfil<C: Cluster>(
    claim: &KiteReservation,
    context: &Context<C>,
) -> Result<ClaimState, Error> {
    let manager = context.settings.manager;
    let state = claims::fulfil(&context.cluster, manager, claim).await?;
    // A CRD that does not know the field has it dropped.
    if matches!(&state, ClaimState::Mine(claim) if !claim.spec.fulfilled) {
        return Err(outdated_crd("spec.fulfilled"));
    }
    Ok(state)
}

/// Has a disk's claim grow, which may be refused.
async fn grow<C: Cluster>(
    claim: &PersistentVolumeClaim,
    context: &Context<C>,
) -> Result<Outcome, Error> {
    let manager = context.settings.manager;
    let grown = context.cluster.apply(manager, claim).await;
    match grown.map_err(Error::from) {
        Ok(grown) => Ok(Outcome::Stored(grown.into())),
        Err(error) => match error.refusal() {
            Some(refusal) => Ok(Outcome::GrowthRefused(refusal.to_string())),
            None => Err(error),
        },
    }
}

/// Makes a way to a VM, which may be refused.
async fn expose<C: Cluster>(desired: &AnyObject, context: &Context<C>) -> Result<Outcome, Error> {
    let manager = context.settings.manager;
    match desired.apply(&context.cluster, manager).await {
        Ok(stored) => Ok(Outcome::Stored(stored)),
        Err(
            refusal @ (ClusterError::Invalid { .. }
            | ClusterError::Forbidden { .. }
            | ClusterError::NotFound { .. }),
        ) => Ok(Outcome::ExposureRefused(refusal.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Carries out one step for `object`.
pub(super) async fn execute<R: Reconciler, C: Cluster>(
    step: &Step,
    object: &R::Object,
    context: &Context<C>,
) -> Result<Done<R::Object>, Error> {
    let cluster = &context.cluster;
    tracing::debug!(step = step.describe(), "step");
    context.metrics.write(R::KIND);
    Ok(match step {
        Step::AddFinalizer(name) => {
            let mut finalizers = object.finalizers().to_vec();
            finalizers.push((*name).to_owned());
            match cluster.set_finalizers(object, finalizers).await {
                Ok(changed) => Done::Changed(Box::new(changed)),
                // Gone meanwhile: there is nothing to do for it.
                Err(ClusterError::NotFound { .. }) => Done::Finished,
                Err(error) => return Err(error.into()),
            }
        }
        Step::RemoveFinalizer(name) => {
            take_off(cluster, object, name).await?;
            Done::Finished
        }
        // Not without its plan.
        Step::Tell => Done::Finished,
        Step::DeleteSelf => {
            let propagation = kube::api::PropagationPolicy::Background;
            match cluster.delete_unchanged(object, propagation).await {
                Ok(()) | Err(ClusterError::NotFound { .. }) => Done::Finished,
                Err(error) => return Err(error.into()),
            }
        }
        Step::Claim(claim) => {
            let state = claims::make(cluster, claim).await?;
            Done::outcome(Outcome::claimed(claim, state))
        }
        Step::Unclaim(claim) => {
            claims::give_up(cluster, claim).await?;
            Done::outcome(Outcome::claimed(claim, ClaimState::Free))
        }
        Step::Keep(claim, user_uid) => {
            let state = keep(claim, user_uid.clone(), context).await?;
            Done::outcome(Outcome::claimed(claim, state))
        }
        Step::TakeBack(kept, wanted) => {
            let manager = context.settings.manager;
            let state = claims::take_back(cluster, manager, kept, wanted).await?;
            Done::outcome(Outcome::claimed(wanted, state))
        }
        Step::Fulfil(claim) => {
            let state = fulfil(claim, context).await?;
            Done::outcome(Outcome::claimed(claim, state))
        }
        Step::CreateKeys(template) => {
            let stored = create_keys(template, context).await?;
            Done::outcome(Outcome::Stored(stored))
        }
        Step::Apply(desired) => {
            let manager = context.settings.manager;
            Done::outcome(Outcome::Stored(desired.apply(cluster, manager).await?))
        }
        Step::Grow(claim) => Done::outcome(grow(claim, context).await?),
        Step::Expose(desired) => Done::outcome(expose(desired, context).await?),
        Step::Restart { machine, instance } => {
            restart(cluster, machine, instance).await?;
            Done::outcome(Outcome::RestartAsked)
        }
        Step::Move(order) => Done::outcome(moves::order::<R, C>(order, object, context).await?),
        Step::CallOff(order, why) => {
            Done::outcome(moves::call_off::<R, C>(order, why, object, context).await?)
        }
        Step::Delete(what, propagation) => {
            let remove = what.remove(cluster, propagation.clone());
            let left = match seeing_off(going(object), remove).await {
                Err(error) if matches!(what, AnyObject::Secret(_)) => {
                    let namespace = what.metadata().namespace.as_deref();
                    if !goes_with_namespace(cluster, namespace, &error).await {
                        return Err(error.into());
                    }
                    None
                }
                removed => removed?,
            };
            Done::outcome(left_of(what, left))
        }
        Step::DeleteUnchanged(object) => {
            object.remove_unchanged(cluster).await?;
            let left = live(object.find(cluster)).await?;
            Done::outcome(left_of(object, left))
        }
        Step::LetGo(object, finalizer) => {
            object.let_go(cluster, finalizer).await?;
            // Of what is not Kite's own, a cache need not have what tells whose it is.
            let left = live(object.find(cluster)).await?;
            Done::outcome(left_of(object, left))
        }
    })
}

/// Takes the finalizer off an object that goes, if it is still there. Whoever has written
/// it since it was seen has not changed that.
async fn take_off<K: Object, C: Cluster>(
    cluster: &C,
    object: &K,
    finalizer: &str,
) -> Result<(), ClusterError> {
    let conflict = match set_without(cluster, object, finalizer).await {
        Err(conflict @ ClusterError::Conflict { .. }) => conflict,
        done => return done,
    };
    let now = live(cluster.find::<K>(&ObjectKey::of(object))).await?;
    match now.filter(|now| now.uid() == object.uid()) {
        None => Ok(()),
        Some(now)
            if now.meta().deletion_timestamp.is_some()
                && now.resource_version() != object.resource_version() =>
        {
            set_without(cluster, &now, finalizer).await
        }
        Some(_) => Err(conflict),
    }
}

async fn set_without<K: Object, C: Cluster>(
    cluster: &C,
    object: &K,
    name: &str,
) -> Result<(), ClusterError> {
    let mut finalizers = object.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != name);
    match cluster.set_finalizers(object, finalizers).await {
        Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A CRD that does not know a field of reservations has it dropped.
fn outdated_crd(field: &'static str) -> Error {
    Error::OutdatedCrd {
        kind: "KiteReservation",
        field,
    }
}

/// What is left of an object that should go.
pub(super) fn left_of(object: &AnyObject, left: Option<AnyObject>) -> Outcome {
    match left {
        Some(left) => Outcome::Stored(left),
        None => Outcome::Gone(object.clone()),
    }
}

/// Restarts a VM, unless another instance runs already. `KubeVirt` takes the name
/// of a VM and no uid, so this looks right before it asks.
async fn restart<C: Cluster>(
    cluster: &C,
    machine: &ObjectKey,
    instance: &str,
) -> Result<(), ClusterError> {
    let running = live(cluster.find::<VirtualMachineInstance>(machine)).await?;
    let is_meant = running.is_some_and(|running| {
        running.uid().as_deref() == Some(instance) && running.metadata.deletion_timestamp.is_none()
    });
    if !is_meant {
        return Ok(());
    }
    let options = serde_json::json!({});
    let asked =
        cluster.invoke::<VirtualMachine>(kubevirt::SUBRESOURCES, machine, "restart", &options);
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
    context: &Context<C>,
) -> Result<AnyObject, Error> {
    let vm = template.labels().get(kite_core::labels::VM_NAME);
    let keys = context
        .keys
        .generate(vm.map(String::as_str).unwrap_or_default())?;
    let secret = AnyObject::from(kite_render::keys::fill(template.clone(), &keys));
    match secret.create(&context.cluster).await {
        Ok(made) => Ok(made),
        Err(error @ ClusterError::AlreadyExists { .. }) => {
            // Gone again within the same breath: let it be tried anew.
            Ok(secret.find(&context.cluster).await?.ok_or(error)?)
        }
        Err(error) => Err(error.into()),
    }
}

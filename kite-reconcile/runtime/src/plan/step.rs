//! Carries out one step of a plan.

use kite_cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey};
use kube::{ResourceExt as _, api::PropagationPolicy};

use super::{ChangeOf, ErrorOf, Executor as _, OutcomeOf, Planner, Refusal, Step};
use crate::{Shared, cache::uncached, context::kind_of};

/// What came of a step.
pub(super) enum Ended<K, O> {
    /// Something else changed.
    Changed(O),
    /// The reconciled object is like this now.
    Written(Box<K>),
    /// The reconciled object may be gone.
    Finished,
}

/// Carries out one step for `object`.
pub(super) async fn execute<R: Planner, C: Cluster>(
    planner: &R,
    step: &Step<ChangeOf<R>>,
    object: &R::Object,
    shared: &Shared<C>,
) -> Result<Ended<R::Object, OutcomeOf<R>>, ErrorOf<R>> {
    let cluster = &shared.cluster;
    tracing::debug!(step = step.describe(), "step");
    shared.metrics.write(kind_of::<R::Object>());
    Ok(match step {
        Step::AddFinalizer(name) => {
            let mut finalizers = object.finalizers().to_vec();
            finalizers.push((*name).to_owned());
            match cluster.set_finalizers(object, finalizers).await {
                Ok(written) => Ended::Written(Box::new(written)),
                // Gone meanwhile: there is nothing to do for it.
                Err(ClusterError::NotFound { .. }) => Ended::Finished,
                Err(error) => return Err(error.into()),
            }
        }
        Step::RemoveFinalizer(name) => {
            take_off(cluster, object, name).await?;
            Ended::Finished
        }
        // Not without its plan.
        Step::WriteStatus => Ended::Finished,
        Step::DeleteSelf => {
            let propagation = PropagationPolicy::Background;
            match cluster.delete_unchanged(object, propagation).await {
                Ok(()) | Err(ClusterError::NotFound { .. }) => Ended::Finished,
                Err(error) => return Err(error.into()),
            }
        }
        Step::Change(change) => Ended::Changed(carry_out(planner, change, object, shared).await?),
    })
}

/// Carries out a change, and remembers what was refused with it: no event makes that
/// otherwise.
async fn carry_out<R: Planner, C: Cluster>(
    planner: &R,
    change: &ChangeOf<R>,
    object: &R::Object,
    shared: &Shared<C>,
) -> Result<OutcomeOf<R>, ErrorOf<R>> {
    let done = planner
        .executor()
        .execute(change, object, &shared.cluster)
        .await?;
    if let Some(refusal) = done.refusal {
        let (kind, key) = (kind_of::<R::Object>(), ObjectKey::of(object));
        shared.refusals.note(kind, key, refusal);
    }
    Ok(done.outcome)
}

/// Undoes what was done for a step that was refused.
pub(super) async fn give_back<R: Planner, C: Cluster>(
    planner: &R,
    (back, refusal): (ChangeOf<R>, Refusal),
    object: &R::Object,
    shared: &Shared<C>,
) {
    // What is given back wakes whoever waits for it, and this one among them.
    let (kind, key) = (kind_of::<R::Object>(), ObjectKey::of(object));
    shared.refusals.note(kind, key, refusal);
    let back = Step::Change(back);
    if let Err(error) = execute(planner, &back, object, shared).await {
        // Done by the next reconcile, which is refused again.
        tracing::debug!(step = back.describe(), %error, "step failed");
    }
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
    let now = uncached(cluster.get_opt::<K>(&ObjectKey::of(object))).await?;
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

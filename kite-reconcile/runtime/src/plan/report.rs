//! What is told of an object: its status, and the Events that follow from it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_cluster::{
    Cluster, ClusterError, ClusterExt as _, Object, ObjectKey,
    conditions::{self, NewCondition, ReportedStatus},
};
use kube::{Resource as _, core::object::HasStatus as _};

use super::{ChangeOf, ErrorOf, Executor as _, Plan, PlanError as _, Planner};
use crate::{Shared, context::kind_of};

/// The status to report, with the times of its conditions.
pub(super) fn completed_status<R: Planner, C: Cluster>(
    object: &R::Object,
    plan: &Plan<R::Status, ChangeOf<R>>,
    shared: &Shared<C>,
) -> R::Status {
    let old = object
        .status()
        .map(R::Status::conditions)
        .unwrap_or_default();
    let generation = object.meta().generation.unwrap_or_default();
    let conditions = merged(object, old, &plan.conditions, shared);
    plan.status.clone().complete(conditions, Some(generation))
}

/// Writes a status on the condition that the object is still as it was read: a
/// report that was made of an older view must not cover a newer one. Gives the
/// object with it; none if it is gone.
pub(super) async fn write_status<R: Planner, C: Cluster>(
    planner: &R,
    object: &R::Object,
    status: R::Status,
    shared: &Shared<C>,
) -> Result<Option<R::Object>, ErrorOf<R>> {
    shared.metrics.write(kind_of::<R::Object>());
    let old = object
        .status()
        .map(R::Status::conditions)
        .unwrap_or_default();
    let new = status.conditions().to_vec();
    let written = shared
        .cluster
        .write_status(planner.executor().manager(), object, status);
    match written.await {
        Ok(told) => {
            if shared.events.are_written() {
                shared
                    .events
                    .record(object, planner.executor().story(old, &new), &shared.clock);
            }
            Ok(Some(told))
        }
        // Deleted meanwhile: nobody is left to read it.
        Err(ClusterError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Errors in a row after which those that may pass by themselves are told too:
/// some fifteen seconds.
const PERSISTENT: u32 = 5;

/// How long a failure that is told already is not told in other words: its object
/// is looked at again because of each write, so that otherwise it would be tried
/// without a pause.
const REWORDED: std::time::Duration = std::time::Duration::from_secs(60);

/// Shows a person why a reconcile failed, in the `Ready` condition: at once what
/// was refused or cannot be, and what may pass by itself if it does not. `failed`
/// is the plan that could not be carried out, if it came to one.
pub(super) async fn report_failure<R: Planner, C: Cluster>(
    planner: &R,
    object: &R::Object,
    failed: Option<Plan<R::Status, ChangeOf<R>>>,
    error: &ErrorOf<R>,
    shared: &Shared<C>,
) {
    let before = shared
        .backoff
        .errors(kind_of::<R::Object>(), ObjectKey::of(object));
    let Some(reason) = error.reason_to_tell(before >= PERSISTENT) else {
        return;
    };
    let ready = NewCondition::new("Ready", false, reason, error.to_string());
    let old = object
        .status()
        .map(R::Status::conditions)
        .unwrap_or_default();
    let conditions = if let Some(plan) = &failed {
        let others = plan.conditions.iter().filter(|it| it.type_ != ready.type_);
        let new: Vec<_> = [&ready].into_iter().chain(others).cloned().collect();
        merged(object, old, &new, shared)
    } else {
        // Nothing was seen by which the others could be judged.
        let others = old.iter().filter(|it| it.type_ != ready.type_);
        let mut conditions = merged(object, old, std::slice::from_ref(&ready), shared);
        conditions.extend(others.cloned());
        conditions
    };
    let status = match failed {
        Some(plan) => plan.status,
        None => object.status().cloned().unwrap_or_default(),
    };
    // The spec was not carried out: the status does not speak of it yet.
    let spoken_of = object.status().and_then(R::Status::observed_generation);
    let status = status.complete(conditions, spoken_of);
    if object.status() == Some(&status) {
        return;
    }
    let (key, now) = (ObjectKey::of(object), (shared.clock)());
    let is_reworded = object
        .status()
        .is_some_and(|old| differ_in_words(&status, old));
    if is_reworded
        && shared
            .pace
            .wait(kind_of::<R::Object>(), key.clone(), now, REWORDED)
            .is_some()
    {
        return;
    }
    // The status is a courtesy; the error is what counts.
    match write_status(planner, object, status, shared).await {
        Ok(_) => shared.pace.written(kind_of::<R::Object>(), key, now),
        Err(unwritten) => {
            tracing::debug!(error = %unwritten, "a failure could not be shown in the status");
        }
    }
}

/// Whether they say the same in other words: a port or an id that is another in
/// each error.
fn differ_in_words<S: ReportedStatus>(new: &S, old: &S) -> bool {
    let mut conditions = new.conditions().to_vec();
    for condition in &mut conditions {
        if let Some(old) = conditions::find(old.conditions(), &condition.type_) {
            condition.message.clone_from(&old.message);
        }
    }
    let generation = new.observed_generation();
    new.clone().complete(conditions, generation) == *old
}

fn merged<K: Object, C>(
    object: &K,
    old: &[Condition],
    new: &[NewCondition],
    shared: &Shared<C>,
) -> Vec<Condition> {
    let generation = object.meta().generation.unwrap_or_default();
    conditions::merge(old, new, generation, (shared.clock)())
}

//! What is told of an object: its status, and the Events that follow from it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::{
    cluster::{
        Cluster, ClusterError, ClusterExt as _, FieldManager, Object, ObjectKey, StoredStatus,
    },
    conditions::{self, NewCondition},
    crd::{
        KiteImageStatus, KitePlatformStatus, KiteUserStatus, KiteVirtualMachineOfferStatus,
        KiteVirtualMachineStatus, UnreadStatus,
    },
};
use kube::{Resource as _, core::object::HasStatus as _};

use super::Reconciler;
use crate::{Error, context::Context, plan::Plan, story::story};

/// A status as all of Kite's kinds have one.
pub(crate) trait Status: Clone + Default + PartialEq + StoredStatus {
    /// The conditions in it.
    fn conditions(&self) -> &[Condition];

    /// The generation that it speaks of.
    fn observed_generation(&self) -> Option<i64>;

    /// The same with these conditions, of this generation, as it will stand once it is
    /// written: what could not be read is gone then, if it is not kept.
    fn complete(self, conditions: Vec<Condition>, generation: Option<i64>) -> Self;
}

macro_rules! statuses {
    ($($status:ty),* $(,)?) => { $(
        impl Status for $status {
            fn conditions(&self) -> &[Condition] {
                &self.conditions
            }

            fn observed_generation(&self) -> Option<i64> {
                self.observed_generation
            }

            fn complete(self, conditions: Vec<Condition>, generation: Option<i64>) -> Self {
                let unread = self.unreadable.map(|unread| *unread);
                Self {
                    conditions,
                    observed_generation: generation,
                    unreadable: unread.and_then(UnreadStatus::rewritten).map(Box::new),
                    ..self
                }
            }
        }
    )* };
}

statuses!(
    KiteImageStatus,
    KitePlatformStatus,
    KiteUserStatus,
    KiteVirtualMachineOfferStatus,
    KiteVirtualMachineStatus,
);

/// The status to report, with the times of its conditions.
pub(super) fn completed_status<R: Reconciler, C: Cluster>(
    object: &R::Object,
    plan: &Plan<R::Status>,
    context: &Context<C>,
) -> R::Status {
    let old = object
        .status()
        .map(R::Status::conditions)
        .unwrap_or_default();
    let generation = object.meta().generation.unwrap_or_default();
    let conditions = merged(object, old, &plan.conditions, context);
    plan.status.clone().complete(conditions, Some(generation))
}

/// Writes a status on the condition that the object is still as it was read: a
/// report that was made of an older view must not cover a newer one. Gives the
/// object with it; none if it is gone.
pub(super) async fn write_status<R: Reconciler, C: Cluster>(
    object: &R::Object,
    status: R::Status,
    context: &Context<C>,
) -> Result<Option<R::Object>, Error> {
    context.metrics.write(R::KIND);
    let old = object
        .status()
        .map(R::Status::conditions)
        .unwrap_or_default();
    let new = status.conditions().to_vec();
    let manager: FieldManager = context.settings.manager;
    let written = context.cluster.write_status(manager, object, status);
    match written.await {
        Ok(told) => {
            if context.events.are_heard() {
                context
                    .events
                    .tell(object, story(old, &new), &context.clock);
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
pub(super) async fn report_failure<R: Reconciler, C: Cluster>(
    object: &R::Object,
    failed: Option<Plan<R::Status>>,
    error: &Error,
    context: &Context<C>,
) {
    let before = context.backoff.errors(R::KIND, ObjectKey::of(object));
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
        merged(object, old, &new, context)
    } else {
        // Nothing was seen by which the others could be judged.
        let others = old.iter().filter(|it| it.type_ != ready.type_);
        let mut conditions = merged(object, old, std::slice::from_ref(&ready), context);
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
    let (key, now) = (ObjectKey::of(object), (context.clock)());
    let is_reworded = object
        .status()
        .is_some_and(|old| differ_in_words(&status, old));
    if is_reworded
        && context
            .pace
            .wait(R::KIND, key.clone(), now, REWORDED)
            .is_some()
    {
        return;
    }
    // The status is a courtesy; the error is what counts.
    match write_status::<R, C>(object, status, context).await {
        Ok(_) => context.pace.written(R::KIND, key, now),
        Err(unwritten) => {
            tracing::debug!(error = %unwritten, "a failure could not be shown in the status");
        }
    }
}

/// Whether they say the same in other words: a port or an id that is another in
/// each error.
fn differ_in_words<S: Status>(new: &S, old: &S) -> bool {
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
    context: &Context<C>,
) -> Vec<Condition> {
    let generation = object.meta().generation.unwrap_or_default();
    conditions::merge(old, new, generation, (context.clock)())
}

//! What is told of an object: its status, and the Events that follow from it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::{
    cluster::{Cluster, ClusterError, FieldManager, Object},
    conditions::{self, NewCondition},
    crd::{
        KiteImageStatus, KitePlatformStatus, KiteUserStatus, KiteVirtualMachineOfferStatus,
        KiteVirtualMachineStatus,
    },
};
use kube::{Resource as _, core::object::HasStatus};

use super::Reconciler;
use crate::{Error, context::Context, plan::Plan};

/// A status as all of Kite's kinds have one.
pub(crate) trait Status: Clone + PartialEq + Send + Sync {
    /// The conditions in it.
    fn conditions(&self) -> &[Condition];

    /// The generation that it speaks of.
    fn observed_generation(&self) -> Option<i64>;

    /// The same with these conditions, of this generation.
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
                Self { conditions, observed_generation: generation, ..self }
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
    let now = (context.clock)();
    let conditions = conditions::merge(old, &plan.conditions, generation, now);
    plan.status.clone().complete(conditions, Some(generation))
}

/// Writes a status on the condition that the object is still as it was read: a
/// report that was made of an older view must not cover a newer one.
pub(super) async fn write_status<R: Reconciler, C: Cluster>(
    object: &R::Object,
    status: R::Status,
    context: &Context<C>,
) -> Result<(), Error> {
    context.metrics.write(R::KIND);
    let old = object
        .status()
        .map(R::Status::conditions)
        .unwrap_or_default();
    let new = status.conditions().to_vec();
    let carrier = carrier(object, status);
    let manager: FieldManager = context.settings.manager;
    match context.cluster.apply_status(manager, &carrier).await {
        Ok(_) => {
            context.events.tell(object, old, &new, &context.clock);
            Ok(())
        }
        // Deleted meanwhile: nobody is left to read it.
        Err(ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Shows a person that the API server refused a step: in the `Ready` condition.
/// Gives `error` back.
pub(super) async fn report_refusal<R: Reconciler, C: Cluster>(
    object: &R::Object,
    mut plan: Plan<R::Status>,
    error: Error,
    context: &Context<C>,
) -> Error {
    let Some(refusal) = error.refusal() else {
        return error;
    };
    plan.conditions
        .retain(|condition| condition.type_ != "Ready");
    plan.conditions.insert(
        0,
        NewCondition::new("Ready", false, "Refused", refusal.to_string()),
    );
    let status = completed_status::<R, C>(object, &plan, context);
    // The spec was not carried out: the status does not speak of it yet.
    let spoken_of = object.status().and_then(R::Status::observed_generation);
    let conditions = status.conditions().to_vec();
    let status = status.complete(conditions, spoken_of);
    if object.status() == Some(&status) {
        return error;
    }
    // The status is a courtesy; the error is what counts.
    if let Err(unwritten) = write_status::<R, C>(object, status, context).await {
        tracing::debug!(error = %unwritten, "refusal could not be shown in the status");
    }
    error
}

/// The object with what an apply of its status needs: what names it, and its
/// version so that a newer one, or another of the same name, gets nothing.
fn carrier<K: Object + HasStatus>(object: &K, status: K::Status) -> K {
    let mut carrier = object.clone();
    let of = object.meta();
    *carrier.meta_mut() = kube::api::ObjectMeta {
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        resource_version: of.resource_version.clone(),
        ..kube::api::ObjectMeta::default()
    };
    *carrier.status_mut() = Some(status);
    carrier
}

//! Orders to move a VM to another launcher: given, and called off.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    kubevirt::VirtualMachineInstanceMigration,
    names,
};

use super::{Reconciler, execute::left_of};
use crate::{
    Error,
    cache::live,
    context::Context,
    objects::AnyObject,
    plan::{Outcome, Refusal},
};

/// When an order that was refused is given again, of which nobody hears that it may be.
const REFUSED: Duration = Duration::from_secs(60);

/// When another is given in the place of one that was called off: those who wait for their
/// turn get it before.
const CALLED_OFF: Duration = Duration::from_secs(300);

/// Orders a VM to be moved, which may be refused: by `KubeVirt`, too, of what cannot move
/// or does already. That is remembered, for no event makes it otherwise.
pub(super) async fn order<R: Reconciler, C: Cluster>(
    order: &VirtualMachineInstanceMigration,
    object: &R::Object,
    context: &Context<C>,
) -> Result<Outcome, Error> {
    let cluster = &context.cluster;
    match cluster.create(order).await {
        Ok(made) => Ok(Outcome::Stored(made.into())),
        Err(error @ ClusterError::AlreadyExists { .. }) => {
            // Another was first, or this one lost its answer. Gone again within the same
            // breath: let it be tried anew.
            let key = ObjectKey::of(order);
            let found = cluster
                .find::<VirtualMachineInstanceMigration>(&key)
                .await?;
            Ok(Outcome::Stored(found.ok_or(error)?.into()))
        }
        Err(
            refusal @ (ClusterError::Invalid { .. }
            | ClusterError::Forbidden { .. }
            | ClusterError::NotFound { .. }),
        ) => {
            let refusal = refusal_of(order, refusal.to_string(), REFUSED, context);
            note::<R, C>(object, refusal.clone(), context);
            Ok(Outcome::MoveRefused(refusal))
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes back an order that has not begun, and remembers why. Gives what is left of it.
pub(super) async fn call_off<R: Reconciler, C: Cluster>(
    order: &VirtualMachineInstanceMigration,
    why: &str,
    object: &R::Object,
    context: &Context<C>,
) -> Result<Outcome, Error> {
    let order_as_any = AnyObject::from(order.clone());
    order_as_any.remove_unchanged(&context.cluster).await?;
    let refusal = refusal_of(order, why.to_owned(), CALLED_OFF, context);
    note::<R, C>(object, refusal, context);
    let left = live(order_as_any.find(&context.cluster)).await?;
    Ok(left_of(&order_as_any, left))
}

fn refusal_of<C>(
    order: &VirtualMachineInstanceMigration,
    why: String,
    pause: Duration,
    context: &Context<C>,
) -> Refusal {
    let name = order.metadata.name.as_deref().unwrap_or_default();
    let until = (context.clock)().checked_add(pause);
    Refusal {
        of: names::change_of_resize(name).to_owned(),
        why,
        until: until.unwrap_or(Timestamp::MAX),
    }
}

fn note<R: Reconciler, C>(object: &R::Object, refusal: Refusal, context: &Context<C>) {
    let key = ObjectKey::of(object);
    context.refusals.note(R::KIND, key, refusal);
}

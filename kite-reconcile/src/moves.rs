//! Orders to move a VM to another launcher: given, and called off.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    kubevirt::VirtualMachineInstanceMigration,
    names,
};

use kite_runtime::{Clock, plan::Done};

use crate::{
    Error,
    cache::uncached,
    objects::AnyObject,
    plan::{Outcome, Refusal, left_of},
};

/// When an order that was refused is given again, of which nobody hears that it may be.
const REFUSED: Duration = Duration::from_secs(60);

/// When another is given in the place of one that was called off: those who wait for their
/// turn get it before.
const CALLED_OFF: Duration = Duration::from_secs(300);

/// Orders a VM to be moved, which may be refused: by `KubeVirt`, too, of what cannot move
/// or does already. That is remembered, for no event makes it otherwise.
pub(crate) async fn order<C: Cluster>(
    order: &VirtualMachineInstanceMigration,
    cluster: &C,
    clock: &Clock,
) -> Result<Done<Outcome>, Error> {
    match cluster.create(order).await {
        Ok(made) => Ok(Outcome::Stored(made.into()).into()),
        Err(error @ ClusterError::AlreadyExists { .. }) => {
            // Another was first, or this one lost its answer. Gone again within the same
            // breath: let it be tried anew.
            let key = ObjectKey::of(order);
            let found = cluster
                .get_opt::<VirtualMachineInstanceMigration>(&key)
                .await?;
            Ok(Outcome::Stored(found.ok_or(error)?.into()).into())
        }
        Err(
            refusal @ (ClusterError::Invalid { .. }
            | ClusterError::Forbidden { .. }
            | ClusterError::NotFound { .. }),
        ) => {
            let refusal = refusal_of(order, refusal.to_string(), REFUSED, clock);
            Ok(Done {
                outcome: Outcome::Refused(refusal.clone()),
                refusal: Some(refusal),
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes back an order that has not begun, and remembers why. Gives what is left of it.
pub(crate) async fn call_off<C: Cluster>(
    order: &VirtualMachineInstanceMigration,
    why: &str,
    cluster: &C,
    clock: &Clock,
) -> Result<Done<Outcome>, Error> {
    let order_as_any = AnyObject::from(order.clone());
    order_as_any.delete_unchanged(cluster).await?;
    let left = uncached(order_as_any.find(cluster)).await?;
    Ok(Done {
        outcome: left_of(&order_as_any, left),
        refusal: Some(refusal_of(order, why.to_owned(), CALLED_OFF, clock)),
    })
}

fn refusal_of(
    order: &VirtualMachineInstanceMigration,
    why: String,
    pause: Duration,
    clock: &Clock,
) -> Refusal {
    let name = order.metadata.name.as_deref().unwrap_or_default();
    let until = clock().checked_add(pause);
    Refusal {
        of: names::change_of_resize(name).to_owned(),
        why,
        until: until.unwrap_or(Timestamp::MAX),
    }
}

//! Login names and domains that were given back: kept for their former owners, and free
//! when that is over.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster, ClusterError, ObjectKey},
    crd::KiteReservation,
    labels,
};
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{Context, Error};

/// How often it is looked whether something is over.
const EVERY: Duration = Duration::from_secs(600);

/// How many are kept for one owner. Whoever makes and deletes VMs all day must not hold
/// all names, nor fill the API server.
const MOST: usize = 50;

/// Frees what is over, time and again, until `shutdown`.
pub(crate) async fn run<C: Cluster>(context: &Context<C>, shutdown: CancellationToken) {
    loop {
        if let Err(error) = release(context).await {
            // What is kept too long harms nobody: it is tried again.
            tracing::warn!(%error, "names that are kept no longer are not freed");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(EVERY) => {}
        }
    }
}

/// Frees what is over now, and of what is kept for one owner all but the latest fifty.
///
/// # Errors
/// [`Error::Cluster`] if the list, or one of the deletions, was refused; the others are carried
/// out all the same.
pub async fn release<C: Cluster>(context: &Context<C>) -> Result<(), Error> {
    let all = ListParams::default();
    let found = context
        .shared
        .cluster
        .list::<KiteReservation>(None, &all)
        .await?;
    let mut failed = None;
    for claim in over(found.items, (context.shared.clock)()) {
        let background = PropagationPolicy::Background;
        match context
            .shared
            .cluster
            .delete_unchanged(&claim, background)
            .await
        {
            Ok(()) => tracing::info!(claim = %ObjectKey::of(&claim), "is not kept any more"),
            // It has gone, or its owner has just taken it back.
            Err(ClusterError::NotFound { .. } | ClusterError::Conflict { .. }) => {}
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Whether as much is kept for the owner of `claim` as may be, who is the user of
/// `user_uid`. What comes beyond is free at once: whoever takes names and drops them all
/// day holds no more of them than that.
pub(crate) async fn is_full<C: Cluster>(
    cluster: &C,
    claim: &KiteReservation,
    user_uid: Option<&str>,
) -> Result<bool, ClusterError> {
    let namespace = claim.spec.holder.namespace.as_deref().unwrap_or_default();
    // What is kept is labelled as it was when it was held.
    let there = format!("{}={namespace}", labels::VM_NAMESPACE);
    let there = ListParams::default().labels(&there);
    let found = cluster.list::<KiteReservation>(None, &there).await?;
    let is_theirs = |it: &&KiteReservation| {
        it.spec.kept.is_some() && it.spec.kept_from(namespace, user_uid).is_none()
    };
    Ok(found.items.iter().filter(is_theirs).count() >= MOST)
}

/// Those that are free now.
fn over(claims: Vec<KiteReservation>, now: Timestamp) -> Vec<KiteReservation> {
    let mut by_owner = BTreeMap::<_, Vec<_>>::new();
    for claim in claims {
        let Some(kept) = &claim.spec.kept else {
            continue;
        };
        let owner = (claim.spec.holder.namespace.clone(), kept.user_uid.clone());
        let order = (std::cmp::Reverse(kept.until.0), claim.name_any());
        by_owner.entry(owner).or_default().push((order, claim));
    }
    let mut over = Vec::new();
    for (_, mut kept) in by_owner {
        kept.sort_by(|a, b| a.0.cmp(&b.0));
        let kept = kept.into_iter().map(|(_, claim)| claim).enumerate();
        let is_over =
            |(place, claim): &(usize, KiteReservation)| *place >= MOST || claim.spec.is_over(now);
        over.extend(kept.filter(is_over).map(|(_, claim)| claim));
    }
    over
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kite_core::crd::{Claim, Holder, HolderKind, Kept, KiteReservationSpec};

    use super::*;

    fn claim(name: &str, uid: &str, until: Option<i64>) -> KiteReservation {
        let holder = Holder {
            kind: HolderKind::KiteVirtualMachine,
            namespace: Some("kite-user-ann".to_owned()),
            name: "web".to_owned(),
            uid: "uid-of-web".to_owned(),
        };
        let mut spec = KiteReservationSpec::new(Claim::Domain, holder);
        spec.kept = until.map(|hours| Kept {
            until: Time(Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)),
            user_uid: Some(uid.to_owned()),
        });
        KiteReservation::new(name, spec)
    }

    fn names(over: &[KiteReservation]) -> Vec<String> {
        over.iter().map(KiteReservation::name_any).collect()
    }

    #[test]
    fn what_is_held_or_kept_stays_and_what_is_over_goes() {
        let claims = vec![
            claim("held", "a", None),
            claim("past", "a", Some(1)),
            claim("now", "a", Some(2)),
            claim("later", "a", Some(3)),
        ];
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(2);
        assert_eq!(names(&over(claims, now)), ["now", "past"]);
    }

    #[test]
    fn of_very_many_for_one_owner_the_latest_are_kept() {
        // One more than are kept.
        let many = (0..=50).map(|n| claim(&format!("c{n}"), "a", Some(10 + n)));
        let mut claims: Vec<_> = many.collect();
        claims.push(claim("of-another", "b", Some(1)));
        claims.push(claim("held", "a", None));
        assert_eq!(names(&over(claims, Timestamp::UNIX_EPOCH)), ["c0"]);
    }
}

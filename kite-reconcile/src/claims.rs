//! Claims of which there can be one: who has them.
//!
//! A claim is won by *creating* its [`KiteReservation`]: the API server lets one
//! creator through. The loser looks who was first, and takes over only when the
//! holder is gone for certain: not there, or there with another uid.
//!
//! Login names and domains that are given back stay as they are, kept for their former
//! owner ([`Kept`]): who makes another VM takes the very reservation back, in one write,
//! so that nobody comes between. [`crate::kept`] frees them when that is over.

use std::collections::BTreeMap;

use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, FieldManager, ObjectKey},
    crd::{Claim, Holder, HolderKind, Kept, KiteReservation, KiteUser, KiteVirtualMachine},
    names,
};
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
};

pub use crate::claim_state::ClaimState;
use crate::{
    cache::uncached,
    plan::{Change, Step},
};

/// A claim that the reconciled object makes, and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedClaim {
    /// The reservation to make.
    pub wanted: KiteReservation,
    /// How it stands.
    pub state: ClaimState,
}

impl WantedClaim {
    /// Whether the claim is won.
    pub fn is_mine(&self) -> bool {
        matches!(self.state, ClaimState::Mine(_))
    }
}

/// The claims of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    /// Uid of the user whose the object is, if it is a VM of a user's.
    pub user_uid: Option<String>,
    /// The claims that its spec makes.
    pub wanted: Vec<WantedClaim>,
    /// Reservations that it holds and does not want any more.
    pub stale: Vec<KiteReservation>,
}

impl Claims {
    /// Reads how the claims `wanted` stand, and finds what the object holds beyond
    /// that, by its labels `held_by`. That is always looked for: a former name may
    /// have been kept for as long as something led from it, and an old view may
    /// have missed it right after the edit.
    ///
    /// # Errors
    /// A [`ClusterError`] if the API server refuses or does not answer, or if one of the
    /// reservations that the object holds cannot be read.
    pub async fn observe<C: Cluster>(
        cluster: &C,
        wanted: Vec<KiteReservation>,
        held_by: &BTreeMap<String, String>,
        user_uid: Option<String>,
    ) -> Result<Self, ClusterError> {
        let mut claims = Self {
            user_uid,
            ..Self::default()
        };
        let Some(holder) = wanted.first().map(|claim| claim.spec.holder.clone()) else {
            return Ok(claims);
        };
        let selector = held_by
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join(",");
        let found = cluster
            .list::<KiteReservation>(None, &ListParams::default().labels(&selector))
            .await?;
        let mut held = found.complete()?;
        held.retain(|held| held.spec.holder == holder);
        for wanted in wanted {
            let place = held.iter().position(|held| is_same_claim(held, &wanted));
            // What it holds need not be asked for once more.
            let state = match place {
                Some(place) => state_of_own(held.remove(place)),
                None => inspect(cluster, &wanted).await?,
            };
            claims.wanted.push(WantedClaim { wanted, state });
        }
        // An offer is given back by rules of its own, and what is kept is given back.
        held.retain(|held| held.spec.claim != Claim::Offer && held.spec.kept.is_none());
        claims.stale = held;
        Ok(claims)
    }

    /// What to do now for the claims that are wanted: free ones are made, those
    /// of the departed are given back first, and one's own that are kept are taken back.
    pub fn wants(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        // Who waits for a volume takes none after it: others may be waiting for that with what
        // this one waits for.
        let mut waits = false;
        for claim in &self.wanted {
            let is_volume = claim.wanted.spec.claim == Claim::Volume;
            match &claim.state {
                ClaimState::Held { alive: true, .. } => waits |= is_volume,
                ClaimState::Mine(_) | ClaimState::Reserved(_) => {}
                ClaimState::Free if is_volume && waits => {}
                ClaimState::Free => steps.push(Step::Change(Change::Claim(claim.wanted.clone()))),
                ClaimState::Held {
                    reservation,
                    alive: false,
                    user_uid,
                } => steps.push(given_back(reservation, user_uid.as_deref())),
                ClaimState::Kept(kept) => {
                    if !self.is_kept_from(kept, &claim.wanted) {
                        let (kept, wanted) = (Box::new(kept.clone()), claim.wanted.clone());
                        steps.push(Step::Change(Change::TakeBack(kept, Box::new(wanted))));
                    }
                }
            }
        }
        steps
    }

    /// Whether `kept` is kept for somebody else than whoever makes the claim `wanted`.
    pub(crate) fn is_kept_from(&self, kept: &KiteReservation, wanted: &KiteReservation) -> bool {
        let namespace = wanted.spec.holder.namespace.as_deref().unwrap_or_default();
        let uid = self.user_uid.as_deref();
        kept.spec.kept_from(namespace, uid).is_some()
    }

    /// Has nobody get the claims of which `why` tells a reason, unless the object has
    /// them.
    pub(crate) fn reserve(&mut self, why: impl Fn(&KiteReservation) -> Option<String>) {
        for claim in self.wanted.iter_mut().filter(|claim| !claim.is_mine()) {
            if let Some(why) = why(&claim.wanted) {
                claim.state = ClaimState::Reserved(why);
            }
        }
    }

    /// Gives back what is not wanted any more, as far as `may_go`: to be done
    /// when nobody is reached by it any more.
    pub fn give_back(&self, may_go: impl Fn(&KiteReservation) -> bool) -> Vec<Step> {
        let stale = self.stale.iter().filter(|claim| may_go(claim));
        let user_uid = self.user_uid.as_deref();
        stale.map(|claim| given_back(claim, user_uid)).collect()
    }

    /// What is to be given back when the object goes.
    pub fn release(&self) -> Vec<Step> {
        self.release_those(|_| true)
    }

    /// The same of volumes, which nothing of it has any more.
    pub(crate) fn release_volumes(&self) -> Vec<Step> {
        self.release_those(|it| it == Claim::Volume)
    }

    fn release_those(&self, which: impl Fn(Claim) -> bool) -> Vec<Step> {
        let mine = self.wanted.iter().filter_map(|claim| match &claim.state {
            ClaimState::Mine(reservation) => Some(reservation),
            ClaimState::Free
            | ClaimState::Held { .. }
            | ClaimState::Kept(_)
            | ClaimState::Reserved(_) => None,
        });
        let user_uid = self.user_uid.as_deref();
        let all = mine.chain(&self.stale).filter(|it| which(it.spec.claim));
        all.map(|claim| given_back(claim, user_uid)).collect()
    }

    /// Takes in what came of a step.
    pub(crate) fn absorb(&mut self, claim: &KiteReservation, state: ClaimState) {
        if let Some(wanted) = self
            .wanted
            .iter_mut()
            .find(|wanted| is_same_claim(&wanted.wanted, claim))
        {
            wanted.state = state;
        } else {
            self.stale.retain(|stale| !is_same_claim(stale, claim));
        }
    }
}

/// How a claim is given back whose holder was the user's of this uid.
fn given_back(claim: &KiteReservation, user_uid: Option<&str>) -> Step {
    if claim.spec.claim.is_kept() {
        Step::Change(Change::Keep(claim.clone(), user_uid.map(str::to_owned)))
    } else {
        Step::Change(Change::Unclaim(claim.clone()))
    }
}

/// How a claim stands whose last holder is the one who asks.
fn state_of_own(claim: KiteReservation) -> ClaimState {
    if claim.spec.kept.is_some() {
        ClaimState::Kept(claim)
    } else {
        ClaimState::Mine(claim)
    }
}

/// Whether both are the same claim: its name is what it claims.
fn is_same_claim(a: &KiteReservation, b: &KiteReservation) -> bool {
    a.metadata.name == b.metadata.name
}

/// How the claim `wanted` stands now.
pub(crate) async fn inspect<C: Cluster>(
    cluster: &C,
    wanted: &KiteReservation,
) -> Result<ClaimState, ClusterError> {
    let key = ObjectKey::of(wanted);
    let Some(reservation) = cluster.get_opt::<KiteReservation>(&key).await? else {
        return Ok(ClaimState::Free);
    };
    if reservation.spec.holder == wanted.spec.holder || reservation.spec.kept.is_some() {
        return Ok(state_of_own(reservation));
    }
    let alive = is_alive(cluster, &reservation.spec.holder).await?;
    let user_uid = if alive {
        None
    } else {
        user_of_departed(cluster, &reservation).await?
    };
    Ok(ClaimState::Held {
        reservation,
        alive,
        user_uid,
    })
}

/// Uid of the user whose VM has gone without giving its claim back. A user who came
/// after the claim is another of the same name.
async fn user_of_departed<C: Cluster>(
    cluster: &C,
    claim: &KiteReservation,
) -> Result<Option<String>, ClusterError> {
    let namespace = claim.spec.holder.namespace.as_deref();
    let Some(user) = namespace.and_then(names::user_of_namespace) else {
        return Ok(None);
    };
    let user = uncached(cluster.get_opt::<KiteUser>(&ObjectKey::cluster(user))).await?;
    let was_there = |user: &KiteUser| user.creation_timestamp() <= claim.creation_timestamp();
    Ok(user.filter(was_there).and_then(|user| user.uid()))
}

/// Makes a claim, and says how it stands after that.
pub(crate) async fn make<C: Cluster>(
    cluster: &C,
    wanted: &KiteReservation,
) -> Result<ClaimState, ClusterError> {
    match cluster.create(wanted).await {
        Ok(made) => Ok(ClaimState::Mine(made)),
        Err(ClusterError::AlreadyExists { .. }) => inspect(cluster, wanted).await,
        Err(error) => Err(error),
    }
}

/// Has a claim say that its holder got what it stands for, and says how it stands
/// after that: it may be gone together with what it stood for.
pub(crate) async fn fulfil<C: Cluster>(
    cluster: &C,
    manager: FieldManager,
    claim: &KiteReservation,
) -> Result<ClaimState, ClusterError> {
    let patch = serde_json::json!({
        "metadata": {"uid": claim.metadata.uid},
        "spec": {"fulfilled": true},
    });
    let key = ObjectKey::of(claim);
    match cluster
        .merge_patch::<KiteReservation>(manager, &key, &patch)
        .await
    {
        Ok(fulfilled) => Ok(ClaimState::Mine(fulfilled)),
        Err(ClusterError::NotFound { .. }) => Ok(ClaimState::Free),
        Err(error) => Err(error),
    }
}

/// Gives a claim back and keeps it for the user of `user_uid` until `until`, and says how
/// it stands after that. Whoever has taken it meanwhile has another version of it.
pub(crate) async fn keep<C: Cluster>(
    cluster: &C,
    manager: FieldManager,
    claim: &KiteReservation,
    kept: Kept,
) -> Result<ClaimState, ClusterError> {
    let patch = serde_json::json!({
        "metadata": version_of(claim),
        "spec": {"kept": kept},
    });
    let key = ObjectKey::of(claim);
    match cluster
        .merge_patch::<KiteReservation>(manager, &key, &patch)
        .await
    {
        Ok(kept) => Ok(ClaimState::Kept(kept)),
        Err(ClusterError::NotFound { .. }) => Ok(ClaimState::Free),
        Err(error) => Err(error),
    }
}

/// Takes back a claim that is kept for whoever makes the claim `wanted`, and says how it
/// stands after that. Nobody can come between, as somebody could if it were freed first.
pub(crate) async fn take_back<C: Cluster>(
    cluster: &C,
    manager: FieldManager,
    kept: &KiteReservation,
    wanted: &KiteReservation,
) -> Result<ClaimState, ClusterError> {
    let mut metadata = version_of(kept);
    metadata["labels"] = serde_json::json!(wanted.metadata.labels);
    let patch = serde_json::json!({
        "metadata": metadata,
        "spec": {"holder": wanted.spec.holder, "kept": null},
    });
    let key = ObjectKey::of(kept);
    match cluster
        .merge_patch::<KiteReservation>(manager, &key, &patch)
        .await
    {
        Ok(taken) => Ok(ClaimState::Mine(taken)),
        Err(ClusterError::NotFound { .. }) => Ok(ClaimState::Free),
        Err(conflict @ ClusterError::Conflict { .. }) => match inspect(cluster, wanted).await? {
            // Another VM of the same owner may have been first.
            ClaimState::Kept(_) => Err(conflict),
            stands => Ok(stands),
        },
        Err(error) => Err(error),
    }
}

/// This very version, as the precondition of an edit: a reservation changes its holder
/// when it is taken back, and stays the same object.
fn version_of(claim: &KiteReservation) -> serde_json::Value {
    serde_json::json!({
        "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
    })
}

/// Gives a claim back. One that was made anew meanwhile for the same holder is
/// still theirs to give back: a conflict, after which it is looked at again.
pub(crate) async fn give_up<C: Cluster>(
    cluster: &C,
    claim: &KiteReservation,
) -> Result<(), ClusterError> {
    let key = ObjectKey::of(claim);
    let uid = claim.uid().unwrap_or_default();
    let propagation = PropagationPolicy::Background;
    match cluster
        .delete::<KiteReservation>(&key, &uid, propagation)
        .await
    {
        Err(ClusterError::NotFound { .. }) => Ok(()),
        Err(conflict @ ClusterError::Conflict { .. }) => {
            match cluster.get_opt::<KiteReservation>(&key).await? {
                Some(left) if left.spec.holder == claim.spec.holder => Err(conflict),
                Some(_) | None => Ok(()),
            }
        }
        done => done.map(drop),
    }
}

/// Whether the holder still exists. That it does not is only believed of the API
/// server itself: a cache may not have heard of it yet.
pub(crate) async fn is_alive<C: Cluster>(
    cluster: &C,
    holder: &Holder,
) -> Result<bool, ClusterError> {
    Ok(is_known(cluster, holder).await? || uncached(is_known(cluster, holder)).await?)
}

async fn is_known<C: Cluster>(cluster: &C, holder: &Holder) -> Result<bool, ClusterError> {
    let key = ObjectKey {
        namespace: holder.namespace.clone(),
        name: holder.name.clone(),
    };
    let uid = match holder.kind {
        HolderKind::KiteVirtualMachine => cluster
            .get_opt::<KiteVirtualMachine>(&key)
            .await?
            .and_then(|holder| holder.uid()),
        HolderKind::KiteUser => cluster
            .get_opt::<KiteUser>(&key)
            .await?
            .and_then(|holder| holder.uid()),
    };
    Ok(uid.as_deref() == Some(holder.uid.as_str()))
}

/// Who holds a claim, for people.
pub(crate) fn holder_text(holder: &Holder) -> String {
    match (&holder.kind, &holder.namespace) {
        (HolderKind::KiteVirtualMachine, Some(namespace)) => {
            format!("VM {namespace}/{}", holder.name)
        }
        (HolderKind::KiteVirtualMachine, None) => format!("VM {}", holder.name),
        (HolderKind::KiteUser, _) => format!("user {}", holder.name),
    }
}

//! What the plan of a volume depends on.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ClusterExt as _, ObjectKey},
    crd::{KitePlatformSpec, KiteReservation, KiteUser, KiteVolume},
    names,
};
use kite_render::Volume;

use super::share;
use crate::{
    Error,
    cache::uncached,
    claims::is_alive,
    objects::AnyObject,
    plan::{Outcome, Refusal},
    platform,
    siblings::{self, Siblings},
};

/// What was seen of a volume and of what it depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// When it was looked at.
    pub now: Timestamp,
    /// The platform's settings; only looked at while there is no disk.
    pub platform: KitePlatformSpec,
    /// The user in whose namespace it is, if it is a user's.
    pub owner: Option<KiteUser>,
    /// All volumes in the owner's namespace; only looked at when it is to have more than it was
    /// granted, to judge the owner's quota.
    pub siblings: Siblings<KiteVolume>,
    /// What has its disk's name.
    pub disk: Option<DataVolume>,
    /// What has the name of its disk's claim.
    pub claim: Option<PersistentVolumeClaim>,
    /// The reservation of the VM that has it.
    pub holder: Option<KiteReservation>,
    /// Whether that VM is gone; only looked at when the volume goes.
    pub holder_is_gone: bool,
    /// What was refused a while ago or just now, and is not tried again yet.
    pub refused: Vec<Refusal>,
}

impl Observed {
    /// Reads all of it.
    ///
    /// # Errors
    /// [`Error::Cluster`] if the API server refuses a read, [`Error::Render`] if the object has
    /// no name, namespace or uid.
    pub async fn read<C: Cluster>(object: &KiteVolume, cluster: &C) -> Result<Self, Error> {
        let volume = Volume::of(object)?;
        let goes = object.metadata.deletion_timestamp.is_some();
        let own = || ObjectKey::namespaced(volume.namespace, names::volume_disk(volume.name));
        let reservation = names::volume_reservation(volume.namespace, volume.name);
        let mut seen = Self {
            disk: cluster.get_opt(&own()).await?,
            claim: cluster.get_opt(&own()).await?,
            holder: cluster.get_opt(&ObjectKey::cluster(reservation)).await?,
            ..Self::default()
        };
        if goes {
            if let Some(holder) = &seen.holder {
                seen.holder_is_gone = !is_alive(cluster, &holder.spec.holder).await?;
            }
            return Ok(seen);
        }
        if seen.disk.is_none() || seen.claim.is_none() {
            // That data is gone is a grave thing to say, and that there was none is one to be
            // sure of: caches do not do for that.
            seen.disk = uncached(cluster.get_opt(&own())).await?;
            seen.claim = uncached(cluster.get_opt(&own())).await?;
        }
        if let Some(user) = names::user_of_namespace(volume.namespace) {
            seen.owner = cluster.get_opt(&ObjectKey::cluster(user)).await?;
        }
        if seen.is_gone() {
            let platform = platform::find(cluster).await?;
            seen.platform = platform.map(|it| it.spec).unwrap_or_default();
        }
        if seen.owner.is_some() && share::asks(&volume, &seen) {
            seen.siblings = siblings::told(object, cluster).await?;
        }
        Ok(seen)
    }

    /// Whether there is neither a disk nor a claim of its name.
    fn is_gone(&self) -> bool {
        self.disk.is_none() && self.claim.is_none()
    }

    /// Takes in what was refused a while ago.
    pub(super) fn recall(&mut self, refusal: Refusal) {
        self.refused.retain(|it| it.of != refusal.of);
        self.refused.push(refusal);
    }

    /// Takes in what came of a change.
    pub fn absorb(&mut self, outcome: Outcome) {
        let (object, is_gone) = match outcome {
            Outcome::Refused(refusal) => return self.recall(refusal),
            Outcome::Claimed(..) => {
                self.holder = None;
                return;
            }
            Outcome::Stored(object) => (object, false),
            Outcome::Gone(object) => (object, true),
            Outcome::RestartAsked | Outcome::Froze | Outcome::Thawed => return,
        };
        match object {
            AnyObject::DataVolume(disk) => self.disk = (!is_gone).then_some(*disk),
            AnyObject::PersistentVolumeClaim(claim) => {
                self.claim = (!is_gone).then_some(*claim);
            }
            _ => {}
        }
    }
}

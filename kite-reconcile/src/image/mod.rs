//! `KiteImage`: a golden image in the image namespace, and how far it is.
//!
//! An image is a disk that is filled once (`DataVolume`), one that CDI fetches
//! again by a schedule (`DataImportCron`), or a claim or snapshot that is there
//! already. VMs clone it by the `DataSource` of its name, whatever stands behind
//! that; their disks are copies of their own, and outlive it.

mod delete;
mod draft;
mod home;
mod import;
mod judge;
mod plan;
mod size;
mod source;

use std::ops::Deref;

use async_trait::async_trait;
use futures::try_join;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kite_core::{
    cdi::{DataImportCron, DataSource, DataVolume},
    cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey},
    crd::{ImagePhase, KiteImage, KiteImageStatus, KitePlatformSpec},
};
use kite_render::{Image, image};
use kube::{ResourceExt as _, api::ListParams, runtime::controller::Action};

pub(crate) use self::judge::stands_still;
pub use self::plan::plan;
use crate::{
    Error,
    cache::reading::as_known,
    context::{Context, Tools},
    plan::{Outcome, Plan},
    platform,
    slots::slots,
};
use kite_runtime::plan::{Planner, Urgency, reconcile as reconcile_by_plan};

/// Reconciles one image.
///
/// # Errors
/// An [`Error`] if the API server refuses something, or the plan comes to no end. What people
/// have to mend is told in the status instead.
pub async fn reconcile<C: Cluster>(
    image: &KiteImage,
    context: &Context<C>,
) -> Result<Action, Error> {
    reconcile_by_plan(&Images(context.tools()), image, &context.shared).await
}

slots! {
    /// What there is under the name of what is made for an image.
    pub struct Made;

    /// The disk into which it is imported once.
    disk: DataVolume = str::to_owned;
    /// What imports it again and again.
    cron: DataImportCron = str::to_owned;
    /// The name under which VM disks are cloned from it.
    source: DataSource = str::to_owned;
}

/// What was seen of an image.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The platform's settings; the defaults if there are none.
    pub platform: KitePlatformSpec,
    /// The namespace of golden images is not there; only asked while nothing of
    /// the image is, and it does not go.
    pub is_homeless: bool,
    /// What there is under its name.
    pub made: Made,
    /// The import that the cron has under way, or its last one.
    pub import: Option<DataVolume>,
    /// The claim that it is, if it is one that was there already.
    pub claim: Option<PersistentVolumeClaim>,
    /// What CDI made that claim for, if it did.
    pub claim_disk: Option<DataVolume>,
    /// Disks that are being cloned from it, whether a VM's status names them yet
    /// or not; only looked at when it goes.
    pub cloning: Vec<ObjectKey>,
}

/// The reconciler of images.
pub(crate) struct Images<'a>(Tools<'a>);

#[async_trait]
impl<'a> Planner for Images<'a> {
    type Object = KiteImage;
    type Status = KiteImageStatus;
    type Observed = Observed;
    type Executor = Tools<'a>;

    fn executor(&self) -> &Tools<'a> {
        &self.0
    }

    async fn observe<C: Cluster>(
        &self,
        object: &KiteImage,
        cluster: &C,
    ) -> Result<Observed, Error> {
        let image = Image::of(object)?;
        let goes = object.metadata.deletion_timestamp.is_some();
        let status = object.status.as_ref();
        let is_placed = status.is_some_and(|status| status.namespace.is_some());
        let platform = platform::find(cluster);
        let platform = if goes && is_placed {
            // It is cleared away where it was made, whatever the settings say now.
            as_known(platform).await?
        } else {
            platform.await?
        };
        let platform = platform.map(|found| found.spec).unwrap_or_default();
        // An image stays where it was made, wherever new ones go.
        let home = image::namespace(object, &platform).to_owned();
        let space = ObjectKey::cluster(&home);
        let here = |name: &str| ObjectKey::namespaced(&home, name);
        let key = here(image.name);
        let by_schedule = object.spec.refresh_schedule.is_some();
        // Of one that goes either may be there, if nobody can read how it was made.
        let is_doubtful = goes && object.spec.unreadable.is_some();
        let given = object.spec.source.pvc.as_ref().map(|pvc| here(&pvc.name));
        let (disk, cron, claim, claim_disk, source) = try_join!(
            find_if(cluster, (!by_schedule || is_doubtful).then_some(&key)),
            find_if::<DataImportCron, C>(cluster, (by_schedule || is_doubtful).then_some(&key)),
            find_if(cluster, given.as_ref()),
            find_if(cluster, given.as_ref()),
            cluster.get_opt(&key),
        )?;
        let is_at_home = disk.is_some() || cron.is_some() || claim.is_some() || source.is_some();
        let is_homeless =
            !goes && !is_at_home && cluster.get_opt::<Namespace>(&space).await?.is_none();
        let status = cron.as_ref().and_then(|cron| cron.status.as_ref());
        let import_key = status
            .and_then(|status| status.current_imports.first())
            .map(|import| here(&import.data_volume_name));
        let import = find_if(cluster, import_key.as_ref()).await?;
        let cloning = if goes {
            let claims = [Some(&key), given.as_ref(), import_key.as_ref()];
            let claims = claims.into_iter().flatten();
            cloning(&key, &claims.collect::<Vec<_>>(), cluster).await?
        } else {
            Vec::new()
        };
        Ok(Observed {
            platform: KitePlatformSpec {
                image_namespace: Some(home),
                ..platform
            },
            is_homeless,
            made: Made { disk, cron, source },
            import,
            claim,
            claim_disk,
            cloning,
        })
    }

    fn plan(
        &self,
        object: &KiteImage,
        observed: &Observed,
    ) -> Result<Plan<KiteImageStatus>, Error> {
        plan(object, observed)
    }

    fn absorb(&self, image: &KiteImage, observed: &mut Observed, outcome: Outcome) {
        observed.absorb(&image.name_any(), outcome);
    }

    /// How far an import is can wait.
    fn urgency(&self, old: &KiteImageStatus, new: &KiteImageStatus) -> Urgency {
        let is_on_its_way = matches!(new.phase, Some(ImagePhase::Pending | ImagePhase::Importing));
        let is_same = old.phase == new.phase && old.observed_generation == new.observed_generation;
        if is_on_its_way && is_same {
            Urgency::Later
        } else {
            Urgency::Now
        }
    }
}

/// Reads an object, if one is meant.
async fn find_if<K: Object, C: Cluster>(
    cluster: &C,
    key: Option<&ObjectKey>,
) -> Result<Option<K>, ClusterError> {
    match key {
        Some(key) => cluster.get_opt(key).await,
        None => Ok(None),
    }
}

/// The disks that are being cloned from the `DataSource` `source`, or from one of
/// the `claims` behind it. Of a VM that was made a moment ago nothing but its
/// disk may say so.
async fn cloning<C: Cluster>(
    source: &ObjectKey,
    claims: &[&ObjectKey],
    cluster: &C,
) -> Result<Vec<ObjectKey>, ClusterError> {
    let all = ListParams::default();
    let disks = cluster.list::<DataVolume>(None, &all).await?.complete()?;
    let is_cloning = |disk: &&DataVolume| {
        let phase = disk.status.as_ref().and_then(|it| it.phase.as_deref());
        phase != Some("Succeeded")
            && disk.metadata.deletion_timestamp.is_none()
            && (refers_to(disk, source) || claims.iter().any(|claim| copies(disk, claim)))
    };
    let cloning = disks.iter().filter(is_cloning);
    Ok(cloning.map(ObjectKey::of).collect())
}

/// Whether a disk is cloned by the name of a `DataSource`.
fn refers_to(disk: &DataVolume, source: &ObjectKey) -> bool {
    let home = disk.metadata.namespace.as_ref();
    disk.spec.source_ref.as_ref().is_some_and(|reference| {
        reference.kind == "DataSource"
            && reference.name == source.name
            && reference.namespace.as_ref().or(home) == source.namespace.as_ref()
    })
}

/// Whether a disk is a copy of this claim.
fn copies(disk: &DataVolume, claim: &ObjectKey) -> bool {
    let source = disk.spec.source.as_ref().and_then(|it| it.pvc.as_ref());
    source.is_some_and(|source| {
        source.name == claim.name && Some(&source.namespace) == claim.namespace.as_ref()
    })
}

impl Observed {
    /// Takes in what came of a change for the image of this name.
    pub fn absorb(&mut self, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Stored(object) => self.made.take(name, object, false),
            Outcome::Gone(object) => self.made.take(name, object, true),
            _ => {}
        }
    }
}

impl Deref for Observed {
    type Target = Made;

    fn deref(&self) -> &Made {
        &self.made
    }
}

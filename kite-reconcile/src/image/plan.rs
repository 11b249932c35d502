//! What to do about an image. Pure.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::OwnerReference};
use kite_core::{
    cdi::{DATA_IMPORT_CRON_LABEL, DataImportCron, DataSource},
    cluster::Object,
    conditions::NewCondition,
    crd::{ImagePhase, KiteImage, KiteImageStatus},
    labels::IMAGE_FINALIZER,
    quantity::Bytes,
};
use kite_render::{Image, image};
use kube::{ResourceExt as _, api::PropagationPolicy};

use super::{
    Observed,
    judge::{self, READY},
};
use crate::{
    Error,
    objects::AnyObject,
    plan::{Change, Plan, Step},
    standing::{Needed, Standing, guarded, needed, standing},
    unreadable::unreadable,
};

/// When to look at an image again that waits for nothing.
const RESYNC: Duration = Duration::from_secs(600);
/// When to look again at what is on its way out.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// When to look again at what waits for somebody.
const SOON: Duration = Duration::from_secs(30);
/// How many disks are named to a person at most.
const NAMED: usize = 5;

/// What to do about the image `object`, given what was observed.
pub fn plan(object: &KiteImage, seen: &Observed) -> Result<Plan<KiteImageStatus>, Error> {
    let image = Image::of(object)?;
    let (steps, phase, condition) = if object.metadata.deletion_timestamp.is_some() {
        let (steps, message) = deletion(&image, seen);
        let condition = NewCondition::new(READY, false, "Deleting", message);
        (steps, ImagePhase::Deleting, condition)
    } else if let Some(why) = object.unreadable() {
        let condition = unreadable(READY, "the image", &why);
        (Vec::new(), ImagePhase::Failed, condition)
    } else {
        match steps(&image, seen) {
            Ok(steps) => {
                let (phase, condition) = judge::judge(&image, seen);
                (steps, phase, condition)
            }
            Err(condition) => (Vec::new(), ImagePhase::Failed, condition),
        }
    };
    let disk = seen.disk.as_ref().or(seen.import.as_ref());
    let status = disk.and_then(|disk| disk.status.as_ref());
    let up_to_date = judge::up_to_date(&image, seen);
    let unread = object.status.as_ref().and_then(|it| it.unreadable.clone());
    // Where it was made is not forgotten for being written in a way that is not known.
    let is_placed = !unread.as_ref().is_some_and(|it| it.keeps("namespace"));
    Ok(Plan {
        steps,
        status: KiteImageStatus {
            observed_generation: None,
            phase: Some(phase),
            progress: status.and_then(|status| status.progress.clone()),
            size: (phase == ImagePhase::Ready).then(|| size(seen)).flatten(),
            namespace: is_placed.then(|| seen.platform.image_namespace().to_owned()),
            conditions: Vec::new(),
            unreadable: unread,
        },
        conditions: [condition].into_iter().chain(up_to_date).collect(),
        requeue_after: match phase {
            ImagePhase::Deleting => LOOK_AGAIN,
            // Nothing tells of a namespace that comes.
            ImagePhase::Failed => SOON,
            _ => RESYNC,
        },
    })
}

fn has_finalizer(image: &Image<'_>) -> bool {
    let finalizers = image.object.finalizers();
    finalizers.iter().any(|name| name == IMAGE_FINALIZER)
}

fn steps(image: &Image<'_>, seen: &Observed) -> Result<Vec<Step>, NewCondition> {
    if !has_finalizer(image) {
        return Ok(vec![Step::AddFinalizer(IMAGE_FINALIZER)]);
    }
    if seen.is_homeless {
        let message = format!(
            "namespace {}, in which golden images are kept, is not there: create it, or name \
             another in KitePlatform spec.imageNamespace before images are made",
            seen.platform.image_namespace()
        );
        return Err(NewCondition::new(READY, false, "NamespaceMissing", message));
    }
    let mut steps = Vec::new();
    if let Some(mut desired) = image::data_volume(image, &seen.platform) {
        if let Some(stored) = &seen.disk {
            // Immutable once made.
            desired.spec = stored.spec.clone();
        }
        want(&mut steps, &desired, seen.disk.as_ref())?;
    }
    if let Some(mut desired) = image::import_cron(image, &seen.platform) {
        if let Some(stored) = &seen.cron {
            // Immutable once made.
            desired.spec = stored.spec.clone();
        }
        want(&mut steps, &desired, seen.cron.as_ref())?;
    }
    match image::data_source(image, &seen.platform) {
        Some(desired) => want(&mut steps, &desired, seen.source.as_ref())?,
        None => {
            if let Some(source) = &seen.source
                && !is_kept_by_cron(image, seen, source)
            {
                let message = format!(
                    "DataSource {} is there and belongs to something else: it must go, or the \
                     image needs another name",
                    image.name
                );
                return Err(NewCondition::new(READY, false, "NameTaken", message));
            }
        }
    }
    Ok(steps)
}

/// Whether CDI keeps the `DataSource` for the image's cron, and not for one of somebody else's
/// that has the name.
fn is_kept_by_cron(image: &Image<'_>, seen: &Observed, source: &DataSource) -> bool {
    let like = image.metadata(seen.platform.image_namespace());
    let is_foreign = |cron: &DataImportCron| standing(&cron.metadata, &like) == Standing::Foreign;
    let cron = source.labels().get(DATA_IMPORT_CRON_LABEL);
    let spec = &image.object.spec;
    // Of one that cannot be read nobody knows how it was made.
    (spec.refresh_schedule.is_some() || spec.unreadable.is_some())
        && cron.is_some_and(|cron| cron == image.name)
        && !seen.cron.as_ref().is_some_and(is_foreign)
}

fn want<K: Object>(
    steps: &mut Vec<Step>,
    desired: &K,
    stored: Option<&K>,
) -> Result<(), NewCondition>
where
    AnyObject: From<K>,
{
    let stopped = |reason: &str, message| NewCondition::new(READY, false, reason, message);
    match needed(desired, stored, "image") {
        Needed::Nothing => Ok(()),
        Needed::Apply => {
            steps.push(Step::Change(Change::Apply(guarded(desired, stored).into())));
            Ok(())
        }
        Needed::Wait(message) => Err(stopped("WaitingForDeletion", message)),
        Needed::Blocked(message) => Err(stopped("NameTaken", message)),
    }
}

/// The size of a disk that holds the image: that of the claim that is cloned.
fn size(seen: &Observed) -> Option<Bytes> {
    let requested = |disk: &kite_core::cdi::DataVolumeSpec| -> Option<Quantity> {
        let resources = disk.storage.as_ref()?.resources.as_ref()?;
        resources.requests.as_ref()?.get("storage").cloned()
    };
    let of_disk = seen.disk.as_ref().and_then(|disk| requested(&disk.spec));
    let of_cron = || requested(&seen.cron.as_ref()?.spec.template.spec);
    let of_claim_disk = || {
        // CDI makes the claim larger than what is on it.
        let disk = seen.claim_disk.as_ref()?;
        let owners = seen.claim.as_ref()?.metadata.owner_references.iter();
        let is_its = |owner: &OwnerReference| Some(&owner.uid) == disk.metadata.uid.as_ref();
        owners.flatten().any(is_its).then_some(())?;
        requested(&disk.spec)
    };
    let of_claim = || {
        let status = seen.claim.as_ref()?.status.as_ref()?;
        status.capacity.as_ref()?.get("storage").cloned()
    };
    let size = of_disk
        .or_else(of_cron)
        .or_else(of_claim_disk)
        .or_else(of_claim)?;
    size.0.parse().ok()
}

/// The name goes before what stands behind it, so that no clone begins of what
/// is going; and clones that have begun may end.
fn deletion(image: &Image<'_>, seen: &Observed) -> (Vec<Step>, String) {
    if !has_finalizer(image) {
        return (
            Vec::new(),
            "waiting for the finalizers of others to go".to_owned(),
        );
    }
    if !seen.cloning.is_empty() {
        return (Vec::new(), waiting_for_clones(seen));
    }
    let like = image.metadata(seen.platform.image_namespace());
    let left: [Option<AnyObject>; 3] = [
        // CDI removes what a cron keeps, after it.
        seen.cron.clone().map(AnyObject::from),
        seen.source.clone().map(AnyObject::from),
        seen.disk.clone().map(AnyObject::from),
    ];
    for object in left.into_iter().flatten() {
        let message = format!("waiting for {} {} to go", object.kind(), object.key());
        let standing = match &seen.source {
            // What is left of a cron that is gone.
            Some(source) if matches!(object, AnyObject::DataSource(_)) => {
                if is_kept_by_cron(image, seen, source)
                    && source.metadata.deletion_timestamp.is_none()
                {
                    Standing::Ours
                } else {
                    standing(object.metadata(), &like)
                }
            }
            _ => standing(object.metadata(), &like),
        };
        match standing {
            Standing::Ours => {
                let step = Step::Change(Change::Delete(object, PropagationPolicy::Background));
                return (vec![step], message);
            }
            Standing::Leaving => return (Vec::new(), message),
            Standing::Foreign => {}
        }
    }
    (vec![Step::RemoveFinalizer(IMAGE_FINALIZER)], String::new())
}

fn waiting_for_clones(seen: &Observed) -> String {
    let mut names: Vec<String> = seen.cloning.iter().map(ToString::to_string).collect();
    names.sort();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "waiting for the disks that are being cloned from it, {}{more}: disks that are cloned \
         stay as they are; one that cannot be cloned goes with its VM",
        names.join(", ")
    )
}

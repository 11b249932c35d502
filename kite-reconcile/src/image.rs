//! `KiteImage`: a golden image in the image namespace, and how far it is.

use std::time::Duration;

use async_trait::async_trait;
use futures::try_join;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::{
    cdi::{DataSource, DataVolume},
    cluster::{Cluster, ClusterExt as _, Object, ObjectKey},
    conditions::NewCondition,
    crd::{ImagePhase, KiteImage, KiteImageStatus, KitePlatform, KitePlatformSpec},
    labels::IMAGE_FINALIZER,
    names,
    quantity::Bytes,
};
use kite_render::{Image, image};
use kube::{ResourceExt as _, api::PropagationPolicy, runtime::controller::Action};

use crate::{
    Error,
    context::{Context, Settings},
    drive::{self, Reconciler},
    objects::AnyObject,
    plan::{Outcome, Plan, Step},
    standing::{Needed, Standing, needed, standing},
};

/// When to look at an image again that waits for nothing.
const RESYNC: Duration = Duration::from_secs(600);
/// When to look again at what is on its way out.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

const READY: &str = "Ready";

/// Reconciles one image.
pub async fn reconcile<C: Cluster>(
    image: &KiteImage,
    context: &Context<C>,
) -> Result<Action, Error> {
    drive::reconcile::<Images, C>(image, context).await
}

/// What was seen of an image.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The platform's settings; the defaults if there are none.
    pub platform: KitePlatformSpec,
    /// The disk into which it is imported.
    pub disk: Option<DataVolume>,
    /// The name under which VM disks are cloned from it.
    pub source: Option<DataSource>,
}

/// The reconciler of images.
pub(crate) struct Images;

#[async_trait]
impl Reconciler for Images {
    type Object = KiteImage;
    type Status = KiteImageStatus;
    type Observed = Observed;

    const KIND: &'static str = "KiteImage";

    async fn observe<C: Cluster>(
        object: &KiteImage,
        cluster: &C,
        _: &Settings,
    ) -> Result<Observed, Error> {
        let image = Image::of(object)?;
        let platform = cluster
            .find::<KitePlatform>(&ObjectKey::cluster(names::PLATFORM))
            .await?
            .map(|platform| platform.spec)
            .unwrap_or_default();
        // An image stays where it was made, wherever new ones go.
        let namespace = image::namespace(object, &platform).to_owned();
        let key = ObjectKey::namespaced(&namespace, image.name);
        let (disk, source) = try_join!(cluster.find(&key), cluster.find(&key))?;
        Ok(Observed {
            platform: KitePlatformSpec {
                image_namespace: Some(namespace),
                ..platform
            },
            disk,
            source,
        })
    }

    fn plan(
        object: &KiteImage,
        observed: &Observed,
        _: &Settings,
    ) -> Result<Plan<KiteImageStatus>, Error> {
        plan(object, observed)
    }

    fn absorb(observed: &mut Observed, outcome: Outcome) {
        let (object, gone) = match outcome {
            Outcome::Claimed(..)
            | Outcome::GrowthRefused(_)
            | Outcome::ExposureRefused(_)
            | Outcome::RestartAsked => return,
            Outcome::Stored(object) => (object, false),
            Outcome::Gone(object) => (object, true),
        };
        match object {
            AnyObject::DataVolume(disk) => observed.disk = (!gone).then_some(*disk),
            AnyObject::DataSource(source) => observed.source = (!gone).then_some(*source),
            _ => {}
        }
    }

    fn status(object: &KiteImage) -> Option<&KiteImageStatus> {
        object.status.as_ref()
    }

    /// How far an import is can wait.
    fn is_urgent(old: &KiteImageStatus, new: &KiteImageStatus) -> bool {
        let is_on_its_way = matches!(new.phase, Some(ImagePhase::Pending | ImagePhase::Importing));
        !is_on_its_way
            || old.phase != new.phase
            || old.observed_generation != new.observed_generation
    }

    fn conditions(status: &KiteImageStatus) -> &[Condition] {
        &status.conditions
    }

    fn observed_generation(status: &KiteImageStatus) -> Option<i64> {
        status.observed_generation
    }

    fn complete(
        status: KiteImageStatus,
        conditions: Vec<Condition>,
        generation: Option<i64>,
    ) -> KiteImageStatus {
        KiteImageStatus {
            conditions,
            observed_generation: generation,
            ..status
        }
    }

    fn carrier(object: &KiteImage, status: KiteImageStatus) -> KiteImage {
        KiteImage {
            metadata: drive::carrier_metadata(&object.metadata),
            spec: object.spec.clone(),
            status: Some(status),
        }
    }
}

/// What to do about an image. Pure.
pub fn plan(object: &KiteImage, seen: &Observed) -> Result<Plan<KiteImageStatus>, Error> {
    let image = Image::of(object)?;
    let (steps, phase, condition) = if object.metadata.deletion_timestamp.is_some() {
        let (steps, message) = deletion(&image, seen);
        let condition = NewCondition::new(READY, false, "Deleting", message);
        (steps, ImagePhase::Deleting, condition)
    } else {
        match steps(&image, seen) {
            Ok(steps) => {
                let (phase, condition) = judge(&image, seen);
                (steps, phase, condition)
            }
            Err(condition) => (Vec::new(), ImagePhase::Failed, condition),
        }
    };
    let status = seen.disk.as_ref().and_then(|disk| disk.status.as_ref());
    Ok(Plan {
        steps,
        status: KiteImageStatus {
            observed_generation: None,
            phase: Some(phase),
            progress: status.and_then(|status| status.progress.clone()),
            size: (phase == ImagePhase::Ready).then(|| size(seen)).flatten(),
            namespace: Some(seen.platform.image_namespace().to_owned()),
            conditions: Vec::new(),
        },
        conditions: [condition].into_iter().chain(refreshing(&image)).collect(),
        again: if phase == ImagePhase::Deleting {
            LOOK_AGAIN
        } else {
            RESYNC
        },
    })
}

/// That a newer image is looked for, where the spec asks for it.
fn refreshing(image: &Image<'_>) -> Option<NewCondition> {
    image.object.spec.refresh_schedule.as_ref()?;
    Some(NewCondition::new(
        "Refreshing",
        false,
        "NotAvailable",
        "spec.refreshSchedule is not available yet: the image is imported once; to have a newer \
         one, create another image",
    ))
}

fn steps(image: &Image<'_>, seen: &Observed) -> Result<Vec<Step>, NewCondition> {
    if !image
        .object
        .finalizers()
        .iter()
        .any(|f| f == IMAGE_FINALIZER)
    {
        return Ok(vec![Step::AddFinalizer(IMAGE_FINALIZER)]);
    }
    let mut steps = Vec::new();
    if let Some(mut desired) = image::data_volume(image, &seen.platform) {
        if let Some(stored) = &seen.disk {
            // Immutable once made.
            desired.spec = stored.spec.clone();
        }
        want(&mut steps, &desired, seen.disk.as_ref())?;
    }
    let desired = image::data_source(image, &seen.platform);
    want(&mut steps, &desired, seen.source.as_ref())?;
    Ok(steps)
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
            steps.push(Step::Apply(desired.clone().into()));
            Ok(())
        }
        Needed::Wait(message) => Err(stopped("WaitingForDeletion", message)),
        Needed::Blocked(message) => Err(stopped("NameTaken", message)),
    }
}

fn judge(image: &Image<'_>, seen: &Observed) -> (ImagePhase, NewCondition) {
    let source = &image.object.spec.source;
    let condition = |status: bool, reason: &str, message: String| {
        NewCondition::new(READY, status, reason, message)
    };
    if source.http.is_none() && source.registry.is_none() {
        return judge_source(seen);
    }
    let status = seen.disk.as_ref().and_then(|disk| disk.status.as_ref());
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Succeeded") => (
            ImagePhase::Ready,
            condition(
                true,
                "Imported",
                "disks can be cloned from the image".to_owned(),
            ),
        ),
        Some("Failed") => (
            ImagePhase::Failed,
            condition(
                false,
                "ImportFailed",
                "the import failed: check spec.source, then delete the image and create it again"
                    .to_owned(),
            ),
        ),
        None | Some("Pending" | "") => (
            ImagePhase::Pending,
            condition(false, "Pending", "the import has not begun".to_owned()),
        ),
        Some(phase) => (
            ImagePhase::Importing,
            condition(
                false,
                "Importing",
                format!("the image is being imported ({phase})"),
            ),
        ),
    }
}

/// A claim or a snapshot that is there already: its `DataSource` says whether.
fn judge_source(seen: &Observed) -> (ImagePhase, NewCondition) {
    let ready = seen
        .source
        .as_ref()
        .and_then(|source| source.status.as_ref())
        .and_then(|status| status.conditions.iter().find(|found| found.type_ == READY));
    match ready {
        Some(ready) if ready.status == "True" => (
            ImagePhase::Ready,
            NewCondition::new(
                READY,
                true,
                "Available",
                "disks can be cloned from the image",
            ),
        ),
        found => {
            let message = found
                .and_then(|ready| ready.message.clone())
                .filter(|message| !message.is_empty())
                .unwrap_or_else(|| "CDI has not looked at it yet".to_owned());
            (
                ImagePhase::Pending,
                NewCondition::new(
                    READY,
                    false,
                    "SourceNotReady",
                    format!(
                        "what spec.source names is not usable in namespace {}: {message}",
                        seen.platform.image_namespace()
                    ),
                ),
            )
        }
    }
}

fn size(seen: &Observed) -> Option<Bytes> {
    let storage = seen.disk.as_ref()?.spec.storage.as_ref()?;
    let requests = storage.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage")?.0.parse().ok()
}

/// The name goes before the disk, so that no clone begins of what is going.
fn deletion(image: &Image<'_>, seen: &Observed) -> (Vec<Step>, String) {
    if !image
        .object
        .finalizers()
        .iter()
        .any(|f| f == IMAGE_FINALIZER)
    {
        return (
            Vec::new(),
            "waiting for the finalizers of others to go".to_owned(),
        );
    }
    let like = image.metadata(seen.platform.image_namespace());
    let left: [Option<AnyObject>; 2] = [
        seen.source.clone().map(AnyObject::from),
        seen.disk.clone().map(AnyObject::from),
    ];
    for object in left.into_iter().flatten() {
        let message = format!("waiting for {} {} to go", object.kind(), object.key());
        match standing(object.metadata(), &like) {
            Standing::Ours => {
                let step = Step::Delete(object, PropagationPolicy::Background);
                return (vec![step], message);
            }
            Standing::Leaving => return (Vec::new(), message),
            Standing::Foreign => {}
        }
    }
    (vec![Step::RemoveFinalizer(IMAGE_FINALIZER)], String::new())
}

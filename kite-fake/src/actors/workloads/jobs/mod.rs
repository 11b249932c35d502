//! Jobs, with the Pods that do their work.

mod indexes;
mod look;
mod manage;
mod pods;
mod policies;
mod progress;
mod spec;
mod sync;

use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, PropagationPolicy};
use parking_lot::Mutex;

use self::indexes::Indexes;
pub(super) use self::progress::ending;
use self::progress::{finished_at, is_finished};
use self::spec::Spec;
use super::owned::{Owners, controller};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{JOB, Key, Kind, POD};
use crate::actors::labels::selects;
use crate::actors::objects::{Deletion, Objects, is_deleting, uid};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[JOB, POD];
/// Who tells events.
const COMPONENT: &str = "job-controller";
/// At least this long a time is waited for, also where clocks stand still.
const SHORTEST: Duration = Duration::from_millis(10);
/// At most this long, before clocks are looked at again.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Plays the Job controller, and the one that deletes Jobs some time after their end:
/// a Job has Pods until as many have succeeded as it asks for, or too many have failed.
#[derive(Debug)]
pub struct Jobs {
    owners: Mutex<Owners>,
}

impl Default for Jobs {
    fn default() -> Self {
        let owners = Mutex::new(Owners::of_kind(JOB));
        Self { owners }
    }
}

#[async_trait]
impl Actor for Jobs {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let mut keys = self.owners.lock().saw(change);
        if change.kind == JOB {
            // Of one that is gone Pods may be left.
            return vec![change.key()];
        }
        let object = &change.object;
        // Its Job may not be there any more.
        let may_be_stray = controller(object).is_none() || is_deleting(object);
        if !change.gone && may_be_stray && pods::is_tracked(object) {
            keys.push(change.key());
        }
        keys
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(object) = objects.get(key).await? else {
            if key.kind == JOB {
                release_all(objects, key).await?;
            }
            return Ok(Next::Done);
        };
        if key.kind == POD {
            release_stray(objects, key, &object).await?;
            return Ok(Next::Done);
        }
        let spec = Spec::of(&object);
        let is_finished = is_finished(&object.data["status"]);
        if spec.is_anothers() && !is_finished {
            return Ok(Next::Done);
        }
        if is_finished {
            if !spec.is_anothers() {
                release_all(objects, key).await?;
            }
            return end(context, objects, key, &object).await;
        }
        sync::sync(context, objects, key, &object).await
    }
}

/// How long it is until `seconds` after a time that a status tells: nothing if that is
/// over.
fn until(context: &Context, since: &str, seconds: i64) -> Duration {
    let Ok(since) = since.parse::<Timestamp>() else {
        return Duration::ZERO;
    };
    let Ok(at) = since.checked_add(SignedDuration::from_secs(seconds)) else {
        return LONGEST;
    };
    let rest = at.duration_since(context.clock.now());
    let rest = Duration::try_from(rest).unwrap_or_default();
    if rest.is_zero() {
        rest
    } else {
        rest.clamp(SHORTEST, LONGEST)
    }
}

/// Deletes a finished Job when its time is over.
async fn end(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    job: &DynamicObject,
) -> Result<Next, ActorError> {
    let Some(seconds) = Spec::of(job).seconds_to_live() else {
        return Ok(Next::Done);
    };
    if is_deleting(job) {
        return Ok(Next::Done);
    }
    // Nobody knows how long ago one ended that does not say when.
    let since = finished_at(&job.data["status"]).filter(|it| it.parse::<Timestamp>().is_ok());
    let Some(since) = since else {
        return Ok(Next::Done);
    };
    let rest = until(context, since, seconds);
    if !rest.is_zero() {
        return Ok(Next::Later(rest));
    }
    let deletion = Deletion {
        propagation: Some(PropagationPolicy::Foreground),
        unchanged: true,
        ..Deletion::default()
    };
    objects.delete(key, job, deletion).await?;
    Ok(Next::Done)
}

/// Lets the Pods go that a Job had which is gone or finished.
async fn release_all(objects: Objects<'_>, job: &Key) -> Result<(), ActorError> {
    for pod in objects.list(&POD, job.namespace.as_deref(), "").await? {
        let is_its = controller(&pod).is_none_or(|of| of.is(&JOB) && of.name == job.name);
        if is_its && pods::is_tracked(&pod) {
            release_stray(objects, &Key::of(&POD, &pod), &pod).await?;
        }
    }
    Ok(())
}

/// Lets a Pod go if no Job will count it.
async fn release_stray(
    objects: Objects<'_>,
    key: &Key,
    pod: &DynamicObject,
) -> Result<(), ActorError> {
    if !pods::is_tracked(pod) {
        return Ok(());
    }
    let namespace = key.namespace.as_deref();
    let is_waited_for = match controller(pod) {
        Some(owner) if owner.is(&JOB) => {
            let job = objects.find(&JOB, namespace, owner.name).await?;
            job.is_some_and(|job| {
                uid(&job) == owner.uid
                    && (Spec::of(&job).is_anothers() || !is_finished(&job.data["status"]))
            })
        }
        Some(_) => false,
        None => {
            let jobs = objects.list(&JOB, namespace, "").await?;
            jobs.iter().any(|job| {
                !is_deleting(job)
                    && !is_deleting(pod)
                    && !is_finished(&job.data["status"])
                    && selects(Spec::of(job).selector(), pod)
            })
        }
    };
    if is_waited_for {
        return Ok(());
    }
    objects.remove_finalizer(key, pod, pods::FINALIZER).await
}

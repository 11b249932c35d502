//! One look at a Job: what is to be done, and what is told of it.
//!
//! A Pod that has ended is told of in the Job's status first, then lets go of its
//! finalizer, and is counted after that: so none is lost and none is counted twice,
//! whenever this stops.

use std::collections::HashSet;
use std::time::Duration;

use kube::api::DynamicObject;

use super::look::Look;
use super::manage::Hands;
use super::pods::{self, has_failed, has_succeeded, index, is_tracked, judged};
use super::progress::{Outcome, Progress};
use super::spec::Spec;
use super::{COMPONENT, until};
use crate::actors::actor::{ActorError, Context, Next};
use crate::actors::events::{self, Said};
use crate::actors::kind::{JOB, Key, POD};
use crate::actors::mirror::Found;
use crate::actors::objects::{Objects, is_deleting, uid};
use crate::actors::workloads::owned::Owner;

/// Does what a Job needs that is not finished.
pub(super) async fn sync(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    job: &DynamicObject,
) -> Result<Next, ActorError> {
    let kind = JOB;
    let (spec, owner) = (Spec::of(job), Owner::new(&kind, job));
    let hands = Hands {
        context,
        objects,
        owner,
    };
    let mut claimed = owner
        .keeping(super::pods::FINALIZER)
        .claim(objects, &POD)
        .await?;
    let completions = spec.completions().unwrap_or_default();
    if spec.is_indexed() {
        claimed.sort_by_key(|it| index(it, completions));
    }
    let mut progress = Progress::of(&job.data["status"]);
    let mut look = Look::new(spec, &progress, &claimed);
    let now = context.now();
    if progress.start_time.is_none() && !spec.is_suspended() {
        progress.start_time = Some(now.clone());
    }
    let deadline = deadline(context, spec, &progress);
    let is_late = deadline.is_some_and(|rest| rest.is_zero());
    let mut outcome = look.outcome(&progress, is_late);
    let (mut wait, mut said) = (None, None);
    if outcome.is_some() {
        let all = look.active.clone();
        hands.delete(&mut look, all, false).await?;
    } else {
        let may_manage = !is_deleting(job);
        if may_manage {
            wait = hands.manage(&mut look).await?;
        }
        let enough = spec.completions().unwrap_or(1);
        if look.succeeded >= enough && look.active.is_empty() {
            outcome = Some(Outcome::new(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            ));
        } else if may_manage {
            said = suspension(spec, &mut progress, &now);
        }
        wait = [wait, deadline].into_iter().flatten().min();
    }
    progress.active = look.active.len() as u64;
    progress.ready = look.ready;
    progress.terminating = look.terminating;
    let tally = Tally {
        look: &look,
        is_ending: is_deleting(job),
        outcome: outcome.as_ref(),
    };
    let done = tally.tell(&mut progress);
    let end = outcome.map(|outcome| interim(&mut progress, &outcome, &now));
    // What is told has to be there before Pods are let go.
    match objects.set_status(key, job, progress.value()).await {
        // Its end brings it back.
        Err(error) if error.is_missing() => return Ok(Next::Done),
        other => drop(other?),
    }
    if let Some(said) = said {
        events::tell(context, COMPONENT, (&JOB, job), said).await;
    }
    for pod in &done {
        let key = Key::of(&POD, pod);
        // It may have been deleted just now.
        let now = objects.get(&key).await?;
        if let Some(now) = now.filter(|now| uid(now) == uid(pod)) {
            objects
                .remove_finalizer(&key, &now, pods::FINALIZER)
                .await?;
        }
    }
    let held = still_tracked(&look, &done);
    progress.count_those_without(|uid| held.contains(uid));
    let ends = end.filter(|_| {
        progress.terminating == 0
            && progress.uncounted.succeeded.is_empty()
            && progress.uncounted.failed.is_empty()
    });
    if let Some(end) = &ends {
        progress.set(end, true, &now);
        if end.type_ == "Complete" {
            progress.completion_time = Some(now);
        }
    }
    let written = progress.value();
    if let Some(job) = objects.get(key).await?
        && uid(&job) == uid(owner.object)
        && job.data["status"] != written
    {
        objects.set_status(key, &job, written).await?;
        if let Some(end) = ends {
            events::tell(context, COMPONENT, (&JOB, &job), ending(&end)).await;
        }
    }
    Ok(wait.map_or(Next::Done, Next::Later))
}

/// What is left of the Job's `activeDeadlineSeconds`, while it is not suspended.
fn deadline(context: &Context, spec: Spec<'_>, progress: &Progress) -> Option<Duration> {
    let seconds = spec.deadline_seconds().filter(|_| !spec.is_suspended())?;
    let since = progress.start_time.as_deref()?;
    Some(until(context, since, seconds))
}

/// Says of a Job whether it is suspended, where that is new.
fn suspension<'a>(spec: Spec<'_>, progress: &mut Progress, now: &str) -> Option<Said<'a>> {
    if spec.is_suspended() {
        let outcome = Outcome::new("Suspended", "JobSuspended", "Job suspended");
        let is_new = progress.set(&outcome, true, now);
        return is_new.then(|| events::normal("Suspended", "Job suspended"));
    }
    let outcome = Outcome::new("Suspended", "JobResumed", "Job resumed");
    let is_new = progress.set(&outcome, false, now);
    if is_new {
        // Its deadline runs from now on.
        progress.start_time = Some(now.to_owned());
    }
    is_new.then(|| events::normal("Resumed", "Job resumed"))
}

fn ending(end: &Outcome) -> Said<'_> {
    if end.type_ == "Complete" {
        events::normal("Completed", "Job completed")
    } else {
        events::warning(&end.reason, end.message.clone())
    }
}

/// Says how a Job will end, before its Pods are gone; gives what it is told then.
fn interim(progress: &mut Progress, outcome: &Outcome, now: &str) -> Outcome {
    match outcome.type_ {
        "FailureTarget" => {
            progress.set(outcome, true, now);
            outcome.as_type("Failed")
        }
        "SuccessCriteriaMet" => {
            if progress.holding("SuccessCriteriaMet").is_none() {
                progress.set(outcome, true, now);
            }
            outcome.as_type("Complete")
        }
        _ => outcome.clone(),
    }
}

/// The uids of Pods that have their finalizer still.
fn still_tracked(look: &Look<'_>, done: &[Found]) -> HashSet<String> {
    let mut held: HashSet<String> = tracked(look.pods);
    for pod in done {
        held.remove(uid(pod));
    }
    held
}

fn tracked(pods: &[Found]) -> HashSet<String> {
    let tracked = pods.iter().filter(|it| is_tracked(it));
    tracked.map(|it| uid(it).to_owned()).collect()
}

/// What is told of Pods that have come to their end.
struct Tally<'a> {
    look: &'a Look<'a>,
    /// The Job itself is being deleted.
    is_ending: bool,
    outcome: Option<&'a Outcome>,
}

impl Tally<'_> {
    /// Tells of them in `progress`; gives those that can be let go.
    fn tell(&self, progress: &mut Progress) -> Vec<Found> {
        let look = self.look;
        let (spec, completions) = (look.spec, look.spec.completions().unwrap_or_default());
        let held = tracked(look.pods);
        progress.count_those_without(|uid| held.contains(uid));
        let has_failed_as_a_whole = self
            .outcome
            .is_some_and(|it| it.type_ != "SuccessCriteriaMet");
        let mut succeeded = look.told.clone();
        let mut done = Vec::new();
        for pod in look.pods.iter().filter(|it| is_tracked(it)) {
            let failed = has_failed(pod, spec);
            if !self.can_go(pod, failed) {
                continue;
            }
            done.push(pod.clone());
            let (id, of) = (uid(pod).to_owned(), index(pod, completions));
            let is_failure = progress.uncounted.failed.contains(&id);
            if has_succeeded(pod) && !is_failure {
                if spec.is_indexed() {
                    if let Some(index) = of {
                        succeeded.add(index);
                    }
                } else if !progress.uncounted.succeeded.contains(&id) {
                    progress.uncounted.succeeded.push(id);
                }
            } else if (failed || has_failed_as_a_whole)
                && !is_failure
                && (!spec.is_indexed() || of.is_some())
                && judged(pod, spec).is_counted()
            {
                progress.uncounted.failed.push(id);
            }
        }
        if spec.is_indexed() {
            progress.succeeded = succeeded.total();
            progress.completed_indexes = succeeded.to_string();
            progress.failed_indexes = look.failed_indexes.as_ref().map(ToString::to_string);
        }
        done
    }

    /// Whether a Pod is not needed any more.
    fn can_go(&self, pod: &DynamicObject, failed: bool) -> bool {
        if self.is_ending || self.outcome.is_some() || has_succeeded(pod) {
            return true;
        }
        let stays = || {
            let index = index(pod, self.look.spec.completions().unwrap_or_default());
            let waiting = index.and_then(|index| self.look.to_replace.get(&index));
            waiting.is_some_and(|it| uid(it) == uid(pod))
        };
        failed && !stays()
    }
}

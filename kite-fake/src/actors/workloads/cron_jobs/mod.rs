//! Jobs by the clock.

mod children;
mod state;

use std::time::Duration;

use async_trait::async_trait;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use self::children::{Hands, Started};
use self::state::State;
use super::making::TRY_AGAIN;
use super::owned::controller;
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events::{self, Said};
use crate::actors::kind::{CRON_JOB, JOB, Key, Kind};
use crate::actors::mirror::Found;
use crate::actors::objects::{Objects, ignore_missing, is_deleting, text, uid};
use crate::schedule::Schedule;

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[CRON_JOB, JOB];
/// How long after its time a Job is looked for, so that clocks agree that it is due.
const DELTA: Duration = Duration::from_millis(100);
/// At most this long, before clocks are looked at again.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// So many missed times are worth a warning.
const TOO_MANY: usize = 100;

/// Plays the `CronJob` controller: makes Jobs when it is time, and deletes those that are
/// over and too many.
#[derive(Clone, Copy, Debug, Default)]
pub struct CronJobs;

#[async_trait]
impl Actor for CronJobs {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if change.kind == CRON_JOB {
            return vec![change.key()];
        }
        let owner = controller(&change.object).filter(|it| it.is(&CRON_JOB));
        let namespace = change.object.metadata.namespace.as_deref();
        let key = owner.map(|owner| Key::new(&CRON_JOB, namespace, owner.name));
        key.into_iter().collect()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(cron) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let children: Vec<Found> = objects
            .list(&JOB, key.namespace.as_deref(), "")
            .await?
            .into_iter()
            .filter(|job| controller(job).is_some_and(|of| of.uid == uid(&cron)))
            .collect();
        let hands = Hands {
            context,
            objects,
            cron: &cron,
        };
        let mut state = State::of(&cron.data["status"]);
        hands.see(&mut state, &children).await;
        let next = if is_deleting(&cron) {
            Next::Done
        } else {
            let next = run(hands, &mut state).await?;
            hands.clean(&children).await?;
            next
        };
        let status = state.written(&cron.data["status"]);
        ignore_missing(objects.set_status(key, &cron, status).await)?;
        Ok(next)
    }
}

/// Makes the Job whose time has come; what follows is when the next one is due.
async fn run(hands: Hands<'_>, state: &mut State) -> Result<Next, ActorError> {
    let cron = hands.cron;
    let spec = &cron.data["spec"];
    let now = hands.context.clock.now();
    let zone = match zone(spec) {
        Ok(zone) => zone,
        Err(name) => {
            let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
            hands
                .tell(events::warning("UnknownTimeZone", message))
                .await;
            return Ok(Next::Done);
        }
    };
    if spec["suspend"] == true {
        return Ok(Next::Done);
    }
    let written = text(cron, "/spec/schedule");
    let schedule = match Schedule::parse(written) {
        Ok(schedule) => schedule,
        Err(wrong) => {
            let message = format!("unparseable schedule: {written:?} : {wrong}");
            hands
                .tell(events::warning("UnparseableSchedule", message))
                .await;
            return Ok(Next::Done);
        }
    };
    let next = next(&schedule, &zone, now);
    let since = earliest(cron, state, now);
    let Some(due) = schedule.latest(since, now, &zone) else {
        return Ok(next);
    };
    if missed(&schedule, &zone, (since, now)) > TOO_MANY {
        let message = "too many missed start times. Set or decrease \
            .spec.startingDeadlineSeconds or check clock skew";
        hands
            .tell(events::warning("TooManyMissedTimes", message))
            .await;
    }
    if let Some(seconds) = spec["startingDeadlineSeconds"].as_i64()
        && now.duration_since(due) > SignedDuration::from_secs(seconds)
    {
        hands.tell(too_late(due)).await;
        return Ok(next);
    }
    match spec["concurrencyPolicy"].as_str() {
        Some("Forbid") if !state.active.is_empty() => {
            let message = "Not starting job because prior execution is running and \
                concurrency policy is Forbid";
            hands
                .tell(events::normal("JobAlreadyActive", message))
                .await;
            return Ok(next);
        }
        Some("Replace") => hands.replace(state).await?,
        _ => {}
    }
    match hands.start(state, due, &zone).await? {
        Started::Yes => state.last_schedule = Some(crate::clock::rfc3339(due)),
        Started::No => {}
        Started::Refused => return Ok(Next::Later(TRY_AGAIN)),
    }
    Ok(next)
}

fn too_late<'a>(due: Timestamp) -> Said<'a> {
    let at = due.strftime("%a, %d %b %Y %H:%M:%S +0000");
    events::warning(
        "MissSchedule",
        format!("Missed scheduled time to start a job: {at}"),
    )
}

/// The zone that a `CronJob` goes by, or the name of one that nobody knows.
fn zone(spec: &Value) -> Result<TimeZone, String> {
    match spec["timeZone"].as_str() {
        None => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| name.to_owned()),
    }
}

/// Since when Jobs may be due.
fn earliest(cron: &DynamicObject, state: &State, now: Timestamp) -> Timestamp {
    let created = cron.metadata.creation_timestamp.as_ref().map(|it| it.0);
    let last: Option<Timestamp> = state
        .last_schedule
        .as_deref()
        .and_then(|it| it.parse().ok());
    let since = last.or(created).unwrap_or(now);
    let deadline = cron.data["spec"]["startingDeadlineSeconds"].as_i64();
    let begin = deadline.and_then(|it| now.checked_sub(SignedDuration::from_secs(it)).ok());
    begin.map_or(since, |begin| begin.max(since))
}

/// How many times there were between two, up to a few more than too many.
fn missed(schedule: &Schedule, zone: &TimeZone, (since, now): (Timestamp, Timestamp)) -> usize {
    let first = schedule.next(since, zone);
    let times = std::iter::successors(first, |at| schedule.next(*at, zone));
    times.take_while(|at| *at <= now).take(TOO_MANY + 1).count()
}

fn next(schedule: &Schedule, zone: &TimeZone, now: Timestamp) -> Next {
    let Some(next) = schedule.next(now, zone) else {
        return Next::Done;
    };
    let rest = Duration::try_from(next.duration_since(now)).unwrap_or_default();
    Next::Later(rest.min(LONGEST) + DELTA)
}

/// The name of the Job of a time: the same each time that it is asked for.
fn job_name(cron: &str, due: Timestamp) -> String {
    format!("{cron}-{}", due.as_second().div_euclid(60))
}

/// A new Job, as a body to create.
fn job(cron: &DynamicObject, due: Timestamp, zone: &TimeZone) -> Value {
    let template = &cron.data["spec"]["jobTemplate"];
    let name = cron.metadata.name.as_deref().unwrap_or_default();
    let mut annotations = match &template["metadata"]["annotations"] {
        Value::Null => json!({}),
        given => given.clone(),
    };
    let at = due.to_zoned(zone.clone());
    let at = if at.offset().is_zero() {
        at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    } else {
        at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    };
    annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] = json!(at);
    let mut metadata = json!({
        "name": job_name(name, due),
        "namespace": cron.metadata.namespace,
        "annotations": annotations,
        "ownerReferences": [crate::actors::objects::controller_reference(&CRON_JOB, cron)],
    });
    if !template["metadata"]["labels"].is_null() {
        metadata["labels"] = template["metadata"]["labels"].clone();
    }
    json!({"metadata": metadata, "spec": template["spec"]})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_job_is_named_by_its_minute() {
        let cron = json!({"metadata": {"name": "c", "namespace": "a"}, "spec": {"jobTemplate":
            {"metadata": {"labels": {"x": "y"}}, "spec": {"backoffLimit": 1}}}});
        let cron: DynamicObject = serde_json::from_value(cron).unwrap();
        let due = "2026-11-21T17:05:00Z".parse().unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let job = job(&cron, due, &zone);
        assert_eq!(job["metadata"]["name"], "c-29921345");
        assert_eq!(
            job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
            "2026-11-21T18:05:00+01:00"
        );
        assert_eq!(job["metadata"]["labels"], json!({"x": "y"}));
        assert_eq!(job["spec"]["backoffLimit"], 1);
    }
}

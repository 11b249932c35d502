//! What a Deployment tells of itself.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::scale::Sets;
use super::strategy::Strategy;
use crate::actors::workloads::conditions::{Conditions, Said};
use crate::actors::workloads::pod_state::time;

const PROGRESSING: &str = "Progressing";
const DEADLINE: &str = "ProgressDeadlineExceeded";
const AVAILABLE: &str = "NewReplicaSetAvailable";
const PAUSED: &str = "DeploymentPaused";

/// What has just been done about the newest set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was made.
    Created(String),
    /// It could not be made, for this reason.
    NotCreated(String, String),
    /// Nothing.
    None,
}

/// What a status is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) deployment: &'a DynamicObject,
    pub(super) sets: &'a Sets,
    pub(super) strategy: Strategy,
    pub(super) step: &'a Step,
    /// Whether it is on its way to its template, not only scaled or paused.
    pub(super) is_rolling: bool,
    /// Another set has the name that the newest one would have.
    pub(super) has_collided: bool,
}

fn count(status: &Value, member: &str) -> i64 {
    status[member].as_i64().unwrap_or_default()
}

/// For how long nothing may happen, if that is limited.
fn deadline(deployment: &DynamicObject) -> Option<Duration> {
    let seconds = deployment.data["spec"]["progressDeadlineSeconds"].as_u64()?;
    // The largest number stands for none.
    (seconds < u64::from(i32::MAX.unsigned_abs())).then(|| Duration::from_secs(seconds))
}

/// Whether all that is there is of the newest template, and available.
pub(super) fn is_complete(deployment: &DynamicObject, strategy: Strategy, status: &Value) -> bool {
    let all = ["updatedReplicas", "replicas", "availableReplicas"];
    all.iter().all(|it| count(status, it) == strategy.replicas)
        && status["observedGeneration"].as_i64() >= deployment.metadata.generation
}

/// The counts, without conditions.
fn counts(seen: Seen<'_>) -> Value {
    let sets = seen.sets;
    let newest = |member| sets.newest.as_ref().map_or(0, |set| set.count(member));
    let available = sets.sum("availableReplicas");
    let mut status = json!({
        "observedGeneration": seen.deployment.metadata.generation.unwrap_or_default(),
        "terminatingReplicas": sets.sum("terminatingReplicas"),
    });
    let counts = [
        ("replicas", sets.sum("replicas")),
        ("updatedReplicas", newest("replicas")),
        ("readyReplicas", sets.sum("readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", sets.asked() - available),
    ];
    for (member, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status[member] = json!(count);
    }
    let collisions = seen.deployment.data["status"]["collisionCount"].as_i64();
    let collisions = collisions.unwrap_or_default() + i64::from(seen.has_collided);
    if collisions > 0 {
        status["collisionCount"] = json!(collisions);
    }
    status
}

/// The status of a Deployment.
pub(super) fn status(seen: Seen<'_>, now: Timestamp) -> Value {
    let old = &seen.deployment.data["status"];
    let mut new = counts(seen);
    let mut conditions = Conditions::of(old);
    let at = crate::clock::rfc3339(now);
    let has_deadline = deadline(seen.deployment).is_some();
    if has_deadline {
        pause(&mut conditions, seen.deployment, &at);
        step(&mut conditions, seen, &at);
    }
    let is_available = count(&new, "availableReplicas") >= seen.strategy.least();
    conditions.set(available(is_available), &at);
    if seen.is_rolling {
        if has_deadline {
            progress(&mut conditions, seen, &new, now);
        } else {
            conditions.remove(PROGRESSING);
        }
        match failure(seen.sets) {
            Some(failure) => conditions.put(failure),
            None => conditions.remove("ReplicaFailure"),
        }
    }
    new["conditions"] = conditions.into_value();
    new
}

fn available(is_available: bool) -> Said<'static> {
    let (status, reason, message) = if is_available {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    Said {
        type_: "Available",
        status,
        reason,
        message,
    }
}

fn reason(conditions: &Conditions) -> Option<&str> {
    conditions.get(PROGRESSING)?["reason"].as_str()
}

/// One that is paused is not late, nor one that has just been resumed.
fn pause(conditions: &mut Conditions, deployment: &DynamicObject, now: &str) {
    let told = reason(conditions);
    let is_paused = deployment.data["spec"]["paused"] == true;
    if told == Some(DEADLINE) || is_paused == (told == Some(PAUSED)) {
        return;
    }
    let (reason, message) = if is_paused {
        (PAUSED, "Deployment is paused")
    } else {
        ("DeploymentResumed", "Deployment is resumed")
    };
    let said = Said {
        type_: PROGRESSING,
        status: "Unknown",
        reason,
        message,
    };
    conditions.set(said, now);
}

fn step(conditions: &mut Conditions, seen: Seen<'_>, now: &str) {
    let (status, reason, message) = match (seen.step, &seen.sets.newest) {
        (Step::Created(name), _) => (
            "True",
            "NewReplicaSetCreated",
            format!("Created new replica set \"{name}\""),
        ),
        (Step::NotCreated(name, why), _) => (
            "False",
            "ReplicaSetCreateError",
            format!("Failed to create new replica set \"{name}\": {why}"),
        ),
        (Step::None, Some(set)) if conditions.get(PROGRESSING).is_none() => (
            "True",
            "FoundNewReplicaSet",
            format!("Found new replica set \"{}\"", set.name()),
        ),
        (Step::None, _) => return,
    };
    let said = Said {
        type_: PROGRESSING,
        status,
        reason,
        message: &message,
    };
    conditions.set(said, now);
}

/// How it gets on with its newest template.
fn progress(conditions: &mut Conditions, seen: Seen<'_>, new: &Value, now: Timestamp) {
    let deployment = seen.deployment;
    let told = reason(conditions);
    if count(new, "replicas") == count(new, "updatedReplicas") && told == Some(AVAILABLE) {
        return;
    }
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let of = match &seen.sets.newest {
        Some(set) => format!("ReplicaSet \"{}\"", set.name()),
        None => format!("Deployment \"{name}\""),
    };
    let at = crate::clock::rfc3339(now);
    let said = |status, reason, message| Said {
        type_: PROGRESSING,
        status,
        reason,
        message,
    };
    if is_complete(deployment, seen.strategy, new) {
        let message = format!("{of} has successfully progressed.");
        conditions.set(said("True", AVAILABLE, &message), &at);
    } else if has_progressed(&deployment.data["status"], new) {
        let message = format!("{of} is progressing.");
        conditions.renew(said("True", "ReplicaSetUpdated", &message), &at);
    } else if is_late(conditions, deployment, now) {
        let message = format!("{of} has timed out progressing.");
        conditions.set(said("False", DEADLINE, &message), &at);
    }
}

fn has_progressed(old: &Value, new: &Value) -> bool {
    let of_older = |status| count(status, "replicas") - count(status, "updatedReplicas");
    let more = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    more.iter().any(|it| count(new, it) > count(old, it)) || of_older(new) < of_older(old)
}

fn is_late(conditions: &Conditions, deployment: &DynamicObject, now: Timestamp) -> bool {
    match reason(conditions) {
        None | Some(AVAILABLE) => false,
        Some(DEADLINE) => true,
        Some(_) => remaining(conditions, deployment, now).is_some_and(|rest| rest.is_zero()),
    }
}

/// How long it still has to get on.
fn remaining(
    conditions: &Conditions,
    deployment: &DynamicObject,
    now: Timestamp,
) -> Option<Duration> {
    let deadline = deadline(deployment)?;
    let since = time(&conditions.get(PROGRESSING)?["lastUpdateTime"])?;
    let end = since.checked_add(deadline).ok()?;
    Some(Duration::try_from(end.duration_since(now)).unwrap_or_default())
}

/// When to look again whether it is late, by this status.
pub(super) fn next_look(
    deployment: &DynamicObject,
    strategy: Strategy,
    status: &Value,
    now: Timestamp,
) -> Option<Duration> {
    let conditions = Conditions::of(status);
    if is_complete(deployment, strategy, status) || reason(&conditions) == Some(DEADLINE) {
        return None;
    }
    // Times are told in whole seconds.
    let rest = remaining(&conditions, deployment, now)?;
    Some(rest + Duration::from_secs(1))
}

/// Why a set lacks Pods.
fn failure(sets: &Sets) -> Option<Value> {
    let of = |set: &super::set::Set| {
        let conditions = Conditions::of(&set.object.data["status"]);
        conditions.get("ReplicaFailure").cloned()
    };
    let newest = sets.newest.as_ref().and_then(of);
    let mut failure = newest.or_else(|| sets.old.iter().find_map(of))?;
    failure["lastUpdateTime"] = failure["lastTransitionTime"].clone();
    Some(failure)
}

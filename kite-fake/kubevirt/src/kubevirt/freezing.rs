//! File systems that a guest's agent keeps still while a snapshot is taken.
//!
//! The truth is on the launcher's Pod: since when they are still ([`STILL`]), and when the
//! launcher lets them go by itself. What the instance's status says of it comes later, by the
//! agent's poll. After a move to another node nobody lets them go by himself: the time was
//! the old launcher's.

use std::time::Duration;

use kite_fake::actors::kind::{Key, POD};
use kite_fake::actors::objects::{Found, Objects, ignore_missing, is_controlled_by, text, uid};
use kite_fake::actors::storage::{STILL, annotation};
use kite_fake::actors::{ActorError, Context, Gate, Next};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::conditions::find;
use super::launcher;
use super::migration::is_active;
use crate::kinds::INSTANCE;
use crate::stages;

/// On a launcher: when it lets the file systems go by itself.
pub(super) const UNTIL: &str = "kite-fake/still-until";

/// The launcher of an instance.
pub(super) async fn launcher_of(
    objects: Objects<'_>,
    instance: &DynamicObject,
) -> Result<Option<Found>, ActorError> {
    let name = instance.metadata.name.as_deref().unwrap_or_default();
    let namespace = instance.metadata.namespace.as_deref();
    let mut pods = objects
        .list(&POD, namespace, &launcher::selector(name))
        .await?;
    pods.retain(|pod| is_controlled_by(pod, uid(instance)));
    Ok(launcher::current(instance, &pods).cloned())
}

/// Why the agent does not freeze, in virt-launcher's words.
pub(super) fn refusal(instance: &DynamicObject) -> Option<&'static str> {
    let status = &instance.data["status"];
    if is_active(status) {
        return Some("failed to freeze VMI, VMI is currently during migration");
    }
    if find(status, "AgentConnected").is_none() {
        return Some("Guest agent is not responding: QEMU guest agent is not connected");
    }
    None
}

/// The annotations of a launcher that keeps the file systems still from `now` on, until a time
/// if there is one; `None` where it does already, which changes nothing.
pub(super) fn frozen(
    pod: &DynamicObject,
    now: jiff::Timestamp,
    limit: Option<Duration>,
) -> Option<Value> {
    if annotation(pod, STILL).is_some() {
        return None;
    }
    let until = limit.and_then(|limit| now.checked_add(limit).ok());
    let until = until.map(|until| until.to_string());
    Some(json!({STILL: now.to_string(), UNTIL: until}))
}

/// The annotations of a launcher that lets them go on.
pub(super) fn thawed() -> Value {
    json!({STILL: null, UNTIL: null})
}

/// The annotations of a launcher that keeps them still until it is asked.
pub(super) fn untimed() -> Value {
    json!({UNTIL: null})
}

/// Writes annotations of a launcher.
pub(super) async fn annotate(
    objects: Objects<'_>,
    pod: &DynamicObject,
    annotations: Value,
) -> Result<(), ActorError> {
    let patch = json!({"metadata": {"annotations": annotations}});
    let key = Key::of(&POD, pod);
    ignore_missing(objects.merge(&key, None, patch).await)
}

/// Whether an instance is said to be frozen.
pub(super) fn is_said(instance: &DynamicObject) -> bool {
    text(instance, "/status/fsFreezeStatus") == "frozen"
}

/// Lets file systems go whose time is over, and tells what the agent has seen of it.
pub(super) async fn follow(
    context: &Context,
    objects: Objects<'_>,
    instance: &DynamicObject,
) -> Result<Next, ActorError> {
    let Some(pod) = launcher_of(objects, instance).await? else {
        return Ok(Next::Done);
    };
    let is_still = annotation(&pod, STILL).is_some();
    let until = annotation(&pod, UNTIL).and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let rest = until.map(|until| until.duration_since(context.clock.now()));
    let rest = rest.map(|rest| Duration::try_from(rest).unwrap_or_default());
    if rest.is_some_and(|rest| rest.is_zero()) {
        // The change brings the instance back here.
        annotate(objects, &pod, thawed()).await?;
        return Ok(Next::Done);
    }
    let next = rest.map_or(Next::Done, Next::Later);
    if is_still == is_said(instance) {
        return Ok(next);
    }
    let round = pod.metadata.resource_version.as_deref();
    match context.gate(stages::FREEZE_SEEN, instance, round.unwrap_or_default()) {
        Gate::Open => {}
        Gate::Wait(wait) => return Ok(Next::After(rest.map_or(wait, |rest| rest.min(wait)))),
        // Other rules bring it back, and so does the end of its time.
        Gate::Held | Gate::Fail(_) => return Ok(rest.map_or(Next::Held, Next::Later)),
    }
    let mut status = instance.data["status"].clone();
    if is_still {
        status["fsFreezeStatus"] = json!("frozen");
    } else if let Some(fields) = status.as_object_mut() {
        fields.remove("fsFreezeStatus");
    }
    let key = Key::of(&INSTANCE, instance);
    ignore_missing(objects.set_status(&key, instance, status).await)?;
    Ok(next)
}

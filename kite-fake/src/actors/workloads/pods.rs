//! Takes Pods to their node, runs them and ends them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use parking_lot::Mutex;

use super::addresses::Addresses;
use super::owned::controller;
use super::pod_ends::{self, Exit};
use super::pod_state::is_over;
use super::pod_status;
use super::room::Room;
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events;
use crate::actors::kind::{CLAIM, JOB, Key, Kind, NODE, POD, VOLUME};
use crate::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text};
use crate::actors::references::References;
use crate::actors::rules::{Gate, Stage};
use crate::actors::storage::{claims_of, obstacle, volume_of};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[POD, CLAIM, NODE, VOLUME];
/// The pause before containers that failed start again.
const RESTART: Stage = Stage::new("PodRestart");
/// At least this long it is waited for a deadline, also where clocks stand still.
const SHORTEST: Duration = Duration::from_millis(10);

/// Plays the scheduler and a kubelet that runs nothing: a Pod gets the first
/// node that takes it and has room for it once its claims are bound, then an
/// address, then it is ready. One whose work has an end, by its `restartPolicy`,
/// and that is nobody's or a Job's, ends by itself; one that is deleted is not ready
/// any more first, and ends after a moment.
#[derive(Debug, Default)]
pub struct Pods {
    claims: Mutex<References>,
    addresses: Mutex<Addresses>,
    pub(super) room: Mutex<Room>,
    /// Pods that no node took: nodes and other Pods may change that.
    pub(super) waiting: Mutex<BTreeSet<Key>>,
}

#[async_trait]
impl Actor for Pods {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![POD, CLAIM, NODE, VOLUME])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        if change.kind == NODE {
            return self.waiting.lock().iter().cloned().collect();
        }
        let mut claims = self.claims.lock();
        if change.kind == CLAIM {
            return claims.to(&key);
        }
        if change.kind == VOLUME {
            let of = |field: &str| text(&change.object, &format!("/spec/claimRef/{field}"));
            return claims.to(&Key::new(&CLAIM, Some(of("namespace")), of("name")));
        }
        let mut addresses = self.addresses.lock();
        if change.gone {
            claims.set(&key, Vec::new());
            addresses.release(&key);
            self.room.lock().release(&key);
            let mut waiting = self.waiting.lock();
            waiting.remove(&key);
            return waiting.iter().cloned().collect();
        }
        let namespace = key.namespace.as_deref();
        let mounted = claims_of(&change.object).map(|name| Key::new(&CLAIM, namespace, name));
        claims.set(&key, mounted.collect());
        if let Ok(ip) = text(&change.object, "/status/podIP").parse::<Ipv4Addr>() {
            addresses.hold(ip.to_bits(), &key);
        }
        let mut keys = Vec::new();
        if !text(&change.object, "/spec/nodeName").is_empty() {
            let mut waiting = self.waiting.lock();
            waiting.remove(&key);
            // It has ended, or takes less than it did.
            if self.room.lock().see(&key, &change.object) {
                keys.extend(waiting.iter().cloned());
            }
        }
        keys.push(key);
        keys
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(pod) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        if is_deleting(&pod) {
            return end(context, objects, key, &pod).await;
        }
        if is_over(&pod) {
            return Ok(Next::Done);
        }
        if text(&pod, "/spec/nodeName").is_empty() {
            return self.schedule(context, objects, key, &pod).await;
        }
        let deadline = deadline(context, &pod);
        if deadline.is_some_and(|rest| rest.is_zero()) {
            let status = pod_ends::past_deadline(&pod, &context.now());
            ignore_missing(objects.set_status(key, &pod, status).await)?;
            return Ok(Next::Done);
        }
        let next = match text(&pod, "/status/phase") {
            // Where nothing else has been said yet it is pending.
            "" | "Pending" => self.start(context, objects, key, &pod).await?,
            "Running" => run(context, objects, key, &pod).await?,
            _ => Next::Done,
        };
        Ok(no_later_than(next, deadline))
    }
}

/// What is left of a Pod's `activeDeadlineSeconds`.
fn deadline(context: &Context, pod: &DynamicObject) -> Option<Duration> {
    let seconds = pod.data["spec"]["activeDeadlineSeconds"].as_i64()?;
    let since: Timestamp = text(pod, "/status/startTime").parse().ok()?;
    let until = since.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    let rest = until.duration_since(context.clock.now());
    let rest = Duration::try_from(rest).unwrap_or_default();
    Some(if rest.is_zero() {
        rest
    } else {
        rest.max(SHORTEST)
    })
}

/// What follows, where a deadline comes after `rest`.
fn no_later_than(next: Next, rest: Option<Duration>) -> Next {
    match (next, rest) {
        (Next::After(pause), Some(rest)) => Next::After(pause.min(rest)),
        (Next::Later(pause), Some(rest)) => Next::Later(pause.min(rest)),
        (_, Some(rest)) => Next::Later(rest),
        (next, None) => next,
    }
}

/// Whether what a Pod does comes to an end by itself. What other controllers than Jobs
/// have Pods do runs for as long as they say.
fn has_an_end(pod: &DynamicObject) -> bool {
    text(pod, "/spec/restartPolicy") != "Always" && is_nobodys_or_a_jobs(pod)
}

fn is_nobodys_or_a_jobs(pod: &DynamicObject) -> bool {
    controller(pod).is_none_or(|owner| owner.is(&JOB))
}

impl Pods {
    async fn start(
        &self,
        context: &Context,
        objects: Objects<'_>,
        key: &Key,
        pod: &DynamicObject,
    ) -> Result<Next, ActorError> {
        let waiting = &pod.data["status"]["containerStatuses"][0]["state"]["waiting"];
        let now = context.now();
        if !waiting.is_null()
            && let Some(why) = unattached(objects, key, pod).await?
        {
            // Its volume brings it back here.
            let said = events::warning("FailedAttachVolume", why);
            events::tell(context, "attachdetach-controller", (&POD, pod), said).await;
            return Ok(Next::Done);
        }
        let (status, next) = match context.gate(Stage::POD_READY, pod, "") {
            // What stands between being scheduled and being ready shows first.
            _ if waiting.is_null() => (pod_status::starting(pod, None, &now), Next::Done),
            Gate::Open => {
                let ip = self.addresses.lock().of(key);
                (pod_status::ready(pod, &ip.to_string(), &now), Next::Done)
            }
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => (pod_status::starting(pod, Some(&why), &now), Next::Held),
        };
        let phase = status["phase"].clone();
        let waits = status["containerStatuses"][0]["state"]["waiting"].clone();
        let changed = objects.set_status(key, pod, status).await;
        if matches!(changed, Ok(true)) {
            let said = if phase == "Running" {
                Some(events::normal("Started", "Container started"))
            } else if waits["message"].is_string() {
                let word = |field: &str| waits[field].as_str().unwrap_or_default();
                let message = format!("Error: {}: {}", word("reason"), word("message"));
                Some(events::warning("Failed", message))
            } else {
                None
            };
            if let Some(said) = said {
                events::tell(context, "kubelet", (&POD, pod), said).await;
            }
        }
        ignore_missing(changed)?;
        Ok(next)
    }
}

/// Why a Pod cannot have one of its volumes now.
async fn unattached(
    objects: Objects<'_>,
    key: &Key,
    pod: &DynamicObject,
) -> Result<Option<String>, ActorError> {
    let namespace = key.namespace.as_deref();
    for name in claims_of(pod) {
        let Some(claim) = objects.find(&CLAIM, namespace, name).await? else {
            continue;
        };
        let volume = volume_of(objects, &claim).await?;
        if let Some(why) = volume.as_deref().and_then(obstacle) {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Heeds what others say of a Pod that runs; has one whose work has an end come to it, or
/// fail and start again.
async fn run(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    pod: &DynamicObject,
) -> Result<Next, ActorError> {
    if let Some(status) = pod_status::regated(pod, &context.now()) {
        ignore_missing(objects.set_status(key, pod, status).await)?;
        // The change brings it back here.
        return Ok(Next::Done);
    }
    if !has_an_end(pod) {
        return Ok(Next::Done);
    }
    let restarts = pod_ends::restarts(pod);
    let (round, now) = (restarts.to_string(), context.now());
    let status = if pod_ends::is_crashed(pod) {
        let pause = pod_ends::pause(restarts);
        if let Some(rest) = context.pause(RESTART, pod, &round, pause) {
            return Ok(Next::Later(rest));
        }
        pod_ends::restarted(pod, &now)
    } else {
        match context.gate(Stage::POD_ENDED, pod, &round) {
            Gate::Open => pod_ends::ended(pod, &Exit::completed(), &now),
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => {
                let exit = Exit::failed(&why);
                if text(pod, "/spec/restartPolicy") == "OnFailure" {
                    pod_ends::crashed(pod, &exit, &now)
                } else {
                    pod_ends::ended(pod, &exit, &now)
                }
            }
        }
    };
    let crashes = status["phase"] == "Running" && !pod_ends::is_crashed(pod);
    let changed = objects.set_status(key, pod, status).await;
    if matches!(changed, Ok(true)) && crashes {
        let said = events::warning("BackOff", "Back-off restarting failed container");
        events::tell(context, "kubelet", (&POD, pod), said).await;
    }
    ignore_missing(changed)?;
    Ok(Next::Done)
}

/// Ends a Pod that is being deleted: its containers first.
async fn end(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    pod: &DynamicObject,
) -> Result<Next, ActorError> {
    if pod.metadata.deletion_grace_period_seconds == Some(0) {
        // Only finalizers hold it now. Who waits for how it ended is told.
        if !is_over(pod) {
            let status = if pod_ends::has_running(pod) {
                pod_ends::ended(pod, &Exit::killed(), &context.now())
            } else {
                pod_ends::failed(pod)
            };
            ignore_missing(objects.set_status(key, pod, status).await)?;
        }
        return Ok(Next::Done);
    }
    match context.gate(Stage::POD_STOPPED, pod, "") {
        Gate::Wait(rest) => return Ok(Next::After(rest)),
        Gate::Held => return Ok(Next::Held),
        Gate::Open | Gate::Fail(_) => {}
    }
    if !is_over(pod) && pod_ends::has_running(pod) {
        // What runs for ever ends when it is asked to; other work is cut off.
        let exit = if has_an_end(pod) {
            Exit::killed()
        } else {
            Exit::completed()
        };
        let status = pod_ends::ended(pod, &exit, &context.now());
        ignore_missing(objects.set_status(key, pod, status).await)?;
        // The change brings it back here.
        return Ok(Next::Done);
    }
    let deletion = Deletion {
        grace_seconds: Some(0),
        ..Deletion::default()
    };
    objects.delete(key, pod, deletion).await?;
    Ok(Next::Done)
}

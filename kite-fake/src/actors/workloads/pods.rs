//! Takes Pods to their node and runs them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use async_trait::async_trait;
use http::Request;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::addresses::Addresses;
use super::{placement, pod_status};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events;
use crate::actors::kind::{CLAIM, Key, Kind, NODE, POD};
use crate::actors::objects::{
    Deletion, Objects, api_error, ignore_missing, is_deleting, text, uid,
};
use crate::actors::references::References;
use crate::actors::rules::{Failure, Gate, Stage};
use crate::actors::storage::{SELECTED_NODE, claims_of, is_bound, is_late_bound};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[POD, CLAIM, NODE];

/// Plays the scheduler and a kubelet that runs nothing: a Pod gets the first
/// node that takes it once its claims are bound, then an address, then it is
/// ready; one that is deleted ends after a moment.
#[derive(Debug, Default)]
pub struct Pods {
    claims: Mutex<References>,
    addresses: Mutex<Addresses>,
    /// Pods that no node took: nodes and other Pods may change that.
    waiting: Mutex<BTreeSet<Key>>,
}

#[async_trait]
impl Actor for Pods {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![POD, CLAIM, NODE])
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
        let mut addresses = self.addresses.lock();
        if change.gone {
            claims.set(&key, Vec::new());
            addresses.release(&key);
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
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(pod) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        if is_deleting(&pod) {
            return end(context, objects, key, &pod).await;
        }
        match text(&pod, "/status/phase") {
            "Succeeded" | "Failed" => Ok(Next::Done),
            _ if text(&pod, "/spec/nodeName").is_empty() => {
                self.schedule(context, objects, key, &pod).await
            }
            // Where nothing else has been said yet it is pending.
            "" | "Pending" => self.start(context, objects, key, &pod).await,
            _ => Ok(Next::Done),
        }
    }
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

    async fn schedule(
        &self,
        context: &Context,
        objects: Objects<'_>,
        key: &Key,
        pod: &DynamicObject,
    ) -> Result<Next, ActorError> {
        let mut late = Vec::new();
        for claim in claims_of(pod) {
            let found = objects
                .find(&CLAIM, key.namespace.as_deref(), claim)
                .await?;
            if found.as_deref().is_some_and(is_bound) {
                continue;
            }
            if let Some(found) = found
                && is_late_bound(objects, &found).await?
            {
                late.push(found);
                continue;
            }
            let nodes = objects.list(&NODE, None, "").await?.len().max(1);
            let message = format!(
                "0/{nodes} nodes are available: pod has unbound immediate PersistentVolumeClaims."
            );
            return refuse(context, objects, key, pod, &message).await;
        }
        match context.gate(Stage::POD_SCHEDULED, pod, "") {
            Gate::Open => {}
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => {
                refuse(context, objects, key, pod, &why.message).await?;
                return Ok(Next::Held);
            }
        }
        let mut chosen = placement::choose(objects, pod).await?;
        if chosen.is_err() {
            // From here on a change of the nodes brings it back.
            self.waiting.lock().insert(key.clone());
            chosen = placement::choose(objects.live(), pod).await?;
        }
        match chosen {
            Ok(node) => {
                self.waiting.lock().remove(key);
                if late.is_empty() {
                    let bound = bind(context, pod, &node).await;
                    // The answer does not tell how the Pod is now.
                    objects.doubt(key);
                    let next = bound?;
                    let of = format!("{}/{}", key.space(), key.name);
                    let message = format!("Successfully assigned {of} to {node}");
                    let said = events::normal("Scheduled", message);
                    events::tell(context, "default-scheduler", (&POD, pod), said).await;
                    return Ok(next);
                }
                // Their storage now knows where it is wanted.
                for claim in late {
                    let annotations = json!({SELECTED_NODE: node});
                    let patch = json!({"metadata": {"annotations": annotations}});
                    let key = Key::of(&CLAIM, &claim);
                    if claim.metadata.annotations.as_ref().is_none_or(|a| {
                        a.get(SELECTED_NODE)
                            .is_none_or(|selected| *selected != node)
                    }) {
                        ignore_missing(objects.merge(&key, None, patch).await)?;
                    }
                }
                Ok(Next::Done)
            }
            Err(why) => refuse(context, objects, key, pod, &why).await,
        }
    }
}

async fn refuse(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    pod: &DynamicObject,
    message: &str,
) -> Result<Next, ActorError> {
    let why = Failure {
        reason: "Unschedulable".to_owned(),
        message: message.to_owned(),
    };
    let status = pod_status::unschedulable(&pod.data["status"], &why, &context.now());
    let changed = objects.set_status(key, pod, status).await;
    if matches!(changed, Ok(true)) {
        let said = events::warning("FailedScheduling", message);
        events::tell(context, "default-scheduler", (&POD, pod), said).await;
    }
    ignore_missing(changed)?;
    Ok(Next::Done)
}

/// Binds the Pod to a node, by the subresource that schedulers use.
async fn bind(context: &Context, pod: &DynamicObject, node: &str) -> Result<Next, ActorError> {
    let meta = &pod.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid(pod)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let doing = "binding a Pod";
    let request = Request::post(format!(
        "/api/v1/namespaces/{namespace}/pods/{name}/binding"
    ))
    .header(http::header::CONTENT_TYPE, "application/json")
    .body(body.to_string().into_bytes())
    .map_err(|e| api_error(doing)(kube::Error::HttpError(e)))?;
    let answer = context.client.request::<Value>(request).await;
    answer.map_err(api_error(doing))?;
    Ok(Next::Done)
}

/// Ends a Pod that is being deleted.
async fn end(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    pod: &DynamicObject,
) -> Result<Next, ActorError> {
    if pod.metadata.deletion_grace_period_seconds == Some(0) {
        // Only finalizers hold it now.
        return Ok(Next::Done);
    }
    match context.gate(Stage::POD_STOPPED, pod, "") {
        Gate::Wait(rest) => return Ok(Next::After(rest)),
        Gate::Held => return Ok(Next::Held),
        Gate::Open | Gate::Fail(_) => {}
    }
    let deletion = Deletion {
        grace_seconds: Some(0),
        ..Deletion::default()
    };
    objects.delete(key, pod, deletion).await?;
    Ok(Next::Done)
}

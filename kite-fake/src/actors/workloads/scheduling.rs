//! Plays the scheduler: which Pods get a node, and what is said of those that get none.

use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::pods::Pods;
use super::{placement, pod_status};
use crate::actors::actor::{ActorError, Context, Next};
use crate::actors::events;
use crate::actors::kind::{CLAIM, Key, NODE, POD};
use crate::actors::mirror::Found;
use crate::actors::objects::{Objects, api_error, ignore_missing, uid};
use crate::actors::rules::{Failure, Gate, Stage};
use crate::actors::storage::{SELECTED_NODE, claims_of, is_bound, is_late_bound};

/// Whether somebody keeps the Pod from being scheduled.
fn is_gated(pod: &DynamicObject) -> bool {
    let gates = pod.data["spec"]["schedulingGates"].as_array();
    gates.is_some_and(|gates| !gates.is_empty())
}

impl Pods {
    pub(super) async fn schedule(
        &self,
        context: &Context,
        objects: Objects<'_>,
        key: &Key,
        pod: &DynamicObject,
    ) -> Result<Next, ActorError> {
        if is_gated(pod) {
            return Ok(Next::Done);
        }
        let late = match claims(objects, key, pod).await? {
            Ok(late) => late,
            Err(words) => {
                let nodes = objects.list(&NODE, None, "").await?.len().max(1);
                let none = placement::preemption(pod, std::iter::repeat_n(true, nodes));
                let message = format!("0/{nodes} nodes are available: {words}. {none}");
                return refuse(context, objects, key, pod, &message).await;
            }
        };
        match context.gate(Stage::POD_SCHEDULED, pod, "") {
            Gate::Open => {}
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => {
                refuse(context, objects, key, pod, &why.message).await?;
                return Ok(Next::Held);
            }
        }
        self.count(objects).await?;
        let mut chosen = placement::choose(objects, &self.room, pod).await?;
        if chosen.is_err() {
            // From here on a change of the nodes brings it back. One may have come
            // meanwhile: it is shown before it is told of.
            self.waiting.lock().insert(key.clone());
            chosen = placement::choose(objects, &self.room, pod).await?;
        }
        let node = match chosen {
            Ok(node) => node,
            Err(why) => return refuse(context, objects, key, pod, &why).await,
        };
        self.waiting.lock().remove(key);
        if late.is_empty() {
            // The next one finds it there.
            self.room.lock().hold(key, pod, &node);
            let bound = bind(context, key, pod, &node).await;
            // The answer does not tell how the Pod is now.
            objects.doubt(key);
            if bound.is_err() {
                self.room.lock().release(key);
            }
            bound?;
            let of = format!("{}/{}", key.space(), key.name);
            let message = format!("Successfully assigned {of} to {node}");
            let said = events::normal("Scheduled", message);
            events::tell(context, "default-scheduler", (&POD, pod), said).await;
            return Ok(Next::Done);
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

    /// Has the Pods counted that were on nodes before this actor was.
    async fn count(&self, objects: Objects<'_>) -> Result<(), ActorError> {
        if self.room.lock().is_counted {
            return Ok(());
        }
        let pods = objects.list(&POD, None, "").await?;
        let mut room = self.room.lock();
        for pod in &pods {
            room.see(&Key::of(&POD, pod), pod);
        }
        room.is_counted = true;
        Ok(())
    }
}

/// The claims of a Pod that are bound once it has a node; or why it gets none.
async fn claims(
    objects: Objects<'_>,
    key: &Key,
    pod: &DynamicObject,
) -> Result<Result<Vec<Found>, String>, ActorError> {
    let mut late = Vec::new();
    for claim in claims_of(pod) {
        let found = objects
            .find(&CLAIM, key.namespace.as_deref(), claim)
            .await?;
        let Some(found) = found else {
            return Ok(Err(format!("persistentvolumeclaim {claim:?} not found")));
        };
        if is_bound(&found) {
            continue;
        }
        if !is_late_bound(objects, &found).await? {
            let words = "pod has unbound immediate PersistentVolumeClaims";
            return Ok(Err(words.to_owned()));
        }
        late.push(found);
    }
    Ok(Ok(late))
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
async fn bind(
    context: &Context,
    key: &Key,
    pod: &DynamicObject,
    node: &str,
) -> Result<(), ActorError> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid(pod)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let (pods, params) = (key.api(&context.client), PostParams::default());
    let bound = pods
        .create_subresource::<_, Value>("binding", &key.name, &params, &body)
        .await;
    bound.map(drop).map_err(api_error("binding a Pod"))
}

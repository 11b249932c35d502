//! Gives instances their launcher Pods.

use async_trait::async_trait;
use kite_fake::actors::References;
use kite_fake::actors::events;
use kite_fake::actors::kind::{CLAIM, Key, Kind, POD};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{
    Deletion, Objects, ignore_missing, is_controlled_by, is_deleting, text, uid,
};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::json;

use super::configuration::Configuration;
use super::instance_status::{Seen, may_launch, phase, status};
use super::{FINALIZER, launcher, volumes};
use crate::kinds::{DATA_VOLUME, INSTANCE};

/// On instances and their launchers: the node they are on.
pub(super) const NODE_LABEL: &str = "kubevirt.io/nodeName";

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[INSTANCE, POD, DATA_VOLUME, CLAIM];

/// Plays virt-controller's part for `VirtualMachineInstance`s: waits for their
/// disks, makes the launcher Pod, follows it until the agent on the node takes
/// over, and lets the instance go when its guest has ended.
#[derive(Debug, Default)]
pub struct Instances {
    disks: Mutex<References>,
    pending_ports: bool,
}

impl Instances {
    /// For guests that tell their address only when they have booted.
    pub fn with_real_guests() -> Self {
        Self {
            pending_ports: true,
            ..Self::default()
        }
    }
}

#[async_trait]
impl Actor for Instances {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![INSTANCE, POD, DATA_VOLUME, CLAIM])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        if change.kind == POD {
            let name = change.object.metadata.labels.as_ref();
            let name = name.and_then(|labels| labels.get("vm.kubevirt.io/name"));
            let namespace = key.namespace.as_deref();
            return name
                .map(|name| Key::new(&INSTANCE, namespace, name))
                .into_iter()
                .collect();
        }
        let mut disks = self.disks.lock();
        if change.kind != INSTANCE {
            return disks.to(&key);
        }
        let spec = &change.object.data["spec"];
        let targets = if change.gone {
            Vec::new()
        } else {
            volumes::dependencies(spec, key.namespace.as_deref())
        };
        disks.set(&key, targets);
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let mut objects = Objects::new(context, self.name()).seeing(SEEN);
        let (mut instance, mut ours, mut strays) = look(objects, key).await?;
        if !strays.is_empty() || instance.as_deref().is_some_and(is_deleting) {
            // What is about to be ended must not be judged by an old view.
            objects = objects.live();
            (instance, ours, strays) = look(objects, key).await?;
        }
        for stray in strays.iter().filter(|pod| !is_deleting(pod)) {
            delete_pod(objects, stray).await?;
        }
        let Some(instance) = instance else {
            return Ok(Next::Done);
        };
        if is_deleting(&instance) {
            return end(objects, key, &instance, &ours).await;
        }
        if is_over(text(&instance, "/status/phase")) {
            return Ok(Next::Done);
        }
        let held = objects.add_finalizers(key, &instance, &[FINALIZER]);
        if held.await? {
            return Ok(Next::Done);
        }
        self.follow(context, objects, key, &instance, ours).await
    }
}

/// The instance, its Pods, and those that are of another of its name.
async fn look(
    objects: Objects<'_>,
    key: &Key,
) -> Result<(Option<Found>, Vec<Found>, Vec<Found>), ActorError> {
    let selector = launcher::selector(&key.name);
    let namespace = key.namespace.as_deref();
    let pods = objects.list(&POD, namespace, &selector).await?;
    let instance = objects.get(key).await?;
    let owner = instance.as_deref().map(uid).unwrap_or_default();
    let (ours, strays) = pods
        .into_iter()
        .partition(|pod| is_controlled_by(pod, owner));
    Ok((instance, ours, strays))
}

impl Instances {
    async fn follow(
        &self,
        context: &Context,
        objects: Objects<'_>,
        key: &Key,
        instance: &DynamicObject,
        pods: Vec<Found>,
    ) -> Result<Next, ActorError> {
        let namespace = key.namespace.as_deref();
        let volumes = volumes::observe(objects, &instance.data["spec"], namespace).await?;
        let mut refused = None;
        let mut pods = pods;
        let mut pod = launcher::current(instance, &pods).cloned();
        let launched = !matches!(text(instance, "/status/phase"), "" | "Pending");
        if pod.is_none() && !launched && may_launch(&volumes) {
            let configuration = Configuration::read(context, objects).await?;
            let body = launcher::pod(instance, self.pending_ports, &configuration);
            match objects.create(&POD, namespace, body).await {
                Ok(made) => {
                    if let Some(made) = &made {
                        let name = made.metadata.name.as_deref().unwrap_or_default();
                        let message = format!("Created virtual machine pod {name}");
                        let said = events::normal("SuccessfulCreate", message);
                        let about = (&INSTANCE, instance);
                        events::tell(context, "virtualmachine-controller", about, said).await;
                    }
                    pods.extend(made.clone());
                    pod = made;
                }
                Err(ActorError::Api { source, doing }) => match *source {
                    // A quota, for one, or a limit that a LimitRange gave the Pod, and that
                    // is below what it asks for.
                    kube::Error::Api(status) if matches!(status.code, 403 | 422) => {
                        refused = Some(format!(
                            "failed to create virtual machine pod: {}",
                            status.message
                        ));
                    }
                    other => {
                        let source = Box::new(other);
                        return Err(ActorError::Api { doing, source });
                    }
                },
                Err(error) => return Err(error),
            }
        }
        let now = context.now();
        let seen = Seen {
            instance,
            volumes: &volumes,
            pod: pod.as_deref(),
            pods: &pods,
            refused: refused.as_deref(),
            now: &now,
        };
        let phase = phase(&seen);
        let node = pod.as_ref().map(|pod| text(pod, "/spec/nodeName"));
        if let (Some(node), Some(pod), "Scheduled") = (node, &pod, phase) {
            label_node(objects, key, instance, pod, node).await?;
            // The instance has a new version now.
            let Some(instance) = objects.get(key).await? else {
                return Ok(Next::Done);
            };
            let seen = Seen {
                instance: &instance,
                ..seen
            };
            let new = status(&seen, phase);
            ignore_missing(objects.set_status(key, &instance, new).await)?;
            return Ok(Next::Done);
        }
        let new = status(&seen, phase);
        ignore_missing(objects.set_status(key, instance, new).await)?;
        if refused.is_some() {
            return Ok(Next::Later(std::time::Duration::from_secs(5)));
        }
        Ok(Next::Done)
    }
}

/// Whether an instance in this phase has ended.
pub(super) fn is_over(phase: &str) -> bool {
    phase == "Succeeded" || phase == "Failed"
}

/// Lets an instance that is being deleted go: at once where no guest runs,
/// otherwise when the agent says that it has ended.
async fn end(
    objects: Objects<'_>,
    key: &Key,
    instance: &DynamicObject,
    pods: &[Found],
) -> Result<Next, ActorError> {
    let phase = text(instance, "/status/phase");
    if ["Scheduled", "Running", "Unknown"].contains(&phase) {
        let alive = pods.iter().any(|pod| !is_over(text(pod, "/status/phase")));
        if alive {
            return Ok(Next::Done);
        }
    } else if !is_over(phase) && !pods.is_empty() {
        for pod in pods {
            delete_pod(objects, pod).await?;
        }
        return Ok(Next::Done);
    }
    objects.remove_finalizer(key, instance, FINALIZER).await?;
    Ok(Next::Done)
}

/// Deletes a launcher Pod; at once where nothing runs in it.
async fn delete_pod(objects: Objects<'_>, pod: &DynamicObject) -> Result<(), ActorError> {
    let running = text(pod, "/status/phase") == "Running";
    let deletion = Deletion {
        grace_seconds: (!running).then_some(0),
        ..Deletion::default()
    };
    objects.delete(&Key::of(&POD, pod), pod, deletion).await
}

/// Labels instance and Pod with the node.
async fn label_node(
    objects: Objects<'_>,
    key: &Key,
    instance: &DynamicObject,
    pod: &DynamicObject,
    node: &str,
) -> Result<(), ActorError> {
    for (key, object) in [(key.clone(), instance), (Key::of(&POD, pod), pod)] {
        let labels = object.metadata.labels.as_ref();
        if labels
            .and_then(|l| l.get(NODE_LABEL))
            .is_none_or(|at| at != node)
        {
            let patch = json!({"metadata": {"labels": {NODE_LABEL: node}}});
            ignore_missing(objects.merge(&key, None, patch).await)?;
        }
    }
    Ok(())
}

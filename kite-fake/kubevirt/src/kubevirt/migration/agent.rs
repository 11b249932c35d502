//! What the agents on both nodes do for a migration.

use async_trait::async_trait;
use kite_fake::actors::HOST_PORTS;
use kite_fake::actors::kind::{Key, POD};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{Objects, ignore_missing, is_deleting, text, uid};
use kite_fake::actors::storage::{STILL, annotation};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kite_fake::actors::{Failure, Gate};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::TARGET_NODE;
use super::state::is_active;
use crate::kinds::INSTANCE;
use crate::kubevirt::instances::{NODE_LABEL, is_over};
use crate::kubevirt::{launcher, live_update};
use crate::stages;

/// Plays the virt-handlers of both nodes of a migration: one prepares itself,
/// the other copies, and the instance lives on at the target. Its guest is the
/// same all the while.
#[derive(Clone, Copy, Debug, Default)]
pub struct MigrationAgent;

#[async_trait]
impl Actor for MigrationAgent {
    fn name(&self) -> &'static str {
        "virt-handler"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![INSTANCE])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let wanted = !change.gone && is_active(&change.object.data["status"]);
        wanted.then(|| change.key()).into_iter().collect()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(instance) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let over = is_over(text(&instance, "/status/phase"));
        if !is_active(&instance.data["status"]) || is_deleting(&instance) || over {
            return Ok(Next::Done);
        }
        let crossing = Crossing {
            context,
            objects,
            key,
            instance: &instance,
        };
        crossing.advance().await
    }
}

/// An instance between two nodes.
struct Crossing<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    instance: &'a DynamicObject,
}

impl Crossing<'_> {
    fn state(&self) -> &Value {
        &self.instance.data["status"]["migrationState"]
    }

    fn word(&self, field: &str) -> &str {
        self.state()[field].as_str().unwrap_or_default()
    }

    async fn write(&self, status: Value) -> Result<Next, ActorError> {
        let written = self.objects.set_status(self.key, self.instance, status);
        ignore_missing(written.await)?;
        Ok(Next::Done)
    }

    async fn note(&self, fields: Value) -> Result<Next, ActorError> {
        let mut status = self.instance.data["status"].clone();
        for (field, value) in fields.as_object().into_iter().flatten() {
            status["migrationState"][field] = value.clone();
        }
        self.write(status).await
    }

    async fn advance(&self) -> Result<Next, ActorError> {
        if self.state()["abortRequested"] == true {
            let why = Failure {
                reason: "Aborted".to_owned(),
                message: "Live migration aborted ".to_owned(),
            };
            return self.fail(&why, Some("Succeeded")).await;
        }
        let prepared = self.state()["targetNodeAddress"].is_string();
        let started = self.state()["startTimestamp"].is_string();
        let stage = match (prepared, started) {
            (false, _) => stages::MIGRATION_PREPARED,
            (true, false) => stages::MIGRATION_STARTED,
            (true, true) => stages::MIGRATION_DONE,
        };
        match self
            .context
            .gate(stage, self.instance, self.word("migrationUid"))
        {
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => return self.fail(&why, None).await,
            Gate::Open => {}
        }
        let now = self.context.now();
        match stage {
            stages::MIGRATION_PREPARED => {
                let Some(target) = self.pod("targetPod").await? else {
                    return Ok(Next::Done);
                };
                let address = text(&target, "/status/podIP");
                self.note(json!({"targetNodeAddress": address})).await
            }
            stages::MIGRATION_STARTED => {
                self.note(json!({
                    "startTimestamp": now,
                    "mode": "PreCopy",
                    "targetNodeDomainDetected": true,
                }))
                .await
            }
            _ => self.arrive(&now).await,
        }
    }

    /// The instance lives at the target.
    async fn arrive(&self, now: &str) -> Result<Next, ActorError> {
        let (source, target) = (self.pod("sourcePod").await?, self.pod("targetPod").await?);
        let Some(target) = target else {
            return Ok(Next::Done);
        };
        let address = self.move_address(source.as_deref(), &target).await?;
        let node = self.word("targetNode");
        let patch = json!({"metadata": {"labels": {NODE_LABEL: node, TARGET_NODE: null}}});
        let instance = self
            .objects
            .merge(self.key, Some(self.instance), patch)
            .await?;
        let mut status = instance.data["status"].clone();
        status["nodeName"] = json!(node);
        let interface = &mut status["interfaces"][0];
        if interface.is_object() {
            interface["ipAddress"] = json!(address);
            interface["ipAddresses"] = json!([address]);
        }
        let state = &mut status["migrationState"];
        state["targetNodeDomainReadyTimestamp"] = json!(now);
        state["endTimestamp"] = json!(now);
        state["completed"] = json!(true);
        live_update::settle(&instance.data["spec"], &mut status);
        // Where it was told to leave it is no longer.
        if let Some(fields) = status.as_object_mut() {
            fields.remove("evacuationNodeName");
        }
        ignore_missing(self.objects.set_status(self.key, &instance, status).await)?;
        if let Some(source) = source {
            self.close(&source, "Succeeded", now).await?;
        }
        Ok(Next::Done)
    }

    /// Where the guest really listens goes along. Its address, as it is then.
    async fn move_address(
        &self,
        source: Option<&DynamicObject>,
        target: &DynamicObject,
    ) -> Result<String, ActorError> {
        let key = Key::of(&POD, target);
        let ports = source.and_then(|pod| pod.metadata.annotations.as_ref()?.get(HOST_PORTS));
        // The guest's file systems stay as they are; who let them go by himself does not move.
        let still = source.and_then(|pod| annotation(pod, STILL));
        let annotations = json!({HOST_PORTS: ports, STILL: still});
        let labels = json!({NODE_LABEL: self.word("targetNode")});
        let patch = json!({"metadata": {"annotations": annotations, "labels": labels}});
        let moved = self.objects.merge(&key, None, patch).await?;
        let Some((source, _)) = source.zip(ports.filter(|ports| !ports.is_empty())) else {
            return Ok(text(&moved, "/status/podIP").to_owned());
        };
        let mut status = moved.data["status"].clone();
        status["podIP"] = source.data["status"]["podIP"].clone();
        status["podIPs"] = source.data["status"]["podIPs"].clone();
        let address = text(source, "/status/podIP").to_owned();
        ignore_missing(self.objects.set_status(&key, &moved, status).await)?;
        Ok(address)
    }

    /// It stays where it was.
    async fn fail(&self, why: &Failure, abort: Option<&str>) -> Result<Next, ActorError> {
        let now = self.context.now();
        let mut fields = json!({
            "endTimestamp": now,
            "completed": true,
            "failed": true,
            "failureReason": why.message,
        });
        if !self.state()["startTimestamp"].is_string() {
            fields["startTimestamp"] = json!(now);
        }
        if let Some(abort) = abort {
            fields["abortStatus"] = json!(abort);
        }
        if let Some(target) = self.pod("targetPod").await? {
            self.close(&target, "Failed", &now).await?;
        }
        self.note(fields).await
    }

    async fn pod(&self, field: &str) -> Result<Option<Found>, ActorError> {
        let namespace = self.key.namespace.as_deref();
        let found = self.objects.find(&POD, namespace, self.word(field)).await?;
        Ok(found.filter(|pod| {
            let owner = pod.metadata.labels.as_ref();
            owner
                .and_then(|l| l.get("kubevirt.io/created-by"))
                .is_some_and(|id| id == uid(self.instance))
        }))
    }

    /// A launcher that nothing runs in any more.
    async fn close(&self, pod: &DynamicObject, phase: &str, now: &str) -> Result<(), ActorError> {
        let status = launcher::closed(&pod.data["status"], phase, now);
        let key = Key::of(&POD, pod);
        ignore_missing(self.objects.set_status(&key, pod, status).await)
    }
}

//! Takes migrations through their phases.

use std::collections::BTreeSet;

use async_trait::async_trait;
use kite_fake::actors::References;
use kite_fake::actors::events;
use kite_fake::actors::kind::{Key, POD};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text, uid};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::state::{handed_over, in_phase, is_active, is_final, is_of, with_condition};
use super::{FINALIZER, JOB_NAME, JOB_UID, SELECTOR, TARGET_NODE, target};
use crate::kinds::{INSTANCE, MIGRATION};
use crate::kubevirt::conditions::find;
use crate::kubevirt::configuration::Configuration;
use crate::kubevirt::instances::is_over;
use crate::kubevirt::launcher;

/// How many migrations run at once.
const AT_ONCE: usize = 5;
/// How many of them leave the same node.
const FROM_ONE_NODE: usize = 2;

/// Plays virt-controller's part for `VirtualMachineInstanceMigration`s: makes
/// the target Pod, hands the instance over to the nodes and tells how it goes.
#[derive(Debug, Default)]
pub struct Migrations {
    instances: Mutex<References>,
    /// Those that wait for others to end.
    waiting: Mutex<BTreeSet<Key>>,
}

#[async_trait]
impl Actor for Migrations {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![MIGRATION, INSTANCE, POD])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        if change.kind == POD {
            let annotations = change.object.metadata.annotations.as_ref();
            let job = annotations.and_then(|a| a.get(JOB_NAME));
            let job = job.map(|name| Key::new(&MIGRATION, namespace, name));
            return job.into_iter().collect();
        }
        let mut instances = self.instances.lock();
        if change.kind == INSTANCE {
            return instances.to(&key);
        }
        let instance = text(&change.object, "/spec/vmiName");
        let target = (!change.gone).then(|| Key::new(&INSTANCE, namespace, instance));
        instances.set(&key, target.into_iter().collect());
        let mut keys = vec![key.clone()];
        let mut waiting = self.waiting.lock();
        if change.gone {
            waiting.remove(&key);
        }
        if change.gone || is_final(text(&change.object, "/status/phase")) {
            keys.extend(waiting.iter().cloned());
        }
        keys
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(migration) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let job = Job {
            actor: self,
            context,
            objects,
            key,
            migration: &migration,
            now: context.now(),
        };
        job.advance().await
    }
}

/// A migration being reconciled.
struct Job<'a> {
    actor: &'a Migrations,
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    migration: &'a DynamicObject,
    now: String,
}

impl Job<'_> {
    fn namespace(&self) -> Option<&str> {
        self.key.namespace.as_deref()
    }

    fn old(&self) -> &Value {
        &self.migration.data["status"]
    }

    async fn write(&self, status: Value) -> Result<Next, ActorError> {
        let before = text(self.migration, "/status/phase");
        let said = match status["phase"].as_str() {
            Some("Succeeded") if before != "Succeeded" => Some(events::normal(
                "SuccessfulMigration",
                "Source node reported migration succeeded",
            )),
            Some("Failed") if before != "Failed" => Some(events::warning(
                "FailedMigration",
                "source node reported migration failed",
            )),
            _ => None,
        };
        let written = self.objects.set_status(self.key, self.migration, status);
        ignore_missing(written.await)?;
        if let Some(said) = said {
            let about = (&MIGRATION, self.migration);
            events::tell(self.context, "virtualmachine-controller", about, said).await;
        }
        Ok(Next::Done)
    }

    async fn to(&self, phase: &str) -> Result<Next, ActorError> {
        self.write(in_phase(self.old(), phase, &self.now)).await
    }

    async fn advance(&self) -> Result<Next, ActorError> {
        let name = text(self.migration, "/spec/vmiName");
        let instance = self.objects.find(&INSTANCE, self.namespace(), name).await?;
        let phase = text(self.migration, "/status/phase");
        if is_final(phase) {
            return self.end(instance.as_deref()).await;
        }
        if !is_deleting(self.migration) && self.mark(name).await? {
            return Ok(Next::Done);
        }
        let Some(instance) = instance else {
            return self.fail(None).await;
        };
        if is_over(text(&instance, "/status/phase")) {
            return self.fail(Some(&instance)).await;
        }
        let handed = is_of(&instance, self.migration);
        let state = &instance.data["status"]["migrationState"];
        if is_deleting(self.migration) {
            return self.abort(&instance, handed).await;
        }
        let target = self.target().await?;
        if target
            .as_ref()
            .is_some_and(|pod| is_over(text(pod, "/status/phase")) && !state_says_done(state))
            || handed && state["failed"] == true
        {
            return self.fail(Some(&instance)).await;
        }
        let made = !matches!(phase, "" | "Pending" | "WaitingForSync" | "Synchronizing");
        if made && target.is_none() && is_local(self.migration) {
            return self.fail(Some(&instance)).await;
        }
        self.step(phase, &instance, target).await
    }

    async fn step(
        &self,
        phase: &str,
        instance: &DynamicObject,
        target: Option<Found>,
    ) -> Result<Next, ActorError> {
        let handed = is_of(instance, self.migration);
        let state = &instance.data["status"]["migrationState"];
        match (phase, target) {
            ("", _) => self.begin(instance).await,
            ("Pending", None) => self.make_target(instance).await,
            ("Pending", Some(_)) => self.to("Scheduling").await,
            ("Scheduling", Some(pod)) if is_ready(&pod) => self.to("Scheduled").await,
            ("Scheduled", Some(pod)) if !handed => self.hand_over(instance, &pod).await,
            ("Scheduled", Some(_)) => self.to("PreparingTarget").await,
            ("PreparingTarget", _) if state["targetNodeAddress"].is_string() => {
                self.to("TargetReady").await
            }
            ("TargetReady", _) if state["startTimestamp"].is_string() => self.to("Running").await,
            ("Running", _) if handed && state_says_done(state) => {
                let status = in_phase(self.old(), "Succeeded", &self.now);
                self.write(with_state(status, instance)).await
            }
            // Nobody is at the other end of a migration between clusters: such a
            // one stays where it is.
            _ => Ok(Next::Done),
        }
    }

    /// The label, the finalizer. Whether something was written.
    async fn mark(&self, instance: &str) -> Result<bool, ActorError> {
        let meta = &self.migration.metadata;
        let held = meta.finalizers.iter().flatten().any(|f| f == FINALIZER);
        let labels = meta.labels.as_ref();
        let labelled = labels
            .and_then(|l| l.get(SELECTOR))
            .is_some_and(|l| l == instance);
        if held && labelled {
            return Ok(false);
        }
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        if !held {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "finalizers": finalizers, "labels": {SELECTOR: instance},
        }});
        let merged = self.objects.merge(self.key, Some(self.migration), patch);
        ignore_missing(merged.await)?;
        Ok(true)
    }

    /// Another migration of the same instance must have ended.
    async fn begin(&self, instance: &DynamicObject) -> Result<Next, ActorError> {
        if is_active(&instance.data["status"]) && !is_of(instance, self.migration) {
            let current = text(instance, "/status/migrationState/migrationUid");
            let all = self.objects.list(&MIGRATION, self.namespace(), "").await?;
            let other = all.iter().find(|m| uid(m) == current);
            if other.is_some_and(|m| !is_final(text(m, "/status/phase"))) {
                return self.to("Failed").await;
            }
        }
        let spec = &self.migration.data["spec"];
        if spec["receive"].is_object() {
            return self.to("WaitingForSync").await;
        }
        if spec["sendTo"].is_object() {
            return self.to("Synchronizing").await;
        }
        self.to("Pending").await
    }

    async fn make_target(&self, instance: &DynamicObject) -> Result<Next, ActorError> {
        if text(instance, "/status/phase") != "Running" {
            return Ok(Next::Done);
        }
        if !self.has_turn(instance).await? {
            self.actor.waiting.lock().insert(self.key.clone());
            return Ok(Next::Done);
        }
        self.actor.waiting.lock().remove(self.key);
        let pods = self.pods(&instance_name(instance)).await?;
        let source = launcher::current(instance, &pods);
        let source = source.and_then(|pod| pod.metadata.name.as_deref());
        if text(self.migration, "/status/migrationState/sourcePod") != source.unwrap_or_default() {
            let mut status = self.old().clone();
            status["migrationState"] = json!({"sourcePod": source});
            return self.write(status).await;
        }
        let configuration = Configuration::read(self.context, self.objects).await?;
        let body = target::pod(self.migration, instance, &configuration);
        match self.objects.create(&POD, self.namespace(), body).await {
            Ok(_) => Ok(Next::Done),
            Err(ActorError::Api { source, .. }) if matches!(source.as_ref(), kube::Error::Api(s) if s.message.contains("exceeded quota")) =>
            {
                let type_ = "migrationRejectedByResourceQuota";
                let status = with_condition(self.old().clone(), type_, &self.now);
                self.write(status).await?;
                Ok(Next::Later(std::time::Duration::from_secs(5)))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether few enough others are under way.
    async fn has_turn(&self, instance: &DynamicObject) -> Result<bool, ActorError> {
        let all = self.objects.list(&MIGRATION, None, "").await?;
        let under_way = all.iter().filter(|m| {
            let phase = text(m, "/status/phase");
            !matches!(phase, "" | "Pending") && !is_final(phase)
        });
        let under_way: Vec<&Found> = under_way.collect();
        if under_way.len() >= AT_ONCE {
            return Ok(false);
        }
        let node = text(instance, "/status/nodeName");
        let mut leaving = 0;
        for other in under_way {
            let namespace = other.metadata.namespace.as_deref();
            let of = text(other, "/spec/vmiName");
            let of = self.objects.find(&INSTANCE, namespace, of).await?;
            leaving += usize::from(of.is_some_and(|i| text(&i, "/status/nodeName") == node));
        }
        Ok(leaving < FROM_ONE_NODE)
    }

    /// Both nodes hear of it.
    async fn hand_over(
        &self,
        instance: &DynamicObject,
        target: &DynamicObject,
    ) -> Result<Next, ActorError> {
        let key = Key::of(&INSTANCE, instance);
        let labels = json!({TARGET_NODE: text(target, "/spec/nodeName")});
        let patch = json!({"metadata": {"labels": labels}});
        let instance = self.objects.merge(&key, Some(instance), patch).await?;
        let mut status = instance.data["status"].clone();
        status["migrationState"] = handed_over(self.migration, &instance, target);
        let written = self.objects.set_status(&key, &instance, status).await;
        ignore_missing(written)?;
        Ok(Next::Done)
    }

    /// Asked to be given up: at once, or by the nodes if they have it.
    async fn abort(&self, instance: &DynamicObject, handed: bool) -> Result<Next, ActorError> {
        let type_ = "migrationAbortRequested";
        if !handed {
            let status = in_phase(self.old(), "Failed", &self.now);
            self.remove_target().await?;
            return self.write(with_condition(status, type_, &self.now)).await;
        }
        let state = &instance.data["status"]["migrationState"];
        if state_says_done(state) || state["failed"] == true {
            return self.fail(Some(instance)).await;
        }
        if state["abortRequested"] != true {
            let mut status = instance.data["status"].clone();
            status["migrationState"]["abortRequested"] = json!(true);
            let key = Key::of(&INSTANCE, instance);
            ignore_missing(self.objects.set_status(&key, instance, status).await)?;
        }
        self.write(with_condition(self.old().clone(), type_, &self.now))
            .await
    }

    async fn fail(&self, instance: Option<&DynamicObject>) -> Result<Next, ActorError> {
        self.remove_target().await?;
        let status = in_phase(self.old(), "Failed", &self.now);
        match instance {
            Some(instance) => self.write(with_state(status, instance)).await,
            None => self.write(status).await,
        }
    }

    /// A target that nothing has arrived at goes.
    async fn remove_target(&self) -> Result<(), ActorError> {
        let Some(pod) = self.target().await? else {
            return Ok(());
        };
        let deletion = Deletion {
            grace_seconds: Some(0),
            ..Deletion::default()
        };
        let key = Key::of(&POD, &pod);
        self.objects.delete(&key, &pod, deletion).await
    }

    /// What is left to do for one that has ended.
    async fn end(&self, instance: Option<&DynamicObject>) -> Result<Next, ActorError> {
        let of_this = instance.filter(|i| is_of(i, self.migration));
        if let Some(instance) = of_this {
            let status = with_state(self.old().clone(), instance);
            if status != *self.old() {
                return self.write(status).await;
            }
        }
        let removed = self
            .objects
            .remove_finalizer(self.key, self.migration, FINALIZER);
        removed.await?;
        Ok(Next::Done)
    }

    async fn pods(&self, instance: &str) -> Result<Vec<Found>, ActorError> {
        let selector = launcher::selector(instance);
        self.objects.list(&POD, self.namespace(), &selector).await
    }

    async fn target(&self) -> Result<Option<Found>, ActorError> {
        let selector = format!("{JOB_UID}={}", uid(self.migration));
        let pods = self.objects.list(&POD, self.namespace(), &selector).await?;
        Ok(pods.into_iter().next())
    }
}

/// `status` with what the instance says of this migration.
fn with_state(mut status: Value, instance: &DynamicObject) -> Value {
    let state = &instance.data["status"]["migrationState"];
    if state.is_object() {
        status["migrationState"] = state.clone();
    }
    status
}

fn state_says_done(state: &Value) -> bool {
    state["completed"] == true && state["failed"] != true
}

/// Whether the target is made here.
fn is_local(migration: &DynamicObject) -> bool {
    migration.data["spec"]["sendTo"].is_null()
}

fn instance_name(instance: &DynamicObject) -> String {
    instance.metadata.name.clone().unwrap_or_default()
}

fn is_ready(pod: &DynamicObject) -> bool {
    find(&pod.data["status"], "Ready").is_some_and(|c| c["status"] == "True")
}

//! Gives VMs their instances.

use std::collections::BTreeSet;

use async_trait::async_trait;
use kite_fake::actors::References;
use kite_fake::actors::events;
use kite_fake::actors::kind::{CLAIM, CONTROLLER_REVISION, Key, Kind, VOLUME_SNAPSHOT_CLASS};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{
    Deletion, Objects, controller_reference, ignore_missing, is_deleting, text, uid,
};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::configuration::Configuration;
use super::instances::is_over;
use super::instancetype::{self, Resolved};
use super::machine_status::{Seen, status};
use super::run::{Decision, decide, pause_left, start_failure};
use super::volumes::Volume;
use super::{FINALIZER, OBSERVED_VERSIONS, VM_GENERATION, hotplug, live_update, volumes};
use crate::kinds::{DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE};
use crate::snapshot_class::class_for;

/// When an instance is tried again that could not be made.
const TRY_AGAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[VIRTUAL_MACHINE, INSTANCE, DATA_VOLUME, CLAIM];

/// Plays virt-controller's part for `VirtualMachine`s: makes and deletes their
/// instances by the run strategy and tells how it goes.
#[derive(Debug, Default)]
pub struct VirtualMachines {
    disks: Mutex<References>,
    /// All VMs: how snapshots can be taken concerns each.
    known: Mutex<BTreeSet<Key>>,
}

#[async_trait]
impl Actor for VirtualMachines {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![
            VIRTUAL_MACHINE,
            INSTANCE,
            DATA_VOLUME,
            CLAIM,
            VOLUME_SNAPSHOT_CLASS,
        ])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        if change.kind == INSTANCE {
            return vec![Key::new(&VIRTUAL_MACHINE, namespace, &key.name)];
        }
        if change.kind == VOLUME_SNAPSHOT_CLASS {
            return self.known.lock().iter().cloned().collect();
        }
        let mut disks = self.disks.lock();
        if change.kind != VIRTUAL_MACHINE {
            return disks.to(&key);
        }
        if change.gone {
            self.known.lock().remove(&key);
        } else {
            self.known.lock().insert(key.clone());
        }
        let spec = &change.object.data["spec"]["template"]["spec"];
        let targets = if change.gone {
            Vec::new()
        } else {
            volumes::dependencies(spec, namespace)
        };
        disks.set(&key, targets);
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(vm) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let resolved = if is_deleting(&vm) {
            Resolved::Plain
        } else {
            instancetype::resolve(context, objects, &vm).await?
        };
        let life = Life {
            context,
            objects,
            key,
            vm: &vm,
            resolved: &resolved,
        };
        if is_deleting(life.vm) {
            life.end().await
        } else {
            life.run().await
        }
    }
}

/// A VM being reconciled.
struct Life<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    vm: &'a DynamicObject,
    resolved: &'a Resolved,
}

impl Life<'_> {
    /// The spec of the template, with what an instance type adds.
    fn template(&self) -> &Value {
        match self.resolved {
            Resolved::As { template, .. } => template,
            Resolved::Plain | Resolved::Missing(_) => &self.vm.data["spec"]["template"]["spec"],
        }
    }

    fn instance_key(&self) -> Key {
        Key::new(&INSTANCE, self.key.namespace.as_deref(), &self.key.name)
    }

    /// Deletes the instance, and lets the VM go after it.
    async fn end(&self) -> Result<Next, ActorError> {
        let key = self.instance_key();
        match self.objects.live().get(&key).await? {
            Some(instance) if !is_deleting(&instance) => {
                self.stop(&instance).await?;
                // What becomes of it is told with the next look.
                Ok(Next::After(std::time::Duration::ZERO))
            }
            Some(instance) => {
                self.tell(Some(&instance), None, None).await?;
                Ok(Next::Done)
            }
            None => {
                let done = self.objects.remove_finalizer(self.key, self.vm, FINALIZER);
                done.await?;
                Ok(Next::Done)
            }
        }
    }

    async fn run(&self) -> Result<Next, ActorError> {
        if self.mark().await? || self.complete_template().await? {
            // The write brings the VM back here.
            return Ok(Next::Done);
        }
        self.make_disks().await?;
        let instance = self.objects.get(&self.instance_key()).await?;
        let failed = instance
            .as_ref()
            .filter(|i| text(i, "/status/phase") == "Failed" && is_over("Failed"));
        if let Some(failed) = failed {
            let old = &self.vm.data["status"]["startFailure"];
            let now = self.context.clock.now();
            if let Some(failure) = start_failure(old, failed, now) {
                self.tell(Some(failed), Some(failure), None).await?;
                return Ok(Next::Done);
            }
        }
        if instance.is_none() && matches!(self.resolved, Resolved::Missing(_)) {
            self.tell(None, None, None).await?;
            // What is missing is not watched.
            return Ok(Next::Later(std::time::Duration::from_secs(5)));
        }
        let mut next = Next::Done;
        let mut refused = None;
        let instance = match decide(self.vm, instance.as_deref()) {
            Decision::Leave => instance,
            Decision::Start => match pause_left(self.vm, self.context.clock.now()) {
                Some(left) => {
                    next = Next::After(left);
                    None
                }
                None => match self.start().await {
                    // A webhook, or a quota.
                    Err(ActorError::Api { source, .. }) if is_refusal(&source) => {
                        next = Next::Later(TRY_AGAIN);
                        refused = Some(format!("Failure while starting VMI: {}", words(&source)));
                        None
                    }
                    started => started?,
                },
            },
            Decision::Stop => {
                if let Some(instance) = &instance {
                    self.stop(instance).await?;
                }
                self.objects.get(&self.instance_key()).await?
            }
        };
        if let Some(instance) = instance.as_ref().filter(|i| !is_deleting(i)) {
            self.live_update(instance).await?;
        }
        self.tell(instance.as_deref(), None, refused.as_deref())
            .await?;
        if instance.is_some() && self.persist_firmware().await? {
            return Ok(Next::Done);
        }
        Ok(next)
    }

    /// Gives a running instance what its template asks for and it can take.
    async fn live_update(&self, instance: &DynamicObject) -> Result<(), ActorError> {
        let template = self.template();
        let key = self.instance_key();
        let patches = [
            live_update::patch(template, instance),
            hotplug::patch(template, instance),
        ];
        for patch in patches.into_iter().flatten() {
            ignore_missing(self.objects.merge(&key, None, patch).await)?;
        }
        Ok(())
    }

    /// Writes the status, with the record of a failed start where there is one, and
    /// why no instance could be made.
    async fn tell(
        &self,
        instance: Option<&DynamicObject>,
        failure: Option<Value>,
        refused: Option<&str>,
    ) -> Result<(), ActorError> {
        let spec = &self.vm.data["spec"]["template"]["spec"];
        let namespace = self.key.namespace.as_deref();
        let volumes = volumes::observe(self.objects, spec, namespace).await?;
        let classes = self.snapshot_classes(&volumes).await?;
        let obstacle = match self.resolved {
            Resolved::Missing(why) => Some(("FailedFindInstancetype", why.as_str())),
            _ => refused.map(|why| ("FailedCreate", why)),
        };
        let mut new = status(&Seen {
            vm: self.vm,
            template: self.template(),
            obstacle,
            instance,
            volumes: &volumes,
            snapshot_classes: &classes,
            now: &self.context.now(),
        });
        if let Resolved::As { told, .. } = self.resolved {
            for (field, value) in told.as_object().into_iter().flatten() {
                new[field] = value.clone();
            }
        }
        if let Some(failure) = failure {
            new["startFailure"] = failure;
        }
        ignore_missing(self.objects.set_status(self.key, self.vm, new).await)
    }

    /// Storage classes of the volumes that snapshots can be taken of.
    async fn snapshot_classes(&self, volumes: &[Volume]) -> Result<BTreeSet<String>, ActorError> {
        let mut found = BTreeSet::new();
        for volume in volumes {
            let claim = volume.storage.as_ref().and_then(|s| s.claim.as_ref());
            let class = claim.map_or("", |claim| text(claim, "/spec/storageClassName"));
            if !found.contains(class)
                && class_for(self.context, self.objects, class)
                    .await?
                    .is_some()
            {
                found.insert(class.to_owned());
            }
        }
        Ok(found)
    }

    /// Finalizer and annotations. Whether something was written.
    async fn mark(&self) -> Result<bool, ActorError> {
        let meta = &self.vm.metadata;
        let has = |annotation: &&str| {
            let annotations = meta.annotations.as_ref();
            annotations.is_some_and(|a| a.contains_key(*annotation))
        };
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        let held = finalizers.iter().any(|f| f == FINALIZER);
        if held && OBSERVED_VERSIONS.iter().all(has) {
            return Ok(false);
        }
        if !held {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "finalizers": finalizers,
            "annotations": observed_versions(),
        }});
        ignore_missing(self.objects.merge(self.key, Some(self.vm), patch).await)?;
        Ok(true)
    }

    /// Writes into the template what is decided before the first start. Whether
    /// something was written.
    async fn complete_template(&self) -> Result<bool, ActorError> {
        if !text(self.vm, "/spec/template/spec/architecture").is_empty() {
            return Ok(false);
        }
        let patch = json!({"spec": {"template": {"spec": {"architecture": "amd64"}}}});
        ignore_missing(self.objects.merge(self.key, Some(self.vm), patch).await)?;
        Ok(true)
    }

    /// Keeps the identity that the first instance got. Whether something was
    /// written.
    async fn persist_firmware(&self) -> Result<bool, ActorError> {
        if !text(self.vm, "/spec/template/spec/domain/firmware/uuid").is_empty() {
            return Ok(false);
        }
        let firmware = json!({"uuid": uid(self.vm)});
        let patch = json!({"spec": {"template": {"spec": {"domain": {"firmware": firmware}}}}});
        // The status was written just now, so the version seen is an old one.
        ignore_missing(self.objects.merge(self.key, None, patch).await)?;
        Ok(true)
    }

    /// `DataVolume`s that the VM brings with it.
    async fn make_disks(&self) -> Result<(), ActorError> {
        let templates = self.vm.data["spec"]["dataVolumeTemplates"].as_array();
        for template in templates.into_iter().flatten() {
            let name = template["metadata"]["name"].as_str().unwrap_or_default();
            let namespace = self.key.namespace.as_deref();
            if self
                .objects
                .find(&DATA_VOLUME, namespace, name)
                .await?
                .is_some()
            {
                continue;
            }
            let mut metadata = template["metadata"].clone();
            metadata["namespace"] = json!(namespace);
            metadata["ownerReferences"] = json!([controller_reference(&VIRTUAL_MACHINE, self.vm)]);
            let body = json!({"metadata": metadata, "spec": template["spec"]});
            self.objects.create(&DATA_VOLUME, namespace, body).await?;
        }
        Ok(())
    }

    async fn start(&self) -> Result<Option<Found>, ActorError> {
        let template = &self.vm.data["spec"]["template"];
        let mut metadata = Map::new();
        for field in ["labels", "annotations"] {
            if template["metadata"][field].is_object() {
                metadata.insert(field.to_owned(), template["metadata"][field].clone());
            }
        }
        let mut metadata = Value::Object(metadata);
        for (name, value) in observed_versions() {
            metadata["annotations"][name] = value;
        }
        let generation = self.vm.metadata.generation.unwrap_or_default();
        metadata["annotations"][VM_GENERATION] = json!(generation.to_string());
        metadata["name"] = json!(self.key.name);
        metadata["namespace"] = json!(self.key.namespace);
        metadata["finalizers"] = json!([FINALIZER]);
        metadata["ownerReferences"] = json!([controller_reference(&VIRTUAL_MACHINE, self.vm)]);
        let mut spec = self.template().clone();
        if spec["domain"]["firmware"]["uuid"].is_null() {
            spec["domain"]["firmware"]["uuid"] = json!(uid(self.vm));
        }
        let configuration = Configuration::read(self.context, self.objects).await?;
        if configuration.updates_live {
            live_update::bound(&mut spec);
        }
        let body = json!({"metadata": metadata, "spec": spec});
        let namespace = self.key.namespace.as_deref();
        self.keep_revision(generation).await?;
        let made = self.objects.create(&INSTANCE, namespace, body).await?;
        if made.is_some() {
            let message = format!(
                "Started the virtual machine by creating the new virtual machine instance {}",
                self.key.name
            );
            self.event("SuccessfulCreate", message).await;
        }
        Ok(made)
    }

    async fn event(&self, reason: &str, message: String) {
        let about = (&VIRTUAL_MACHINE, self.vm);
        let said = events::normal(reason, message);
        events::tell(self.context, "virtualmachine-controller", about, said).await;
    }

    /// Writes down what the VM is when it starts; what it was before goes.
    async fn keep_revision(&self, generation: i64) -> Result<(), ActorError> {
        let namespace = self.key.namespace.as_deref();
        let named = |generation: i64| format!("revision-start-vm-{}-{generation}", uid(self.vm));
        let before = self.vm.data["status"]["observedGeneration"].as_i64();
        if let Some(before) = before.filter(|before| *before != generation) {
            let key = Key::new(&CONTROLLER_REVISION, namespace, &named(before));
            if let Some(old) = self.objects.get(&key).await? {
                self.objects.delete(&key, &old, Deletion::default()).await?;
            }
        }
        let body = json!({
            "metadata": {
                "name": named(generation),
                "namespace": namespace,
                "ownerReferences": [controller_reference(&VIRTUAL_MACHINE, self.vm)],
            },
            "data": {"spec": self.vm.data["spec"]},
            "revision": generation,
        });
        self.objects
            .create(&CONTROLLER_REVISION, namespace, body)
            .await?;
        Ok(())
    }

    async fn stop(&self, instance: &DynamicObject) -> Result<(), ActorError> {
        let key = self.instance_key();
        self.objects
            .delete(&key, instance, Deletion::default())
            .await?;
        let message = format!(
            "Stopped the virtual machine by deleting the virtual machine instance {}",
            uid(instance)
        );
        self.event("SuccessfulDelete", message).await;
        Ok(())
    }
}

/// Whether the API server said no, and will not say yes to the same at once.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422))
}

fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn observed_versions() -> Map<String, Value> {
    let versions = OBSERVED_VERSIONS.iter();
    versions
        .map(|name| ((*name).to_owned(), json!("v1")))
        .collect()
}

//! The VM that a snapshot is taken of.

use std::time::Duration;

use kite_fake::actors::kind::{CONTROLLER_REVISION, Key, POD};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{Objects, has_finalizer, ignore_missing, is_deleting, text};
use kite_fake::actors::storage::{STILL, annotation, claims_of};
use kite_fake::actors::{ActorError, Context};
use serde_json::{Value, json};

use super::simple_metadata;
use crate::kinds::{INSTANCE, VIRTUAL_MACHINE};
use crate::kubevirt::conditions::find;
use crate::kubevirt::freezing;
use crate::kubevirt::volumes::{self, Volume};
use crate::snapshot_class::class_for;

/// Holds a VM while a snapshot of it is taken.
const FINALIZER: &str = "snapshot.kubevirt.io/snapshot-source-protection";

/// A VM with its instance, if it runs.
#[derive(Clone, Debug)]
pub(super) struct Source {
    key: Key,
    pub(super) vm: Found,
    pub(super) instance: Option<Found>,
}

impl Source {
    /// The VM `name`, if it is there.
    pub(super) async fn read(
        objects: Objects<'_>,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Self>, ActorError> {
        let key = Key::new(&VIRTUAL_MACHINE, namespace, name);
        let Some(vm) = objects.get(&key).await? else {
            return Ok(None);
        };
        let instance = objects.find(&INSTANCE, namespace, name).await?;
        Ok(Some(Self { key, vm, instance }))
    }

    fn template(&self) -> &Value {
        &self.vm.data["spec"]["template"]["spec"]
    }

    /// Whether it is held for the snapshot of this name.
    pub(super) fn is_locked_for(&self, snapshot: &str) -> bool {
        text(&self.vm, "/status/snapshotInProgress") == snapshot
            && has_finalizer(&self.vm, FINALIZER)
    }

    /// Whether the guest's file systems can be frozen.
    pub(super) fn can_freeze(&self) -> bool {
        self.has_agent() && !self.is_paused()
    }

    fn has_agent(&self) -> bool {
        let status = self.instance.as_ref().map(|i| &i.data["status"]);
        status.is_some_and(|status| find(status, "AgentConnected").is_some())
    }

    fn is_paused(&self) -> bool {
        let status = self.instance.as_ref().map(|i| &i.data["status"]);
        status.is_some_and(|s| find(s, "Paused").is_some_and(|c| c["status"] == "True"))
    }

    /// What a snapshot tells of how it was taken, each with a sentence. Nothing
    /// of a VM that is off.
    pub(super) fn indications(&self) -> Vec<(&'static str, &'static str)> {
        if self.instance.is_none() {
            return Vec::new();
        }
        let online = (
            "Online",
            "Snapshot taken while the VM was running: its consistency depends on the guest.",
        );
        let agent = (
            "GuestAgent",
            "The guest agent froze the file systems before the snapshot was taken.",
        );
        let no_agent = (
            "NoGuestAgent",
            "No guest agent was there to freeze the file systems: the snapshot is \
             crash-consistent.",
        );
        let paused = (
            "Paused",
            "The VM was paused: what was in its memory is not in the snapshot.",
        );
        // In the order of their names.
        if self.is_paused() {
            vec![online, paused]
        } else if self.has_agent() {
            vec![agent, online]
        } else {
            vec![no_agent, online]
        }
    }

    /// The volumes with their storage.
    pub(super) async fn volumes(&self, objects: Objects<'_>) -> Result<Vec<Volume>, ActorError> {
        let namespace = self.key.namespace.as_deref();
        volumes::observe(objects, self.template(), namespace).await
    }

    /// Holds the VM for a snapshot, or says why it cannot be held now.
    pub(super) async fn lock(
        &self,
        objects: Objects<'_>,
        snapshot: &str,
    ) -> Result<Result<(), String>, ActorError> {
        let name = self.key.name.as_str();
        let told = |why: &str| {
            let space = self.key.space();
            Ok(Err(format!(
                "Source not locked source {space}/{name} {why}"
            )))
        };
        let volumes = self.volumes(objects).await?;
        let storages: Vec<_> = volumes.iter().filter_map(|v| v.storage.as_ref()).collect();
        for storage in &storages {
            let claim = &storage.claim_name;
            match &storage.claim {
                None => return told(&format!("volume doesnt exist: {claim}")),
                Some(found) if is_deleting(found) => {
                    return told(&format!("volume is being deleted: {claim}"));
                }
                Some(_) if !storage.is_bound() => {
                    return told(&format!("volume not bound: {claim}"));
                }
                Some(_) if !storage.is_filled() => {
                    return told(&format!("volume not populated: {claim}"));
                }
                Some(_) => {}
            }
        }
        let mut names: Vec<&str> = storages.iter().map(|s| s.claim_name.as_str()).collect();
        names.sort_unstable();
        if self.instance.is_none() && !names.is_empty() {
            let pods = objects
                .list(&POD, self.key.namespace.as_deref(), "")
                .await?;
            let users = pods.iter().filter(|pod| {
                !["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
                    && claims_of(pod).any(|claim| names.contains(&claim))
            });
            let count = users.count();
            if count > 0 {
                let names = names.join(" ");
                return Ok(Err(format!(
                    "Source not locked source is offline but {count} pods using PVCs [{names}]"
                )));
            }
        }
        let current = text(&self.vm, "/status/snapshotInProgress");
        if !current.is_empty() && current != snapshot {
            let why = format!("Source not locked snapshot {current:?} in progress");
            return Ok(Err(why));
        }
        let mut vm = self.vm.clone();
        if current.is_empty() {
            let mut status = self.vm.data["status"].clone();
            status["snapshotInProgress"] = json!(snapshot);
            objects.set_status(&self.key, &self.vm, status).await?;
            match objects.get(&self.key).await? {
                Some(found) => vm = found,
                None => return Ok(Ok(())),
            }
        }
        objects.add_finalizers(&self.key, &vm, &[FINALIZER]).await?;
        Ok(Ok(()))
    }

    /// Lets the VM go.
    pub(super) async fn unlock(
        &self,
        objects: Objects<'_>,
        snapshot: &str,
    ) -> Result<(), ActorError> {
        if text(&self.vm, "/status/snapshotInProgress") != snapshot {
            return Ok(());
        }
        let removed = objects.remove_finalizer(&self.key, &self.vm, FINALIZER);
        removed.await?;
        let Some(vm) = objects.get(&self.key).await? else {
            return Ok(());
        };
        let mut status = vm.data["status"].clone();
        if let Some(fields) = status.as_object_mut() {
            fields.remove("snapshotInProgress");
        }
        ignore_missing(objects.set_status(&self.key, &vm, status).await)
    }

    /// Freezes the guest's file systems for `limit` at most, or for ever without one.
    pub(super) async fn freeze(
        &self,
        context: &Context,
        objects: Objects<'_>,
        limit: Option<Duration>,
    ) -> Result<(), ActorError> {
        let Some(pod) = self.frozen_by(objects).await? else {
            return Ok(());
        };
        match freezing::frozen(&pod, context.clock.now(), limit) {
            Some(annotations) => freezing::annotate(objects, &pod, annotations).await,
            None => Ok(()),
        }
    }

    /// Lets the guest's file systems go on.
    pub(super) async fn thaw(&self, objects: Objects<'_>) -> Result<(), ActorError> {
        match self.frozen_by(objects).await? {
            Some(pod) if annotation(&pod, STILL).is_some() => {
                freezing::annotate(objects, &pod, freezing::thawed()).await
            }
            _ => Ok(()),
        }
    }

    /// The launcher whose agent can freeze.
    async fn frozen_by(&self, objects: Objects<'_>) -> Result<Option<Found>, ActorError> {
        match self.instance.as_ref().filter(|_| self.can_freeze()) {
            Some(instance) => freezing::launcher_of(objects, instance).await,
            None => Ok(None),
        }
    }

    /// What the content keeps of the VM: as it was started if it runs, with the
    /// volumes that it has now.
    pub(super) async fn kept(&self, objects: Objects<'_>) -> Result<Value, ActorError> {
        let mut spec = self.vm.data["spec"].clone();
        let revision = self.instance.as_ref();
        let revision = revision.map(|i| text(i, "/status/virtualMachineRevisionName"));
        if let Some(name) = revision {
            let namespace = self.key.namespace.as_deref();
            let found = objects.find(&CONTROLLER_REVISION, namespace, name).await?;
            if let Some(found) = found.filter(|r| r.data["data"]["spec"].is_object()) {
                let now = spec;
                spec = found.data["data"]["spec"].clone();
                let template = &mut spec["template"]["spec"];
                let present = &now["template"]["spec"];
                template["volumes"] = present["volumes"].clone();
                let disks = &present["domain"]["devices"]["disks"];
                if !disks.is_null() {
                    template["domain"]["devices"]["disks"] = disks.clone();
                }
                if !now["dataVolumeTemplates"].is_null() {
                    spec["dataVolumeTemplates"] = now["dataVolumeTemplates"].clone();
                }
            }
        }
        Ok(json!({
            "metadata": simple_metadata(&self.vm),
            "spec": spec,
            "status": {},
        }))
    }

    /// The claims that the content backs up.
    pub(super) async fn backups(
        &self,
        context: &Context,
        objects: Objects<'_>,
        snapshot: &str,
    ) -> Result<Vec<Value>, ActorError> {
        let mut backups = Vec::new();
        for volume in self.volumes(objects).await? {
            let claim = volume.storage.as_ref().and_then(|s| s.claim.as_ref());
            let Some(claim) = claim else {
                continue;
            };
            let class = text(claim, "/spec/storageClassName");
            if class_for(context, objects, class).await?.is_none() {
                continue;
            }
            backups.push(json!({
                "volumeName": volume.name,
                "persistentVolumeClaim": {
                    "metadata": simple_metadata(claim),
                    "spec": claim.data["spec"],
                },
                "volumeSnapshotName": format!("vmsnapshot-{snapshot}-volume-{}", volume.name),
            }));
        }
        Ok(backups)
    }
}

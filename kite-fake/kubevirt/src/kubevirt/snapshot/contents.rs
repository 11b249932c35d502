//! Takes the snapshots of claims that a content asks for.
#![allow(
    clippy::similar_names,
    reason = "contents are named as `KubeVirt` names them"
)]

use std::time::Duration;

use async_trait::async_trait;
use kite_fake::actors::References;
use kite_fake::actors::kind::{Key, VOLUME_SNAPSHOT};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{
    Objects, controller_reference, ignore_missing, is_deleting, text,
};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::snapshots::{CONTENT_FINALIZER, is_expired, takes_content_along, time_left};
use super::source::Source;
use crate::kinds::{VM_SNAPSHOT, VM_SNAPSHOT_CONTENT};
use crate::snapshot_class::class_for;

/// Plays virt-controller's part for `VirtualMachineSnapshotContent`s: freezes
/// the guest, has a `VolumeSnapshot` taken of each claim, and lets the guest go
/// on.
#[derive(Debug, Default)]
pub struct SnapshotContents {
    parts: Mutex<References>,
}

#[async_trait]
impl Actor for SnapshotContents {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![VM_SNAPSHOT_CONTENT, VM_SNAPSHOT, VOLUME_SNAPSHOT])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        let mut parts = self.parts.lock();
        if change.kind != VM_SNAPSHOT_CONTENT {
            return parts.to(&key);
        }
        let mut targets = Vec::new();
        if !change.gone {
            let name = text(&change.object, "/spec/virtualMachineSnapshotName");
            targets.push(Key::new(&VM_SNAPSHOT, namespace, name));
            let names = backups(&change.object).filter_map(|b| b["volumeSnapshotName"].as_str());
            targets.extend(names.map(|name| Key::new(&VOLUME_SNAPSHOT, namespace, name)));
        }
        parts.set(&key, targets);
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(content) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let namespace = key.namespace.as_deref();
        let name = text(&content, "/spec/virtualMachineSnapshotName");
        let snapshot = objects.find(&VM_SNAPSHOT, namespace, name).await?;
        let of = text(&content, "/spec/source/virtualMachine/metadata/name");
        let source = Source::read(objects, namespace, of).await?;
        let now = context.clock.now();
        let live = snapshot
            .as_ref()
            .filter(|s| !is_deleting(s) && !is_expired(s, now));
        let Some(snapshot) = live else {
            if let Some(source) = &source {
                source.thaw(objects).await?;
            }
            let goes = snapshot.is_none_or(|s| takes_content_along(&s, &content));
            if goes || is_deleting(&content) {
                let removed = objects.remove_finalizer(key, &content, CONTENT_FINALIZER);
                removed.await?;
            }
            return Ok(Next::Done);
        };
        if is_deleting(&content) {
            return Ok(Next::Done);
        }
        let filling = Filling {
            context,
            objects,
            key,
            content: &content,
            snapshot,
            source,
        };
        filling.advance().await
    }
}

fn backups(content: &DynamicObject) -> impl Iterator<Item = &Value> {
    let backups = content.data["spec"]["volumeBackups"].as_array();
    backups.map_or(&[][..], Vec::as_slice).iter()
}

/// A content being reconciled.
struct Filling<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    content: &'a DynamicObject,
    snapshot: &'a DynamicObject,
    source: Option<Source>,
}

impl Filling<'_> {
    async fn advance(&self) -> Result<Next, ActorError> {
        let namespace = self.key.namespace.as_deref();
        let old = &self.content.data["status"];
        let was_created = old["creationTime"].is_string();
        let mut told = Vec::new();
        let mut missing = Vec::new();
        let mut frozen = false;
        for backup in backups(self.content) {
            let Some(name) = backup["volumeSnapshotName"].as_str() else {
                continue;
            };
            let mut taken = self.objects.find(&VOLUME_SNAPSHOT, namespace, name).await?;
            if taken.is_none() && was_created {
                missing.push(name);
                continue;
            }
            if taken.is_none() {
                if !frozen && let Some(source) = &self.source {
                    let left = time_left(self.snapshot, self.context.clock.now());
                    source.freeze(self.context, self.objects, left).await?;
                    frozen = true;
                }
                taken = self.take(name, backup).await?;
            }
            let status = taken.map(|t| t.data["status"].clone()).unwrap_or_default();
            let mut entry = json!({"volumeSnapshotName": name});
            for field in ["creationTime", "readyToUse", "error"] {
                if let Some(value) = status.get(field) {
                    entry[field] = value.clone();
                }
            }
            told.push(entry);
        }
        let all = |check: &dyn Fn(&Value) -> bool| missing.is_empty() && told.iter().all(check);
        let created = all(&|entry| entry["creationTime"].is_string());
        let ready = all(&|entry| entry["readyToUse"] == true);
        let error = if missing.is_empty() {
            let failed = told
                .iter()
                .find(|entry| entry["error"]["message"].is_string());
            failed.map(|entry| {
                let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (name, why) = (
                    word(&entry["volumeSnapshotName"]),
                    word(&entry["error"]["message"]),
                );
                format!("VolumeSnapshot {name} error: {why}")
            })
        } else {
            Some(format!("VolumeSnapshots ({}) missing", missing.join(",")))
        };
        let now = self.context.now();
        let mut status = if old.is_object() {
            old.clone()
        } else {
            json!({})
        };
        if created && !was_created {
            if let Some(source) = &self.source {
                source.thaw(self.objects).await?;
            }
            status["creationTime"] = json!(now);
        }
        match error {
            Some(message) if !ready => {
                if status["error"]["message"] != message {
                    status["error"] = json!({"message": message, "time": now});
                }
            }
            Some(_) => {}
            None => drop(status.as_object_mut().map(|s| s.remove("error"))),
        }
        status["readyToUse"] = json!(ready);
        if !told.is_empty() {
            status["volumeSnapshotStatus"] = json!(told);
        }
        let written = self.objects.set_status(self.key, self.content, status);
        ignore_missing(written.await)?;
        let left = time_left(self.snapshot, self.context.clock.now());
        // A guest that stays frozen is let go at the deadline.
        Ok(
            match left.filter(|left| !created && *left > Duration::ZERO) {
                Some(left) => Next::After(left),
                None => Next::Done,
            },
        )
    }

    async fn take(&self, name: &str, backup: &Value) -> Result<Option<Found>, ActorError> {
        let claim = &backup["persistentVolumeClaim"];
        let class = claim["spec"]["storageClassName"]
            .as_str()
            .unwrap_or_default();
        let class = class_for(self.context, self.objects, class).await?;
        let vm = &self.content.data["spec"]["source"]["virtualMachine"]["metadata"];
        let body = json!({
            "metadata": {
                "name": name,
                "namespace": self.key.namespace,
                "labels": {
                    "restore.kubevirt.io/source-vm-name": vm["name"],
                    "restore.kubevirt.io/source-vm-namespace": vm["namespace"],
                },
                "ownerReferences": [controller_reference(&VM_SNAPSHOT_CONTENT, self.content)],
            },
            "spec": {
                "source": {"persistentVolumeClaimName": claim["metadata"]["name"]},
                "volumeSnapshotClassName": class,
            },
        });
        let namespace = self.key.namespace.as_deref();
        self.objects.create(&VOLUME_SNAPSHOT, namespace, body).await
    }
}

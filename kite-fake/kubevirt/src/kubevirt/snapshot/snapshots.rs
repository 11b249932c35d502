//! Takes `VirtualMachineSnapshot`s through their phases.
#![allow(
    clippy::similar_names,
    reason = "contents are named as `KubeVirt` names them"
)]

use std::time::Duration;

use async_trait::async_trait;
use kite_fake::actors::References;
use kite_fake::actors::kind::{CLAIM, Key};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text, uid};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::source::Source;
use super::{has_failed, is_ready, set_condition};
use crate::kinds::{INSTANCE, VIRTUAL_MACHINE, VM_SNAPSHOT, VM_SNAPSHOT_CONTENT};

const FINALIZER: &str = "snapshot.kubevirt.io/vmsnapshot-protection";
/// Holds a content until its snapshot has let go.
pub(super) const CONTENT_FINALIZER: &str = "snapshot.kubevirt.io/vmsnapshotcontent-protection";
/// How long a snapshot may take where it does not say.
const DEADLINE: Duration = Duration::from_secs(300);
/// Pause between two attempts to hold the VM.
const RETRY: Duration = Duration::from_secs(1);

/// Plays virt-controller's part for `VirtualMachineSnapshot`s: holds the VM,
/// writes down what is to be kept of it and tells how it goes.
#[derive(Debug, Default)]
pub struct Snapshots {
    sources: Mutex<References>,
}

#[async_trait]
impl Actor for Snapshots {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![
            VM_SNAPSHOT,
            VM_SNAPSHOT_CONTENT,
            VIRTUAL_MACHINE,
            INSTANCE,
            CLAIM,
        ])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        if change.kind == VM_SNAPSHOT_CONTENT {
            let name = text(&change.object, "/spec/virtualMachineSnapshotName");
            return vec![Key::new(&VM_SNAPSHOT, namespace, name)];
        }
        let mut sources = self.sources.lock();
        if change.kind != VM_SNAPSHOT {
            return sources.to(&Key::new(&VIRTUAL_MACHINE, namespace, &key.name));
        }
        let name = text(&change.object, "/spec/source/name");
        let over = matches!(
            text(&change.object, "/status/phase"),
            "Succeeded" | "Failed"
        );
        let source = (!change.gone && !over).then(|| Key::new(&VIRTUAL_MACHINE, namespace, name));
        sources.set(&key, source.into_iter().collect());
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(snapshot) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let namespace = key.namespace.as_deref();
        let name = text(&snapshot, "/spec/source/name");
        let source = Source::read(objects, namespace, name).await?;
        let content = content_name(&snapshot);
        let content = objects
            .find(&VM_SNAPSHOT_CONTENT, namespace, &content)
            .await?;
        let taking = Taking {
            context,
            objects,
            key,
            snapshot: &snapshot,
            source,
            content,
        };
        taking.advance().await
    }
}

/// Name of the content of `snapshot`.
fn content_name(snapshot: &DynamicObject) -> String {
    match text(snapshot, "/status/virtualMachineSnapshotContentName") {
        "" => format!("vmsnapshot-content-{}", uid(snapshot)),
        name => name.to_owned(),
    }
}

/// How much time a snapshot has left; nothing where it has no deadline.
pub(super) fn time_left(snapshot: &DynamicObject, now: jiff::Timestamp) -> Option<Duration> {
    let wanted = text(snapshot, "/spec/failureDeadline");
    let limit = match wanted {
        "" => DEADLINE,
        text => {
            let parsed = text.parse::<jiff::SignedDuration>().ok()?;
            Duration::try_from(parsed).ok().filter(|d| !d.is_zero())?
        }
    };
    let made = snapshot.metadata.creation_timestamp.as_ref()?.0;
    let due = made.checked_add(limit).ok()?;
    Some(Duration::try_from(due.duration_since(now)).unwrap_or_default())
}

/// Whether a snapshot is neither done nor failed.
fn is_progressing(snapshot: &DynamicObject) -> bool {
    !matches!(text(snapshot, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether a snapshot has had its time.
pub(super) fn is_expired(snapshot: &DynamicObject, now: jiff::Timestamp) -> bool {
    has_failed(snapshot)
        || is_progressing(snapshot) && time_left(snapshot, now).is_some_and(|left| left.is_zero())
}

/// Whether the content goes with its snapshot.
pub(super) fn takes_content_along(snapshot: &DynamicObject, content: &DynamicObject) -> bool {
    text(snapshot, "/spec/deletionPolicy") != "Retain" || !is_ready(content)
}

/// A snapshot being reconciled.
struct Taking<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    snapshot: &'a DynamicObject,
    source: Option<Source>,
    content: Option<Found>,
}

impl Taking<'_> {
    async fn advance(mut self) -> Result<Next, ActorError> {
        let now = self.context.clock.now();
        let deleting = is_deleting(self.snapshot);
        let terminating = deleting || is_expired(self.snapshot, now);
        if !terminating
            && self
                .objects
                .add_finalizers(self.key, self.snapshot, &[FINALIZER])
                .await?
        {
            return Ok(Next::Done);
        }
        let name = self.key.name.as_str();
        let mut obstacle = None;
        let mut held = false;
        if self.snapshot.data["status"].is_object()
            && let Some(source) = &self.source
        {
            if is_progressing(self.snapshot) && !terminating {
                held = true;
                if source.is_locked_for(name) {
                    self.make_content(source).await?;
                } else if let Err(why) = source.lock(self.objects, name).await? {
                    obstacle = Some(why);
                }
            } else {
                let kept = self
                    .content
                    .as_ref()
                    .is_some_and(|c| takes_content_along(self.snapshot, c));
                if !is_progressing(self.snapshot) || !kept {
                    source.unlock(self.objects, name).await?;
                } else {
                    held = source.is_locked_for(name);
                }
            }
        }
        if terminating
            && let Some(content) = &self.content
            && takes_content_along(self.snapshot, content)
        {
            let key = Key::of(&VM_SNAPSHOT_CONTENT, content);
            let deleted = self.objects.delete(&key, content, Deletion::default());
            deleted.await?;
        }
        let namespace = self.key.namespace.as_deref();
        let of = text(self.snapshot, "/spec/source/name");
        self.source = Source::read(self.objects, namespace, of).await?;
        let status = self.status(obstacle.as_deref());
        let written = self.objects.set_status(self.key, self.snapshot, status);
        ignore_missing(written.await)?;
        if deleting && !held {
            if let Some(fresh) = self.objects.get(self.key).await? {
                let removed = self.objects.remove_finalizer(self.key, &fresh, FINALIZER);
                removed.await?;
            }
            return Ok(Next::Done);
        }
        if !is_progressing(self.snapshot) {
            return Ok(Next::Done);
        }
        let left = time_left(self.snapshot, now);
        Ok(match (obstacle, left) {
            (Some(_), left) => Next::After(left.unwrap_or(RETRY).min(RETRY)),
            (None, Some(left)) => Next::After(left),
            (None, None) => Next::Done,
        })
    }

    async fn make_content(&self, source: &Source) -> Result<(), ActorError> {
        if self.content.is_some() {
            return Ok(());
        }
        let id = uid(self.snapshot);
        let backups = source.backups(self.context, self.objects, id).await?;
        let kept = source.kept(self.objects).await?;
        let body = json!({
            "metadata": {
                "name": content_name(self.snapshot),
                "namespace": self.key.namespace,
                "finalizers": [CONTENT_FINALIZER],
            },
            "spec": {
                "virtualMachineSnapshotName": self.key.name,
                "source": {"virtualMachine": kept},
                "volumeBackups": backups,
            },
        });
        let namespace = self.key.namespace.as_deref();
        self.objects
            .create(&VM_SNAPSHOT_CONTENT, namespace, body)
            .await?;
        Ok(())
    }

    fn status(&self, obstacle: Option<&str>) -> Value {
        let now = self.context.now();
        let mut status = match &self.snapshot.data["status"] {
            Value::Object(_) => self.snapshot.data["status"].clone(),
            _ => json!({"readyToUse": false}),
        };
        if let Some(source) = &self.source {
            status["sourceUID"] = json!(source.vm.metadata.uid);
        }
        if let Some(content) = &self.content
            && content.data["status"].is_object()
        {
            status["virtualMachineSnapshotContentName"] = json!(content.metadata.name);
            for field in ["creationTime", "readyToUse", "error"] {
                match content.data["status"].get(field) {
                    Some(value) => status[field] = value.clone(),
                    None => drop(status.as_object_mut().map(|s| s.remove(field))),
                }
            }
        }
        let expired = is_expired(self.snapshot, self.context.clock.now());
        let done = text(self.snapshot, "/status/phase") == "Succeeded"
            || status["creationTime"].is_string();
        if expired && !done {
            status["phase"] = json!("Failed");
            let why = "snapshot deadline exceeded";
            set_condition(&mut status, "Failure", true, why, &now);
            let why = "Operation failed";
            set_condition(&mut status, "Progressing", false, why, &now);
        } else if done {
            status["phase"] = json!("Succeeded");
            let why = "Operation complete";
            set_condition(&mut status, "Progressing", false, why, &now);
            self.tell_volumes(&mut status);
        } else {
            status["phase"] = json!("InProgress");
            self.tell_progress(&mut status, obstacle, &now);
            if is_deleting(self.snapshot) {
                status["phase"] = json!("Deleting");
                let why = "VM snapshot is deleting";
                set_condition(&mut status, "Progressing", false, why, &now);
            }
        }
        let ready = status["readyToUse"] == true;
        let why = if ready { "Ready" } else { "Not ready" };
        set_condition(&mut status, "Ready", ready, why, &now);
        if status["error"].is_object() {
            let why = "In error state";
            set_condition(&mut status, "Progressing", false, why, &now);
        }
        status
    }

    fn tell_progress(&self, status: &mut Value, obstacle: Option<&str>, now: &str) {
        let Some(source) = &self.source else {
            let why = "Source does not exist";
            return set_condition(status, "Progressing", false, why, now);
        };
        let locked = source.is_locked_for(&self.key.name);
        let why = if locked {
            "Source locked and operation in progress"
        } else {
            obstacle.unwrap_or("Source not locked")
        };
        set_condition(status, "Progressing", locked, why, now);
        let told = source.indications();
        if told.is_empty() {
            return;
        }
        let names: Vec<&str> = told.iter().map(|(name, _)| *name).collect();
        status["indications"] = json!(names);
        status["sourceIndications"] = told
            .iter()
            .map(|(name, message)| json!({"indication": name, "message": message}))
            .collect();
    }

    /// Which volumes are in the snapshot.
    fn tell_volumes(&self, status: &mut Value) {
        let Some(content) = &self.content else {
            return;
        };
        let spec = &content.data["spec"];
        let backups = spec["volumeBackups"].as_array();
        let backed_up = |name: &Value| {
            let mut backups = backups.into_iter().flatten();
            backups.any(|backup| backup["volumeName"] == *name)
        };
        let template = &spec["source"]["virtualMachine"]["spec"]["template"]["spec"];
        let volumes = template["volumes"].as_array();
        let names = volumes.into_iter().flatten().map(|v| v["name"].clone());
        let (inside, outside): (Vec<Value>, Vec<Value>) = names.partition(backed_up);
        let mut lists = json!({});
        if !inside.is_empty() {
            lists["includedVolumes"] = json!(inside);
        }
        if !outside.is_empty() {
            lists["excludedVolumes"] = json!(outside);
        }
        status["snapshotVolumes"] = lists;
    }
}

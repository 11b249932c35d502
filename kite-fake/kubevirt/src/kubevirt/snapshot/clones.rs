//! Clones of VMs: a snapshot, and a restore of it into another VM.

use async_trait::async_trait;
use kite_fake::actors::References;
use kite_fake::actors::kind::Key;
use kite_fake::actors::objects::{
    Deletion, Objects, controller_reference, ignore_missing, is_deleting, suffix, text, uid,
};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{has_failed, is_ready, set_condition};
use crate::kinds::{VIRTUAL_MACHINE, VM_CLONE, VM_RESTORE, VM_SNAPSHOT};

/// Plays virt-controller's part for `VirtualMachineClone`s.
#[derive(Debug, Default)]
pub struct Clones {
    parts: Mutex<References>,
}

#[async_trait]
impl Actor for Clones {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![VM_CLONE, VM_SNAPSHOT, VM_RESTORE, VIRTUAL_MACHINE])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        let mut parts = self.parts.lock();
        if change.kind != VM_CLONE {
            return parts.to(&key);
        }
        let mut targets = Vec::new();
        let over = text(&change.object, "/status/phase") == "Succeeded";
        if !change.gone && !over {
            let id = uid(&change.object);
            let source = text(&change.object, "/spec/source/name");
            targets.push(Key::new(&VIRTUAL_MACHINE, namespace, source));
            targets.push(Key::new(&VM_SNAPSHOT, namespace, source));
            targets.push(Key::new(&VM_SNAPSHOT, namespace, &snapshot_name(id)));
            targets.push(Key::new(&VM_RESTORE, namespace, &restore_name(id)));
        }
        parts.set(&key, targets);
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(clone) = objects.get(key).await?.filter(|c| !is_deleting(c)) else {
            return Ok(Next::Done);
        };
        let copying = Copying {
            context,
            objects,
            key,
            clone: &clone,
        };
        copying.advance().await
    }
}

fn snapshot_name(id: &str) -> String {
    format!("tmp-snapshot-{id}")
}

fn restore_name(id: &str) -> String {
    format!("tmp-restore-{id}")
}

/// A clone being reconciled.
struct Copying<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    clone: &'a DynamicObject,
}

impl Copying<'_> {
    fn namespace(&self) -> Option<&str> {
        self.key.namespace.as_deref()
    }

    async fn tell(&self, phase: &str, why: &str, fields: Value) -> Result<Next, ActorError> {
        let now = self.context.now();
        let mut status = match &self.clone.data["status"] {
            Value::Object(_) => self.clone.data["status"].clone(),
            _ => json!({}),
        };
        status["phase"] = json!(phase);
        for (field, value) in fields.as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
        let over = phase == "Succeeded" || phase == "Failed";
        set_condition(&mut status, "Progressing", !over, why, &now);
        set_condition(&mut status, "Ready", phase == "Succeeded", why, &now);
        let written = self.objects.set_status(self.key, self.clone, status);
        ignore_missing(written.await)?;
        Ok(Next::Done)
    }

    async fn advance(&self) -> Result<Next, ActorError> {
        let phase = text(self.clone, "/status/phase");
        if phase == "Succeeded" {
            return self.tidy_up().await;
        }
        if phase == "Failed" {
            return Ok(Next::Done);
        }
        let id = uid(self.clone);
        let source = text(self.clone, "/spec/source/name");
        let of_snapshot = text(self.clone, "/spec/source/kind") == "VirtualMachineSnapshot";
        let name = if of_snapshot {
            source.to_owned()
        } else {
            snapshot_name(id)
        };
        let snapshot = self
            .objects
            .find(&VM_SNAPSHOT, self.namespace(), &name)
            .await?;
        let Some(snapshot) = snapshot else {
            if of_snapshot {
                let why = format!(
                    "source {} {source} does not exist",
                    "VirtualMachineSnapshot"
                );
                return self.tell("SnapshotInProgress", &why, json!({})).await;
            }
            return self.make_snapshot(source, &name).await;
        };
        if has_failed(&snapshot) {
            let why = format!("snapshot {name} failed");
            return self.tell("Failed", &why, json!({})).await;
        }
        let named = json!({"snapshotName": name});
        if !is_ready(&snapshot) {
            let why = "Still processing";
            return self.tell("SnapshotInProgress", why, named).await;
        }
        self.restore(&snapshot, named).await
    }

    async fn make_snapshot(&self, source: &str, name: &str) -> Result<Next, ActorError> {
        let vm = self
            .objects
            .find(&VIRTUAL_MACHINE, self.namespace(), source)
            .await?;
        if vm.is_none() {
            let why = format!(
                "VirtualMachine {}/{source} does not exist",
                self.key.space()
            );
            return self.tell("SnapshotInProgress", &why, json!({})).await;
        }
        let body = json!({
            "metadata": {
                "name": name,
                "namespace": self.key.namespace,
                "ownerReferences": [controller_reference(&VM_CLONE, self.clone)],
            },
            "spec": {"source": {
                "apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": source,
            }},
        });
        self.objects
            .create(&VM_SNAPSHOT, self.namespace(), body)
            .await?;
        let fields = json!({"snapshotName": name});
        self.tell("SnapshotInProgress", "Still processing", fields)
            .await
    }

    async fn restore(&self, snapshot: &DynamicObject, told: Value) -> Result<Next, ActorError> {
        let name = restore_name(uid(self.clone));
        let target = self.target();
        let restore = self
            .objects
            .find(&VM_RESTORE, self.namespace(), &name)
            .await?;
        let mut fields = told;
        fields["restoreName"] = json!(name);
        fields["targetName"] = json!(target);
        let Some(restore) = restore else {
            let body = json!({
                "metadata": {
                    "name": name,
                    "namespace": self.key.namespace,
                    "ownerReferences": [controller_reference(&VM_CLONE, self.clone)],
                },
                "spec": {
                    "target": {
                        "apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": target,
                    },
                    "virtualMachineSnapshotName": snapshot.metadata.name,
                    "patches": self.patches(snapshot).await?,
                },
            });
            self.objects
                .create(&VM_RESTORE, self.namespace(), body)
                .await?;
            return self
                .tell("RestoreInProgress", "Still processing", fields)
                .await;
        };
        let vm = self
            .objects
            .find(&VIRTUAL_MACHINE, self.namespace(), &target)
            .await?;
        if restore.data["status"]["complete"] == true && vm.is_some() {
            fields["creationTime"] = json!(self.context.now());
            return self.tell("Succeeded", "Clone succeeded", fields).await;
        }
        let phase = if vm.is_some() {
            "CreatingTargetVM"
        } else {
            "RestoreInProgress"
        };
        self.tell(phase, "Still processing", fields).await
    }

    /// Name of the VM that is made.
    fn target(&self) -> String {
        let wanted = text(self.clone, "/spec/target/name");
        if !wanted.is_empty() {
            return wanted.to_owned();
        }
        let source = text(self.clone, "/spec/source/name");
        format!("clone-{source}-{}", suffix(uid(self.clone)))
    }

    /// What makes the new VM another one: addresses and identity of its own, and
    /// only the labels and annotations that are asked for.
    async fn patches(&self, snapshot: &DynamicObject) -> Result<Vec<String>, ActorError> {
        let name = text(snapshot, "/status/virtualMachineSnapshotContentName");
        let kind = &crate::kinds::VM_SNAPSHOT_CONTENT;
        let content = self.objects.find(kind, self.namespace(), name).await?;
        let vm = content.map(|c| c.data["spec"]["source"]["virtualMachine"].clone());
        let vm = vm.unwrap_or_default();
        let spec = &self.clone.data["spec"];
        let mut patches = Vec::new();
        let mut add = |operation: Value| patches.push(operation.to_string());
        let interfaces =
            vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"].as_array();
        for (place, interface) in interfaces.into_iter().flatten().enumerate() {
            let wanted = interface["name"]
                .as_str()
                .and_then(|name| spec["newMacAddresses"][name].as_str());
            let path = format!("/spec/template/spec/domain/devices/interfaces/{place}/macAddress");
            if let Some(wanted) = wanted {
                add(json!({"op": "add", "path": path, "value": wanted}));
            } else if interface["macAddress"].is_string() {
                add(json!({"op": "remove", "path": path}));
            }
        }
        let firmware = &vm["spec"]["template"]["spec"]["domain"]["firmware"];
        let at = "/spec/template/spec/domain/firmware";
        if firmware["uuid"].is_string() {
            add(json!({"op": "remove", "path": format!("{at}/uuid")}));
        }
        let serial = spec["newSMBiosSerial"].as_str();
        if let Some(serial) = serial {
            if !firmware.is_object() {
                add(json!({"op": "add", "path": at, "value": {}}));
            }
            add(json!({"op": "add", "path": format!("{at}/serial"), "value": serial}));
        }
        for (filters, map, path) in [
            (
                &spec["labelFilters"],
                &vm["metadata"]["labels"],
                "/metadata/labels",
            ),
            (
                &spec["annotationFilters"],
                &vm["metadata"]["annotations"],
                "/metadata/annotations",
            ),
            (
                &spec["template"]["labelFilters"],
                &vm["spec"]["template"]["metadata"]["labels"],
                "/spec/template/metadata/labels",
            ),
            (
                &spec["template"]["annotationFilters"],
                &vm["spec"]["template"]["metadata"]["annotations"],
                "/spec/template/metadata/annotations",
            ),
        ] {
            let Some(filters) = filters.as_array() else {
                continue;
            };
            let filters: Vec<&str> = filters.iter().filter_map(Value::as_str).collect();
            let names = map.as_object().into_iter().flatten().map(|(name, _)| name);
            for name in names.filter(|name| !is_kept(&filters, name)) {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                add(json!({"op": "remove", "path": format!("{path}/{escaped}")}));
            }
        }
        let own = spec["patches"].as_array();
        let own = own.into_iter().flatten().filter_map(Value::as_str);
        patches.extend(own.map(str::to_owned));
        Ok(patches)
    }

    /// The means go when the end is reached.
    async fn tidy_up(&self) -> Result<Next, ActorError> {
        let id = uid(self.clone);
        for (kind, name) in [
            (&VM_RESTORE, restore_name(id)),
            (&VM_SNAPSHOT, snapshot_name(id)),
        ] {
            let key = Key::new(kind, self.namespace(), &name);
            if let Some(object) = self.objects.get(&key).await?.filter(|o| !is_deleting(o)) {
                let deleted = self.objects.delete(&key, &object, Deletion::default());
                deleted.await?;
            }
        }
        Ok(Next::Done)
    }
}

/// Whether a name passes a list of filters: `*` at the end stands for anything,
/// `!` in front excludes.
fn is_kept(filters: &[&str], name: &str) -> bool {
    let hits = |filter: &str| match filter.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => filter == name,
    };
    let excluded = filters.iter().filter_map(|f| f.strip_prefix('!')).any(hits);
    let included = filters
        .iter()
        .filter(|f| !f.starts_with('!'))
        .any(|f| hits(f));
    included && !excluded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_keep_what_they_name() {
        assert!(is_kept(&["*"], "app"));
        assert!(is_kept(&["app/*"], "app/x") && !is_kept(&["app/*"], "b"));
        assert!(!is_kept(&["*", "!app/*"], "app/x"));
        assert!(!is_kept(&[], "app"));
    }
}

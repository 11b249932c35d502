//! Takes `VirtualMachineRestore`s through.

use std::time::Duration;

use async_trait::async_trait;
use kite_core::cdi;
use kite_fake::actors::References;
use kite_fake::actors::kind::{CLAIM, Key, VOLUME_SNAPSHOT};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{
    Deletion, Objects, controller_reference, ignore_missing, is_deleting, text, uid,
};
use kite_fake::actors::storage::is_bound;
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kite_fake::patch::json_patch;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::restored::{self, is_by, is_in_place};
use super::{has_failed, is_ready, set_condition};
use crate::kinds::{
    DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE, VM_RESTORE, VM_SNAPSHOT, VM_SNAPSHOT_CONTENT,
};
use crate::kubevirt::run::strategy;

const FINALIZER: &str = "snapshot.kubevirt.io/vmrestore-protection";
/// How long the target may keep running.
const GRACE: Duration = Duration::from_secs(300);

/// Plays virt-controller's part for `VirtualMachineRestore`s: waits until the
/// target is off, makes claims from the snapshots and puts them into the VM.
#[derive(Debug, Default)]
pub struct Restores {
    parts: Mutex<References>,
}

#[async_trait]
impl Actor for Restores {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![
            VM_RESTORE,
            VM_SNAPSHOT,
            VIRTUAL_MACHINE,
            INSTANCE,
            CLAIM,
            DATA_VOLUME,
        ])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        let mut parts = self.parts.lock();
        if change.kind != VM_RESTORE {
            return parts.to(&key);
        }
        let mut targets = Vec::new();
        let over = change.object.data["status"]["complete"] == true;
        if !change.gone && !over {
            let target = text(&change.object, "/spec/target/name");
            let snapshot = text(&change.object, "/spec/virtualMachineSnapshotName");
            targets.push(Key::new(&VIRTUAL_MACHINE, namespace, target));
            targets.push(Key::new(&INSTANCE, namespace, target));
            targets.push(Key::new(&VM_SNAPSHOT, namespace, snapshot));
            let restores = change.object.data["status"]["restores"].as_array();
            for entry in restores.into_iter().flatten() {
                for (kind, field) in [
                    (&CLAIM, "persistentVolumeClaim"),
                    (&DATA_VOLUME, "dataVolumeName"),
                ] {
                    if let Some(name) = entry[field].as_str() {
                        targets.push(Key::new(kind, namespace, name));
                    }
                }
            }
        }
        parts.set(&key, targets);
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(restore) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let name = text(&restore, "/spec/target/name");
        let namespace = key.namespace.as_deref();
        let target = objects.find(&VIRTUAL_MACHINE, namespace, name).await?;
        let giving = Giving {
            context,
            objects,
            key,
            restore: &restore,
            target,
        };
        giving.advance().await
    }
}

/// A restore being reconciled.
struct Giving<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    restore: &'a DynamicObject,
    target: Option<Found>,
}

impl Giving<'_> {
    fn namespace(&self) -> Option<&str> {
        self.key.namespace.as_deref()
    }

    fn status(&self) -> Value {
        match &self.restore.data["status"] {
            Value::Object(_) => self.restore.data["status"].clone(),
            _ => json!({"complete": false}),
        }
    }

    async fn write(&self, status: Value) -> Result<Next, ActorError> {
        let written = self.objects.set_status(self.key, self.restore, status);
        ignore_missing(written.await)?;
        Ok(Next::Done)
    }

    /// Tells what is being done, and what is waited for.
    async fn tell(&self, progressing: bool, done: &str, ready: &str) -> Result<Next, ActorError> {
        self.tell_in(self.status(), progressing, done, ready).await
    }

    async fn tell_in(
        &self,
        mut status: Value,
        progressing: bool,
        done: &str,
        ready: &str,
    ) -> Result<Next, ActorError> {
        let now = self.context.now();
        set_condition(&mut status, "Progressing", progressing, done, &now);
        set_condition(&mut status, "Ready", false, ready, &now);
        self.write(status).await
    }

    async fn error(&self, why: &str) -> Result<Next, ActorError> {
        self.tell(false, why, why).await
    }

    async fn advance(&self) -> Result<Next, ActorError> {
        let old = &self.restore.data["status"];
        if old.is_null() {
            let why = "Initializing VirtualMachineRestore";
            return self.tell(true, why, why).await;
        }
        if is_deleting(self.restore) {
            return self.end().await;
        }
        let conditions = old["conditions"].as_array();
        let failed = conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Failure");
        if old["complete"] == true || failed {
            return Ok(Next::Done);
        }
        if self.mark().await? {
            return Ok(Next::Done);
        }
        if self.target.is_some() {
            let name = text(self.restore, "/spec/target/name");
            let running = self.objects.find(&INSTANCE, self.namespace(), name).await?;
            if running.is_some() {
                return self.wait_for_target().await;
            }
        }
        let (snapshot, content) = match self.content().await? {
            Ok(found) => found,
            Err(why) => return self.error(&why).await,
        };
        if let Some(target) = &self.target
            && !is_by(target, self.restore)
            && text(&snapshot, "/status/sourceUID") != uid(target)
        {
            let why = "restore source and restore target are different but restore target already \
                       exists";
            return self.error(why).await;
        }
        if self.claim_target().await? {
            return Ok(Next::Done);
        }
        if let Some(next) = self.make_claims(&content).await? {
            return Ok(next);
        }
        if let Some(next) = self.change_target(&content).await? {
            return Ok(next);
        }
        self.finish().await
    }

    /// The finalizer, and the target as its owner. Whether something was written.
    async fn mark(&self) -> Result<bool, ActorError> {
        let meta = &self.restore.metadata;
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        let held = finalizers.iter().any(|f| f == FINALIZER);
        let unowned = meta.owner_references.iter().flatten().next().is_none();
        let owner = self.target.as_ref().filter(|_| unowned);
        if held && owner.is_none() {
            return Ok(false);
        }
        if !held {
            finalizers.push(FINALIZER.to_owned());
        }
        let mut metadata = json!({"finalizers": finalizers});
        if let Some(owner) = owner {
            metadata["ownerReferences"] = json!([controller_reference(&VIRTUAL_MACHINE, owner)]);
        }
        let patch = json!({"metadata": metadata});
        let merged = self.objects.merge(self.key, Some(self.restore), patch);
        ignore_missing(merged.await)?;
        Ok(true)
    }

    /// The target still runs: what the policy says.
    async fn wait_for_target(&self) -> Result<Next, ActorError> {
        const STOP: &str = "Please stop the restore target to proceed with restore";
        let waiting = "Waiting for target VM to be powered off.";
        match text(self.restore, "/spec/targetReadinessPolicy") {
            "WaitEventually" => {
                let why = format!("{waiting} {STOP}");
                self.tell(false, &why, &why).await
            }
            "StopTarget" => {
                self.stop().await?;
                let why = "Automatically stopping restore target for restore operation";
                self.tell(false, why, why).await
            }
            "FailImmediate" => {
                let why = "Restore target VMI must be powered off before restore operation";
                self.fail(why).await
            }
            _ => {
                let made = self.restore.metadata.creation_timestamp.as_ref();
                let due = made.and_then(|made| made.0.checked_add(GRACE).ok());
                let left = due.map(|due| due.duration_since(self.context.clock.now()));
                let left = left.and_then(|left| Duration::try_from(left).ok());
                let Some(left) = left.filter(|left| !left.is_zero()) else {
                    let why = "Restore target failed to be ready within 5m0s. Please power off \
                               the target VM before attempting restore";
                    return self.fail(why).await;
                };
                let why = format!("{waiting} {STOP}, or the operation will fail after 5m0s");
                self.tell(false, &why, &why).await?;
                Ok(Next::After(left))
            }
        }
    }

    async fn fail(&self, why: &str) -> Result<Next, ActorError> {
        let now = self.context.now();
        let mut status = self.status();
        set_condition(&mut status, "Failure", true, why, &now);
        self.tell_in(status, false, why, "Operation failed").await
    }

    /// Turns the target off, as its subresource does.
    async fn stop(&self) -> Result<(), ActorError> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        let key = Key::of(&VIRTUAL_MACHINE, target);
        let spec = match strategy(target) {
            "Halted" => return Ok(()),
            "Always" | "Once" if target.data["spec"]["running"].is_null() => {
                json!({"spec": {"runStrategy": "Halted"}})
            }
            "Always" => json!({"spec": {"running": false}}),
            _ => {
                let name = &key.name;
                let instance = self.objects.find(&INSTANCE, self.namespace(), name).await?;
                let Some(instance) = instance.filter(|i| !is_deleting(i)) else {
                    return Ok(());
                };
                let mut status = target.data["status"].clone();
                status["stateChangeRequests"] = json!([{"action": "Stop", "uid": uid(&instance)}]);
                let written = self.objects.set_status(&key, target, status).await;
                return ignore_missing(written);
            }
        };
        ignore_missing(self.objects.merge(&key, Some(target), spec).await)
    }

    /// The snapshot and its content, or why they cannot be used.
    async fn content(&self) -> Result<Result<(Found, Found), String>, ActorError> {
        let name = text(self.restore, "/spec/virtualMachineSnapshotName");
        let path = format!("{}/{name}", self.key.space());
        let snapshot = self
            .objects
            .find(&VM_SNAPSHOT, self.namespace(), name)
            .await?;
        let snapshot = match snapshot {
            None => return Ok(Err(format!("VMSnapshot {path} does not exist"))),
            Some(s) if has_failed(&s) => {
                return Ok(Err(format!(
                    "VMSnapshot {path} failed and is invalid to use"
                )));
            }
            Some(s) if !is_ready(&s) => {
                return Ok(Err(format!("VMSnapshot {path} not ready")));
            }
            Some(snapshot) => snapshot,
        };
        let name = text(&snapshot, "/status/virtualMachineSnapshotContentName").to_owned();
        if name.is_empty() {
            return Ok(Err(format!("no snapshot content name in {path}")));
        }
        let kind = &VM_SNAPSHOT_CONTENT;
        let content = self.objects.find(kind, self.namespace(), &name).await?;
        Ok(content.map(|content| (snapshot, content)).ok_or_else(|| {
            format!(
                "VMSnapshotContent {}/{name} does not exist",
                self.key.space()
            )
        }))
    }

    /// Tells in the target's status that it is being restored. Whether that was
    /// written just now.
    async fn claim_target(&self) -> Result<bool, ActorError> {
        let Some(target) = self.target.as_ref().filter(|t| !is_by(t, self.restore)) else {
            return Ok(false);
        };
        let current = text(target, "/status/restoreInProgress");
        if current == self.key.name {
            return Ok(false);
        }
        if !current.is_empty() {
            self.error(&format!("vm restore {current} in progress"))
                .await?;
            return Ok(true);
        }
        let mut status = target.data["status"].clone();
        status["restoreInProgress"] = json!(self.key.name);
        let key = Key::of(&VIRTUAL_MACHINE, target);
        ignore_missing(self.objects.set_status(&key, target, status).await)?;
        Ok(true)
    }

    /// Claims from the snapshots. `None` when they are all there.
    async fn make_claims(&self, content: &DynamicObject) -> Result<Option<Next>, ActorError> {
        let told = self.restore.data["status"]["restores"].as_array();
        let (done, ready) = ("Creating new PVCs", "Waiting for new PVCs");
        let Some(told) = told else {
            let mut status = self.status();
            status["restores"] = json!(restored::restores(self.restore, content));
            return Ok(Some(self.tell_in(status, true, done, ready).await?));
        };
        let mut waiting = false;
        for (at, entry) in told.iter().enumerate() {
            let name = entry["persistentVolumeClaim"].as_str().unwrap_or_default();
            match self.objects.find(&CLAIM, self.namespace(), name).await? {
                None => {
                    self.make_claim(content, entry).await?;
                    waiting = true;
                }
                Some(claim) if is_in_place(self.restore) && !is_by(&claim, self.restore) => {
                    let disk = owning_disk(&claim);
                    if let Some(disk) = disk.filter(|_| entry["dataVolumeName"].is_null()) {
                        // By which the disk takes up the claim that is made for it.
                        let mut status = self.status();
                        status["restores"] = json!(told);
                        status["restores"][at]["dataVolumeName"] = json!(disk);
                        return Ok(Some(self.tell_in(status, true, done, ready).await?));
                    }
                    if !is_deleting(&claim) {
                        self.make_room(&claim).await?;
                    }
                    waiting = true;
                }
                Some(claim) => waiting |= !is_bound(&claim),
            }
        }
        if waiting {
            return Ok(Some(self.tell(true, done, ready).await?));
        }
        Ok(None)
    }

    /// A claim that another one takes the place of. Its `DataVolume` is told not
    /// to make one by itself.
    async fn make_room(&self, claim: &DynamicObject) -> Result<(), ActorError> {
        if let Some(disk) = owning_disk(claim) {
            let key = Key::new(&DATA_VOLUME, self.namespace(), disk);
            let name = claim.metadata.name.clone();
            let annotation = json!({(cdi::HAS_ITS_DATA): name});
            let patch = json!({"metadata": {"annotations": annotation}});
            ignore_missing(self.objects.merge(&key, None, patch).await)?;
        }
        let key = Key::of(&CLAIM, claim);
        let deletion = Deletion::default();
        self.objects.delete(&key, claim, deletion).await
    }

    async fn make_claim(&self, content: &DynamicObject, entry: &Value) -> Result<(), ActorError> {
        let name = entry["volumeSnapshotName"].as_str().unwrap_or_default();
        let kind = &VOLUME_SNAPSHOT;
        let snapshot = self.objects.find(kind, self.namespace(), name).await?;
        let size = snapshot
            .as_ref()
            .map(|s| text(s, "/status/restoreSize"))
            .filter(|size| !size.is_empty());
        let unowned = text(self.restore, "/spec/volumeOwnershipPolicy") == "None";
        let is_of_disk = entry["dataVolumeName"].is_string();
        let owner = self.target.as_ref().filter(|_| !unowned && !is_of_disk);
        let owner = owner.map(|target| {
            let mut owner = controller_reference(&VIRTUAL_MACHINE, target);
            owner["controller"] = json!(false);
            owner
        });
        let body = restored::claim(self.restore, content, entry, size, owner);
        self.objects.create(&CLAIM, self.namespace(), body).await?;
        Ok(())
    }

    /// The VM with its new disks. `None` when it has them.
    async fn change_target(&self, content: &DynamicObject) -> Result<Option<Next>, ActorError> {
        if self.target.as_ref().is_some_and(|t| is_by(t, self.restore)) {
            return Ok(None);
        }
        let (done, ready) = ("Updating target spec", "Waiting for target update");
        let kept = &content.data["spec"]["source"]["virtualMachine"];
        let told = self.restore.data["status"]["restores"].as_array();
        let told = told.map_or(&[][..], Vec::as_slice);
        let named = restored::with_data_volumes(self.restore, kept, told);
        if named != told {
            let mut status = self.status();
            status["restores"] = json!(named);
            return Ok(Some(self.tell_in(status, true, done, ready).await?));
        }
        let machine = restored::machine(self.restore, kept, told, self.target.as_deref());
        if self.make_disks(&machine, told).await? {
            return Ok(Some(self.tell(true, done, ready).await?));
        }
        if let Some(target) = &self.target {
            let gone = obsolete(target, &machine);
            if !gone.is_empty() && self.restore.data["status"]["deletedDataVolumes"] != json!(gone)
            {
                let mut status = self.status();
                status["deletedDataVolumes"] = json!(gone);
                return Ok(Some(self.tell_in(status, true, done, ready).await?));
            }
        }
        if let Some(target) = &self.target {
            // All of the spec is replaced.
            let key = Key::of(&VIRTUAL_MACHINE, target);
            self.objects.replace(&key, machine).await?;
        } else {
            let machine = match self.patched(machine) {
                Ok(machine) => machine,
                Err(why) => return Ok(Some(self.error(&why).await?)),
            };
            self.objects
                .create(&VIRTUAL_MACHINE, self.namespace(), machine)
                .await?;
        }
        Ok(Some(self.tell(true, done, ready).await?))
    }

    /// The new VM with the patches that the restore asks for.
    fn patched(&self, machine: Value) -> Result<Value, String> {
        let patches = self.restore.data["spec"]["patches"].as_array();
        let patches: Vec<&str> = patches
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if patches.is_empty() {
            return Ok(machine);
        }
        let all = format!("[{}]", patches.join(","));
        json_patch(&machine, all.as_bytes()).map_err(|error| {
            let name = text(self.restore, "/spec/target/name");
            format!("error patching VM {name}: {error}")
        })
    }

    /// `DataVolume`s over the new claims. Whether one is not ready.
    async fn make_disks(&self, machine: &Value, told: &[Value]) -> Result<bool, ActorError> {
        let templates = machine["spec"]["dataVolumeTemplates"].as_array();
        let mut waiting = false;
        for template in templates.into_iter().flatten() {
            let name = template["metadata"]["name"].as_str().unwrap_or_default();
            let Some(entry) = told.iter().find(|e| e["dataVolumeName"] == name) else {
                continue;
            };
            let claim = entry["persistentVolumeClaim"].as_str().unwrap_or_default();
            if let Some(disk) = self
                .objects
                .find(&DATA_VOLUME, self.namespace(), name)
                .await?
            {
                let phase = text(&disk, "/status/phase");
                let fine = ["Succeeded", "WaitForFirstConsumer", "PendingPopulation"];
                waiting |= !fine.contains(&phase);
                continue;
            }
            let key = Key::new(&CLAIM, self.namespace(), claim);
            let populated = json!({(cdi::POPULATED_FOR): name});
            // The disk owns it from now on.
            let patch = json!({"metadata": {"annotations": populated, "ownerReferences": null}});
            self.objects.merge(&key, None, patch).await?;
            let mut metadata = template["metadata"].clone();
            metadata["namespace"] = json!(self.key.namespace);
            metadata["annotations"][cdi::HAS_ITS_DATA] = json!(claim);
            if let Some(target) = &self.target {
                metadata["ownerReferences"] =
                    json!([controller_reference(&VIRTUAL_MACHINE, target)]);
            }
            let body = json!({"metadata": metadata, "spec": template["spec"]});
            self.objects
                .create(&DATA_VOLUME, self.namespace(), body)
                .await?;
            waiting = true;
        }
        Ok(waiting)
    }

    /// What is left over goes, and all is told.
    async fn finish(&self) -> Result<Next, ActorError> {
        let gone = self.restore.data["status"]["deletedDataVolumes"].as_array();
        for name in gone.into_iter().flatten().filter_map(Value::as_str) {
            let key = Key::new(&DATA_VOLUME, self.namespace(), name);
            if let Some(disk) = self.objects.get(&key).await?.filter(|d| !is_deleting(d)) {
                self.objects
                    .delete(&key, &disk, Deletion::default())
                    .await?;
            }
        }
        self.let_target_go().await?;
        let now = self.context.now();
        let mut status = self.status();
        status["complete"] = json!(true);
        status["restoreTime"] = json!(now);
        let why = "Operation complete";
        set_condition(&mut status, "Progressing", false, why, &now);
        set_condition(&mut status, "Ready", true, why, &now);
        self.write(status).await
    }

    async fn let_target_go(&self) -> Result<(), ActorError> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        if text(target, "/status/restoreInProgress") != self.key.name {
            return Ok(());
        }
        let mut status = target.data["status"].clone();
        if let Some(fields) = status.as_object_mut() {
            fields.remove("restoreInProgress");
            fields.remove("memoryDumpRequest");
        }
        let key = Key::of(&VIRTUAL_MACHINE, target);
        ignore_missing(self.objects.set_status(&key, target, status).await)
    }

    async fn end(&self) -> Result<Next, ActorError> {
        self.let_target_go().await?;
        let removed = self
            .objects
            .remove_finalizer(self.key, self.restore, FINALIZER);
        removed.await?;
        Ok(Next::Done)
    }
}

/// Names of the target's own disks that the restored VM does not have.
fn obsolete(target: &DynamicObject, machine: &Value) -> Vec<String> {
    let names = |spec: &Value| -> Vec<String> {
        let templates = spec["dataVolumeTemplates"].as_array();
        let names = templates.into_iter().flatten();
        names
            .filter_map(|t| t["metadata"]["name"].as_str().map(str::to_owned))
            .collect()
    };
    let kept = names(&machine["spec"]);
    let mut before = names(&target.data["spec"]);
    before.retain(|name| !kept.contains(name));
    before
}

/// The `DataVolume` that a claim is of.
fn owning_disk(claim: &DynamicObject) -> Option<&str> {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    let disk = owners.find(|owner| owner.kind == "DataVolume");
    disk.map(|owner| owner.name.as_str())
}

//! Disks that are plugged into running instances.

use async_trait::async_trait;
use kite_fake::actors::Gate;
use kite_fake::actors::References;
use kite_fake::actors::kind::{CLAIM, Key, Kind, POD};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{
    Deletion, Objects, controller_reference, ignore_missing, is_controlled_by, is_deleting, suffix,
    text, uid,
};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::instance_status::claim_info;
use super::volumes::{self, Volume};
use super::{launcher, volumes::is_hotplug};
use crate::kinds::{DATA_VOLUME, INSTANCE};
use crate::kubevirt::conditions::find;
use crate::stages;

/// On an instance: names of volumes that were plugged into it alone, as a list
/// in JSON.
pub(super) const EPHEMERAL: &str = "kubevirt.io/ephemeral-hotplug-volumes";
/// On an attachment Pod: the instance it is for.
const INSTANCE_LABEL: &str = "kubevirt.io/hotplug-instance";

/// Names of the volumes that were plugged into this instance alone.
pub(super) fn ephemeral(instance: &DynamicObject) -> Vec<String> {
    let annotations = instance.metadata.annotations.as_ref();
    let listed = annotations.and_then(|a| a.get(EPHEMERAL));
    listed
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The patch that gives a running instance the hot-pluggable volumes of its
/// template, and takes away those that the template has no more.
pub(super) fn patch(template: &Value, instance: &DynamicObject) -> Option<Value> {
    if text(instance, "/status/phase") != "Running" {
        return None;
    }
    let spec = &instance.data["spec"];
    let own = ephemeral(instance);
    let goes = |volume: &Value| {
        is_hotplug(volume)
            && !own.iter().any(|name| volume["name"] == **name)
            && !volumes::listed(template).any(|v| v["name"] == volume["name"])
    };
    let gone: Vec<&Value> = volumes::listed(spec)
        .filter(|v| goes(v))
        .map(|v| &v["name"])
        .collect();
    let added: Vec<&Value> = volumes::listed(template)
        .filter(|v| is_hotplug(v) && !volumes::listed(spec).any(|w| w["name"] == v["name"]))
        .collect();
    if gone.is_empty() && added.is_empty() {
        return None;
    }
    let stays = |member: &&Value| !gone.contains(&&member["name"]);
    let mut volumes: Vec<&Value> = volumes::listed(spec).filter(stays).collect();
    volumes.extend(&added);
    let mut all: Vec<&Value> = disks(spec).filter(stays).collect();
    all.extend(disks(template).filter(|disk| added.iter().any(|v| v["name"] == disk["name"])));
    Some(json!({"spec": {"volumes": volumes, "domain": {"devices": {"disks": all}}}}))
}

/// The disks of an instance's spec.
fn disks(spec: &Value) -> impl Iterator<Item = &Value> {
    let disks = spec["domain"]["devices"]["disks"].as_array();
    disks.map_or(&[][..], Vec::as_slice).iter()
}

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[INSTANCE];

/// Plays virt-controller's and virt-handler's parts for hot-pluggable volumes:
/// a Pod attaches them to the node of a running instance, then they show in the
/// guest; `status.volumeStatus` tells how far each has come.
#[derive(Debug, Default)]
pub struct HotplugVolumes {
    disks: Mutex<References>,
}

#[async_trait]
impl Actor for HotplugVolumes {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![INSTANCE, POD, CLAIM, DATA_VOLUME])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        if change.kind == POD {
            let labels = change.object.metadata.labels.as_ref();
            let name = labels.and_then(|labels| labels.get(INSTANCE_LABEL));
            let name = name.map(|name| Key::new(&INSTANCE, namespace, name));
            return name.into_iter().collect();
        }
        let mut disks = self.disks.lock();
        if change.kind != INSTANCE {
            return disks.to(&key);
        }
        let spec = &change.object.data["spec"];
        let plugged = is_concerned(&change.object);
        let targets = if change.gone || !plugged {
            Vec::new()
        } else {
            volumes::dependencies(spec, namespace)
        };
        disks.set(&key, targets);
        if plugged { vec![key] } else { Vec::new() }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(instance) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        if !is_concerned(&instance) {
            return Ok(Next::Done);
        }
        if text(&instance, "/status/phase") != "Running" || is_deleting(&instance) {
            return Ok(Next::Done);
        }
        let namespace = key.namespace.as_deref();
        let selector = launcher::selector(&key.name);
        let mut launchers = objects.list(&POD, namespace, &selector).await?;
        launchers.retain(|pod| is_controlled_by(pod, uid(&instance)));
        let Some(launcher) = launcher::current(&instance, &launchers) else {
            return Ok(Next::Done);
        };
        let spec = &instance.data["spec"];
        let mut volumes = volumes::observe(objects, spec, namespace).await?;
        volumes.retain(|volume| volume.hotplug);
        let plug = Plug {
            context,
            objects,
            key,
            instance: &instance,
            launcher,
            volumes,
        };
        plug.advance().await
    }
}

/// Whether `instance` has hot-pluggable volumes, or had some.
fn is_concerned(instance: &DynamicObject) -> bool {
    volumes::listed(&instance.data["spec"]).any(is_hotplug)
        || told(&instance.data["status"]).next().is_some()
}

/// The entries of a status that are of hot-plugged volumes.
fn told(status: &Value) -> impl Iterator<Item = &Value> {
    let all = status["volumeStatus"].as_array();
    let all = all.map_or(&[][..], Vec::as_slice).iter();
    all.filter(|volume| volume["hotplugVolume"].is_object())
}

/// An instance with its hot-pluggable volumes.
struct Plug<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    instance: &'a DynamicObject,
    launcher: &'a DynamicObject,
    volumes: Vec<Volume>,
}

impl Plug<'_> {
    async fn advance(&self) -> Result<Next, ActorError> {
        let namespace = self.key.namespace.as_deref();
        let selector = format!("{INSTANCE_LABEL}={}", self.key.name);
        let pods = self.objects.list(&POD, namespace, &selector).await?;
        let ready: Vec<&Volume> = self.volumes.iter().filter(|v| is_ready(v)).collect();
        let name = self.pod_name(&ready);
        let mut present = None;
        let mut leaving = Vec::new();
        for pod in pods {
            let of_this = pod.metadata.name.as_deref() == Some(name.as_str());
            if of_this && !ready.is_empty() {
                present = Some(pod);
                continue;
            }
            if !is_deleting(&pod) {
                let key = Key::of(&POD, &pod);
                let deletion = Deletion::default();
                self.objects.delete(&key, &pod, deletion).await?;
            }
            leaving.push(pod);
        }
        if present.is_none() && !ready.is_empty() {
            let body = self.attachment(&name, &ready);
            present = self.objects.create(&POD, namespace, body).await?;
        }
        let (mut entries, next) = self.entries(present.as_deref());
        entries.extend(self.detaching(&leaving));
        let mut status = self.instance.data["status"].clone();
        let plain = status["volumeStatus"].as_array().cloned();
        let mut all: Vec<Value> = plain.unwrap_or_default();
        all.retain(|volume| !volume["hotplugVolume"].is_object());
        all.extend(entries);
        all.sort_by_key(|volume| volume["name"].as_str().map(str::to_owned));
        status["volumeStatus"] = json!(all);
        let written = self
            .objects
            .set_status(self.key, self.instance, status)
            .await;
        ignore_missing(written)?;
        Ok(next)
    }

    /// Another set of volumes is another Pod.
    fn pod_name(&self, volumes: &[&Volume]) -> String {
        let names: Vec<&str> = volumes.iter().map(|v| v.name.as_str()).collect();
        let seed = format!("{}{}", names.join(""), uid(self.launcher));
        // FNV-1a: any hash will do that is the same everywhere.
        let hash = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("hp-volume-{}", suffix(&format!("{hash:016x}")))
    }

    fn attachment(&self, name: &str, volumes: &[&Volume]) -> Value {
        let mounts = volumes.iter().filter_map(|volume| {
            let claim = &volume.storage.as_ref()?.claim_name;
            Some(json!({"name": volume.name, "persistentVolumeClaim": {"claimName": claim}}))
        });
        let mounts: Vec<Value> = mounts.collect();
        json!({
            "metadata": {
                "name": name,
                "generateName": "hp-volume-",
                "namespace": self.key.namespace,
                "labels": {"kubevirt.io": "hotplug-disk", INSTANCE_LABEL: self.key.name},
                "ownerReferences": [controller_reference(&POD, self.launcher)],
            },
            "spec": {
                "containers": [{
                    "name": "hotplug-disk",
                    "image": "quay.io/kubevirt/virt-launcher:v1.9.0",
                }],
                "nodeSelector": {
                    "kubernetes.io/hostname": text(self.launcher, "/spec/nodeName"),
                },
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
                "volumes": mounts,
            },
        })
    }

    /// What is told of each volume, and when that may change by itself.
    fn entries(&self, pod: Option<&DynamicObject>) -> (Vec<Value>, Next) {
        let status = &self.instance.data["status"];
        let mut next = Next::Done;
        let entries = self.volumes.iter().map(|volume| {
            let before = told(status).find(|v| v["name"] == volume.name);
            let was = before.and_then(|v| v["phase"].as_str()).unwrap_or_default();
            let mut entry = json!({
                "name": volume.name,
                "target": before.map_or("", |v| v["target"].as_str().unwrap_or_default()),
                "hotplugVolume": {},
            });
            let claim = volume.storage.as_ref().and_then(|s| {
                let info = claim_info(&s.claim_name, s.claim.as_ref()?);
                Some(info)
            });
            if let Some(info) = claim {
                entry["persistentVolumeClaimInfo"] = info;
            }
            let attached = pod.filter(|_| is_ready(volume));
            if let Some(pod) = attached {
                let running = text(pod, "/status/phase") == "Running";
                entry["hotplugVolume"] = json!({"attachPodName": pod.metadata.name});
                if running {
                    entry["hotplugVolume"]["attachPodUID"] = json!(uid(pod));
                }
            }
            let (phase, reason, message) = match (was, attached) {
                // What is in the guest stays there while its Pod is replaced.
                ("Ready", Some(_)) => return kept(entry, before),
                (_, None) => pending(volume),
                (_, Some(pod)) => {
                    let (words, wait) = self.attach(volume, pod, was);
                    if wait != Next::Done {
                        next = wait;
                    }
                    words
                }
            };
            if phase == "Ready" {
                entry["target"] = json!(self.target(volume));
            }
            entry["phase"] = json!(phase);
            entry["reason"] = json!(reason);
            entry["message"] = json!(message);
            entry
        });
        (entries.collect(), next)
    }

    /// What is told of volumes that the spec has no more, while a Pod still
    /// holds them.
    fn detaching(&self, leaving: &[Found]) -> Vec<Value> {
        let status = &self.instance.data["status"];
        let gone = told(status).filter(|v| !self.volumes.iter().any(|w| v["name"] == w.name));
        let entries = gone.filter_map(|before| {
            let name = before["name"].as_str()?;
            let pod = leaving.iter().find(|pod| {
                let mounts = pod.data["spec"]["volumes"].as_array();
                mounts.into_iter().flatten().any(|m| m["name"] == name)
            })?;
            let pod_name = pod.metadata.name.as_deref()?;
            let mut entry = before.clone();
            entry["phase"] = json!("Detaching");
            entry["reason"] = json!("SuccessfulDelete");
            entry["message"] = json!(format!(
                "Deleted hotplug attachment pod {pod_name}, for volume {name}"
            ));
            Some(entry)
        });
        entries.collect()
    }

    /// How far a volume has come whose Pod there is.
    fn attach(
        &self,
        volume: &Volume,
        pod: &DynamicObject,
        was: &str,
    ) -> ((&'static str, &'static str, String), Next) {
        let name = &volume.name;
        let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
        let running =
            find(&pod.data["status"], "Ready").is_some_and(|ready| ready["status"] == "True");
        if was != "AttachedToNode" && was != "MountedToPod" || !running {
            let message = format!("Created hotplug attachment pod {pod_name}, for volume {name}");
            return (("AttachedToNode", "SuccessfulCreate", message), Next::Done);
        }
        let mounted = || {
            let message = format!("Volume {name} has been mounted in virt-launcher pod");
            ("MountedToPod", "VolumeMountedToPod", message)
        };
        if was != "MountedToPod" {
            return (mounted(), Next::Done);
        }
        match self
            .context
            .gate(stages::VOLUME_ATTACHED, self.instance, name)
        {
            Gate::Wait(rest) => (mounted(), Next::After(rest)),
            Gate::Held => (mounted(), Next::Held),
            Gate::Fail(why) => {
                let words = ("MountedToPod", "VolumeMountedToPod", why.message);
                (words, Next::Held)
            }
            Gate::Open => {
                let message = format!("Successfully attach hotplugged volume {name} to VM");
                (("Ready", "VolumeReady", message), Next::Done)
            }
        }
    }

    /// The device that the guest sees: those before it are taken.
    fn target(&self, volume: &Volume) -> String {
        let taken = told(&self.instance.data["status"])
            .filter(|v| v["name"] != volume.name)
            .filter_map(|v| v["target"].as_str());
        let taken: Vec<&str> = taken.collect();
        let names = ('a'..='z').map(|letter| format!("sd{letter}"));
        let mut free = names.filter(|name| !taken.contains(&name.as_str()));
        free.next().unwrap_or_default()
    }
}

/// An entry of a volume that nothing changes about.
fn kept(mut entry: Value, before: Option<&Value>) -> Value {
    for field in ["phase", "reason", "message", "target"] {
        if let Some(value) = before.and_then(|v| v.get(field)) {
            entry[field] = value.clone();
        }
    }
    entry
}

/// Whether the storage of a volume can be attached.
fn is_ready(volume: &Volume) -> bool {
    let storage = volume.storage.as_ref();
    storage.is_some_and(|s| s.is_bound() && s.is_filled())
}

/// What a volume waits for.
fn pending(volume: &Volume) -> (&'static str, &'static str, String) {
    let Some(storage) = &volume.storage else {
        return ("Pending", "PVCNotReady", String::new());
    };
    match &storage.claim {
        None => {
            let message = format!("PVC {} not found", storage.claim_name);
            ("Pending", "FailedPvcNotFound", message)
        }
        Some(_) if storage.is_bound() => ("Bound", "PVCNotReady", "PVC is in phase Bound".into()),
        Some(_) => (
            "Pending",
            "PVCNotReady",
            "PVC is in phase ClaimPending".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn spec(names: &[&str]) -> Value {
        let volumes: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "dataVolume": {"name": name, "hotpluggable": true}}))
            .collect();
        let disks: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"volumes": volumes, "domain": {"devices": {"disks": disks}}})
    }

    fn instance(names: &[&str], ephemeral: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": {EPHEMERAL: ephemeral}},
            "spec": spec(names),
            "status": {"phase": "Running"},
        }))
        .unwrap()
    }

    #[test]
    fn an_instance_follows_the_hot_pluggable_volumes_of_its_template() {
        assert_eq!(patch(&spec(&["x"]), &instance(&["x"], "[]")), None);
        let more = patch(&spec(&["x", "y"]), &instance(&["x"], "[]")).unwrap();
        assert_eq!(more["spec"], spec(&["x", "y"]));
        let less = patch(&spec(&["y"]), &instance(&["x", "y"], "[]")).unwrap();
        assert_eq!(less["spec"], spec(&["y"]));
    }

    #[test]
    fn what_was_plugged_into_the_instance_alone_stays() {
        assert_eq!(patch(&spec(&[]), &instance(&["x"], "[\"x\"]")), None);
    }
}

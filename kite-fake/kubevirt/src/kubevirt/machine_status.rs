//! The status of a VM, as a function of what there is.

use std::collections::BTreeSet;

use kite_fake::actors::objects::{is_deleting, text};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::conditions::{Times, condition, find, says};
use super::instances::is_over;
use super::live_update;
use super::migration::is_copying;
use super::run::{open_requests, strategy};
use super::volumes::{self, Volume};

/// What the status depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// The VM.
    pub(super) vm: &'a DynamicObject,
    /// The spec of its template, with what an instance type adds.
    pub(super) template: &'a Value,
    /// What keeps it from having an instance: one word and a sentence.
    pub(super) obstacle: Option<(&'a str, &'a str)>,
    /// Its instance.
    pub(super) instance: Option<&'a DynamicObject>,
    /// The volumes of its template.
    pub(super) volumes: &'a [Volume],
    /// Storage classes of which snapshots can be taken.
    pub(super) snapshot_classes: &'a BTreeSet<String>,
    /// The time.
    pub(super) now: &'a str,
}

/// The status.
pub(super) fn status(seen: &Seen<'_>) -> Value {
    let old = &seen.vm.data["status"];
    let mut status = match old {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    let mut set = |field: &str, value: Option<Value>| match value {
        Some(value) => drop(status.insert(field.to_owned(), value)),
        None => drop(status.remove(field)),
    };
    let instance = seen.instance;
    let ready = instance
        .is_some_and(|i| find(&i.data["status"], "Ready").is_some_and(|c| c["status"] == "True"));
    set("created", instance.map(|_| json!(true)));
    set("ready", ready.then_some(Value::Bool(true)));
    set(
        "desiredGeneration",
        seen.vm.metadata.generation.map(|g| json!(g)),
    );
    if let Some(generation) = instance.and_then(made_from) {
        set("observedGeneration", Some(json!(generation)));
    }
    set("runStrategy", Some(json!(strategy(seen.vm))));
    set("conditions", Some(json!(conditions(seen))));
    set("printableStatus", Some(json!(printable(seen))));
    set("volumeSnapshotStatuses", Some(snapshots(seen)));
    let open = open_requests(old, instance);
    set(
        "stateChangeRequests",
        (!open.is_empty()).then(|| json!(open)),
    );
    if ready {
        set("startFailure", None);
    }
    Value::Object(status)
}

/// The generation of the VM that `instance` was made from.
fn made_from(instance: &DynamicObject) -> Option<i64> {
    let annotations = instance.metadata.annotations.as_ref()?;
    annotations.get(super::VM_GENERATION)?.parse().ok()
}

/// The word that people read.
fn printable(seen: &Seen<'_>) -> &'static str {
    let storages = || seen.volumes.iter().filter_map(|v| v.storage.as_ref());
    let failed = || storages().any(|s| s.data_volume.as_deref().is_some_and(has_failed));
    let provisioning = || storages().any(|s| s.data_volume.as_deref().is_some_and(is_provisioning));
    if is_deleting(seen.vm) {
        return "Terminating";
    }
    let Some(instance) = seen.instance else {
        let starts = strategy(seen.vm) == "Always";
        return if failed() {
            "DataVolumeError"
        } else if provisioning() {
            "Provisioning"
        } else if strategy(seen.vm) == "WaitAsReceiver" {
            "WaitingForReceiver"
        } else if !starts {
            "Stopped"
        } else if seen.vm.data["status"]["startFailure"].is_object() {
            "CrashLoopBackOff"
        } else {
            "Starting"
        };
    };
    let status = &instance.data["status"];
    let phase = text(instance, "/status/phase");
    // A claim that was waited for once counts as unbound until its Pod runs.
    let unbound =
        || phase == "Scheduling" && passed(status, "Pending") || storages().any(|s| !s.is_bound());
    if !is_over(phase) && is_deleting(instance) {
        "Stopping"
    } else if is_over(phase) {
        match strategy(seen.vm) {
            "Always" | "RerunOnFailure" | "Once" if phase == "Failed" => "CrashLoopBackOff",
            _ => "Stopped",
        }
    } else if phase == "WaitingForSync" && strategy(seen.vm) == "WaitAsReceiver" {
        "WaitingForReceiver"
    } else if phase == "Unknown" || phase == "WaitingForSync" {
        "Unknown"
    } else if is_copying(status) {
        "Migrating"
    } else if find(status, "Paused").is_some_and(|c| c["status"] == "True") {
        "Paused"
    } else if phase == "Running" {
        "Running"
    } else if says(status, "Synchronized", "False", "FailedPvcNotFound") {
        "ErrorPvcNotFound"
    } else if failed() {
        "DataVolumeError"
    } else if says(status, "PodScheduled", "False", "Unschedulable") {
        "ErrorUnschedulable"
    } else if provisioning() {
        "Provisioning"
    } else if unbound() {
        "WaitingForVolumeBinding"
    } else if says(status, "Synchronized", "False", "ErrImagePull") {
        "ErrImagePull"
    } else if says(status, "Synchronized", "False", "ImagePullBackOff") {
        "ImagePullBackOff"
    } else {
        "Starting"
    }
}

fn passed(status: &Value, phase: &str) -> bool {
    let all = status["phaseTransitionTimestamps"].as_array();
    all.is_some_and(|all| all.iter().any(|t| t["phase"] == phase))
}

/// Whether a `DataVolume` has failed, or its worker has stopped for an error.
fn has_failed(volume: &DynamicObject) -> bool {
    text(volume, "/status/phase") == "Failed"
        || says(&volume.data["status"], "Running", "False", "Error")
        || says(
            &volume.data["status"],
            "Running",
            "False",
            "ImagePullFailed",
        )
}

/// Whether a `DataVolume` is being filled. One that waits for its first consumer
/// is not, as long as its claim is not bound.
fn is_provisioning(volume: &DynamicObject) -> bool {
    let bound = find(&volume.data["status"], "Bound").is_some_and(|c| c["status"] == "True");
    match text(volume, "/status/phase") {
        "Succeeded" | "PendingPopulation" => false,
        "WaitForFirstConsumer" => bound,
        _ => true,
    }
}

/// Those of the instance, in the order in which they came up, and the VM's own.
fn conditions(seen: &Seen<'_>) -> Vec<Value> {
    let old = &seen.vm.data["status"];
    let before: Vec<Value> = old["conditions"].as_array().cloned().unwrap_or_default();
    let Some(instance) = seen.instance else {
        let words = ("False", "VMINotExists", "VMI does not exist");
        let ready = condition(old, "Ready", words, Times::Both, seen.now);
        // What a former life left stays, but for what asked for its end.
        let kept = before.into_iter().filter(|c| {
            let own = ["Ready", "RestartRequired", "Synchronized", "Failure"];
            !own.iter().any(|type_| c["type"] == *type_)
        });
        let mut all: Vec<Value> = std::iter::once(ready).chain(kept).collect();
        if let Some((reason, why)) = seen.obstacle {
            let words = ("True", reason, why);
            all.push(condition(
                old,
                "Failure",
                words,
                Times::Transition,
                seen.now,
            ));
        }
        return all;
    };
    let theirs: Vec<Value> = instance.data["status"]["conditions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .map(with_both_times)
        .collect();
    let find_theirs = |type_: &Value| theirs.iter().find(|c| c["type"] == *type_);
    let mut all: Vec<Value> = before
        .iter()
        .filter_map(|c| {
            if c["type"] == "RestartRequired" {
                return None;
            }
            find_theirs(&c["type"]).cloned()
        })
        .collect();
    for condition in &theirs {
        if !all.iter().any(|c| c["type"] == condition["type"]) {
            all.push(condition.clone());
        }
    }
    all.extend(restart_required(seen, instance, old));
    all
}

/// An instance's condition as the VM shows it: times that are left out are null.
fn with_both_times(condition: &Value) -> Value {
    let mut condition = condition.clone();
    for time in ["lastProbeTime", "lastTransitionTime"] {
        if condition.get(time).is_none() {
            condition[time] = Value::Null;
        }
    }
    condition
}

/// Tells that the template asks for what the running instance cannot become.
/// Once told it stays until the instance is on its way out.
fn restart_required(seen: &Seen<'_>, instance: &DynamicObject, old: &Value) -> Option<Value> {
    if is_deleting(instance) {
        return None;
    }
    let told = find(old, "RestartRequired");
    if let Some(told) = told {
        return Some(told.clone());
    }
    let message = difference(seen.template, instance)?;
    Some(json!({
        "type": "RestartRequired",
        "status": "True",
        "message": message,
        "lastProbeTime": Value::Null,
        "lastTransitionTime": seen.now,
    }))
}

/// What a template asks for that the instance cannot be given as it runs.
fn difference(template: &Value, instance: &DynamicObject) -> Option<&'static str> {
    if let Some(obstacle) = live_update::obstacle(template, instance) {
        return Some(obstacle);
    }
    let mut has = instance.data["spec"].clone();
    // A bound that the template leaves open is set in the instance alone.
    if template["domain"]["cpu"]["maxSockets"].is_null()
        && let Some(cpu) = has
            .pointer_mut("/domain/cpu")
            .and_then(Value::as_object_mut)
    {
        cpu.remove("maxSockets");
    }
    (fixed(template) != fixed(&has))
        .then_some("a non-live-updatable field was changed in the template spec")
}

/// What of a spec a running instance keeps.
fn fixed(spec: &Value) -> Value {
    let plugged: Vec<Value> = volumes::listed(spec)
        .filter(|volume| volumes::is_hotplug(volume))
        .map(|volume| volume["name"].clone())
        .collect();
    let mut spec = spec.clone();
    let stays = |member: &Value| !plugged.contains(&member["name"]);
    for list in ["/volumes", "/domain/devices/disks"] {
        if let Some(all) = spec.pointer_mut(list).and_then(Value::as_array_mut) {
            all.retain(stays);
        }
    }
    for (place, fields) in [
        ("/domain", &["firmware", "machine", "memory"][..]),
        ("/domain/cpu", &["sockets"]),
        (
            "",
            &["architecture", "nodeSelector", "affinity", "tolerations"],
        ),
    ] {
        let object = spec.pointer_mut(place).and_then(Value::as_object_mut);
        if let Some(object) = object {
            object.retain(|field, _| !fields.contains(&field.as_str()));
        }
    }
    // What is empty is as good as left out.
    for (place, field) in [
        ("", "volumes"),
        ("/domain/devices", "disks"),
        ("/domain", "cpu"),
    ] {
        let object = spec.pointer_mut(place).and_then(Value::as_object_mut);
        if let Some(object) = object {
            object.retain(|name, value| {
                let empty = value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty);
                name != field || !empty
            });
        }
    }
    spec
}

fn snapshots(seen: &Seen<'_>) -> Value {
    let told = seen.volumes.iter().map(|volume| {
        let name = &volume.name;
        let class = volume.storage.as_ref().and_then(|s| s.claim.as_ref());
        let class = class.map(|claim| text(claim, "/spec/storageClassName"));
        if class.is_some_and(|class| seen.snapshot_classes.contains(class)) {
            return json!({"enabled": true, "name": name});
        }
        let reason = match volume.storage.as_ref().map(|s| s.claim.as_ref()) {
            None => {
                format!("Snapshot is not supported for this volumeSource type [{name}]")
            }
            Some(None) => "PVC not found".to_owned(),
            Some(Some(claim)) => format!(
                "No VolumeSnapshotClass: Volume snapshots are not configured for this StorageClass [{}] [{name}]",
                text(claim, "/spec/storageClassName")
            ),
        };
        json!({"enabled": false, "name": name, "reason": reason})
    });
    told.collect()
}

//! The status of an instance, as far as the controller writes it: up to the
//! moment when the agent on the node takes over.

use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{text, uid};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::conditions::{Times, condition, find};
use super::volumes::Volume;

/// What the status depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// The instance.
    pub(super) instance: &'a DynamicObject,
    /// Its volumes.
    pub(super) volumes: &'a [Volume],
    /// Its launcher Pod.
    pub(super) pod: Option<&'a DynamicObject>,
    /// All of its Pods: a migration makes another one.
    pub(super) pods: &'a [Found],
    /// Why no launcher Pod could be made.
    pub(super) refused: Option<&'a str>,
    /// The time.
    pub(super) now: &'a str,
}

/// Whether the storage allows a launcher Pod to be made. Where a disk is filled once a Pod
/// uses it, that is the launcher, which waits for it on its node.
pub(super) fn may_launch(volumes: &[Volume]) -> bool {
    let at_boot = volumes.iter().filter(|v| !v.hotplug);
    let mut storages = at_boot.filter_map(|v| v.storage.as_ref());
    storages.all(|s| s.claim.is_some() && (s.is_filled() || s.waits_for_consumer()))
}

/// The phase that follows from the Pod.
pub(super) fn phase(seen: &Seen<'_>) -> &'static str {
    let old = text(seen.instance, "/status/phase");
    let Some(pod) = seen.pod else {
        return match old {
            // Its Pod is gone.
            "Scheduling" | "Scheduled" | "Running" | "Unknown" => "Failed",
            "WaitingForSync" => "WaitingForSync",
            _ => "Pending",
        };
    };
    match (text(pod, "/status/phase"), old) {
        ("Failed", _) => "Failed",
        ("Succeeded", _) => "Succeeded",
        ("Running", "Running") => "Running",
        ("Running", "Unknown") => "Unknown",
        ("Running", _) if is_ready(pod) => "Scheduled",
        _ => "Scheduling",
    }
}

fn is_ready(pod: &DynamicObject) -> bool {
    find(&pod.data["status"], "Ready").is_some_and(|c| c["status"] == "True")
}

/// The status of an instance in `phase`.
pub(super) fn status(seen: &Seen<'_>, phase: &str) -> Value {
    let old = &seen.instance.data["status"];
    let mut status = match old {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    let mut set = |field: &str, value: Value| drop(status.insert(field.to_owned(), value));
    set("phase", json!(phase));
    set(
        "phaseTransitionTimestamps",
        transitions(old, phase, seen.now),
    );
    if phase == "Running" || phase == "Unknown" {
        // The agent's part; only which Pods there are is ours, what the instance asks for
        // beyond what it has, and whether it is to leave its node.
        set("activePods", active_pods(seen.pods));
        let mut status = Value::Object(status);
        super::live_update::tell(&seen.instance.data["spec"], &mut status);
        super::eviction::tell(&mut status, seen.now);
        return status;
    }
    set("conditions", conditions(seen, phase));
    if old["guestOSInfo"].is_null() {
        set("guestOSInfo", json!({}));
    }
    set("runtimeUser", json!(0));
    if let Some(revision) = revision(seen.instance) {
        set("virtualMachineRevisionName", json!(revision));
    }
    if let Some(pod) = seen.pod {
        set("activePods", active_pods(seen.pods));
        let image = text(pod, "/spec/containers/0/image");
        set("launcherContainerImageVersion", json!(image));
        let overhead = super::launcher::overhead_mib(&seen.instance.data["spec"]);
        set("memory", json!({"memoryOverhead": format!("{overhead}Mi")}));
        let class = pod.data["status"]["qosClass"].as_str();
        set("qosClass", json!(class.unwrap_or("Burstable")));
        if phase == "Scheduled" {
            set("nodeName", pod.data["spec"]["nodeName"].clone());
            set("migrationTransport", json!("Unix"));
            set("interfaces", interfaces(&seen.instance.data["spec"]));
            set("volumeStatus", volume_status(seen.volumes));
        }
    }
    Value::Object(status)
}

fn transitions(old: &Value, phase: &str, now: &str) -> Value {
    let mut all = old["phaseTransitionTimestamps"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    // The agent, which sets Running, tells no time for it.
    if phase != "Running" && !all.iter().any(|t| t["phase"] == phase) {
        all.push(json!({"phase": phase, "phaseTransitionTimestamp": now}));
    }
    json!(all)
}

fn active_pods(pods: &[Found]) -> Value {
    let pods = pods.iter();
    let pods = pods.map(|pod| (uid(pod).to_owned(), json!(text(pod, "/spec/nodeName"))));
    Value::Object(pods.collect())
}

fn revision(instance: &DynamicObject) -> Option<String> {
    let meta = &instance.metadata;
    let generation = meta.annotations.as_ref()?.get(super::VM_GENERATION)?;
    let owner = meta.owner_references.as_ref()?.first()?;
    Some(format!("revision-start-vm-{}-{generation}", owner.uid))
}

fn conditions(seen: &Seen<'_>, phase: &str) -> Value {
    let old = &seen.instance.data["status"];
    let mut all = Vec::new();
    let mut add = |type_: &str, words: (&str, &str, &str), times: Times| {
        all.push(condition(old, type_, words, times, seen.now));
    };
    let ready = match (phase, seen.pod) {
        ("Failed" | "Succeeded", _) => (
            "False",
            "PodTerminating",
            "virt-launcher pod is terminating",
        ),
        (_, None) => (
            "False",
            "PodNotExists",
            "virt-launcher pod has not yet been scheduled",
        ),
        (_, Some(_)) => (
            "False",
            "GuestNotRunning",
            "Guest VM is not reported as running",
        ),
    };
    add("Ready", ready, Times::Both);
    let missing = missing_claim(seen);
    let pull = seen.pod.and_then(pull_failure);
    if let Some(message) = &missing {
        let words = ("False", "FailedPvcNotFound", message.as_str());
        add("Synchronized", words, Times::Transition);
    } else if let Some(message) = seen.refused {
        add(
            "Synchronized",
            ("False", "FailedCreate", message),
            Times::Transition,
        );
    } else if let Some((reason, message)) = &pull {
        add(
            "Synchronized",
            ("False", reason, message),
            Times::Transition,
        );
    }
    if let Some(words) = data_volumes(seen.volumes) {
        add("DataVolumesReady", words, Times::None);
    }
    let scheduled = match seen.pod {
        Some(pod) => unschedulable(pod),
        // It stays as it was until there is a Pod that could tell.
        None => missing.or_else(|| {
            find(old, "PodScheduled").and_then(|c| c["message"].as_str().map(str::to_owned))
        }),
    };
    if let Some(message) = scheduled {
        add(
            "PodScheduled",
            ("False", "Unschedulable", &message),
            Times::None,
        );
    }
    json!(all)
}

fn missing_claim(seen: &Seen<'_>) -> Option<String> {
    let at_boot = seen.volumes.iter().filter(|v| !v.hotplug);
    let mut storages = at_boot.filter_map(|v| v.storage.as_ref());
    let missing = storages.find(|s| s.claim.is_none())?;
    let namespace = seen
        .instance
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default();
    let name = &missing.claim_name;
    Some(format!(
        "PVC {namespace}/{name} does not exist, waiting for it to appear"
    ))
}

/// What the condition `DataVolumesReady` says; none without a `DataVolume`.
fn data_volumes(volumes: &[Volume]) -> Option<(&'static str, &'static str, &'static str)> {
    let all = volumes.iter().filter_map(|v| v.storage.as_ref());
    let all: Vec<_> = all
        .filter_map(|s| s.data_volume.as_ref().map(|v| (s, v)))
        .collect();
    if all.is_empty() {
        return None;
    }
    if all.iter().all(|(storage, _)| storage.is_filled()) {
        let message = "All of the VMI's DVs are bound and ready";
        return Some(("True", "AllDVsReady", message));
    }
    let known = all.iter().any(|(storage, volume)| {
        if storage.is_filled() {
            return false;
        }
        match find(&volume.data["status"], "Ready") {
            Some(ready) => ready["status"] == "False",
            None => text(volume, "/status/phase").ends_with("InProgress"),
        }
    });
    let word = if known { "False" } else { "Unknown" };
    Some((word, "NotAllDVsReady", "Not all of the VMI's DVs are ready"))
}

fn unschedulable(pod: &DynamicObject) -> Option<String> {
    let condition = find(&pod.data["status"], "PodScheduled")?;
    let hit = condition["status"] == "False" && condition["reason"] == "Unschedulable";
    hit.then(|| condition["message"].as_str().unwrap_or_default().to_owned())
}

/// Reason and message of a container that cannot start for its image.
fn pull_failure(pod: &DynamicObject) -> Option<(String, String)> {
    let waiting = pod
        .data
        .pointer("/status/containerStatuses/0/state/waiting")?;
    let reason = waiting["reason"].as_str()?;
    let word = |field: &str| waiting[field].as_str().unwrap_or_default().to_owned();
    ["ErrImagePull", "ImagePullBackOff"]
        .contains(&reason)
        .then(|| (word("reason"), word("message")))
}

/// The interfaces before the guest has told its addresses.
fn interfaces(spec: &Value) -> Value {
    let listed = spec["domain"]["devices"]["interfaces"].as_array();
    let names: Vec<&str> = listed
        .into_iter()
        .flatten()
        .filter_map(|i| i["name"].as_str())
        .collect();
    let names = if names.is_empty() {
        vec!["default"]
    } else {
        names
    };
    let all = names.into_iter().enumerate();
    all.map(|(n, name)| json!({"name": name, "podInterfaceName": format!("eth{n}")}))
        .collect()
}

fn volume_status(volumes: &[Volume]) -> Value {
    let mut all: Vec<Value> = volumes
        .iter()
        .filter(|volume| !volume.hotplug)
        .map(|volume| {
            let mut status = json!({"name": volume.name, "target": ""});
            let storage = volume.storage.as_ref();
            if let Some((storage, claim)) = storage.and_then(|s| Some((s, s.claim.as_ref()?))) {
                status["persistentVolumeClaimInfo"] = claim_info(&storage.claim_name, claim);
            }
            status
        })
        .collect();
    all.sort_by_key(|status| status["name"].as_str().map(str::to_owned));
    json!(all)
}

/// What an instance tells of the claim behind a volume.
pub(super) fn claim_info(name: &str, claim: &DynamicObject) -> Value {
    let spec = &claim.data["spec"];
    json!({
        "accessModes": spec["accessModes"],
        "capacity": claim.data["status"]["capacity"],
        "claimName": name,
        "filesystemOverhead": "0.055",
        "requests": spec["resources"]["requests"],
        "volumeMode": spec["volumeMode"].as_str().unwrap_or("Filesystem"),
    })
}

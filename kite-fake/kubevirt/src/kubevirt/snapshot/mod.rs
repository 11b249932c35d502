//! Snapshots of VMs, what is restored from them, and clones.
//!
//! ```text
//! VirtualMachineSnapshot ─Snapshots─► VirtualMachineSnapshotContent ─SnapshotContents─► VolumeSnapshots
//!        ▲                                                                                   │
//! VirtualMachineClone ─Clones─► VirtualMachineRestore ─Restores─► claims, the VM's volumes ◄─┘
//! ```

mod clones;
mod contents;
mod restored;
mod restores;
mod snapshots;
mod source;

pub use clones::Clones;
pub use contents::SnapshotContents;
pub use restores::Restores;
pub use snapshots::Snapshots;

use kite_fake::actors::objects::text;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// A condition's status and reason: in these kinds the reason is a sentence.
fn set_condition(status: &mut Value, type_: &str, holds: bool, reason: &str, now: &str) {
    let word = if holds { "True" } else { "False" };
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    let new = json!({
        "type": type_,
        "status": word,
        "reason": reason,
        "lastProbeTime": Value::Null,
        "lastTransitionTime": now,
    });
    match all.iter_mut().find(|c| c["type"] == type_) {
        Some(old) if old["status"] == word && old["reason"] == reason => {}
        Some(old) => *old = new,
        None => all.push(new),
    }
    status["conditions"] = json!(all);
}

/// Whether a snapshot can be used.
fn is_ready(snapshot: &DynamicObject) -> bool {
    snapshot.data["status"]["readyToUse"] == true
}

/// Whether a snapshot has failed.
fn has_failed(snapshot: &DynamicObject) -> bool {
    text(snapshot, "/status/phase") == "Failed"
}

/// Metadata without what belongs to one object alone.
fn simple_metadata(object: &DynamicObject) -> Value {
    let meta = &object.metadata;
    let mut simple = json!({
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
    });
    if let Some(labels) = &meta.labels {
        simple["labels"] = json!(labels);
    }
    if let Some(annotations) = &meta.annotations {
        simple["annotations"] = json!(annotations);
    }
    simple
}

//! What `KubeVirt`'s webhooks demand of snapshots and restores.

use kite_fake::server::{Review, Webhook};
use kite_fake::status::Cause;
use serde_json::Value;

/// Refuses snapshots and restores of what is no VM, changes of their specs, and
/// a second restore of a VM that is being restored.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotAdmission;

impl Webhook for SnapshotAdmission {
    fn name(&self) -> &'static str {
        "virtualmachinesnapshot-validator.snapshot.kubevirt.io"
    }

    fn review(&self, review: &Review<'_>) -> Vec<Cause> {
        if review.group != "snapshot.kubevirt.io" {
            return Vec::new();
        }
        let spec = &review.object["spec"];
        let invalid =
            |message: &str, field: &str| vec![Cause::new("FieldValueInvalid", message, field)];
        let (reference, field) = match review.kind {
            "VirtualMachineSnapshot" => (&spec["source"], "spec.source"),
            "VirtualMachineRestore" => (&spec["target"], "spec.target"),
            _ => return Vec::new(),
        };
        if let Some(old) = review.old {
            // The controllers' own changes touch no spec.
            if old["spec"] != *spec {
                return invalid("spec in immutable after creation", "spec");
            }
            return Vec::new();
        }
        if reference["apiGroup"] != "kubevirt.io" {
            let field = format!("{field}.apiGroup");
            return match reference["apiGroup"] {
                Value::Null => vec![Cause::new(
                    "FieldValueNotFound",
                    "missing apiGroup",
                    &*field,
                )],
                _ => invalid("invalid apiGroup", &field),
            };
        }
        if reference["kind"] != "VirtualMachine" {
            return invalid("invalid kind", &format!("{field}.kind"));
        }
        if review.kind == "VirtualMachineRestore" {
            return other_restore(review).into_iter().collect();
        }
        Vec::new()
    }
}

/// A restore that is under way for the same VM.
fn other_restore(review: &Review<'_>) -> Option<Cause> {
    let namespace = review.object["metadata"]["namespace"].as_str()?;
    let name = review.object["spec"]["target"]["name"].as_str()?;
    let plural = "virtualmachines";
    let vm = review
        .around?
        .object("kubevirt.io", plural, namespace, name)?;
    let current = vm["status"]["restoreInProgress"].as_str()?;
    Some(Cause::new(
        "FieldValueInvalid",
        format!("VirtualMachineRestore {current:?} in progress"),
        "spec.target",
    ))
}

//! What is told of each condition, known or not.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message})
}

fn machine(conditions: &[Value]) -> VirtualMachine {
    let object = json!({
        "metadata": {}, "spec": {"template": {"spec": {"domain": {}}}},
        "status": {"conditions": conditions},
    });
    serde_json::from_value(object).unwrap()
}

fn instance(conditions: &[Value]) -> VirtualMachineInstance {
    let object = json!({
        "metadata": {}, "spec": {"domain": {}}, "status": {"conditions": conditions},
    });
    serde_json::from_value(object).unwrap()
}

fn disk(conditions: &[Value]) -> DataVolume {
    let object = json!({"metadata": {}, "spec": {}, "status": {"conditions": conditions}});
    serde_json::from_value(object).unwrap()
}

#[test]
fn what_kubevirt_refuses_is_told_whatever_it_calls_it() {
    let quota = "Failure while starting VMI: exceeded quota: count. ";
    let refused = machine(&[
        condition("Ready", "False", "VMINotExists", "VMI does not exist"),
        condition("Failure", "True", "FailedCreate", quota),
    ]);
    assert_eq!(
        of_machine(Some(&refused), None).unwrap(),
        "FailedCreate: Failure while starting VMI: exceeded quota: count"
    );
    for (type_, reason) in [
        ("Synchronized", "FailedCreate"),
        ("Synchronized", "FailedBackendStorageCreate"),
        ("Synchronized", "SomethingOfTomorrow"),
        ("OfANewerKubeVirt", "WhoKnows"),
    ] {
        let said = [condition(
            type_,
            "False",
            reason,
            "no default storage class",
        )];
        let expected = format!("{reason}: no default storage class");
        assert_eq!(of_machine(None, Some(&instance(&said))).unwrap(), expected);
        // The machine repeats what its instance says.
        assert_eq!(of_machine(Some(&machine(&said)), None).unwrap(), expected);
    }
}

#[test]
fn what_is_on_its_way_is_in_nobodys_way() {
    let starting = instance(&[
        condition(
            "Ready",
            "False",
            "GuestNotRunning",
            "Guest VM is not running",
        ),
        condition(
            "LiveMigratable",
            "False",
            "DisksNotLiveMigratable",
            "cannot migrate",
        ),
        condition(
            "DataVolumesReady",
            "False",
            "NotAllDVsReady",
            "not all are ready",
        ),
        condition("PodScheduled", "False", "Unschedulable", "PVC not found"),
        condition(
            "Synchronized",
            "False",
            "FailedPvcNotFound",
            "PVC does not exist",
        ),
        condition("OfANewerKubeVirt", "False", "WhoKnows", ""),
        condition("OfANewerKubeVirt", "True", "WhoKnows", "all is well"),
    ]);
    assert_eq!(of_machine(None, Some(&starting)), None);
    let cloning = disk(&[
        condition("Bound", "False", "Pending", "PVC web-disk Pending"),
        condition("Ready", "False", "TransferRunning", ""),
        condition("Running", "True", "Pod is running", "it runs"),
        condition("Running", "False", "ContainerCreating", "it comes"),
        condition("Ready", "False", "CSICloneInProgress", "it is cloned"),
        condition("Bound", "Unknown", "NotFound", "No PVC found"),
    ]);
    assert_eq!(of_disk(&cloning), None);
}

#[test]
fn what_cdi_cannot_do_is_told_whatever_it_calls_it() {
    for reason in [
        "CloneValidationFailed",
        "ErrClaimNotValid",
        "ErrExceededQuota",
        "CloneWithoutSource",
        "Unschedulable",
        "SomethingOfTomorrow",
    ] {
        for type_ in ["Bound", "Ready", "Running", "OfTomorrow"] {
            let said = disk(&[
                condition("Bound", "False", "Pending", "PVC web-disk Pending"),
                condition(type_, "False", reason, "no accessMode specified."),
            ]);
            let expected = format!("{reason}: no accessMode specified");
            assert_eq!(of_disk(&said).unwrap(), expected);
        }
    }
}

#[test]
fn words_are_bounded_to_the_character() {
    let long = "ü".repeat(LONGEST + 1);
    let kept = bounded(&long).unwrap();
    assert_eq!(kept.chars().count(), LONGEST + 1);
    assert!(kept.ends_with('…'));
    assert_eq!(
        bounded(&"ü".repeat(LONGEST)).unwrap().chars().count(),
        LONGEST
    );
    assert_eq!(bounded(" . "), None);
}

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
        condition(
            "ManualRecoveryRequired",
            "False",
            "",
            "nothing is to be recovered",
        ),
    ]);
    assert_eq!(of_machine(None, Some(&starting)), None);
    let unseen = of_unseen_claim(None, Some(&starting));
    assert_eq!(unseen.unwrap(), "PVC does not exist");
}

#[test]
fn what_is_bad_when_it_holds_is_told_though_nobody_knows_it() {
    for (type_, reason) in [
        ("ManualRecoveryRequired", "VolumesUpdateFailed"),
        ("BackupFailed", "WhoKnows"),
        ("OfANewerKubeVirt", "StorageUnavailable"),
    ] {
        let said = [condition(type_, "True", reason, "a person has to look")];
        let expected = format!("{reason}: a person has to look");
        assert_eq!(of_machine(Some(&machine(&said)), None).unwrap(), expected);
        assert_eq!(of_machine(None, Some(&instance(&said))).unwrap(), expected);
        // Without words its name has to do.
        let said = [condition(type_, "True", "", "")];
        let told = of_machine(Some(&machine(&said)), None);
        assert_eq!(told.is_some(), type_ != "OfANewerKubeVirt", "{type_}");
    }
    let unknown = condition("OfANewerKubeVirt", "Unknown", "", "nobody can tell");
    let told = of_machine(None, Some(&instance(&[unknown])));
    assert_eq!(told.unwrap(), "OfANewerKubeVirt: nobody can tell");
}

#[test]
fn what_storage_says_of_a_claim_is_told_unless_it_is_looked_at_elsewhere() {
    let of = |type_: &str, status: &str, message: &str| {
        let conditions = [condition(type_, status, "", message)];
        let claim = json!({"metadata": {}, "status": {"conditions": conditions}});
        of_claim(&serde_json::from_value(claim).unwrap())
    };
    assert_eq!(
        of("ModifyVolumeError", "True", "no such class.").unwrap(),
        "ModifyVolumeError: no such class"
    );
    assert_eq!(
        of("ModifyVolumeError", "True", "").unwrap(),
        "ModifyVolumeError"
    );
    assert_eq!(
        of("VolumeHealthy", "False", "the pool is down").unwrap(),
        "VolumeHealthy: the pool is down"
    );
    assert_eq!(of("VolumeHealthy", "True", "all is well"), None);
    assert_eq!(of("ModifyVolumeError", "False", ""), None);
    for known in OF_CLAIMS {
        assert_eq!(of(known, "True", "in its words"), None, "{known}");
    }
    // Kubernetes 1.37 says of every claim whether a pod has it.
    for status in ["True", "False"] {
        assert_eq!(of("Unused", status, "a pod uses it, or none"), None);
    }
}

#[test]
fn who_holds_up_a_drain_is_known_and_why() {
    let of = |conditions: &[Value], rest: Value| {
        let mut instance = instance(conditions);
        let rest: std::collections::BTreeMap<String, Value> = serde_json::from_value(rest).unwrap();
        instance.status.as_mut().unwrap().other = rest;
        drain(Some(&instance))
    };
    let asked = condition("EvictionRequested", "True", "", "");
    let fixed = condition(
        "LiveMigratable",
        "False",
        "DisksNotLiveMigratable",
        "the disk is not shared",
    );
    let marked = json!({"evacuationNodeName": "node-1"});
    let held = Drain::Held("DisksNotLiveMigratable: the disk is not shared".to_owned());
    assert_eq!(
        of(&[asked.clone(), fixed.clone()], json!({})),
        Some(held.clone())
    );
    assert_eq!(of(std::slice::from_ref(&fixed), marked.clone()), Some(held));
    assert_eq!(of(&[], marked.clone()), Some(Drain::Asked(None)));
    let failed = |why: &str| {
        let state = json!({"completed": true, "failed": true, "failureReason": why});
        of(
            std::slice::from_ref(&asked),
            json!({ "migrationState": state }),
        )
    };
    assert_eq!(
        failed("no room."),
        Some(Drain::Failed("no room".to_owned()))
    );
    assert!(matches!(failed(""), Some(Drain::Failed(_))));
    let ended = |time: &str| {
        let mut asked = asked.clone();
        asked["lastTransitionTime"] = json!("2026-05-04T08:00:00Z");
        let state = json!({"failed": true, "failureReason": "no room", "endTimestamp": time});
        of(&[asked], json!({ "migrationState": state }))
    };
    // Another one failed before it was to leave.
    let since = "2026-05-04T08:00:00Z".parse().unwrap();
    assert_eq!(
        ended("2026-05-03T08:00:00Z"),
        Some(Drain::Asked(Some(since)))
    );
    assert_eq!(
        ended("2026-05-04T08:01:00Z"),
        Some(Drain::Failed("no room".to_owned()))
    );
    // Nobody wants it to leave.
    assert_eq!(of(&[fixed], json!({"evacuationNodeName": ""})), None);
    let denied = condition("EvictionRequested", "False", "", "");
    assert_eq!(of(&[denied], json!({})), None);
    assert_eq!(drain(None), None);
}

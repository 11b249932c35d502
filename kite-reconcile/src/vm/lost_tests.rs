#![allow(clippy::unwrap_used)]

use kite_core::{
    conditions::ConditionStatus,
    crd::{DiskStatus, KiteVirtualMachine, KiteVirtualMachineSpec, KiteVirtualMachineStatus},
    quantity::Bytes,
};
use serde_json::{Value, json};

use super::*;

const NAMESPACE: &str = "kite-user-ann";

fn size(text: &str) -> Bytes {
    text.parse().unwrap()
}

/// A VM whose disk was filled.
fn vm() -> KiteVirtualMachine {
    let spec = KiteVirtualMachineSpec::new(1, size("1Gi"), size("5Gi"), "debian-12", "web");
    let mut vm = KiteVirtualMachine::new("web", spec);
    vm.metadata.namespace = Some(NAMESPACE.to_owned());
    vm.metadata.uid = Some("u".to_owned());
    vm.status = Some(KiteVirtualMachineStatus {
        disk: Some(DiskStatus {
            name: "web-disk".to_owned(),
            uid: Some("d-1".to_owned()),
            ..DiskStatus::default()
        }),
        ..KiteVirtualMachineStatus::default()
    });
    vm
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true})
}

/// What is seen where there is a claim, and no `DataVolume`.
fn alone(owner: Option<Value>, labels: bool, leaves: bool) -> Observed {
    let owners: Vec<_> = owner.into_iter().collect();
    let labels = labels.then(|| labels::for_vm(NAMESPACE, "web"));
    let mut claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"name": "web-disk", "labels": labels, "ownerReferences": owners},
    }))
    .unwrap();
    if leaves {
        claim.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-05-04T08:00:00Z")).unwrap();
    }
    Observed {
        claim: Some(claim),
        ..Observed::default()
    }
}

#[test]
fn a_claim_without_its_data_volume_is_the_disk_s_or_goes_or_is_another_s() {
    let object = vm();
    let vm = Vm::of(&object).unwrap();
    let of_disk = owner(DISK, "web-disk", "d-1");
    let of_vm = owner("KiteVirtualMachine", "web", "u");
    let of_other = owner("KiteVirtualMachine", "web", "another");
    for (owner, labels, leaves, loss, state) in [
        // As it is left by `kubectl delete --cascade=orphan`, and by CDI.
        (None, true, false, Loss::Unmanaged, DiskState::Filled),
        (Some(of_vm), true, false, Loss::Unmanaged, DiskState::Filled),
        // The garbage collector has not come to it.
        (
            Some(of_disk),
            true,
            false,
            Loss::Leaving(DISK),
            DiskState::Lost,
        ),
        (None, true, true, Loss::Leaving(CLAIM), DiskState::Lost),
        (None, false, false, Loss::Foreign, DiskState::Lost),
        (Some(of_other), true, false, Loss::Foreign, DiskState::Lost),
    ] {
        let of = format!("{owner:?}");
        let seen = alone(owner, labels, leaves);
        assert_eq!(super::loss(&vm, &seen), Some(loss), "{of}");
        assert_eq!(disk_state(&vm, &seen), state, "{of}");
        let told = condition(&vm, &seen, None).unwrap();
        let holds = told.status == ConditionStatus::True;
        assert_eq!(holds, loss == Loss::Unmanaged, "{told:?}");
    }
    let seen = Observed::default();
    assert_eq!(super::loss(&vm, &seen), Some(Loss::Gone(DISK)));
}

#[test]
fn a_claim_that_is_not_its_data_volumes_is_never_started_from() {
    let object = vm();
    let vm = Vm::of(&object).unwrap();
    let of_disk = |uid| owner(DISK, "web-disk", uid);
    for (owner, labels, loss) in [
        // As CDI makes it.
        (Some(of_disk("d-1")), false, None),
        (None, true, None),
        (Some(owner("KiteVirtualMachine", "web", "u")), true, None),
        // Of the one of before, with which it goes.
        (Some(of_disk("d-0")), true, Some(Loss::Leaving(DISK))),
        // Somebody has put it there.
        (None, false, Some(Loss::Foreign)),
        (
            Some(owner("KiteVirtualMachine", "web", "another")),
            true,
            Some(Loss::Foreign),
        ),
    ] {
        let of = format!("{owner:?}");
        let mut seen = alone(owner, labels, false);
        seen.disk = serde_json::from_value(json!({
            "metadata": {
                "name": "web-disk", "uid": "d-1",
                "ownerReferences": [self::owner("KiteVirtualMachine", "web", "u")],
            },
            "spec": {},
            "status": {"phase": "Succeeded"},
        }))
        .unwrap();
        assert_eq!(super::loss(&vm, &seen), loss, "{of}");
        let state = if loss.is_some() {
            DiskState::Lost
        } else {
            DiskState::Filled
        };
        assert_eq!(disk_state(&vm, &seen), state, "{of}");
    }
}

#[test]
fn of_a_claim_that_is_left_it_is_said_what_can_be_done_with_it() {
    let mut object = vm();
    let seen = alone(None, true, false);
    let told = |object: &KiteVirtualMachine, seen: &Observed| {
        condition(&Vm::of(object).unwrap(), seen, Some(&size("5Gi"))).unwrap()
    };
    let said = told(&object, &seen);
    assert_eq!(said.reason, "DiskUnmanaged");
    for words in [
        "nothing is lost",
        "PersistentVolumeClaim web-disk",
        "cannot grow",
    ] {
        assert!(said.message.contains(words), "{}", said.message);
    }
    let mut faulty = seen.clone();
    faulty.claim.as_mut().unwrap().status = serde_json::from_value(json!({
        "conditions": [{"type": "ModifyVolumeError", "status": "True", "message": "no such class"}],
    }))
    .unwrap();
    let said = told(&object, &faulty);
    assert!(
        said.message
            .contains("storage says: ModifyVolumeError: no such class")
    );
    object.spec.disk = size("9Gi");
    let said = told(&object, &seen);
    assert_eq!(said.status, ConditionStatus::False);
    assert!(
        said.message
            .contains("does not grow to 9Gi and keeps its 5Gi")
    );
    // It is not replaced, either, for it is there.
    let asked = (labels::REPLACE_DISK.to_owned(), "d-1".to_owned());
    object.metadata.annotations = Some([asked].into());
    assert!(is_unmanaged(&Vm::of(&object).unwrap(), &seen));
}

/// What is seen where the disk is in this phase, and says that it has its data.
fn in_phase(phase: &str, claim: Option<Value>) -> Observed {
    let claim = claim.map(|metadata| serde_json::from_value(json!({"metadata": metadata})));
    Observed {
        claim: claim.map(Result::unwrap),
        disk: serde_json::from_value(json!({
            "metadata": {
                "name": "web-disk", "uid": "d-1",
                "annotations": {"cdi.kubevirt.io/storage.prePopulated": "web-disk"},
                "ownerReferences": [owner("KiteVirtualMachine", "web", "u")],
            },
            "spec": {},
            "status": {"phase": phase},
        }))
        .unwrap(),
        ..Observed::default()
    }
}

#[test]
fn a_disk_that_had_its_data_has_lost_it_whatever_cdi_says_of_its_phase() {
    let object = vm();
    let vm = Vm::of(&object).unwrap();
    let own = || {
        Some(json!({
            "name": "web-disk", "uid": "c-1",
            "ownerReferences": [owner(DISK, "web-disk", "d-1")],
        }))
    };
    let labels = labels::for_vm(NAMESPACE, "web");
    let back = || Some(json!({"name": "web-disk", "uid": "c-2", "labels": labels}));
    for (phase, claim, loss) in [
        ("Succeeded", own(), None),
        ("Pending", None, Some(Loss::Gone(CLAIM))),
        ("Succeeded", None, Some(Loss::Gone(CLAIM))),
        ("CloneScheduled", None, Some(Loss::Gone(CLAIM))),
        ("Succeeded", back(), None),
        ("Pending", back(), Some(Loss::Untaken)),
    ] {
        let seen = in_phase(phase, claim);
        assert_eq!(super::loss(&vm, &seen), loss, "{phase} {:?}", seen.claim);
        let held = hold(&vm, &seen).is_some();
        assert_eq!(held, loss.is_some(), "{phase}");
    }
    // Kubernetes sees that its volume is gone, whatever CDI says.
    let mut seen = in_phase("Succeeded", own());
    let status = json!({"phase": "Lost"});
    seen.claim.as_mut().unwrap().status = serde_json::from_value(status).unwrap();
    assert_eq!(super::loss(&vm, &seen), Some(Loss::Volume));
    // One that goes is not let go of by a guest that is being started.
    seen.claim.as_mut().unwrap().metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-05-04T08:00:00Z")).unwrap();
    assert_eq!(super::loss(&vm, &seen), Some(Loss::Leaving(CLAIM)));
    assert_eq!(hold(&vm, &seen), None);
    // Of one from before the disk does not say so, and the status does.
    let mut seen = in_phase("CloneScheduled", None);
    seen.disk.as_mut().unwrap().metadata.annotations = None;
    assert_eq!(super::loss(&vm, &seen), Some(Loss::Gone(CLAIM)));
}

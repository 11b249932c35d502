//! What `KubeVirt` really writes, and what Kite makes of it. The recording is
//! not part of this repository; where it is missing, the test says so.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use std::{io::Write as _, path::PathBuf};

use kite_core::{
    cdi::{DataVolume, DataVolumeStatus},
    crd::{
        KitePlatformSpec, KiteVirtualMachine, KiteVirtualMachineSpec, KiteVirtualMachineStatus,
        PowerState, VmPhase,
    },
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels, names,
};
use kite_reconcile::{
    claims::{ClaimState, Claims, WantedClaim},
    vm::{ImageSeen, Made, Observed, plan},
};
use kite_render::{Vm, disk, machine, reservation};
use serde_json::Value;

/// What was done, the state of the disk then, what is wanted, and where the VM
/// is by that in its owner's eyes.
const LIFE: &[(&str, Option<&str>, PowerState, VmPhase)] = {
    use PowerState::{Off, On};
    use VmPhase::{Failed, Provisioning, Running, Starting, Stopped, Stopping};
    const FILLED: Option<&str> = Some("Succeeded");
    &[
        ("VirtualMachine created", None, On, Provisioning),
        (
            "DataVolume created, no status yet",
            Some(""),
            On,
            Provisioning,
        ),
        (
            "DataVolume CloneScheduled",
            Some("CloneScheduled"),
            On,
            Provisioning,
        ),
        (
            "DataVolume CloneInProgress",
            Some("CloneInProgress"),
            On,
            Provisioning,
        ),
        ("DataVolume Succeeded", FILLED, On, Starting),
        ("launcher pod unschedulable", FILLED, On, Failed),
        ("launcher pod bound to a node", FILLED, On, Starting),
        ("launcher pod Running and Ready", FILLED, On, Starting),
        ("node agent reports the guest Running", FILLED, On, Running),
        ("cpu sockets 2 -> 4", FILLED, On, Running),
        ("cpu sockets -> 1", FILLED, On, Running),
        ("runStrategy Halted", FILLED, Off, Stopping),
        ("node agent reports the guest gone", FILLED, Off, Stopped),
        ("launcher pod removed", FILLED, Off, Stopped),
        ("runStrategy Always again", FILLED, On, Starting),
    ]
};

fn recording() -> Option<Vec<Value>> {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/kubevirt-trace/vm-life.json");
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            let recording: Value = serde_json::from_str(&text).unwrap();
            Some(recording["steps"].as_array().unwrap().clone())
        }
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: no recording of KubeVirt: {}: {error}",
                file.display()
            );
            None
        }
    }
}

fn ready_image() -> ImageSeen {
    let image = serde_json::json!({
        "apiVersion": "hy3ons.github.io/v1",
        "kind": "KiteImage",
        "metadata": {"name": "debian-12"},
        "spec": {"source": {"pvc": {"name": "golden"}}, "minDisk": "5Gi"},
        "status": {"phase": "Ready"},
    });
    ImageSeen::Found(Box::new(serde_json::from_value(image).unwrap()))
}

fn status(step: &Value, disk_phase: Option<&str>, power: PowerState) -> KiteVirtualMachineStatus {
    let mut object = KiteVirtualMachine::new(
        "vm1",
        KiteVirtualMachineSpec {
            power_state: power,
            ..KiteVirtualMachineSpec::new(
                2,
                "2Gi".parse().unwrap(),
                "5Gi".parse().unwrap(),
                "debian-12",
                "vm1",
            )
        },
    );
    object.metadata.namespace = Some("kvt2".to_owned());
    object.metadata.uid = Some("uid".to_owned());
    object.metadata.finalizers = Some(vec![labels::VM_FINALIZER.to_owned()]);
    let vm = Vm::of(&object).unwrap();
    let claims = reservation::of_vm(&vm)
        .into_iter()
        .map(|wanted| WantedClaim {
            state: ClaimState::Mine(wanted.clone()),
            wanted,
        })
        .collect();
    let machine: VirtualMachine = VirtualMachine {
        status: serde_json::from_value(step["virtualMachine"]["status"].clone()).unwrap(),
        ..machine::virtual_machine(&vm, power)
    };
    let instance = &step["virtualMachineInstance"];
    let observed = Observed {
        image: ready_image(),
        claims: Claims {
            wanted: claims,
            ..Claims::default()
        },
        disk: disk_phase.map(|phase| DataVolume {
            status: (!phase.is_empty()).then(|| DataVolumeStatus {
                phase: Some(phase.to_owned()),
                ..DataVolumeStatus::default()
            }),
            ..disk::data_volume(&vm, &KitePlatformSpec::default(), "kite-images")
        }),
        // CDI makes it before it fills it.
        claim: disk_phase.map(|_| {
            let mut claim =
                disk::grown_claim(vm.namespace, &names::disk(vm.name), &vm.object.spec.disk);
            claim.metadata.labels = disk::metadata(&vm).labels;
            claim
        }),
        made: Made {
            machine: Some(machine),
            ..Made::default()
        },
        instance: (instance["status"].is_object()).then(|| VirtualMachineInstance {
            status: serde_json::from_value(instance["status"].clone()).unwrap(),
            ..VirtualMachineInstance::default()
        }),
        ..Observed::default()
    };
    plan(&object, &observed).unwrap().status
}

#[test]
fn each_moment_of_a_vms_life_is_told_as_its_owner_would_see_it() {
    let Some(steps) = recording() else { return };
    for (step, (about, disk, power, phase)) in steps.iter().zip(LIFE) {
        let recorded = step["about"].as_str().unwrap();
        assert!(recorded.starts_with(about), "{recorded}: not {about}");
        let status = status(step, *disk, *power);
        assert_eq!(status.phase, Some(*phase), "{recorded}");
        let runs = step["virtualMachineInstance"]["status"]["phase"] == "Running";
        assert_eq!(
            status.power_state == Some(PowerState::On),
            runs,
            "{recorded}"
        );
        assert_eq!(status.ip_address.is_some(), runs, "{recorded}");
    }
    assert!(steps.len() >= LIFE.len());
}

/// CDI is done before `KubeVirt` has looked again: what it said of the clone is
/// no failure.
#[test]
fn what_is_left_over_from_the_clone_is_no_failure() {
    let Some(steps) = recording() else { return };
    for step in &steps[..4] {
        let status = status(step, Some("Succeeded"), PowerState::On);
        assert_eq!(status.phase, Some(VmPhase::Starting), "{}", step["about"]);
    }
}

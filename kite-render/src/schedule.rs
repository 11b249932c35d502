//! Snapshots that a VM's schedule has made.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kite_core::{
    crd::{KiteSnapshot, KiteSnapshotSpec, SnapshotSchedule},
    labels,
};
use kube::api::ObjectMeta;

use crate::Vm;

/// What is noted on a snapshot when it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// When it was due.
    pub at: Timestamp,
    /// Uid and generation of the `VirtualMachine` then.
    pub machine: Option<String>,
}

/// The snapshot of this `name` of the VM by its `schedule`. It is nobody's but its namespace's:
/// who keeps it keeps it without the VM.
pub fn snapshot(vm: &Vm<'_>, name: String, schedule: &SnapshotSchedule, due: &Due) -> KiteSnapshot {
    let at = (labels::DUE_AT.to_owned(), due.at.to_string());
    let machine = due.machine.clone();
    let machine = machine.map(|it| (labels::MACHINE_AT.to_owned(), it));
    let of = (labels::SCHEDULE_OF.to_owned(), vm.uid.to_owned());
    KiteSnapshot {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(vm.namespace.to_owned()),
            labels: Some(BTreeMap::from([of])),
            annotations: Some(std::iter::once(at).chain(machine).collect()),
            ..ObjectMeta::default()
        },
        spec: KiteSnapshotSpec {
            vm: vm.name.to_owned(),
            vm_uid: Some(vm.uid.to_owned()),
            quiesce: schedule.quiesce,
            ..KiteSnapshotSpec::default()
        },
        status: None,
    }
}

/// What is noted on one; none on those that no schedule of this VM has made.
pub fn due(vm: &Vm<'_>, snapshot: &KiteSnapshot) -> Option<Due> {
    let of = snapshot
        .metadata
        .labels
        .as_ref()?
        .get(labels::SCHEDULE_OF)?;
    if of != vm.uid {
        return None;
    }
    let noted = |key: &str| snapshot.metadata.annotations.as_ref()?.get(key);
    Some(Due {
        at: noted(labels::DUE_AT)?.parse().ok()?,
        machine: noted(labels::MACHINE_AT).cloned(),
    })
}

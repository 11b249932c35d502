//! Disks that are made from snapshots, and what says which of a VM's disks counts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kite_core::{
    cdi::{
        BIND_AT_ONCE, DataVolume, DataVolumeSource, DataVolumeSpec, HAS_ITS_DATA, SourceObject,
        StorageSpec,
    },
    kubevirt::VirtualMachine,
    labels, names,
    quantity::Bytes,
};
use serde::{Deserialize, Serialize};

use crate::{Vm, disk};

/// When a disk became the VM's, and by which restore.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DiskMark {
    /// Rises with each disk that becomes the VM's.
    pub turn: u32,
    /// The restore, by its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Timestamp>,
    /// When it was written.
    pub since: Timestamp,
}

/// What a VM's disk carries beside its spec. It outlives the status of the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskNotes {
    /// The restore that it was made for, by its time; none for the first disk.
    pub made_for: Option<Timestamp>,
    /// None: it has never been the VM's, but for the first one.
    pub mark: Option<DiskMark>,
    /// Uid of the claim on which a guest has run.
    pub has_run_on: Option<String>,
    /// Whether it has been filled: CDI then makes no claim that is as new, should its own go.
    pub has_its_data: bool,
}

impl DiskNotes {
    /// Those on an object. What cannot be read is not there.
    pub fn of(meta: &ObjectMeta) -> Self {
        let of = |key: &str| meta.annotations.as_ref()?.get(key);
        Self {
            made_for: of(labels::MADE_FOR).and_then(|it| it.parse().ok()),
            mark: mark_of(meta),
            has_run_on: of(labels::HAS_RUN_ON).cloned(),
            has_its_data: of(HAS_ITS_DATA).is_some(),
        }
    }

    /// Puts them on an object, which has its name.
    pub fn put_on(&self, meta: &mut ObjectMeta) {
        if self.has_its_data {
            disk::has_its_data(meta);
        }
        let annotations = meta.annotations.get_or_insert_default();
        let made_for = self.made_for.map(|it| (labels::MADE_FOR, it.to_string()));
        let mark = self.mark.map(|it| (labels::DISK_MARK, spelled(&it)));
        let has_run_on = self.has_run_on.clone();
        let has_run_on = has_run_on.map(|it| (labels::HAS_RUN_ON, it));
        let all = [made_for, mark, has_run_on].into_iter().flatten();
        annotations.extend(all.map(|(key, value)| (key.to_owned(), value)));
        if annotations.is_empty() {
            meta.annotations = None;
        }
    }
}

/// The mark on an object: a disk's own, or a machine's for the disk that it points at.
pub fn mark_of(meta: &ObjectMeta) -> Option<DiskMark> {
    let text = meta.annotations.as_ref()?.get(labels::DISK_MARK)?;
    serde_json::from_str(text).ok()
}

fn spelled(mark: &DiskMark) -> String {
    serde_json::json!(mark).to_string()
}

/// The VM's disk of this `number`, copied from the `VolumeSnapshot` of this name in the VM's
/// namespace for the restore of this time: with a `size` and of a `class` that the snapshot
/// can be copied to. It is filled at once, whoever uses it.
pub fn restored(
    vm: &Vm<'_>,
    number: u32,
    snapshot: &str,
    made_for: Timestamp,
    size: &Bytes,
    class: Option<String>,
) -> DataVolume {
    let mut disk = first_from(vm, snapshot, size, class);
    disk.metadata.name = Some(names::disk_of(vm.name, number));
    let notes = DiskNotes {
        made_for: Some(made_for),
        ..DiskNotes::default()
    };
    notes.put_on(&mut disk.metadata);
    disk
}

/// The VM's first disk, copied from the `VolumeSnapshot` of this name in the VM's namespace,
/// likewise.
pub fn first_from(vm: &Vm<'_>, snapshot: &str, size: &Bytes, class: Option<String>) -> DataVolume {
    let mut metadata = disk::metadata(vm);
    let at_once = BTreeMap::from([(BIND_AT_ONCE.to_owned(), "true".to_owned())]);
    metadata.annotations.get_or_insert_default().extend(at_once);
    DataVolume {
        metadata,
        spec: DataVolumeSpec {
            source: Some(DataVolumeSource {
                snapshot: Some(SourceObject {
                    namespace: vm.namespace.to_owned(),
                    name: snapshot.to_owned(),
                }),
                ..DataVolumeSource::default()
            }),
            source_ref: None,
            storage: Some(StorageSpec {
                storage_class_name: class,
                ..disk::sized(size)
            }),
        },
        status: None,
    }
}

/// The snapshot that a disk is copied from, if it is one.
pub fn copy_of(disk: &DataVolume) -> Option<&str> {
    Some(&disk.spec.source.as_ref()?.snapshot.as_ref()?.name)
}

/// Points the machine at the disk of this name, and writes the disk's mark on it.
pub fn point(machine: &mut VirtualMachine, disk: &str, mark: Option<&DiskMark>) {
    let mut volumes = machine.spec.template.spec.volumes.iter_mut();
    // The first one is the root disk.
    if let Some(root) = volumes.find_map(|it| it.data_volume.as_mut()) {
        disk.clone_into(&mut root.name);
    }
    if let Some(mark) = mark {
        let annotations = machine.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::DISK_MARK.to_owned(), spelled(mark));
    }
}

/// The disk that a machine points at.
pub fn disk_of(machine: &VirtualMachine) -> Option<&str> {
    let mut volumes = machine.spec.template.spec.volumes.iter();
    let root = volumes.find_map(|it| it.data_volume.as_ref())?;
    Some(&root.name)
}

//! A disk apart from VMs, and what a VM is told that has it.

use std::collections::BTreeMap;

use kite_core::{
    cdi::{DataVolume, DataVolumeSource, DataVolumeSpec},
    crd::{KitePlatformSpec, OsFamily},
    kubevirt::{self, Disk, DiskTarget, Empty, NamedVolume, VirtualMachine},
    names,
    quantity::Bytes,
};

use crate::{Vm, Volume, disk, machine};

/// How the names of the disks of volumes begin in a machine.
const DISK: &str = "volume-";

/// The volume, of this size, with nothing on it. The spec of a `DataVolume` is immutable: this
/// is for one that is not there yet.
pub fn data_volume(volume: &Volume<'_>, size: &Bytes, platform: &KitePlatformSpec) -> DataVolume {
    DataVolume {
        metadata: volume.metadata(),
        spec: DataVolumeSpec {
            source: Some(DataVolumeSource {
                blank: Some(Empty {}),
                ..DataVolumeSource::default()
            }),
            source_ref: None,
            storage: Some(disk::storage(size, platform)),
        },
        status: None,
    }
}

/// Has the machine start with the volume of this name, beside what it has.
pub fn attach(machine: &mut VirtualMachine, vm: &Vm<'_>, volume: &str) {
    let family = machine::family_of(machine);
    let spec = &mut machine.spec.template.spec;
    let is_windows = family == OsFamily::Windows;
    spec.domain.devices.disks.push(Disk {
        name: format!("{DISK}{volume}"),
        disk: Some(DiskTarget {
            bus: Some(machine::disk_bus(is_windows).to_owned()),
        }),
        serial: Some(names::volume_serial(vm.namespace, volume)),
        ..Disk::default()
    });
    spec.volumes.push(kubevirt::Volume {
        name: format!("{DISK}{volume}"),
        data_volume: Some(NamedVolume {
            name: names::volume_disk(volume),
        }),
        ..kubevirt::Volume::default()
    });
}

/// The volumes among those of a machine or an instance.
pub fn attached(volumes: &[kubevirt::Volume]) -> impl Iterator<Item = &str> {
    volumes.iter().filter_map(|it| {
        it.data_volume.as_ref()?;
        it.name.strip_prefix(DISK)
    })
}

/// Mounts at each boot what is to be mounted; what a VM has got no more, nothing is left of. Its
/// arguments are pairs of a serial and a path. cloud-init's own modules for disks and mounts run
/// at the first boot alone, and a volume may come later.
///
/// Only where nothing at all is found on a disk it is formatted: no signature of a file system, a
/// partition table, RAID or encryption anywhere that `blkid` and `wipefs` look, and nothing but
/// zeros in its first mebibyte, as `cmp` says, which is what a disk that cannot be read fails by.
/// Where one of the three is not there, nothing is formatted.
const MOUNT: &str = include_str!("volume/mount.sh");

/// The command for each boot of a guest that has something to mount: what is mounted in another
/// comes after it.
pub(crate) fn mounts(vm: &Vm<'_>) -> Option<Vec<String>> {
    let volumes = vm.object.spec.volumes.iter();
    let pairs = volumes.filter_map(|it| {
        let path = it.path.clone()?;
        Some((path, names::volume_serial(vm.namespace, &it.volume)))
    });
    let pairs: BTreeMap<_, _> = pairs.collect();
    if pairs.is_empty() {
        return None;
    }
    let command = ["sh", "-c", MOUNT, "kite-volumes"].map(str::to_owned);
    let arguments = pairs.into_iter().flat_map(|(path, serial)| [serial, path]);
    Some(command.into_iter().chain(arguments).collect())
}

//! The root disk of a VM.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use kite_core::{
    cdi::{DataVolume, DataVolumeSourceRef, DataVolumeSpec, HAS_ITS_DATA, StorageSpec},
    crd::{KitePlatformSpec, OsFamily},
    labels, names,
    quantity::Bytes,
};

use crate::Vm;

/// The disk, cloned from the VM's image in `image_namespace`: where that image
/// is, which need not be where the platform puts new ones. The spec of a
/// `DataVolume` is immutable: this is for one that is not there yet, see
/// [`metadata`] and [`grown_claim`] for one that is.
pub fn data_volume(vm: &Vm<'_>, platform: &KitePlatformSpec, image_namespace: &str) -> DataVolume {
    DataVolume {
        metadata: metadata(vm),
        spec: DataVolumeSpec {
            source: None,
            source_ref: Some(DataVolumeSourceRef {
                kind: "DataSource".to_owned(),
                namespace: Some(image_namespace.to_owned()),
                name: vm.object.spec.image.clone(),
            }),
            storage: Some(storage(&vm.object.spec.disk, platform)),
        },
        status: None,
    }
}

/// Has the disk remember the family of the guest that is cloned to it.
pub fn remember_family(disk: &mut DataVolume, os: OsFamily) {
    let annotations = disk.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::OS_FAMILY.to_owned(), os.as_str().to_owned());
}

/// The family of the guest that a disk was cloned for, if it remembers that.
pub fn family_of(disk: &DataVolume) -> Option<OsFamily> {
    let annotations = disk.metadata.annotations.as_ref()?;
    annotations.get(labels::OS_FAMILY)?.parse().ok()
}

/// Metadata of the disk: all of it that can be put right once it is there.
/// It does not hold up a foreground deletion of the VM, as a disk can take long to
/// go. The garbage collector deletes it with the rest then; what still writes to it
/// has the claim held by Kubernetes.
pub fn metadata(vm: &Vm<'_>) -> ObjectMeta {
    let mut metadata = vm.metadata(names::disk(vm.name));
    for owner in metadata.owner_references.iter_mut().flatten() {
        owner.block_owner_deletion = None;
    }
    metadata
}

/// Has CDI make no claim that is as new in the place of the disk's, should that go: `KubeVirt`
/// would start guests from that. `meta` has the disk's name.
pub fn has_its_data(meta: &mut ObjectMeta) {
    let name = meta.name.clone().unwrap_or_default();
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(HAS_ITS_DATA.to_owned(), name);
}

/// The claim of the disk of this name with a `size`, and nothing else: applied over the
/// claim that CDI made, it grows it. The size is the claim's: for a file system it is larger
/// than the disk that is to have room in it.
pub fn grown_claim(namespace: &str, disk: &str, size: &Bytes) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(disk.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            resources: Some(requests(size)),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// The claim of a disk of `bytes`. Access and volume mode are left to the
/// `StorageProfile` of the class.
pub(crate) fn storage(bytes: &Bytes, platform: &KitePlatformSpec) -> StorageSpec {
    StorageSpec {
        storage_class_name: Some(platform.storage_class().to_owned()),
        ..sized(bytes)
    }
}

/// The same of the default class.
pub(crate) fn sized(bytes: &Bytes) -> StorageSpec {
    StorageSpec {
        access_modes: Vec::new(),
        resources: Some(requests(bytes)),
        storage_class_name: None,
    }
}

fn requests(bytes: &Bytes) -> VolumeResourceRequirements {
    VolumeResourceRequirements {
        requests: Some(BTreeMap::from([(
            "storage".to_owned(),
            Quantity(bytes.as_str().to_owned()),
        )])),
        limits: None,
    }
}

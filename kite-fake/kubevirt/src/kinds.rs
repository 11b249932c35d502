//! KubeVirt's and CDI's kinds.

use kite_fake::actors::Kind;

/// `KubeVirt`'s `VirtualMachine`.
pub const VIRTUAL_MACHINE: Kind =
    Kind::namespaced("kubevirt.io", "v1", "VirtualMachine", "virtualmachines");
/// `KubeVirt`'s `VirtualMachineInstance`.
pub const INSTANCE: Kind = Kind::namespaced(
    "kubevirt.io",
    "v1",
    "VirtualMachineInstance",
    "virtualmachineinstances",
);
/// CDI's `DataVolume`.
pub const DATA_VOLUME: Kind =
    Kind::namespaced("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes");
/// CDI's `DataSource`.
pub const DATA_SOURCE: Kind =
    Kind::namespaced("cdi.kubevirt.io", "v1beta1", "DataSource", "datasources");
/// CDI's `DataImportCron`.
pub const DATA_IMPORT_CRON: Kind = Kind::namespaced(
    "cdi.kubevirt.io",
    "v1beta1",
    "DataImportCron",
    "dataimportcrons",
);
/// CDI's `StorageProfile`.
pub const STORAGE_PROFILE: Kind = Kind::cluster(
    "cdi.kubevirt.io",
    "v1beta1",
    "StorageProfile",
    "storageprofiles",
);
/// `KubeVirt`'s `VirtualMachineInstanceMigration`.
pub const MIGRATION: Kind = Kind::namespaced(
    "kubevirt.io",
    "v1",
    "VirtualMachineInstanceMigration",
    "virtualmachineinstancemigrations",
);
/// `KubeVirt`'s `VirtualMachineSnapshot`.
pub const VM_SNAPSHOT: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineSnapshot",
    "virtualmachinesnapshots",
);
/// `KubeVirt`'s `VirtualMachineSnapshotContent`.
pub const VM_SNAPSHOT_CONTENT: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineSnapshotContent",
    "virtualmachinesnapshotcontents",
);
/// `KubeVirt`'s `VirtualMachineRestore`.
pub const VM_RESTORE: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineRestore",
    "virtualmachinerestores",
);
/// `KubeVirt`'s `VirtualMachineClone`.
pub const VM_CLONE: Kind = Kind::namespaced(
    "clone.kubevirt.io",
    "v1beta1",
    "VirtualMachineClone",
    "virtualmachineclones",
);
/// `KubeVirt`'s `VirtualMachineExport`.
pub const VM_EXPORT: Kind = Kind::namespaced(
    "export.kubevirt.io",
    "v1",
    "VirtualMachineExport",
    "virtualmachineexports",
);
/// `KubeVirt`'s `VirtualMachineInstancetype`.
pub const INSTANCETYPE: Kind = Kind::namespaced(
    "instancetype.kubevirt.io",
    "v1beta1",
    "VirtualMachineInstancetype",
    "virtualmachineinstancetypes",
);
/// `KubeVirt`'s `VirtualMachineClusterInstancetype`.
pub const CLUSTER_INSTANCETYPE: Kind = Kind::cluster(
    "instancetype.kubevirt.io",
    "v1beta1",
    "VirtualMachineClusterInstancetype",
    "virtualmachineclusterinstancetypes",
);
/// `KubeVirt`'s `VirtualMachinePreference`.
pub const PREFERENCE: Kind = Kind::namespaced(
    "instancetype.kubevirt.io",
    "v1beta1",
    "VirtualMachinePreference",
    "virtualmachinepreferences",
);
/// `KubeVirt`'s `VirtualMachineClusterPreference`.
pub const CLUSTER_PREFERENCE: Kind = Kind::cluster(
    "instancetype.kubevirt.io",
    "v1beta1",
    "VirtualMachineClusterPreference",
    "virtualmachineclusterpreferences",
);
/// The object by which `KubeVirt` is installed.
pub const KUBEVIRT_CR: Kind = Kind::namespaced("kubevirt.io", "v1", "KubeVirt", "kubevirts");
/// The object by which CDI is installed.
pub const CDI_CR: Kind = Kind::cluster("cdi.kubevirt.io", "v1beta1", "CDI", "cdis");

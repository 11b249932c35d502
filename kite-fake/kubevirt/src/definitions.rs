//! Definitions of KubeVirt's and CDI's kinds, for an API server that lacks them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_fake::actors::definitions::{AGE, Definition, PHASE, READY};

use crate::kinds::{
    CDI_CR, CLUSTER_INSTANCETYPE, CLUSTER_PREFERENCE, DATA_IMPORT_CRON, DATA_SOURCE, DATA_VOLUME,
    INSTANCE, INSTANCETYPE, KUBEVIRT_CR, MIGRATION, PREFERENCE, STORAGE_PROFILE, VIRTUAL_MACHINE,
    VM_CLONE, VM_EXPORT, VM_RESTORE, VM_SNAPSHOT, VM_SNAPSHOT_CONTENT,
};

const KUBEVIRT: &[Definition] = &[
    Definition(
        &VIRTUAL_MACHINE,
        &["vm", "vms"],
        &[AGE, ("Status", "string", ".status.printableStatus"), READY],
    ),
    Definition(
        &INSTANCE,
        &["vmi", "vmis"],
        &[
            AGE,
            PHASE,
            ("IP", "string", ".status.interfaces[0].ipAddress"),
            ("NodeName", "string", ".status.nodeName"),
            READY,
        ],
    ),
    Definition(
        &MIGRATION,
        &["vmim", "vmims"],
        &[PHASE, ("VMI", "string", ".spec.vmiName")],
    ),
    Definition(
        &VM_SNAPSHOT,
        &["vmsnapshot", "vmsnapshots"],
        &[
            ("SourceKind", "string", ".spec.source.kind"),
            ("SourceName", "string", ".spec.source.name"),
            PHASE,
            ("ReadyToUse", "boolean", ".status.readyToUse"),
            ("CreationTime", "date", ".status.creationTime"),
            ("Error", "string", ".status.error.message"),
        ],
    ),
    Definition(
        &VM_SNAPSHOT_CONTENT,
        &["vmsnapshotcontent", "vmsnapshotcontents"],
        &[
            ("ReadyToUse", "boolean", ".status.readyToUse"),
            ("CreationTime", "date", ".status.creationTime"),
        ],
    ),
    Definition(
        &VM_RESTORE,
        &["vmrestore", "vmrestores"],
        &[
            ("TargetKind", "string", ".spec.target.kind"),
            ("TargetName", "string", ".spec.target.name"),
            ("Complete", "boolean", ".status.complete"),
            ("RestoreTime", "date", ".status.restoreTime"),
        ],
    ),
    Definition(
        &VM_CLONE,
        &["vmclone", "vmclones"],
        &[
            PHASE,
            ("SourceVirtualMachine", "string", ".spec.source.name"),
            ("TargetVirtualMachine", "string", ".spec.target.name"),
        ],
    ),
    Definition(&VM_EXPORT, &["vmexport", "vmexports"], &[PHASE]),
    Definition(&INSTANCETYPE, &["vminstancetype", "vminstancetypes"], &[]),
    Definition(
        &CLUSTER_INSTANCETYPE,
        &["vmclusterinstancetype", "vmclusterinstancetypes"],
        &[],
    ),
    Definition(&PREFERENCE, &["vmpref", "vmprefs"], &[]),
    Definition(&CLUSTER_PREFERENCE, &["vmcp", "vmcps"], &[]),
];

const CDI: &[Definition] = &[
    Definition(
        &DATA_VOLUME,
        &["dv", "dvs"],
        &[
            PHASE,
            ("Progress", "string", ".status.progress"),
            ("Restarts", "integer", ".status.restartCount"),
            AGE,
        ],
    ),
    Definition(&DATA_SOURCE, &["das"], &[READY, AGE]),
    Definition(
        &DATA_IMPORT_CRON,
        &["dic", "dics"],
        &[("Schedule", "string", ".spec.schedule"), AGE],
    ),
    Definition(&STORAGE_PROFILE, &[], &[]),
];

const OPERATORS: &[Definition] = &[
    Definition(&KUBEVIRT_CR, &["kv", "kvs"], &[AGE, PHASE]),
    Definition(&CDI_CR, &["cdi", "cdis"], &[AGE, PHASE]),
];

fn all(definitions: &[Definition]) -> Vec<CustomResourceDefinition> {
    definitions.iter().map(Definition::crd).collect()
}

/// KubeVirt's kinds: VMs, instances, migrations, snapshots, restores, clones
/// and exports.
///
/// ```
/// use kite_fake::FakeCluster;
/// use kite_fake_kubevirt::{cdi_definitions, kubevirt_definitions};
///
/// let cluster = FakeCluster::builder()
///     .crds(kubevirt_definitions())
///     .crds(cdi_definitions())
///     .build()?;
/// # drop(cluster);
/// # Ok::<(), kite_fake::BuildError>(())
/// ```
pub fn kubevirt_definitions() -> Vec<CustomResourceDefinition> {
    all(KUBEVIRT)
}

/// CDI's kinds: `DataVolume`, `DataSource`, `DataImportCron`, `StorageProfile`.
pub fn cdi_definitions() -> Vec<CustomResourceDefinition> {
    all(CDI)
}

/// The kinds by which KubeVirt and CDI are installed.
pub fn operator_definitions() -> Vec<CustomResourceDefinition> {
    all(OPERATORS)
}

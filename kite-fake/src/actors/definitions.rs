//! Definitions of the custom resources that the actors play, for an API server
//! that lacks them: every field is kept as it comes and none is judged.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use kube::core::ObjectMeta;

use super::kind::{
    CDI_CR, CERTIFICATE, CLUSTER_INSTANCETYPE, CLUSTER_ISSUER, CLUSTER_PREFERENCE,
    DATA_IMPORT_CRON, DATA_SOURCE, DATA_VOLUME, GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, INSTANCE,
    INSTANCETYPE, KUBEVIRT_CR, Kind, MIGRATION, PREFERENCE, STORAGE_PROFILE, VIRTUAL_MACHINE,
    VM_CLONE, VM_EXPORT, VM_RESTORE, VM_SNAPSHOT, VM_SNAPSHOT_CONTENT, VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT,
};

/// Name, type and path of a printer column.
type Column = (&'static str, &'static str, &'static str);

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
const PHASE: Column = ("Phase", "string", ".status.phase");
const READY: Column = (
    "Ready",
    "string",
    ".status.conditions[?(@.type=='Ready')].status",
);

/// A kind with its short names and columns.
struct Row(&'static Kind, &'static [&'static str], &'static [Column]);

const KUBEVIRT: &[Row] = &[
    Row(
        &VIRTUAL_MACHINE,
        &["vm", "vms"],
        &[AGE, ("Status", "string", ".status.printableStatus"), READY],
    ),
    Row(
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
    Row(
        &MIGRATION,
        &["vmim", "vmims"],
        &[PHASE, ("VMI", "string", ".spec.vmiName")],
    ),
    Row(
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
    Row(
        &VM_SNAPSHOT_CONTENT,
        &["vmsnapshotcontent", "vmsnapshotcontents"],
        &[
            ("ReadyToUse", "boolean", ".status.readyToUse"),
            ("CreationTime", "date", ".status.creationTime"),
        ],
    ),
    Row(
        &VM_RESTORE,
        &["vmrestore", "vmrestores"],
        &[
            ("TargetKind", "string", ".spec.target.kind"),
            ("TargetName", "string", ".spec.target.name"),
            ("Complete", "boolean", ".status.complete"),
            ("RestoreTime", "date", ".status.restoreTime"),
        ],
    ),
    Row(
        &VM_CLONE,
        &["vmclone", "vmclones"],
        &[
            PHASE,
            ("SourceVirtualMachine", "string", ".spec.source.name"),
            ("TargetVirtualMachine", "string", ".spec.target.name"),
        ],
    ),
    Row(&VM_EXPORT, &["vmexport", "vmexports"], &[PHASE]),
    Row(&INSTANCETYPE, &["vminstancetype", "vminstancetypes"], &[]),
    Row(
        &CLUSTER_INSTANCETYPE,
        &["vmclusterinstancetype", "vmclusterinstancetypes"],
        &[],
    ),
    Row(&PREFERENCE, &["vmpref", "vmprefs"], &[]),
    Row(&CLUSTER_PREFERENCE, &["vmcp", "vmcps"], &[]),
];

const CDI: &[Row] = &[
    Row(
        &DATA_VOLUME,
        &["dv", "dvs"],
        &[
            PHASE,
            ("Progress", "string", ".status.progress"),
            ("Restarts", "integer", ".status.restartCount"),
            AGE,
        ],
    ),
    Row(&DATA_SOURCE, &["das"], &[READY, AGE]),
    Row(
        &DATA_IMPORT_CRON,
        &["dic", "dics"],
        &[("Schedule", "string", ".spec.schedule"), AGE],
    ),
    Row(&STORAGE_PROFILE, &[], &[]),
];

const SNAPSHOTS: &[Row] = &[
    Row(
        &VOLUME_SNAPSHOT,
        &["vs"],
        &[("ReadyToUse", "boolean", ".status.readyToUse"), AGE],
    ),
    Row(&VOLUME_SNAPSHOT_CLASS, &["vsclass"], &[AGE]),
    Row(&VOLUME_SNAPSHOT_CONTENT, &["vsc"], &[AGE]),
];

const OPERATORS: &[Row] = &[
    Row(&KUBEVIRT_CR, &["kv", "kvs"], &[AGE, PHASE]),
    Row(&CDI_CR, &["cdi", "cdis"], &[AGE, PHASE]),
];

const ROUTES: &[Row] = &[
    Row(&CERTIFICATE, &["cert", "certs"], &[READY, AGE]),
    Row(&CLUSTER_ISSUER, &["ciss"], &[READY, AGE]),
    Row(&GATEWAY_CLASS, &["gc"], &[AGE]),
    Row(
        &GATEWAY,
        &["gtw"],
        &[("Class", "string", ".spec.gatewayClassName"), AGE],
    ),
    Row(&HTTP_ROUTE, &[], &[AGE]),
];

fn all(rows: &[Row]) -> Vec<CustomResourceDefinition> {
    rows.iter().map(definition).collect()
}

/// `KubeVirt`'s kinds: VMs, instances, migrations, snapshots, restores, clones
/// and exports.
///
/// ```
/// use kite_fake::FakeCluster;
/// use kite_fake::actors::{cdi_definitions, kubevirt_definitions};
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

/// The kinds of the CSI external-snapshotter.
pub fn snapshot_definitions() -> Vec<CustomResourceDefinition> {
    all(SNAPSHOTS)
}

/// The kinds by which `KubeVirt` and CDI are installed.
pub fn operator_definitions() -> Vec<CustomResourceDefinition> {
    all(OPERATORS)
}

/// cert-manager's `Certificate` and `ClusterIssuer`, and the kinds of the Gateway API that are played.
pub fn route_definitions() -> Vec<CustomResourceDefinition> {
    all(ROUTES)
}

fn definition(Row(kind, short_names, columns): &Row) -> CustomResourceDefinition {
    let scope = if kind.namespaced {
        "Namespaced"
    } else {
        "Cluster"
    };
    let short_names: Vec<String> = short_names.iter().map(ToString::to_string).collect();
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{}.{}", kind.plural, kind.group)),
            // What the API review of `*.k8s.io` groups asks for.
            annotations: kind.group.ends_with(".k8s.io").then(|| {
                let review = "unapproved, played by an actor";
                [("api-approved.kubernetes.io".to_owned(), review.to_owned())].into()
            }),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: kind.group.to_string(),
            names: CustomResourceDefinitionNames {
                kind: kind.kind.to_string(),
                plural: kind.plural.to_string(),
                singular: Some(kind.kind.to_lowercase()),
                list_kind: Some(format!("{}List", kind.kind)),
                short_names: (!short_names.is_empty()).then_some(short_names),
                categories: None,
            },
            scope: scope.to_owned(),
            versions: vec![version(kind, columns)],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

fn version(kind: &Kind, columns: &[Column]) -> CustomResourceDefinitionVersion {
    let open = JSONSchemaProps {
        type_: Some("object".to_owned()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    };
    let columns = columns
        .iter()
        .map(|&(name, type_, json_path)| CustomResourceColumnDefinition {
            name: name.to_owned(),
            type_: type_.to_owned(),
            json_path: json_path.to_owned(),
            ..CustomResourceColumnDefinition::default()
        });
    CustomResourceDefinitionVersion {
        name: kind.version.to_string(),
        served: true,
        storage: true,
        subresources: Some(CustomResourceSubresources {
            status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
            scale: None,
        }),
        additional_printer_columns: Some(columns.collect()),
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: Some(open),
        }),
        ..CustomResourceDefinitionVersion::default()
    }
}

//! The subset of CDI objects that Kite reads and writes
//! (`cdi.kubevirt.io/v1beta1`, CDI 1.66). Minimal for the same reasons as
//! [`crate::kubevirt`].

use k8s_openapi::{
    api::core::v1::VolumeResourceRequirements,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::{
    crd::foreign::{Column, ForeignKind},
    kubevirt::{Empty, StatusCondition},
};

const COLUMN_AGE: Column = ("Age", "date", ".metadata.creationTimestamp");

const KINDS: &[ForeignKind] = &[
    ForeignKind {
        group: "cdi.kubevirt.io",
        version: "v1beta1",
        kind: "DataVolume",
        plural: "datavolumes",
        short_names: &["dv", "dvs"],
        columns: &[
            ("Phase", "string", ".status.phase"),
            ("Progress", "string", ".status.progress"),
            ("Restarts", "integer", ".status.restartCount"),
            COLUMN_AGE,
        ],
    },
    ForeignKind {
        group: "cdi.kubevirt.io",
        version: "v1beta1",
        kind: "DataSource",
        plural: "datasources",
        short_names: &["das"],
        columns: &[COLUMN_AGE],
    },
    ForeignKind {
        group: "cdi.kubevirt.io",
        version: "v1beta1",
        kind: "DataImportCron",
        plural: "dataimportcrons",
        short_names: &["dic", "dics"],
        columns: &[("Schedule", "string", ".spec.schedule"), COLUMN_AGE],
    },
];

/// What CDI knows of a `StorageClass`; it has the class's name.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "StorageProfile",
    plural = "storageprofiles",
    schema = "disabled",
    status = "StorageProfileStatus",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct StorageProfileSpec {}

/// What CDI has found out of a `StorageClass`, or was told.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StorageProfileStatus {
    /// Name of the `VolumeSnapshotClass` by which CDI has snapshots taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_class: Option<String>,
}

/// Label that CDI puts on what a `DataImportCron` imports, and on the
/// `DataSource` that it keeps: the name of the cron.
pub const DATA_IMPORT_CRON_LABEL: &str = "cdi.kubevirt.io/dataImportCron";

/// Annotation by which CDI fills a disk at once, and not when a pod first uses it.
pub const BIND_AT_ONCE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";

/// Annotation of a `DataVolume`: whether a claim of its name that is there already may become its
/// own, with what is on it, where CDI has that switched on.
pub const ADOPTS_CLAIM: &str = "cdi.kubevirt.io/allowClaimAdoption";

/// Annotation of a `DataVolume` that has its data: the name of its claim. CDI makes none in its
/// place then, should that go; without it, it makes one that is as new.
pub const HAS_ITS_DATA: &str = "cdi.kubevirt.io/storage.prePopulated";

/// Annotation of a claim that CDI has made: uid of the `DataVolume` that it was made for.
pub const MADE_FOR: &str = "cdi.kubevirt.io/createdForDataVolume";

/// Annotation of a claim that has the data of the `DataVolume` of this name, for which CDI takes
/// it then.
pub const POPULATED_FOR: &str = "cdi.kubevirt.io/storage.populatedFor";

/// CRDs of the kinds in this module, for an API server that has no CDI: their
/// fields are kept as they come and not judged.
pub fn crds() -> Vec<CustomResourceDefinition> {
    KINDS.iter().map(ForeignKind::crd).collect()
}

/// A PVC and what fills it. The spec is immutable: a disk grows through its PVC.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "DataVolume",
    plural = "datavolumes",
    shortname = "dv",
    namespaced,
    schema = "disabled",
    status = "DataVolumeStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSpec {
    /// What to fill it with; or `source_ref`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DataVolumeSource>,
    /// The `DataSource` to clone from; or `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<DataVolumeSourceRef>,
    /// The PVC, completed from the `StorageProfile` of its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSpec>,
}

/// What fills a `DataVolume`: exactly one of the fields.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct DataVolumeSource {
    /// A file behind a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<DataVolumeHttp>,
    /// A container disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<DataVolumeRegistry>,
    /// Another PVC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<SourceObject>,
    /// A `VolumeSnapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SourceObject>,
    /// Nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blank: Option<Empty>,
}

/// A file behind a URL.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct DataVolumeHttp {
    /// The URL.
    pub url: String,
    /// Such as `sha256:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// A container disk.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct DataVolumeRegistry {
    /// The URL, with the scheme `docker://`. Absent where an image stream of
    /// `OpenShift` is named instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// An object that a disk is cloned from.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A `DataSource` by name.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct DataVolumeSourceRef {
    /// `DataSource`.
    pub kind: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// The PVC of a `DataVolume`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StorageSpec {
    /// Such as `ReadWriteOnce`; by default the `StorageProfile`'s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<VolumeResourceRequirements>,
    /// Its `StorageClass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
}

/// Observed state of a `DataVolume`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeStatus {
    /// Such as `ImportInProgress` or `Succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// A percentage such as `42.0%`, or `N/A`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Name of the PVC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_name: Option<String>,
    /// How often the worker was restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_count: Option<i32>,
    /// `Bound`, `Running`, `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatusCondition>,
}

/// A name for what golden image to clone, so that the image can be refreshed
/// without an edit of those who clone it.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "DataSource",
    plural = "datasources",
    namespaced,
    schema = "disabled",
    status = "DataSourceStatus",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct DataSourceSpec {
    /// What it stands for: exactly one of `pvc` and `snapshot`.
    pub source: DataSourceSource,
}

/// What a `DataSource` stands for.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSourceSource {
    /// A PVC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<SourceObject>,
    /// A `VolumeSnapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SourceObject>,
}

/// Observed state of a `DataSource`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct DataSourceStatus {
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatusCondition>,
}

/// Looks for a newer image by a schedule, imports it, and leads a `DataSource`
/// to it. The spec is immutable.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "DataImportCron",
    plural = "dataimportcrons",
    shortname = "dic",
    namespaced,
    schema = "disabled",
    status = "DataImportCronStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct DataImportCronSpec {
    /// When to look, in cron format (UTC).
    pub schedule: String,
    /// Name of the `DataSource`, in the cron's namespace.
    pub managed_data_source: String,
    /// `Outdated` deletes imports beyond those that are kept; `Never` none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub garbage_collect: Option<String>,
    /// How many imports are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imports_to_keep: Option<i32>,
    /// What becomes of imports and `DataSource` when the cron goes: `None` of
    /// them stays, or `All`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<String>,
    /// The `DataVolume` that is made for each import.
    pub template: DataVolumeTemplate,
}

/// A `DataVolume` without metadata: CDI's schema keeps none here, and CDI labels
/// what it makes with [`DATA_IMPORT_CRON_LABEL`].
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct DataVolumeTemplate {
    /// Source and size.
    #[serde(default)]
    pub spec: DataVolumeSpec,
}

/// Observed state of a `DataImportCron`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DataImportCronStatus {
    /// The import that is under way, or the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub current_imports: Vec<CurrentImport>,
    /// What the `DataSource` leads to, once there was an import.
    #[serde(
        default,
        rename = "lastImportedPVC",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_imported_pvc: Option<SourceObject>,
    /// `Progressing`, `UpToDate`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatusCondition>,
}

/// An import of a `DataImportCron`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentImport {
    /// Its `DataVolume`.
    #[serde(default, rename = "DataVolumeName")]
    pub data_volume_name: String,
    /// What it imports.
    #[serde(default, rename = "Digest")]
    pub digest: String,
}

//! The subset of the external-snapshotter's objects that Kite reads and writes
//! (`snapshot.storage.k8s.io/v1`). Minimal for the same reasons as [`crate::kubevirt`].

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::{
    api::resource::Quantity,
    apis::meta::v1::{ObjectMeta, Time},
};
use kube::{CustomResource, Resource, core::ClusterResourceScope};
use serde::{Deserialize, Serialize};

/// The API group.
pub const GROUP: &str = "snapshot.storage.k8s.io";

/// Annotation of the class by which a driver's snapshots are taken where nobody names one.
pub const IS_DEFAULT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";

/// A snapshot of a claim, as storage is asked for one and says how far it is.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "snapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeSnapshot",
    plural = "volumesnapshots",
    shortname = "vs",
    namespaced,
    schema = "disabled",
    status = "VolumeSnapshotStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSpec {
    /// Name of its [`VolumeSnapshotClass`]; the driver's default one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
    /// What it is taken of.
    #[serde(default)]
    pub source: VolumeSnapshotSource,
}

/// What a snapshot is taken of.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSource {
    /// Name of the claim, in the snapshot's namespace; absent for one that was there before
    /// its object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
}

/// How far a snapshot is.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    /// When storage has cut; absent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// Whether volumes can be made from it, as the driver says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The least size of a volume that is made from it; it may come late, or never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<Quantity>,
    /// What went wrong last; it goes again where a later try does better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
}

/// What went wrong with a snapshot.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct VolumeSnapshotError {
    /// In the driver's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// By which driver snapshots are taken, and how. It has neither spec nor status.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotClass {
    /// Always `snapshot.storage.k8s.io/v1`.
    #[serde(default = "class_version")]
    pub api_version: String,
    /// Always `VolumeSnapshotClass`.
    #[serde(default = "class_kind")]
    pub kind: String,
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The driver that takes them.
    #[serde(default)]
    pub driver: String,
    /// What the driver is told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// `Delete`, or `Retain`: whether what is on the storage goes with its object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
}

fn class_version() -> String {
    VolumeSnapshotClass::api_version(&()).into_owned()
}

fn class_kind() -> String {
    VolumeSnapshotClass::kind(&()).into_owned()
}

impl Resource for VolumeSnapshotClass {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "VolumeSnapshotClass".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "volumesnapshotclasses".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl VolumeSnapshotClass {
    /// Whether it is annotated as its driver's default.
    pub fn is_default(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get(IS_DEFAULT_CLASS))
            .is_some_and(|it| it == "true")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_says_its_driver_and_whether_it_is_the_default() {
        let read = |value| serde_json::from_value::<VolumeSnapshotClass>(value).unwrap();
        let class = read(json!({
            "metadata": {"name": "snaps", "annotations": {IS_DEFAULT_CLASS: "true"}},
            "driver": "driver.longhorn.io", "parameters": {"type": "snap"},
        }));
        assert_eq!(
            (class.is_default(), &*class.driver),
            (true, "driver.longhorn.io")
        );
        assert_eq!(class.api_version, "snapshot.storage.k8s.io/v1");
        // A later version may have a class that says less.
        assert!(!read(json!({"metadata": {"name": "odd"}})).is_default());
    }
}

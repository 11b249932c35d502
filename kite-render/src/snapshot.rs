//! What a snapshot of a VM's disk is taken by.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use kite_core::{
    crd::{Consistency, SnapshotSource},
    labels, names,
    quantity::Bytes,
    volume_snapshot::{VolumeSnapshot, VolumeSnapshotSource, VolumeSnapshotSpec},
};
use serde::{Deserialize, Serialize};

use crate::Snapshot;

/// The machine as it was when storage was asked to cut, and what of it: beside the data it
/// outlives the status of the `KiteSnapshot`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    /// resourceVersion of the `VirtualMachine`.
    pub machine: String,
    /// Uid of the instance that was seen frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<String>,
    /// Whether nothing ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_off: bool,
    /// What it is taken of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SnapshotSource>,
    /// Size of the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
}

/// The request to storage to cut the `claim` by the class of this name. Its spec is
/// immutable.
pub fn volume_snapshot(
    snapshot: &Snapshot<'_>,
    claim: &str,
    class: &str,
    before: &Before,
) -> VolumeSnapshot {
    let mut metadata = snapshot.metadata(snapshot.name.to_owned());
    let before = serde_json::json!(before).to_string();
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(labels::TAKEN_OF.to_owned(), before);
    VolumeSnapshot {
        metadata,
        spec: VolumeSnapshotSpec {
            volume_snapshot_class_name: Some(class.to_owned()),
            source: VolumeSnapshotSource {
                persistent_volume_claim_name: Some(claim.to_owned()),
            },
        },
        status: None,
    }
}

/// What stands on such a request; none where somebody has taken it away or changed it.
pub fn before(taken: &VolumeSnapshot) -> Option<Before> {
    let annotations = taken.metadata.annotations.as_ref()?;
    serde_json::from_str(annotations.get(labels::TAKEN_OF)?).ok()
}

/// How consistent a snapshot was found to be, as stands on the request.
pub fn consistency(taken: &VolumeSnapshot) -> Option<Consistency> {
    let annotations = taken.metadata.annotations.as_ref()?;
    Consistency::of(annotations.get(labels::CONSISTENCY)?)
}

/// The Lease of the snapshot that alone may have the guest of `vm` frozen, from `since` on.
pub fn freeze_lease(snapshot: &Snapshot<'_>, vm: &str, since: &Time) -> Lease {
    Lease {
        metadata: snapshot.metadata(names::freeze_lease(vm)),
        spec: Some(LeaseSpec {
            holder_identity: Some(snapshot.uid.to_owned()),
            acquire_time: Some(MicroTime(since.0)),
            ..LeaseSpec::default()
        }),
    }
}

//! `KiteSnapshot`: a VM's root disk as it was at one moment.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    OsFamily,
    salvage::salvaged,
    unread_status::{self, UnreadStatus, salvaged_status},
};
use crate::quantity::Bytes;

/// Of which VM a snapshot is taken, and how long it is kept.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteSnapshot",
    plural = "kitesnapshots",
    shortname = "ksnap",
    category = "kite",
    namespaced,
    status = "KiteSnapshotStatus",
    derive = "PartialEq",
    doc = "A VM's root disk as it was at one moment.",
    printcolumn(name = "VM", type_ = "string", json_path = ".spec.vm"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Consistency", type_ = "string", json_path = ".status.consistency"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.size"),
    printcolumn(name = "Taken", type_ = "date", json_path = ".status.takenAt"),
    printcolumn(name = "Protected", type_ = "boolean", json_path = ".spec.protected", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must be at most 63 characters"),
)]
#[x_kube(validation = Rule::new("has(self.vmUid) == has(oldSelf.vmUid) && (!has(self.vmUid) || self.vmUid == oldSelf.vmUid)").message("vmUid cannot be changed: create another snapshot"))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KiteSnapshotSpec {
    /// Name of the `KiteVirtualMachine`, in the snapshot's namespace. Cannot be changed.
    #[schemars(
        length(min = 1, max = 52),
        regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    )]
    #[x_kube(validation = Rule::new("self == oldSelf").message("vm cannot be changed: create another snapshot"))]
    pub vm: String,
    /// Uid of the VM that is meant, where another one of the name will not do. Cannot be
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub vm_uid: Option<String>,
    /// Whether the guest's file systems are to be at rest. Cannot be changed.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("quiesce cannot be changed: create another snapshot"))]
    pub quiesce: Quiesce,
    /// Kept until then, whatever becomes of its VM, and deleted after that. Without it the
    /// snapshot is kept for as long as its VM.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("keepUntil must be before the year 9000: set protected if the snapshot is to be kept"))]
    pub keep_until: Option<Time>,
    /// Kept whatever becomes of its VM, after `keepUntil`, too, and when it is deleted: its
    /// data goes once this is false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// What its owner says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Which fields of what is stored cannot be read, and why: what is here in their
    /// place is a stand-in. Never written.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

salvaged!(
    KiteSnapshotSpec,
    required: { "vm": "unreadable" },
    // How long it is to be kept cannot be read: nothing goes for that.
    strict: { "protected": true, "keepUntil": "8999-01-01T00:00:00Z", "vmUid": "unreadable" }
);

/// Whether the guest's file systems are to be at rest in a snapshot.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Quiesce {
    /// If the guest can be frozen; else it is as after a power failure.
    #[default]
    IfPossible,
    /// There is no snapshot else.
    Required,
    /// The guest is left alone.
    No,
}

/// Observed state of a snapshot.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(rename = "KiteSnapshotStatus")]
pub struct KiteSnapshotStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<SnapshotPhase>,
    /// The moment that it shows, as storage says.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub taken_at: Option<Time>,
    /// How consistent it is. Once this is told, all of the data is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<Consistency>,
    /// Uid of the `VolumeSnapshot` that this is told of: another one of the name shows another
    /// day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_uid: Option<String>,
    /// Why it is no more consistent than that, where it is as after a power failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency_note: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<SnapshotFailure>,
    /// Size of the disk that it is of, with which its owner is charged as long as there may
    /// be data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Whether it has been given room in its owner's quota. With a size and without this it is
    /// asking for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub granted: bool,
    /// The least size of a disk that is made from it, once storage has said that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<String>,
    /// What it was taken of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SnapshotSource>,
    /// Set while the guest is or may be frozen for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<FreezeStatus>,
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(deserialize_with = "crate::time::conditions")]
    pub conditions: Vec<Condition>,
    /// What of it cannot be read, and counts as absent. Never written, but for the fields
    /// that nothing else tells.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadStatus>>,
}

salvaged_status!(
    KiteSnapshotStatus,
    kept: ["consistency", "volumeSnapshotUid", "failure", "size", "source", "freeze"]
);

/// What a snapshot was taken of, as it was then.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSource {
    /// Uid of the VM.
    pub vm_uid: String,
    /// Name of the disk's claim.
    pub claim: String,
    /// Uid of the disk's claim.
    pub claim_uid: String,
    /// The disk's `StorageClass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Whether the data is there when the disk is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outlives_disk: bool,
    /// The VM's image.
    pub image: String,
    /// The VM's CPUs.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub cpu: u32,
    /// The VM's memory.
    pub memory: Bytes,
    /// The family of the guest.
    #[serde(default)]
    pub os_family: OsFamily,
}

/// That a guest is or may be frozen.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FreezeStatus {
    /// Uid of the `VirtualMachineInstance`.
    pub instance_uid: String,
    /// Since when at the earliest.
    #[serde(deserialize_with = "crate::time::required")]
    pub since: Time,
}

/// Why there is no snapshot.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFailure {
    /// One word for programs, such as `QuotaExceeded`.
    pub reason: String,
    /// A sentence for people, with the remedy.
    pub message: String,
}

/// How consistent a snapshot is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// The VM was off.
    Offline,
    /// The guest's file systems were at rest.
    Quiesced,
    /// As after a power failure.
    CrashConsistent,
}

impl Consistency {
    /// As it is spelled in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Offline => "Offline",
            Self::Quiesced => "Quiesced",
            Self::CrashConsistent => "CrashConsistent",
        }
    }

    /// That which is spelled so.
    pub fn of(text: &str) -> Option<Self> {
        let all = [Self::Offline, Self::Quiesced, Self::CrashConsistent];
        all.into_iter().find(|it| it.as_str() == text)
    }
}

/// How far a snapshot is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotPhase {
    /// Something is waited for before it is taken.
    Pending,
    /// The guest's file systems are being brought to rest.
    Freezing,
    /// Storage has been asked for it.
    Cutting,
    /// It is taken, and storage does not say yet that disks can be made from it.
    Completing,
    /// Disks can be made from it.
    Ready,
    /// It was taken, and its data is gone.
    Lost,
    /// There is none.
    Failed,
    /// It is being removed.
    Deleting,
}

impl KiteSnapshot {
    /// What cannot be read of the snapshot: of its spec, and of what only its status tells.
    /// Until that is mended nothing is done with it.
    pub fn unreadable(&self) -> Option<Cow<'_, str>> {
        let status = self.status.as_ref();
        let status = status.and_then(|it| it.unreadable.as_deref());
        unread_status::unreadable(self.spec.unreadable.as_deref(), status)
    }

    /// Whether it is to be kept at `now` whatever becomes of its VM.
    pub fn is_kept(&self, now: jiff::Timestamp) -> bool {
        let until = self.spec.keep_until.as_ref();
        self.spec.protected || until.is_some_and(|it| it.0 > now)
    }

    /// Bytes with which its owner is charged. Of one that has failed there are none.
    pub fn charge(&self) -> u64 {
        let status = self.status.as_ref();
        let charged = status.filter(|it| it.failure.is_none());
        charged
            .and_then(|it| it.size.as_ref())
            .map_or(0, Bytes::bytes)
    }
}

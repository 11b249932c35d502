//! `KiteVolume`: a disk apart from VMs, which it outlives.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    salvage::salvaged,
    unread_status::{self, UnreadStatus, salvaged_status},
};
use crate::quantity::Bytes;

/// How large a volume is to be.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteVolume",
    plural = "kitevolumes",
    shortname = "kvol",
    category = "kite",
    namespaced,
    status = "KiteVolumeStatus",
    derive = "PartialEq",
    doc = "A disk apart from VMs, which it outlives: a VM has it by its spec.volumes.",
    printcolumn(name = "Size", type_ = "string", json_path = ".spec.size"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "VM", type_ = "string", json_path = ".status.attachedTo.vm"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", priority = 1, json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Serial", type_ = "string", priority = 1, json_path = ".status.serial"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("!isQuantity(self.spec.size) || !isQuantity(oldSelf.spec.size) || quantity(self.spec.size).compareTo(quantity(oldSelf.spec.size)) >= 0 || !has(self.status) || !has(self.status.disk) || (has(self.status.disk.size) && quantity(self.spec.size).compareTo(quantity(self.status.disk.size)) >= 0)").message("size can only grow: a smaller volume would lose data; what it has not grown by yet can be taken back, down to status.disk.size").field_path(".spec.size"),
    validation = Rule::new("size(self.metadata.name) <= 52 && !self.metadata.name.contains('.')").message("metadata.name must be at most 52 characters without dots: the volume's claim and the VM's disk are named after it"),
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KiteVolumeSpec {
    /// Its size, at least 1Gi. It can grow and never shrinks; what it has not grown by yet can
    /// be taken back.
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('1Gi')) >= 0").message("size must be at least 1Gi"))]
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('1024Ti')) <= 0").message("size must be at most 1024Ti"))]
    pub size: Bytes,
    /// What its owner says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// What becomes of it when its owner's account is deleted; it goes with the account unless
    /// this is set.
    #[serde(default, skip_serializing_if = "OnAccountDeletion::is_delete")]
    pub on_account_deletion: OnAccountDeletion,
    /// Which fields of what is stored cannot be read, and why: what is here in their
    /// place is a stand-in. Never written.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

salvaged!(
    KiteVolumeSpec,
    required: { "size": "1Gi" },
    // Whether it is to be kept cannot be read: it does not go for that.
    strict: { "onAccountDeletion": "Keep" }
);

/// What becomes of a volume when its owner's account is deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnAccountDeletion {
    /// It goes with the account, and its data with it.
    #[default]
    Delete,
    /// It stays, and the account's name and namespace with it, until an administrator has
    /// deleted it.
    Keep,
}

impl OnAccountDeletion {
    /// What goes without saying: definitions of before there was the field do not know it.
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands on a reference"
    )]
    fn is_delete(&self) -> bool {
        *self == Self::Delete
    }
}

impl KiteVolumeSpec {
    /// A volume of this size.
    pub fn new(size: Bytes) -> Self {
        Self {
            size,
            description: None,
            on_account_deletion: OnAccountDeletion::default(),
            unreadable: None,
        }
    }
}

/// Observed state of a volume.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(rename = "KiteVolumeStatus")]
pub struct KiteVolumeStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the volume is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<VolumePhase>,
    /// What holds its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<VolumeDisk>,
    /// What the volume has been granted of its owner's quota, and is charged with. Absent for
    /// a volume that is no user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Bytes>,
    /// What it is about to be granted. It is charged with that, too: what is said here can be
    /// seen by the user's other volumes before it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asking: Option<Bytes>,
    /// The VM that has it: no other gets it until that one has let go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached_to: Option<AttachedTo>,
    /// By what the guest knows the disk: it is `/dev/disk/by-id/virtio-<serial>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
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

salvaged_status!(KiteVolumeStatus, kept: ["disk", "granted", "asking"]);

/// What holds a volume's data.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeDisk {
    /// Name of the `DataVolume` and its PVC.
    pub name: String,
    /// Uid of the PVC, once there was one: without it the data is gone, and no other takes
    /// its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_uid: Option<String>,
    /// The size that it was made with, or has been made to grow to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// What the file system of its PVC takes of that, such as `0.055`, once that is known; 0
    /// for a block volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_overhead: Option<String>,
}

/// The VM that has a volume.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AttachedTo {
    /// Its name, in the volume's namespace.
    pub vm: String,
    /// Its uid.
    pub uid: String,
}

/// Where a volume is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VolumePhase {
    /// Something is waited for before it is made.
    Pending,
    /// It is being made.
    Provisioning,
    /// No VM has it.
    Available,
    /// A VM has it.
    Attached,
    /// Its data is gone.
    Lost,
    /// Something needs a person; the condition says what.
    Failed,
    /// It is being removed.
    Deleting,
}

impl KiteVolume {
    /// What cannot be read of the volume: of its spec, and of what only its status tells.
    /// Until that is mended nothing is made of it.
    pub fn unreadable(&self) -> Option<Cow<'_, str>> {
        let status = self.status.as_ref();
        let status = status.and_then(|it| it.unreadable.as_deref());
        unread_status::unreadable(self.spec.unreadable.as_deref(), status)
    }

    /// Whether it stays when its owner's account is deleted.
    pub fn outlives_account(&self) -> bool {
        self.spec.on_account_deletion == OnAccountDeletion::Keep
            && self.metadata.deletion_timestamp.is_none()
    }

    /// Bytes that it has been granted of its owner's quota.
    pub fn granted(&self) -> u64 {
        let status = self.status.as_ref();
        let granted = status.and_then(|it| it.granted.as_ref());
        granted.map_or(0, Bytes::bytes)
    }

    /// Bytes with which its owner is charged: what it has, or is about to have.
    pub fn charge(&self) -> u64 {
        let status = self.status.as_ref();
        let asking = status.and_then(|it| it.asking.as_ref());
        self.granted().max(asking.map_or(0, Bytes::bytes))
    }
}

/// A volume that a VM has.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeAttachment {
    /// Name of a `KiteVolume` in the VM's namespace. One VM at a time has it.
    #[schemars(
        length(min = 1, max = 52),
        regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    )]
    pub volume: String,
    /// Where the guest mounts it, such as `/data`. A volume on which there is nothing at all is
    /// formatted before, with ext4; on any other nothing is changed. Without this the guest has
    /// a disk to do with as it likes. Not for Windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 255), regex(pattern = r"^(/[A-Za-z0-9._-]+)+$"))]
    #[x_kube(validation = Rule::new(r"!self.matches('/[.][.]?(/|$)')").message("path must not have . or .. as a part"))]
    #[x_kube(validation = Rule::new("!self.matches('^/(bin|boot|dev|efi|etc|home|lib|lib32|lib64|libexec|libx32|nix|ostree|proc|root|run|sbin|snap|sys|sysroot|tmp|usr)(/|$)') && !self.matches('^/var(/(backups|cache|db|empty|home|lock|log|mail|roothome|run|spool|tmp)(/.*)?)?$') && !self.matches('^/var/lib(/(apt|cloud|dbus|dhcp|dpkg|NetworkManager|pacman|private|rpm|sss|systemd)(/.*)?)?$')").message("path must not hide what the guest needs to run or to let you in, nor be in somebody's home directory: choose another, such as /data or /srv/data"))]
    pub path: Option<String>,
}

//! `KiteUser`: an account and the namespace that belongs to it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Identity,
    salvage::salvaged,
    unread_status::{UnreadStatus, salvaged_status},
};
use crate::{names, password::PasswordHash, quantity::Bytes};

/// Desired state of a user.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteUser",
    plural = "kiteusers",
    shortname = "ku",
    category = "kite",
    status = "KiteUserStatus",
    derive = "PartialEq",
    doc = "An account of Kite and the namespace that belongs to it.",
    printcolumn(name = "Username", type_ = "string", json_path = ".spec.username"),
    printcolumn(name = "Access", type_ = "string", json_path = ".spec.accessLevel"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".status.namespace"),
    printcolumn(name = "VMs", type_ = "integer", json_path = ".status.usage.vms"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 53 && !self.metadata.name.contains('.')").message("metadata.name must be at most 53 characters without dots: it names the user's namespace"),
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KiteUserSpec {
    /// The name with which the user signs in. Cannot be changed.
    #[schemars(length(min = 2, max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')").message("username must be lower-case letters, digits and hyphens, begin with a letter and not end with a hyphen"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("username cannot be changed: create another user"))]
    pub username: String,
    /// The user's email address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 254))]
    #[x_kube(validation = Rule::new(r"self.matches('^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$')").message("email must be an address such as ann@example.org"))]
    pub email: Option<String>,
    /// Name of the `KitePassword` that signs the user in. Set by the API; without it, and
    /// without `passwordHash`, the user cannot sign in with a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9a-f]{32}$"))]
    pub credential: Option<String>,
    /// Hash of a new password (PHC string: argon2id, or bcrypt), for who sets one without
    /// the API: it counts from now on, and the API soon puts it out of sight, into a
    /// `KitePassword` that `credential` names, and takes this field away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<PasswordHash>,
    /// Who the user is at OpenID Connect providers: whoever is one of them there
    /// may sign in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuer", "subject"]))]
    pub identities: Vec<Identity>,
    /// What the user may do.
    #[serde(default)]
    pub access_level: AccessLevel,
    /// Public keys that open every VM of the user at the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::public_keys_schema")]
    pub ssh_public_keys: Vec<String>,
    /// What the user may use at most; the default follows the access level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// Refuses sign-in and keeps all of the user's VMs off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// API tokens name the epoch in which they were made; any other number ends
    /// them all, at once and everywhere.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    #[schemars(range(min = 0))]
    pub token_epoch: i64,
    /// Which fields of what is stored cannot be read, and why: what is here in their
    /// place is a stand-in. Never written.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

salvaged!(
    KiteUserSpec,
    required: { "username": "kite-unreadable" },
    strict: { "suspended": true, "accessLevel": "ReadOnly" }
);

/// Why an account that is deleted is not gone (`Ready=False`): volumes of it outlive it.
pub const VOLUMES_KEPT: &str = "VolumesKept";

impl KiteUserSpec {
    /// A user with the default access level and no way to sign in yet.
    pub fn new(username: impl Into<String>) -> Self {
        Self {
            username: username.into(),
            email: None,
            credential: None,
            password_hash: None,
            identities: Vec::new(),
            access_level: AccessLevel::default(),
            ssh_public_keys: Vec::new(),
            quota: None,
            suspended: false,
            token_epoch: 0,
            unreadable: None,
        }
    }

    /// Whether the user has a password, for all that the account says: the one that it
    /// names may be lost.
    pub fn has_password(&self) -> bool {
        self.credential.is_some() || self.password_hash.is_some()
    }

    /// Which password it is that signs the user in: a session tells by it whether it
    /// began with that one. A hash that is here is the newer word.
    pub fn credential(&self) -> Option<Cow<'_, str>> {
        match &self.password_hash {
            Some(hash) => Some(Cow::Owned(names::credential(hash))),
            None => self.credential.as_deref().map(Cow::Borrowed),
        }
    }

    /// Whether somebody can sign in to it, and is an administrator then. Where that is
    /// grave, it is looked whether the password is there.
    pub fn can_administrate(&self) -> bool {
        let can_sign_in = self.has_password() || !self.identities.is_empty();
        self.access_level == AccessLevel::Admin && self.may_come_in() && can_sign_in
    }

    /// Whether the user is let in: not while suspended, nor while nobody can say what
    /// the account is.
    pub fn may_come_in(&self) -> bool {
        !self.suspended && self.unreadable.is_none()
    }

    /// The quota that holds: the spec's, or the access level's.
    pub fn effective_quota(&self) -> Quota {
        self.quota
            .clone()
            .unwrap_or_else(|| self.access_level.default_quota())
    }
}

/// What a user may do. The order is that of power.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
)]
pub enum AccessLevel {
    /// May look at their own VMs.
    ReadOnly,
    /// May have VMs of their own.
    #[default]
    User,
    /// May also see and manage other users' VMs.
    Manager,
    /// May do everything.
    Admin,
}

/// Most that a user may use.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// Number of VMs.
    #[schemars(range(min = 0, max = 10_000))]
    pub vms: u32,
    /// Number of virtual CPUs of all VMs together.
    #[schemars(range(min = 0, max = 100_000))]
    pub cpu: u32,
    /// Memory of all VMs together.
    pub memory: Bytes,
    /// Size of the root disks of all VMs together.
    pub disk: Bytes,
    /// Number of snapshots; four for each VM if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub snapshots: Option<u32>,
    /// Size of all snapshots together, each with that of the disk that it is of; as much as
    /// `disk` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_disk: Option<Bytes>,
    /// Number of volumes; two for each VM if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub volumes: Option<u32>,
    /// Size of all volumes together; as much as `disk` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_disk: Option<Bytes>,
}

/// Snapshots for each VM where a quota does not say how many.
const SNAPSHOTS_PER_VM: u32 = 4;

/// Volumes for each VM, likewise.
const VOLUMES_PER_VM: u32 = 2;

impl Quota {
    /// A quota of VMs, with as many snapshots and volumes as go with it.
    pub const fn new(vms: u32, cpu: u32, memory: Bytes, disk: Bytes) -> Self {
        Self {
            vms,
            cpu,
            memory,
            disk,
            snapshots: None,
            snapshot_disk: None,
            volumes: None,
            volume_disk: None,
        }
    }

    /// How many snapshots there may be.
    pub fn most_snapshots(&self) -> u32 {
        let most = self.vms.saturating_mul(SNAPSHOTS_PER_VM);
        self.snapshots.unwrap_or(most)
    }

    /// How large all snapshots may be together.
    pub fn snapshot_disk(&self) -> &Bytes {
        self.snapshot_disk.as_ref().unwrap_or(&self.disk)
    }

    /// How many volumes there may be.
    pub fn most_volumes(&self) -> u32 {
        let most = self.vms.saturating_mul(VOLUMES_PER_VM);
        self.volumes.unwrap_or(most)
    }

    /// How large all volumes may be together.
    pub fn volume_disk(&self) -> &Bytes {
        self.volume_disk.as_ref().unwrap_or(&self.disk)
    }
}

/// Observed state of a user.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(rename = "KiteUserStatus")]
pub struct KiteUserStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summary of the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<UserPhase>,
    /// The user's namespace, once it is there with its network policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What the user's VMs use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// `Ready`, `NamespaceReady`, `Reserved`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(deserialize_with = "crate::time::conditions")]
    pub conditions: Vec<Condition>,
    /// What of it cannot be read, and counts as absent. Never written, but for the fields
    /// that nothing else tells.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadStatus>>,
}

salvaged_status!(KiteUserStatus, kept: []);

/// What a user's VMs take together, whether on or off: what they have, and what they
/// ask for as long as that is not refused.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of VMs.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub vms: u32,
    /// Virtual CPUs.
    #[schemars(range(max = 4_294_967_295_u32))]
    pub cpu: u32,
    /// Memory in bytes.
    pub memory: i64,
    /// Disk in bytes.
    pub disk: i64,
}

/// Where a user is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserPhase {
    /// The namespace is being made.
    Pending,
    /// The user can have VMs.
    Ready,
    /// Suspended by an administrator.
    Suspended,
    /// VMs and namespace are being removed.
    Deleting,
    /// Something needs a person; the conditions say what.
    Failed,
}

impl AccessLevel {
    /// Quota of users whose spec names none.
    pub fn default_quota(self) -> Quota {
        let (vms, cpu, memory_gi, disk_gi) = match self {
            Self::ReadOnly => (0, 0, 1, 1),
            Self::User => (5, 8, 16, 200),
            Self::Manager => (20, 32, 64, 1000),
            Self::Admin => (100, 128, 512, 10_000),
        };
        let [memory, disk] = [memory_gi, disk_gi].map(Bytes::from_gib);
        Quota::new(vms, cpu, memory, disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_newer_word() {
        let mut spec = KiteUserSpec::new("ann");
        assert!(!spec.has_password());
        assert_eq!(spec.credential(), None);
        spec.credential = Some("0".repeat(32));
        assert!(spec.has_password());
        assert_eq!(spec.credential(), Some("0".repeat(32).into()));
        let hash = PasswordHash::from_phc("$2b$04$x");
        spec.password_hash = Some(hash.clone());
        assert_eq!(spec.credential(), Some(names::credential(&hash).into()));
        spec.credential = None;
        assert!(spec.has_password());
    }
}

//! `KiteVirtualMachine`: a VM as its owner asks for it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ScheduleStatus, SnapshotSchedule, VolumeAttachment,
    salvage::salvaged,
    unread_status::{self, UnreadStatus, salvaged_status},
};
use crate::{password::PasswordHash, quantity::Bytes, span::Span};

/// Desired state of a VM.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteVirtualMachine",
    plural = "kitevirtualmachines",
    shortname = "ktvm",
    category = "kite",
    namespaced,
    status = "KiteVirtualMachineStatus",
    derive = "PartialEq",
    doc = "A virtual machine of a user, reached with `ssh <sshId>@gateway`.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Power", type_ = "string", json_path = ".spec.powerState"),
    printcolumn(name = "CPU", type_ = "integer", json_path = ".spec.cpu"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".spec.memory"),
    printcolumn(name = "Disk", type_ = "string", json_path = ".spec.disk"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "SSH", type_ = "string", json_path = ".spec.sshId"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", priority = 1, json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "IP", type_ = "string", priority = 1, json_path = ".status.ipAddress"),
    printcolumn(name = "Node", type_ = "string", priority = 1, json_path = ".status.nodeName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    selectable = ".spec.sshId",
    validation = Rule::new("!isQuantity(self.spec.disk) || !isQuantity(oldSelf.spec.disk) || quantity(self.spec.disk).compareTo(quantity(oldSelf.spec.disk)) >= 0 || !has(self.status) || !has(self.status.disk) || (has(self.status.disk.size) && quantity(self.spec.disk).compareTo(quantity(self.status.disk.size)) >= 0)").message("disk can only grow: a smaller disk would lose data; what it has not grown by yet can be taken back, down to status.disk.size").field_path(".spec.disk"),
    validation = Rule::new("size(self.metadata.name) <= 52 && !self.metadata.name.contains('.')").message("metadata.name must be at most 52 characters without dots: Services and the guest's hostname are named after it"),
)]
#[x_kube(validation = Rule::new("has(self.offer) == has(oldSelf.offer) && (!has(self.offer) || self.offer == oldSelf.offer)").message("offer cannot be changed: create another VM"))]
#[x_kube(validation = Rule::new("has(self.fromSnapshot) == has(oldSelf.fromSnapshot) && (!has(self.fromSnapshot) || self.fromSnapshot == oldSelf.fromSnapshot)").message("fromSnapshot cannot be changed: the disk is already made from it; create another VM"))]
#[x_kube(validation = Rule::new("!has(self.offer) || !has(self.fromSnapshot)").message("fromSnapshot cannot be set for a VM from an offer, which has the image that was offered: leave it out"))]
#[x_kube(validation = Rule::new("!has(self.offer) || (self.cpu == oldSelf.cpu && self.memory == oldSelf.memory && self.disk == oldSelf.disk)").message("cpu, memory and disk of a VM from an offer are what was offered and cannot be changed: create another VM"))]
#[x_kube(validation = Rule::new("!has(self.offer) || !has(oldSelf.expiresAt) || (has(self.expiresAt) && self.expiresAt <= oldSelf.expiresAt)").message("expiresAt of a VM from an offer can only be set to an earlier time: ask an administrator for another offer"))]
#[x_kube(validation = Rule::new("!has(self.offer) || !has(self.expiryGracePeriod) || duration(self.expiryGracePeriod) <= duration('72h')").message("expiryGracePeriod of a VM from an offer must be at most 72h: an offer lasts as long as it says"))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KiteVirtualMachineSpec {
    /// Number of virtual CPUs.
    #[schemars(range(min = 1, max = 256))]
    pub cpu: u32,
    /// Memory, at least 64Mi.
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('64Mi')) >= 0").message("memory must be at least 64Mi"))]
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('1024Ti')) <= 0").message("memory must be at most 1024Ti"))]
    pub memory: Bytes,
    /// Size of the root disk, at least 1Gi and at least the image's. It can
    /// grow and never shrinks; what it has not grown by yet can be taken back.
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('1Gi')) >= 0").message("disk must be at least 1Gi"))]
    #[x_kube(validation = Rule::new("!isQuantity(self) || quantity(self).compareTo(quantity('1024Ti')) <= 0").message("disk must be at most 1024Ti"))]
    pub disk: Bytes,
    /// Name of the `KiteImage` that the disk is cloned from. Cannot be changed.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    #[x_kube(validation = Rule::new("self == oldSelf").message("image cannot be changed: the disk is already made from it; create another VM"))]
    pub image: String,
    /// Whether the VM is to run.
    #[serde(default)]
    pub power_state: PowerState,
    /// When the VM was last asked to restart, in RFC 3339, such as
    /// `2026-05-04T08:00:00Z`. Any change of it restarts the VM once if it runs;
    /// for a VM that is off there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub restarted_at: Option<String>,
    /// Login name at the gateway and of the user in the guest; unique in the
    /// platform. Cannot be changed.
    #[schemars(length(min = 2, max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z][a-z0-9-]*[a-z0-9]$')").message("sshId must be lower-case letters, digits and hyphens, begin with a letter and not end with a hyphen, such as my-web"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("sshId cannot be changed: it is the user's name in the guest; create another VM"))]
    #[x_kube(validation = Rule::new("!(self in ['root', 'daemon', 'bin', 'sys', 'sync', 'games', 'man', 'lp', 'mail', 'news', 'uucp', 'proxy', 'www-data', 'backup', 'list', 'irc', 'nobody', 'sshd', 'systemd-network', 'systemd-resolve', 'messagebus', 'admin', 'sudo', 'adm', 'tty', 'disk', 'wheel', 'users', 'operator', 'halt', 'shutdown', 'ftp', 'dbus', 'polkitd', 'kvm', 'docker'])").message("sshId is the name of a system account: choose another"))]
    pub ssh_id: String,
    /// Hash of the password for the gateway (PHC string: argon2id, or bcrypt).
    /// Without one only public keys log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_password_hash: Option<PasswordHash>,
    /// Public keys that log in at the gateway, beside the owner's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::public_keys_schema")]
    pub ssh_public_keys: Vec<String>,
    /// Label below the platform's base domain at which port 80 is reachable;
    /// unique in the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')").message("domainPrefix must be lower-case letters, digits and hyphens, and neither begin nor end with a hyphen, such as my-web"))]
    pub domain_prefix: Option<String>,
    /// When the VM expires: it is switched off then, and deleted with its disk
    /// when `expiryGracePeriod` is over, too. Whoever moves this into the future
    /// before that keeps the VM. Without it the VM does not expire.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("expiresAt must be before the year 9000: leave it out if the VM is not to expire"))]
    pub expires_at: Option<Time>,
    /// How long the VM is kept, switched off, once it has expired: a span such
    /// as `72h`, at most a year; `72h` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) <= duration('8784h')").message("expiryGracePeriod must be at most 8784h (a year)"))]
    pub expiry_grace_period: Option<Span>,
    /// The VM is switched off when nobody has had a session on it for this long:
    /// a span such as `2h`, from 10m to a year. Without it the VM runs on. A
    /// login starts it again, and so does any edit of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('10m') && duration(self) <= duration('8784h')").message("idleTimeout must be from 10m to 8784h (a year), such as 2h"))]
    pub idle_timeout: Option<Span>,
    /// A login starts the VM when it is switched off, by setting `powerState` to
    /// `On`, and waits until it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub start_on_connect: bool,
    /// What a login takes: a key or a password, or a key and then a password.
    #[serde(default, skip_serializing_if = "SshLogin::is_default")]
    pub ssh_login: SshLogin,
    /// Name of the `KiteVirtualMachineOffer` that the VM is made from: it gets
    /// nothing until it has claimed the offer, and has to be what is offered.
    /// Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    )]
    pub offer: Option<String>,
    /// Name of a `KiteSnapshot` in the VM's namespace that the disk is copied from, instead of
    /// its image: of any VM, also of one that is gone. `image` must be that VM's, and `disk` at
    /// least as large as its. The guest takes itself for a new one: it gets keys, a host name
    /// and a machine-id of its own, and the account `sshId`; all else is as in the snapshot.
    /// Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    )]
    pub from_snapshot: Option<String>,
    /// Has the disk be made anew from a snapshot, or the one before put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("has(self.snapshot) != has(self.disk)").message("restore must name either a snapshot or a former disk: set the other one to null"))]
    #[x_kube(validation = Rule::new("self.at > oldSelf.at || (self.at == oldSelf.at && has(self.snapshot) == has(oldSelf.snapshot) && (!has(self.snapshot) || self.snapshot == oldSelf.snapshot) && has(self.disk) == has(oldSelf.disk) && (!has(self.disk) || self.disk == oldSelf.disk))").message("restore.at must be later than before for another restore: set it to the present time"))]
    pub restore: Option<Box<RestoreRequest>>,
    /// Has snapshots be taken by a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<Box<SnapshotSchedule>>,
    /// Volumes that the VM has beside its root disk, from its next start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = VOLUMES_MAX), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["volume"]))]
    #[x_kube(validation = Rule::new("self.all(a, !has(a.path) || self.exists_one(b, has(b.path) && b.path == a.path))").message("volumes must not have one path twice: choose another"))]
    pub volumes: Vec<VolumeAttachment>,
    /// Which fields of what is stored cannot be read, and why: what is here in their
    /// place is a stand-in. Never written.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

salvaged!(
    KiteVirtualMachineSpec,
    required: {
        "cpu": 1, "memory": "64Mi", "disk": "1Gi", "image": "unreadable", "sshId": "kite-unreadable"
    },
    // An end that cannot be read is none, so that nobody's data goes for it: the VM stays
    // as it is, and says so.
    strict: { "sshLogin": "KeyAndPassword" }
);

/// How many volumes a VM may have.
pub const VOLUMES_MAX: usize = 8;

/// How long an expired VM is kept when its spec does not say.
pub const EXPIRY_GRACE_PERIOD: std::time::Duration = std::time::Duration::from_secs(72 * 3600);

impl KiteVirtualMachineSpec {
    /// A VM that is to run, with nothing but what it needs. Who has no login names to give
    /// takes [`unique_ssh_id`](crate::names::unique_ssh_id) for `ssh_id`.
    pub fn new(
        cpu: u32,
        memory: Bytes,
        disk: Bytes,
        image: impl Into<String>,
        ssh_id: impl Into<String>,
    ) -> Self {
        Self {
            cpu,
            memory,
            disk,
            image: image.into(),
            power_state: PowerState::On,
            restarted_at: None,
            ssh_id: ssh_id.into(),
            ssh_password_hash: None,
            ssh_public_keys: Vec::new(),
            domain_prefix: None,
            expires_at: None,
            expiry_grace_period: None,
            idle_timeout: None,
            start_on_connect: false,
            ssh_login: SshLogin::default(),
            offer: None,
            from_snapshot: None,
            restore: None,
            snapshots: None,
            volumes: Vec::new(),
            unreadable: None,
        }
    }
}

/// For how long a VM's former disk is kept when its spec does not say.
pub const KEEP_FORMER_DISK: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// What a VM's disk is to be made from anew, once.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RestoreRequest {
    /// Name of a `KiteSnapshot` of this VM. The disk is copied from it while the VM runs on,
    /// and the VM is restarted on the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub snapshot: Option<String>,
    /// Name of a former disk, out of `status.formerDisks`, to take a restore back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub disk: Option<String>,
    /// When it is asked for, in RFC 3339, such as `2026-05-04T08:00:00Z`: the present time. Each
    /// later time is another request, which is carried out once; one of the future is carried
    /// out when that has come.
    #[serde(deserialize_with = "crate::time::required")]
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("restore.at must be before the year 9000: set it to the present time"))]
    pub at: Time,
    /// For how long the disk that was the VM's before is kept from when the VM is given the new
    /// one: a span such as `2h`, from 10m to a year; `24h` if not given. The restore can be
    /// taken back for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('10m') && duration(self) <= duration('8784h')").message("restore.keep must be from 10m to 8784h (a year), such as 24h"))]
    pub keep: Option<Span>,
}

/// What a login to a VM takes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SshLogin {
    /// One of the public keys, or the password.
    #[default]
    KeyOrPassword,
    /// One of the public keys, and then the password. Without a password nobody
    /// logs in.
    KeyAndPassword,
}

impl SshLogin {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands a reference to it"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a VM runs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PowerState {
    /// It runs.
    #[default]
    On,
    /// It is shut down; the disk stays.
    Off,
}

/// Observed state of a VM.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(rename = "KiteVirtualMachineStatus")]
pub struct KiteVirtualMachineStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the VM is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<VmPhase>,
    /// Whether the VM is running now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// The node on which it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Its address in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// Its root disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskStatus>,
    /// Disks that were the VM's before a restore, and are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_disks: Vec<FormerDisk>,
    /// What the VM has been granted of its owner's quota, and is charged with. It
    /// keeps that though the quota becomes smaller. Absent for a VM that is no
    /// user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<VmSize>,
    /// What the VM is about to be granted. It is charged with that, too: what is
    /// said here can be seen by the user's other VMs before it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asking: Option<VmSize>,
    /// The restart that was seen to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartStatus>,
    /// How to reach it; set once its login name is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessStatus>,
    /// The gateway's public key that the guest was made with. Where the Secret has
    /// another one by now, the guest does not know that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_key: Option<String>,
    /// Set while the VM is expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<ExpiryStatus>,
    /// Set while the VM is switched off, or about to be, because nobody uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleStatus>,
    /// Uid of the `KiteSnapshot` that the VM was first seen to be made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_uid: Option<String>,
    /// Set while snapshots are taken by a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<ScheduleStatus>,
    /// `Ready`, `Reserved`, `ImageReady`, `DiskReady`, `VirtualMachineReady`, `Exposed`,
    /// `Expired`, `Idle`, `OfferClaimed`, `RestartRequired`, `Resizing`, `Accessible`,
    /// `Restored`, `SnapshotsScheduled`, `VolumesAttached`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(deserialize_with = "crate::time::conditions")]
    pub conditions: Vec<Condition>,
    /// What of it cannot be read, and counts as absent. Never written, but for the fields
    /// that nothing else tells.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadStatus>>,
}

salvaged_status!(KiteVirtualMachineStatus, kept: ["disk", "granted", "asking", "restart"]);

impl KiteVirtualMachine {
    /// What cannot be read of the VM: of its spec, and of what only its status tells. Until
    /// that is mended nothing is made of it.
    pub fn unreadable(&self) -> Option<Cow<'_, str>> {
        let status = self.status.as_ref();
        let status = status.and_then(|it| it.unreadable.as_deref());
        unread_status::unreadable(self.spec.unreadable.as_deref(), status)
    }
}

/// How much a VM has of what quotas bound. What is absent, it has none of.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VmSize {
    /// Virtual CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 4_294_967_295_u32))]
    pub cpu: Option<u32>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Size of the root disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Bytes>,
}

impl VmSize {
    /// Whether it is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none() && self.disk.is_none()
    }
}

/// A restart of a VM.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RestartStatus {
    /// The `spec.restartedAt` that asked for it.
    pub restarted_at: String,
    /// Uid of the `VirtualMachineInstance` that is to end by it: once another one
    /// runs, the restart is done. Absent if none ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_uid: Option<String>,
    /// When `KubeVirt` was last asked to restart it, by whoever wrote this: nobody
    /// else asks for half a minute. Absent if it was not asked.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub asked_at: Option<Time>,
}

/// An expired VM.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExpiryStatus {
    /// Since when it is known to have expired: never before `spec.expiresAt`.
    /// The grace period begins here, so that nobody loses a VM without having
    /// been able to read that it expired.
    #[serde(deserialize_with = "crate::time::required")]
    pub expired_at: Time,
    /// When it is deleted, unless `spec.expiresAt` is moved before that.
    #[serde(deserialize_with = "crate::time::required")]
    pub delete_at: Time,
}

/// A VM that nobody uses.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IdleStatus {
    /// When it was found to be idle.
    #[serde(deserialize_with = "crate::time::required")]
    pub since: Time,
    /// The generation of the spec at that time: with a later one its owner
    /// wants something of it, and it runs again.
    pub generation: i64,
}

/// State of a VM's root disk.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DiskStatus {
    /// Name of the `DataVolume` and its PVC.
    pub name: String,
    /// Uid of the `DataVolume`, once it was filled: when there is neither one nor its
    /// claim of this name any more, a disk with data was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The size that it was made with, or has been made to grow to:
    /// `spec.disk` cannot be less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// What the file system of its volume takes of it, such as `0.055`, once that is
    /// known; 0 for a block volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_overhead: Option<String>,
    /// The `DataVolume`'s phase as CDI reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Uid of the PVC on which a guest was seen to run: from then on all of its data is known
    /// to be there, which a finished clone does not prove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_run_on: Option<String>,
    /// Progress of the clone as CDI reports it, such as `42.0%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
}

/// A disk that was a VM's before a restore.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FormerDisk {
    /// Name of the `DataVolume` and its PVC: `spec.restore.disk` takes it back.
    pub name: String,
    /// The size that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// When it goes. Absent while that is not known: it goes no sooner than a guest has run on
    /// the VM's present disk, and while no snapshot needs it.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub kept_until: Option<Time>,
    /// Whether snapshots need it, so that it stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needed_by_snapshots: bool,
}

/// How a VM is reached.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AccessStatus {
    /// Service whose `EndpointSlices` say where the guest's port 22 is.
    pub service: String,
    /// Secret with the key pairs, see [`crate::names::key_secret`].
    pub key_secret: String,
    /// The command that logs in, to copy and paste; absent while the platform
    /// does not say at which host the gateway is reached, and the gateway has no
    /// address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_command: Option<String>,
    /// Host name at which port 80 is reachable, if the VM has a domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

/// Where a VM is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VmPhase {
    /// Something is missing before the disk can be made; the conditions say what.
    Pending,
    /// The disk is being made.
    Provisioning,
    /// The disk is there and the VM boots.
    Starting,
    /// It runs.
    Running,
    /// It runs and is being moved to another node.
    Migrating,
    /// It is paused.
    Paused,
    /// It is shutting down.
    Stopping,
    /// It is off.
    Stopped,
    /// It is being removed.
    Deleting,
    /// Something needs a person; the conditions say what.
    Failed,
}

/// Types of the conditions in [`KiteVirtualMachineStatus::conditions`].
pub mod vm_condition {
    /// Summary: the VM is as its spec wants it.
    pub const READY: &str = "Ready";
    /// Its login name and domain belong to it.
    pub const RESERVED: &str = "Reserved";
    /// Its image is in the catalogue and ready.
    pub const IMAGE_READY: &str = "ImageReady";
    /// Its root disk is filled.
    pub const DISK_READY: &str = "DiskReady";
    /// `KubeVirt` runs it (or keeps it off) as asked.
    pub const VIRTUAL_MACHINE_READY: &str = "VirtualMachineReady";
    /// A change waits for the VM to be restarted. Only there while one does.
    pub const RESTART_REQUIRED: &str = "RestartRequired";
    /// It runs and waits for more CPUs or memory, since the condition's time. Only there
    /// while it does.
    pub const RESIZING: &str = "Resizing";
    /// It is reachable under its domain.
    pub const EXPOSED: &str = "Exposed";
    /// Its time is over; says beforehand when that will be.
    pub const EXPIRED: &str = "Expired";
    /// Nobody has used it for its idle timeout.
    pub const IDLE: &str = "Idle";
    /// Somebody can log in: there is a key or a password. Only there while there
    /// is none.
    pub const ACCESSIBLE: &str = "Accessible";
    /// Its disk was restored as was last asked for; says how far that is. Only there where it
    /// was asked for.
    pub const RESTORED: &str = "Restored";
    /// Snapshots are taken by the schedule of the spec.
    pub const SNAPSHOTS_SCHEDULED: &str = "SnapshotsScheduled";
    /// It has the volumes of the spec. Only there where there are some.
    pub const VOLUMES_ATTACHED: &str = "VolumesAttached";
    /// The offer that it is made from is claimed for it.
    pub const OFFER_CLAIMED: &str = "OfferClaimed";
}

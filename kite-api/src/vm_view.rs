//! A VM as the API shows it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kite_core::{
    cluster::ObjectKey,
    crd::{
        Charge, FormerDisk, KiteUser, KiteVirtualMachine, PowerState, RestoreRequest,
        ScheduleStatus, VmPhase,
    },
    names,
    quantity::Bytes,
};
use kite_rest::{cache::Cache, etag_of};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::vm_fields::VmSettings;

/// Desired and observed state, under the names of the custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Vm")]
pub(crate) struct VmView {
    /// Its name, one of its owner's.
    name: String,
    /// Name of the account it belongs to.
    owner: String,
    /// True where that account is suspended, which keeps the VM off; left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_suspended: Option<bool>,
    /// The namespace that it lives in.
    namespace: String,
    /// What tells it from any other VM, also a later one of the same name.
    uid: String,
    /// What an edit sends as `If-Match` to count only if nobody else edited since.
    etag: String,
    /// Whether a password opens it; the hash stays inside.
    has_ssh_password: bool,
    #[serde(flatten)]
    settings: VmSettings,
    /// The last restore that was asked for, until somebody takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    restore: Option<RestoreRequest>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    created_at: Option<String>,
    /// Whether it is being deleted.
    deleting: bool,
    /// Which of its settings cannot be read, and why: what is shown in their place is
    /// not theirs. Left out where all can.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    /// What it takes of its owner's quota.
    charge: ChargeView,
    /// What was seen of it.
    status: StatusView,
}

/// What the VM takes of its owner's quota: not what it asks for in vain.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VmCharge")]
struct ChargeView {
    /// CPUs.
    cpu: u64,
    /// In bytes.
    memory: u64,
    /// In bytes.
    disk: u64,
}

/// What was seen.
#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "VmStatus")]
struct StatusView {
    /// How it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<VmPhase>,
    /// Whether it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    power_state: Option<PowerState>,
    /// Whether the status speaks of the spec as it is now.
    up_to_date: bool,
    /// The node that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<String>,
    /// Its address inside of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_address: Option<String>,
    /// How far its disk is, in the words of CDI.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_phase: Option<String>,
    /// Such as `42.0%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_progress: Option<String>,
    /// The command that logs in, once the login name is reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_command: Option<String>,
    /// The domain that leads to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    /// When an expired VM is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    delete_at: Option<Time>,
    /// Whether it is off because nobody uses it.
    idle: bool,
    /// Size of its disk as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_size: Option<Bytes>,
    /// Disks that it had before a restore: each can be put back while it is kept.
    former_disks: Vec<FormerDisk>,
    /// How its schedule of snapshots stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshots: Option<ScheduleStatus>,
    /// Why it is as it is.
    conditions: Vec<Condition>,
}

impl VmView {
    /// The phase that was seen, `Pending` before anything was.
    pub(super) fn phase(vm: &KiteVirtualMachine) -> VmPhase {
        vm.status
            .as_ref()
            .and_then(|status| status.phase)
            .unwrap_or(VmPhase::Pending)
    }

    /// What people look for a VM by.
    pub(super) fn texts(vm: &KiteVirtualMachine) -> impl Iterator<Item = &str> {
        let owner = vm.metadata.namespace.as_deref();
        let owner = owner.and_then(names::user_of_namespace);
        [
            vm.metadata.name.as_deref(),
            owner,
            Some(vm.spec.image.as_str()),
            Some(vm.spec.ssh_id.as_str()),
            vm.spec.domain_prefix.as_deref(),
        ]
        .into_iter()
        .flatten()
    }

    /// The VM as it is shown: with what its owner's account says of it.
    pub(crate) fn among(users: &Cache<KiteUser>, vm: &KiteVirtualMachine) -> Self {
        Self {
            owner_suspended: Self::is_of_suspended(users, vm).then_some(true),
            ..Self::of(vm)
        }
    }

    /// Whether the account that the VM belongs to is suspended.
    pub(super) fn is_of_suspended(users: &Cache<KiteUser>, vm: &KiteVirtualMachine) -> bool {
        let owner = vm.metadata.namespace.as_deref();
        let owner = owner.and_then(names::user_of_namespace);
        let owner = owner.and_then(|owner| users.get(&ObjectKey::cluster(owner)));
        owner.is_some_and(|owner| owner.spec.suspended)
    }

    /// What the VM itself says, which is all of it where the owner is not suspended.
    pub(crate) fn of(vm: &KiteVirtualMachine) -> Self {
        let namespace = vm.namespace().unwrap_or_default();
        Self {
            name: vm.name_any(),
            owner: names::user_of_namespace(&namespace)
                .unwrap_or(&namespace)
                .to_owned(),
            owner_suspended: None,
            namespace,
            uid: vm.uid().unwrap_or_default(),
            etag: etag_of(vm),
            has_ssh_password: vm.spec.ssh_password_hash.is_some(),
            settings: VmSettings::of(&vm.spec),
            restore: vm.spec.restore.as_deref().cloned(),
            created_at: vm.creation_timestamp().map(|time| time.0.to_string()),
            deleting: vm.metadata.deletion_timestamp.is_some(),
            unreadable: vm.unreadable().map(Cow::into_owned),
            charge: ChargeView::of(vm),
            status: StatusView::of(vm),
        }
    }
}

impl ChargeView {
    fn of(vm: &KiteVirtualMachine) -> Self {
        let Charge { cpu, memory, disk } = vm.expected_charge();
        Self { cpu, memory, disk }
    }
}

impl StatusView {
    fn of(vm: &KiteVirtualMachine) -> Self {
        let Some(status) = vm.status.clone() else {
            return Self::default();
        };
        let disk = status.disk.unwrap_or_default();
        let (ssh_command, domain) = status
            .access
            .map(|access| (access.ssh_command, access.domain))
            .unwrap_or_default();
        Self {
            phase: status.phase,
            power_state: status.power_state,
            up_to_date: status.observed_generation == vm.metadata.generation,
            node_name: status.node_name,
            ip_address: status.ip_address,
            disk_phase: disk.phase,
            disk_progress: disk.progress,
            ssh_command,
            domain,
            delete_at: status.expiry.map(|expiry| expiry.delete_at),
            idle: status.idle.is_some(),
            disk_size: disk.size,
            former_disks: status.former_disks,
            snapshots: status.snapshots,
            conditions: status.conditions,
        }
    }
}

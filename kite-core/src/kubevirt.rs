//! The subset of `KubeVirt` objects that Kite reads and writes
//! (`kubevirt.io/v1`, `KubeVirt` 1.9).
//!
//! Hand-written and minimal on purpose: states are strings, so that a value of
//! a newer `KubeVirt` never fails a whole list, and objects are written by
//! server-side apply, so that fields which are not here are left alone.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::PodDNSConfig,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

mod configuration;
mod crds;
mod hardware;
mod migration;

pub use self::{configuration::*, hardware::*, migration::*};

/// Group and version under which `KubeVirt` serves what can be asked of VMs:
/// `start`, `stop`, `restart` and others.
pub const SUBRESOURCES: &str = "subresources.kubevirt.io/v1";

/// CRDs of the kinds in this module, for an API server that has no `KubeVirt`:
/// their fields are kept as they come and not judged.
pub fn crds() -> Vec<CustomResourceDefinition> {
    crds::all()
}

/// A VM as `KubeVirt` runs it.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachine",
    plural = "virtualmachines",
    shortname = "vm",
    shortname = "vms",
    namespaced,
    schema = "disabled",
    status = "VirtualMachineStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineSpec {
    /// `Always`, `Halted`, `Manual`, `RerunOnFailure` or `Once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_strategy: Option<String>,
    /// The instance that is made from it.
    #[serde(default)]
    pub template: InstanceTemplate,
}

/// The template of an instance.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct InstanceTemplate {
    /// Labels and annotations of the instance and of its launcher pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    /// The instance's spec.
    #[serde(default)]
    pub spec: VirtualMachineInstanceSpec,
}

/// What an instance consists of.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachineInstance",
    plural = "virtualmachineinstances",
    shortname = "vmi",
    shortname = "vmis",
    namespaced,
    schema = "disabled",
    status = "VirtualMachineInstanceStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceSpec {
    /// The virtual hardware.
    #[serde(default)]
    pub domain: Domain,
    /// Host name of the guest, a DNS label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Whom the guest asks for names: the cluster's DNS, unless it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_policy: Option<String>,
    /// Nameservers beside those of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<PodDNSConfig>,
    /// Networks that the interfaces attach to, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Network>,
    /// Volumes that the disks attach, by name. An atomic list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Seconds that a guest gets to shut down before it is killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// What becomes of the instance when its node is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_strategy: Option<String>,
}

/// Virtual hardware.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Domain {
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Machine type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// What the guest sees beside its devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
    /// Firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
    /// Clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<VmClock>,
    /// Devices.
    #[serde(default)]
    pub devices: Devices,
}

/// Processors of a VM: `sockets * cores * threads` virtual CPUs.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// Sockets; the part that can be hot-plugged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// Cores per socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Threads per core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Sockets up to which CPUs can be hot-plugged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sockets: Option<u32>,
}

/// Memory of a VM.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// What the guest sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<Quantity>,
    /// Up to which memory can be hot-plugged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_guest: Option<Quantity>,
}

/// Machine type of a VM.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Such as `q35`.
    #[serde(rename = "type")]
    pub type_: String,
}

/// Devices of a VM.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// Disks. An atomic list: an applier that leaves one out removes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// Network interfaces. Left out they would be bridged and could not migrate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Interface>,
    /// A random number generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rng: Option<Empty>,
    /// Devices to point or type with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// A trusted platform module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpm: Option<Tpm>,
}

/// A setting that is on by being there.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Empty {}

/// A disk of a VM; a volume has the same name.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Name of the disk and its volume.
    pub name: String,
    /// How it is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskTarget>,
    /// How it is attached, as a CD-ROM instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdrom: Option<DiskTarget>,
    /// Position in the boot order, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<u32>,
    /// By what the guest knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

/// How a disk is attached.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskTarget {
    /// `virtio`, `sata` or `scsi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
}

/// A network interface; a network has the same name.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Interface {
    /// Name of the interface and its network.
    pub name: String,
    /// NAT behind the pod's address, which survives migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masquerade: Option<Empty>,
    /// Such as `virtio` or `e1000e`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A network that an interface attaches to.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// The pod network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Empty>,
}

/// A volume that a disk attaches. Exactly one of the sources.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// A `DataVolume` in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume: Option<NamedVolume>,
    /// A claim in the same namespace: Kite gives its VMs none so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<NamedClaim>,
    /// A cloud-init `NoCloud` disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init_no_cloud: Option<CloudInitSource>,
    /// A cloud-init configuration drive, as `OpenStack` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init_config_drive: Option<CloudInitSource>,
}

/// A volume source by name.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedVolume {
    /// Its name.
    pub name: String,
}

/// A claim by name.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NamedClaim {
    /// Its name.
    pub claim_name: String,
}

/// What is on a cloud-init disk. User data above 2,048 bytes must be in a Secret.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CloudInitSource {
    /// Secret with the key `userdata`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<NamedVolume>,
}

/// Observed state of a VM.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    /// An instance exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<bool>,
    /// The instance is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// One word for people, such as `Running` or `ErrorPvcNotFound`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printable_status: Option<String>,
    /// The generation that the present instance was made from; it may stay
    /// behind for ever, so nobody waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation that should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_generation: Option<i64>,
    /// The run strategy in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_strategy: Option<String>,
    /// What was asked for by subresource and is not done yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state_change_requests: Vec<StateChangeRequest>,
    /// `Ready`, `Failure`, `Paused`, `RestartRequired` and those of the instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatusCondition>,
    /// Fields that are not typed here.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// Something that was asked of a VM by subresource.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct StateChangeRequest {
    /// `Start` or `Stop`.
    pub action: String,
    /// The instance that is to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Fields that are not typed here.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// A condition of `KubeVirt` and CDI. Times may be null, so it is not the
/// `Condition` of the Kubernetes API.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StatusCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last looked at.
    #[serde(default)]
    pub last_probe_time: Option<String>,
    /// When the status last changed.
    #[serde(default)]
    pub last_transition_time: Option<String>,
}

/// Observed state of an instance.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceStatus {
    /// `Pending`, `Scheduling`, `Scheduled`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When it came to each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phase_transition_timestamps: Vec<PhaseTransition>,
    /// The node on which it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Interfaces with their addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStatus>,
    /// Conditions such as `Ready`, `LiveMigratable`, `AgentConnected`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatusCondition>,
    /// Fields that are not typed here.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// Observed state of a network interface.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatus {
    /// Its name in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its main address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// All its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
}

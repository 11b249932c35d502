//! The VM as `KubeVirt` runs it.

use k8s_openapi::{
    api::core::v1::PodDNSConfig,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use kite_core::{
    crd::{OsFamily, PowerState},
    kubevirt::{
        CloudInitSource, Cpu, Devices, Disk, DiskTarget, Domain, Empty, InstanceTemplate,
        Interface, Memory, NamedVolume, Network, VirtualMachine, VirtualMachineInstance,
        VirtualMachineInstanceSpec, VirtualMachineSpec, Volume,
    },
    labels, names,
};

use crate::{Vm, windows};

/// Name of the root disk and its volume.
const ROOT_DISK: &str = "rootdisk";
/// Name of the cloud-init disk and its volume.
const CLOUD_INIT_DISK: &str = "cloudinitdisk";
/// Name of the pod network and the interface on it.
const POD_NETWORK: &str = "default";

/// Seconds that a guest gets to shut down. With much less, one without an agent
/// is killed while it writes.
pub const GRACE_PERIOD_SECONDS: i64 = 120;

/// The run strategy that carries out a power state.
pub fn run_strategy(power: PowerState) -> &'static str {
    match power {
        PowerState::On => "Always",
        PowerState::Off => "Halted",
    }
}

/// The VM, in the given power state: that may differ from its spec's when its
/// owner is suspended. Its hardware is for guests that have virtio drivers of
/// their own: every family but Windows, for which there is [`virtual_machine_for`].
///
/// ```
/// use kite_core::crd::{KiteVirtualMachine, KiteVirtualMachineSpec, PowerState};
/// use kite_render::{Vm, machine};
///
/// let mut object = KiteVirtualMachine::new(
///     "web",
///     KiteVirtualMachineSpec::new(2, "4Gi".parse()?, "20Gi".parse()?, "debian-12", "web"),
/// );
/// object.metadata.namespace = Some("kite-user-ann".into());
/// object.metadata.uid = Some("7a0e".into());
/// let machine = machine::virtual_machine(&Vm::of(&object)?, PowerState::Off);
/// assert_eq!(machine.spec.run_strategy.as_deref(), Some("Halted"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn virtual_machine(vm: &Vm<'_>, power: PowerState) -> VirtualMachine {
    virtual_machine_for(vm, OsFamily::default(), power)
}

/// The VM, with hardware for a guest of the family `os`.
pub fn virtual_machine_for(vm: &Vm<'_>, os: OsFamily, power: PowerState) -> VirtualMachine {
    VirtualMachine {
        metadata: vm.metadata(vm.name.to_owned()),
        spec: VirtualMachineSpec {
            run_strategy: Some(run_strategy(power).to_owned()),
            template: InstanceTemplate {
                // The instance gets these, so that its watch leads back here.
                metadata: Some(ObjectMeta {
                    labels: Some(labels::for_vm(vm.namespace, vm.name)),
                    ..ObjectMeta::default()
                }),
                spec: instance(vm, os),
            },
        },
        status: None,
    }
}

/// The DNS policy of a pod that does not ask the cluster's.
const NOT_THE_CLUSTERS: &str = "None";

/// Has the guest ask `nameservers` for names, from its next start on, and nobody else;
/// the cluster's DNS if there are none.
pub fn ask(machine: &mut VirtualMachine, nameservers: &[String]) {
    let spec = &mut machine.spec.template.spec;
    let has_own = !nameservers.is_empty();
    spec.dns_policy = has_own.then(|| NOT_THE_CLUSTERS.to_owned());
    spec.dns_config = has_own.then(|| PodDNSConfig {
        nameservers: Some(nameservers.to_vec()),
        ..PodDNSConfig::default()
    });
}

/// Whether a guest was started to ask the cluster's DNS.
pub fn asks_cluster(instance: &VirtualMachineInstance) -> bool {
    instance.spec.dns_policy.as_deref() != Some(NOT_THE_CLUSTERS)
}

/// The family of the guest that a `VirtualMachine` was rendered for, as far as
/// that shows: for a VM whose image has left the catalogue.
pub fn family_of(machine: &VirtualMachine) -> OsFamily {
    let features = machine.spec.template.spec.domain.features.as_ref();
    match features.and_then(|features| features.hyperv.as_ref()) {
        Some(_) => OsFamily::Windows,
        None => OsFamily::default(),
    }
}

fn instance(vm: &Vm<'_>, os: OsFamily) -> VirtualMachineInstanceSpec {
    let spec = &vm.object.spec;
    let is_windows = os == OsFamily::Windows;
    let mut domain = Domain {
        // Sockets are what can be plugged in while the VM runs. Up to how many,
        // and up to how much memory, is left to KubeVirt: it takes a multiple of
        // what the VM starts with, and a bound that followed the spec would make
        // each change one that needs a restart.
        cpu: Some(Cpu {
            sockets: Some(spec.cpu),
            cores: Some(1),
            threads: Some(1),
            max_sockets: None,
        }),
        memory: Some(Memory {
            guest: Some(Quantity(spec.memory.as_str().to_owned())),
            max_guest: None,
        }),
        devices: Devices {
            disks: vec![
                disk(ROOT_DISK, Some(1), is_windows),
                disk(CLOUD_INIT_DISK, None, is_windows),
            ],
            interfaces: vec![Interface {
                name: POD_NETWORK.to_owned(),
                masquerade: Some(Empty {}),
                model: is_windows.then(|| windows::NIC_MODEL.to_owned()),
            }],
            rng: Some(Empty {}),
            ..Devices::default()
        },
        ..Domain::default()
    };
    if is_windows {
        windows::furnish(&mut domain);
    }
    if spec.from_snapshot.is_some() {
        // What the guest was before it was copied must not be taken for it: what KubeVirt would
        // make up may follow from the name, and another VM may have had that.
        let firmware = domain.firmware.get_or_insert_default();
        firmware.uuid = Some(vm.uid.to_owned());
    }
    VirtualMachineInstanceSpec {
        domain,
        hostname: Some(vm.name.to_owned()),
        dns_policy: None,
        dns_config: None,
        networks: vec![Network {
            name: POD_NETWORK.to_owned(),
            pod: Some(Empty {}),
        }],
        volumes: vec![
            Volume {
                name: ROOT_DISK.to_owned(),
                data_volume: Some(NamedVolume {
                    name: names::disk(vm.name),
                }),
                ..Volume::default()
            },
            cloud_init(vm, is_windows),
        ],
        termination_grace_period_seconds: Some(GRACE_PERIOD_SECONDS),
        // Moves the guest off a drained node if its disk allows, and does not
        // hold up the drain if not.
        eviction_strategy: Some("LiveMigrateIfPossible".to_owned()),
    }
}

/// The volume with the user data: what looks for it in Windows by default looks
/// for a configuration drive.
fn cloud_init(vm: &Vm<'_>, is_windows: bool) -> Volume {
    let source = CloudInitSource {
        secret_ref: Some(NamedVolume {
            name: names::cloud_init_secret(vm.name),
        }),
    };
    let (config_drive, no_cloud) = if is_windows {
        (Some(source), None)
    } else {
        (None, Some(source))
    };
    Volume {
        name: CLOUD_INIT_DISK.to_owned(),
        cloud_init_no_cloud: no_cloud,
        cloud_init_config_drive: config_drive,
        ..Volume::default()
    }
}

/// How disks of a machine are attached.
pub(crate) fn disk_bus(is_windows: bool) -> &'static str {
    if is_windows {
        windows::DISK_BUS
    } else {
        "virtio"
    }
}

fn disk(name: &str, boot_order: Option<u32>, is_windows: bool) -> Disk {
    Disk {
        name: name.to_owned(),
        disk: Some(DiskTarget {
            bus: Some(disk_bus(is_windows).to_owned()),
        }),
        boot_order,
        ..Disk::default()
    }
}

//! The VM as `KubeVirt` runs it.

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta};
use kite_core::{
    crd::PowerState,
    kubevirt::{
        CloudInitNoCloud, Cpu, Devices, Disk, DiskTarget, Domain, Empty, InstanceTemplate,
        Interface, Memory, NamedVolume, Network, VirtualMachine, VirtualMachineInstanceSpec,
        VirtualMachineSpec, Volume,
    },
    labels, names,
};

use crate::Vm;

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
/// owner is suspended.
pub fn virtual_machine(vm: &Vm<'_>, power: PowerState) -> VirtualMachine {
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
                spec: instance(vm),
            },
        },
        status: None,
    }
}

fn instance(vm: &Vm<'_>) -> VirtualMachineInstanceSpec {
    let spec = &vm.object.spec;
    VirtualMachineInstanceSpec {
        domain: Domain {
            // Sockets are what can be plugged in while the VM runs.
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
            machine: None,
            devices: Devices {
                disks: vec![disk(ROOT_DISK, Some(1)), disk(CLOUD_INIT_DISK, None)],
                interfaces: vec![Interface {
                    name: POD_NETWORK.to_owned(),
                    masquerade: Some(Empty {}),
                    model: None,
                }],
                rng: Some(Empty {}),
            },
        },
        hostname: Some(vm.name.to_owned()),
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
                cloud_init_no_cloud: None,
            },
            Volume {
                name: CLOUD_INIT_DISK.to_owned(),
                data_volume: None,
                cloud_init_no_cloud: Some(CloudInitNoCloud {
                    secret_ref: Some(NamedVolume {
                        name: names::cloud_init_secret(vm.name),
                    }),
                }),
            },
        ],
        termination_grace_period_seconds: Some(GRACE_PERIOD_SECONDS),
        // Moves the guest off a drained node if its disk allows, and does not
        // hold up the drain if not.
        eviction_strategy: Some("LiveMigrateIfPossible".to_owned()),
    }
}

fn disk(name: &str, boot_order: Option<u32>) -> Disk {
    Disk {
        name: name.to_owned(),
        disk: Some(DiskTarget {
            bus: Some("virtio".to_owned()),
        }),
        boot_order,
    }
}

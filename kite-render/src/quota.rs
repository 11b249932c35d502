//! The `ResourceQuota` of a user's namespace.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ResourceQuota, ResourceQuotaSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use kite_core::{
    crd::{Charge, KiteVirtualMachine, KiteVolume},
    kubevirt::KubeVirt,
};

use crate::User;

/// Name of the quota object.
pub const NAME: &str = "kite-quota";

/// The number of VMs, as a quota counts it.
const VMS: &str = "count/kitevirtualmachines.hy3ons.github.io";
/// The same of snapshots. Their size the controller judges: no quota knows that.
const SNAPSHOTS: &str = "count/kitesnapshots.hy3ons.github.io";
/// The same of volumes. Their size the controller judges, too: claims of VMs' disks are counted
/// with theirs.
const VOLUMES: &str = "count/kitevolumes.hy3ons.github.io";

const MIB: u128 = 1 << 20;

/// What pods and claims ask for beyond what VMs ask for.
///
/// A `ResourceQuota` counts what *pods and claims* request, which is more than
/// the sum of the VMs' specs: a launcher pod needs memory for QEMU and page
/// tables, CDI adds room for a file system and, while it clones, holds a second
/// claim of the same size; and beside a disk that is restored there is the former one. The
/// number of VMs is counted exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overhead {
    /// Memory of a launcher pod beside its guest's, in MiB per VM.
    pub memory_mib_per_vm: u32,
    /// Memory of a launcher pod that grows with its guest's, in per mille.
    pub memory_per_mille: u32,
    /// How many virtual CPUs share one that is requested: `cpuAllocationRatio` of
    /// the `KubeVirt` configuration, whose default is 10.
    pub cpu_allocation_ratio: u32,
    /// A guest's memory in per cent of what is requested for it: `memoryOvercommit`
    /// of the `KubeVirt` configuration, whose default is 100.
    pub memory_overcommit: u32,
    /// CPU of a launcher pod's helpers and of CDI's workers, in millicores per VM.
    pub cpu_millis_per_vm: u32,
    /// Room that CDI adds for a file system, in per mille of a disk.
    pub disk_per_mille: u32,
    /// Whether to leave room for the second claim that CDI holds while it clones.
    pub clone_room: bool,
    /// Whether to leave room for the former disk of each VM that is restored.
    pub restore_room: bool,
}

impl Default for Overhead {
    fn default() -> Self {
        Self {
            memory_mib_per_vm: 512,
            memory_per_mille: 20,
            cpu_allocation_ratio: 10,
            memory_overcommit: 100,
            cpu_millis_per_vm: 250,
            // CDI's 6 % are of the claim, and this is of the disk.
            disk_per_mille: 64,
            clone_room: true,
            restore_room: true,
        }
    }
}

impl Overhead {
    /// The same where `KubeVirt` is configured like this: what it asks for itself
    /// follows what its configuration says.
    #[must_use]
    pub fn beside(&self, kubevirt: &KubeVirt) -> Self {
        let per_mille = kubevirt.memory_overhead_per_mille().unwrap_or(1000);
        let memory = u64::from(self.memory_mib_per_vm) * u64::from(per_mille.max(1000));
        Self {
            cpu_allocation_ratio: kubevirt
                .cpu_allocation_ratio()
                .unwrap_or(self.cpu_allocation_ratio),
            memory_overcommit: kubevirt
                .memory_overcommit()
                .unwrap_or(self.memory_overcommit),
            memory_mib_per_vm: u32::try_from(memory.div_ceil(1000)).unwrap_or(u32::MAX),
            ..self.clone()
        }
    }

    /// What launchers of `vms` VMs ask for that have so much memory together.
    fn memory(&self, bytes: u64, vms: u64) -> u128 {
        // Where more is promised than there is, launchers ask for less; room for
        // what they are worth does no harm.
        let percent = u128::from(self.memory_overcommit.clamp(1, 100));
        let asked = (u128::from(bytes) * 100).div_ceil(percent);
        with_per_mille(asked, self.memory_per_mille)
            + u128::from(vms) * u128::from(self.memory_mib_per_vm) * MIB
    }

    /// The same of CPUs, in millicores.
    fn cpu(&self, cpus: u64, vms: u64) -> u128 {
        let ratio = u128::from(self.cpu_allocation_ratio.max(1));
        (u128::from(cpus) * 1000).div_ceil(ratio)
            + u128::from(vms) * u128::from(self.cpu_millis_per_vm)
    }
}

/// What a user's VMs and volumes have been given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// How many have been given something.
    pub vms: u32,
    /// All of them together.
    pub all: Charge,
    /// The most that one of them has, of each by itself.
    pub most: Charge,
    /// Bytes of all volumes together.
    pub volumes: u64,
}

impl Given {
    /// What these have been given, or are about to be.
    pub fn to<'a>(vms: impl IntoIterator<Item = &'a KiteVirtualMachine>) -> Self {
        let charges = vms.into_iter().map(KiteVirtualMachine::charge);
        let given = charges.filter(|charge| *charge != Charge::default());
        given.fold(Self::default(), |sum, charge| Self {
            vms: sum.vms.saturating_add(1),
            all: sum.all.plus(charge),
            most: sum.most.or_more(charge),
            ..sum
        })
    }

    /// The same, with what these volumes have been given.
    #[must_use]
    pub fn and<'a>(self, volumes: impl IntoIterator<Item = &'a KiteVolume>) -> Self {
        let charges = volumes.into_iter().map(KiteVolume::charge);
        Self {
            volumes: charges.fold(self.volumes, u64::saturating_add),
            ..self
        }
    }
}

/// The quota of a user's namespace: what the spec, or the access level, grants,
/// with `overhead` on top.
///
/// Where VMs have been given more, it has room for that: they keep it when the
/// quota becomes smaller, and start with it again. And it has room for one launcher
/// more of the largest of them: a VM that moves to another node, or to a launcher
/// with more CPUs and memory, has two for that time. Of several that move at once
/// one takes the room after the other: `KubeVirt` tries again whenever a quota has
/// changed. Nobody but the largest VM sets how large that room is, so that whoever
/// can make pods there has no more beyond the quota than one VM.
pub fn resource_quota(user: &User<'_>, given: &Given, overhead: &Overhead) -> ResourceQuota {
    let quota = user.object.spec.effective_quota();
    let all = Charge::from(&quota).or_more(given.all);
    let vms = u64::from(quota.vms.max(given.vms));
    let moving = u64::from(given.vms.min(1));
    let memory = overhead.memory(all.memory, vms) + overhead.memory(given.most.memory, moving);
    let cpu = overhead.cpu(all.cpu, vms) + overhead.cpu(given.most.cpu, moving);
    let disk = with_per_mille(u128::from(all.disk), overhead.disk_per_mille)
        * (1 + u128::from(overhead.clone_room) + u128::from(overhead.restore_room));
    // CDI has a second claim for one that it makes, too.
    let volumes = u128::from(quota.volume_disk().bytes().max(given.volumes));
    let volumes = with_per_mille(volumes, overhead.disk_per_mille);
    let disk = disk + volumes * (1 + u128::from(overhead.clone_room));
    let hard = [
        (VMS, number(quota.vms)),
        (SNAPSHOTS, number(quota.most_snapshots())),
        (VOLUMES, number(quota.most_volumes())),
        ("requests.cpu", millicores(cpu)),
        ("requests.memory", mebibytes(memory)),
        ("requests.storage", mebibytes(disk)),
    ];
    ResourceQuota {
        metadata: user.metadata(NAME.to_owned(), Some(user.namespace())),
        spec: Some(ResourceQuotaSpec {
            hard: Some(
                hard.into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<BTreeMap<_, _>>(),
            ),
            ..ResourceQuotaSpec::default()
        }),
        status: None,
    }
}

/// The quota of a user who goes: the same, but with no room for a VM, a snapshot or a volume,
/// so that none comes while those that are there go.
pub fn closed(user: &User<'_>, given: &Given, overhead: &Overhead) -> ResourceQuota {
    let mut quota = resource_quota(user, given, overhead);
    let hard = quota.spec.as_mut().and_then(|spec| spec.hard.as_mut());
    for (what, amount) in hard.into_iter().flatten() {
        if [VMS, SNAPSHOTS, VOLUMES].contains(&what.as_str()) {
            *amount = number(0);
        }
    }
    quota
}

fn with_per_mille(amount: u128, per_mille: u32) -> u128 {
    amount + (amount * u128::from(per_mille)).div_ceil(1000)
}

/// Rounded up to mebibytes and spelled as the API server would: with the
/// largest unit that leaves a whole number.
fn mebibytes(bytes: u128) -> Quantity {
    let mut number = bytes.div_ceil(MIB);
    if number == 0 {
        return Quantity("0".to_owned());
    }
    let mut units = ["Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if !number.is_multiple_of(1024) {
            break;
        }
        number /= 1024;
        unit = larger;
    }
    Quantity(format!("{number}{unit}"))
}

/// How many there may be, spelled as the API server would: thousands as such.
fn number(of: u32) -> Quantity {
    millicores(u128::from(of) * 1000)
}

/// Spelled as the API server would: whole cores without a unit.
fn millicores(millis: u128) -> Quantity {
    Quantity(if !millis.is_multiple_of(1000) {
        format!("{millis}m")
    } else if millis > 0 && millis.is_multiple_of(1_000_000) {
        format!("{}k", millis / 1_000_000)
    } else {
        (millis / 1000).to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_room_beside_what_cdi_keeps_of_a_claim() {
        let disk = 10 * 1024 * MIB;
        let claim = with_per_mille(disk, Overhead::default().disk_per_mille);
        assert!(claim * 94 / 100 >= disk, "{claim}");
    }

    #[test]
    fn quantities_are_spelled_as_the_api_server_would() {
        assert_eq!(mebibytes(0).0, "0");
        assert_eq!(mebibytes(1).0, "1Mi");
        assert_eq!(mebibytes(1536 * MIB).0, "1536Mi");
        assert_eq!(mebibytes(2048 * MIB).0, "2Gi");
        assert_eq!(mebibytes(3 * 1024 * 1024 * MIB).0, "3Ti");
        assert_eq!(millicores(0).0, "0");
        assert_eq!(millicores(250).0, "250m");
        assert_eq!(millicores(9_250).0, "9250m");
        assert_eq!(millicores(9_000).0, "9");
        assert_eq!(millicores(2_000_000).0, "2k");
    }
}

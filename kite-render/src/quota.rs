//! The `ResourceQuota` of a user's namespace.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ResourceQuota, ResourceQuotaSpec},
    apimachinery::pkg::api::resource::Quantity,
};

use crate::User;

/// Name of the quota object.
pub const NAME: &str = "kite-quota";

/// The number of VMs, as a quota counts it.
const VMS: &str = "count/kitevirtualmachines.hy3ons.github.io";

const MIB: u128 = 1 << 20;

/// What pods and claims ask for beyond what VMs ask for.
///
/// A `ResourceQuota` counts what *pods and claims* request, which is more than
/// the sum of the VMs' specs: a launcher pod needs memory for QEMU and page
/// tables, CDI adds room for a file system and, while it clones, holds a second
/// claim of the same size. The number of VMs is counted exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// Memory of a launcher pod beside its guest's, in MiB per VM.
    pub memory_mib_per_vm: u32,
    /// Memory of a launcher pod that grows with its guest's, in per mille.
    pub memory_per_mille: u32,
    /// How many virtual CPUs share one that is requested: `cpuAllocationRatio` of
    /// the `KubeVirt` configuration, whose default is 10.
    pub cpu_allocation_ratio: u32,
    /// CPU of a launcher pod's helpers and of CDI's workers, in millicores per VM.
    pub cpu_millis_per_vm: u32,
    /// Room that CDI adds for a file system, in per mille of a disk.
    pub disk_per_mille: u32,
    /// Whether to leave room for the second claim that CDI holds while it clones.
    pub clone_room: bool,
}

impl Default for Overhead {
    fn default() -> Self {
        Self {
            memory_mib_per_vm: 512,
            memory_per_mille: 20,
            cpu_allocation_ratio: 10,
            cpu_millis_per_vm: 250,
            disk_per_mille: 60,
            clone_room: true,
        }
    }
}

/// The quota of a user's namespace: what the spec, or the access level, grants,
/// with `overhead` on top.
pub fn resource_quota(user: &User<'_>, overhead: &Overhead) -> ResourceQuota {
    let quota = user.object.spec.effective_quota();
    let vms = u128::from(quota.vms);
    let memory = with_per_mille(u128::from(quota.memory.bytes()), overhead.memory_per_mille)
        + vms * u128::from(overhead.memory_mib_per_vm) * MIB;
    let ratio = u128::from(overhead.cpu_allocation_ratio.max(1));
    let cpu = (u128::from(quota.cpu) * 1000).div_ceil(ratio)
        + vms * u128::from(overhead.cpu_millis_per_vm);
    let disk = with_per_mille(u128::from(quota.disk.bytes()), overhead.disk_per_mille)
        * if overhead.clone_room { 2 } else { 1 };
    let hard = [
        (VMS, Quantity(quota.vms.to_string())),
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

/// The quota of a user who goes: the same, but with no room for a VM, so that
/// none comes while those that are there go.
pub fn closed(user: &User<'_>, overhead: &Overhead) -> ResourceQuota {
    let mut quota = resource_quota(user, overhead);
    let hard = quota.spec.as_mut().and_then(|spec| spec.hard.as_mut());
    if let Some(vms) = hard.and_then(|hard| hard.get_mut(VMS)) {
        *vms = Quantity("0".to_owned());
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

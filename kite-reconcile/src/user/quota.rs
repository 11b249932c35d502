//! The quota of the namespace, and what is used of the user's.

use kite_core::crd::{KiteUserStatus, KiteVirtualMachine, Usage};
use kite_render::quota;

use super::draft::{UserDraft, want};
use crate::stage::{Flow, Stage};

/// Goes by `quota`, `vms`, `volumes` and `kubevirt`.
pub(super) struct Quota;

impl Stage<UserDraft<'_>> for Quota {
    fn plan(&self, draft: &mut UserDraft<'_>) -> Flow {
        let seen = draft.seen;
        let given = quota::Given::to(&seen.vms).and(&seen.volumes);
        let quota = quota::resource_quota(draft.user, &given, &seen.overhead(draft.settings));
        want(&mut draft.steps, &quota, seen.quota.as_ref());
        Flow::Next
    }

    fn report(&self, draft: &UserDraft<'_>, status: &mut KiteUserStatus) {
        status.usage = Some(usage(&draft.seen.vms));
    }
}

pub(super) fn usage(vms: &[KiteVirtualMachine]) -> Usage {
    vms.iter().fold(Usage::default(), |usage, vm| {
        let add =
            |sum: i64, bytes: u64| sum.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        // Not what they ask for in vain.
        let charge = vm.expected_charge();
        let cpu = u32::try_from(charge.cpu).unwrap_or(u32::MAX);
        Usage {
            vms: usage.vms.saturating_add(1),
            cpu: usage.cpu.saturating_add(cpu),
            memory: add(usage.memory, charge.memory),
            disk: add(usage.disk, charge.disk),
        }
    })
}

//! The network policies of the namespace, without which nothing is made of a user's VM.

use kite_core::{
    crd::{VmPhase, vm_condition::VIRTUAL_MACHINE_READY},
    names,
};
use kite_render::Vm;

use super::{
    draft::{Obstacle, VmDraft},
    observe::Observed,
};
use crate::stage::{Flow, Stage};

/// Goes by `owner` and `lacks_policies`.
pub(super) struct Isolation;

impl Stage<VmDraft<'_>> for Isolation {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        if draft.is_new() {
            draft.obstacles.extend(obstacle(draft.vm, draft.seen));
        }
        Flow::Next
    }
}

/// Nothing is made of a user's VM before the network policies of their namespace stand.
pub(super) fn obstacle(vm: &Vm<'_>, seen: &Observed) -> Option<Obstacle> {
    let user = names::user_of_namespace(vm.namespace)?;
    let Some(owner) = &seen.owner else {
        return Some(Obstacle::new(
            VIRTUAL_MACHINE_READY,
            VmPhase::Pending,
            "UserMissing",
            format!(
                "there is no KiteUser {user}, and so neither network policies nor a quota for \
                 namespace {}: an administrator must create the KiteUser, or delete the namespace",
                vm.namespace
            ),
        ));
    };
    let status = owner.status.as_ref();
    let stand = status.is_some_and(|status| status.namespace.is_some()) && !seen.lacks_policies;
    (!stand).then(|| {
        Obstacle::new(
            VIRTUAL_MACHINE_READY,
            VmPhase::Pending,
            "WaitingForNamespace",
            "waiting for the network policies of the user's namespace: they stand when \
             status.namespace of the KiteUser is set"
                .to_owned(),
        )
    })
}

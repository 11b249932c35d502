//! What a VM may have of its owner's quota.
//!
//! The number of VMs, and what pods and claims ask for, is bounded by the API
//! server itself (see [`kite_render::quota`]), with room for what making VMs
//! takes. This keeps to the quota itself, CPU for CPU.
//!
//! What a VM was granted is in its status, and it keeps that: a smaller quota
//! takes nothing away, and what goes missing is made anew. It is charged with
//! that and not with what it asks for in vain, so that a spec that asks for too
//! much holds up no other VM, and can be taken back.
//!
//! More is given in three steps, for two VMs may ask at once, by two workers, each
//! with a view in which the other has not asked yet:
//!
//! 1. What is asked for is looked at beside all others. If it fits, it is put into
//!    `status.asking`, where it counts like what was granted. Whoever thinks better of
//!    it and asks for less has that told first, too: by what was asked it is known
//!    what was given, should the status not say so any more.
//! 2. When a view of the others is at least as new as that, it is looked at once
//!    more. Of two that ask at once, the later to write sees what the earlier
//!    wrote, so not both of them find room for more than there is. Whoever finds
//!    none takes back what it asked for.
//! 3. Then it is given, and `status.granted` says so. A crash before that leaves
//!    `asking` behind: charged, and looked at again.
//!
//! Nothing is given that the status did not tell of before. That costs no
//! request: the first status of a new VM is the one that asks, and the view is
//! that of the watch that has shown it.

mod holding;
mod judge;

use std::{borrow::Cow, time::Duration};

use kite_core::{
    crd::{
        Charge, KiteVirtualMachine, KiteVirtualMachineStatus, VmPhase, VmSize,
        vm_condition::VIRTUAL_MACHINE_READY,
    },
    names,
    quantity::Bytes,
};
use kite_render::Vm;

pub(super) use self::holding::{overhead, own_claim};
pub(crate) use self::judge::{age, gibibytes};
use self::{
    holding::{given_disk, held, in_use},
    judge::Judge,
};
use super::{
    draft::{A_WHILE, Obstacle, VmDraft},
    lost::{self, Loss},
    observe::Observed,
    offer,
};
use crate::{
    plan::Step,
    stage::{Flow, Stage},
};

/// When to look again at a VM that has only told what it asks for: a watch leads
/// back here sooner.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What the VM may have. Goes by `owner`, the siblings, `disk`, `claim`, `machine`,
/// `instance`, `offer`, `refused` and `now`.
pub(super) struct Quota;

impl Stage<VmDraft<'_>> for Quota {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let (vm, seen) = (draft.vm, draft.seen);
        let is_unhindered = || draft.is_entitled && draft.obstacles.is_empty();
        let may_ask = match &seen.disk {
            None if draft.loss == Some(Loss::Unmanaged) => true,
            None => is_unhindered() && offer::may_be_had(vm, seen),
            Some(_) => seen.own_disk(vm).is_some(),
        };
        draft.share = Share::of(vm, seen, may_ask && draft.has_disk());
        if draft.is_new() && draft.obstacles.is_empty() {
            draft.obstacles.extend(obstacle(&draft.share, &ALL, seen));
        }
        Flow::Next
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        status.granted.clone_from(&draft.share.granted);
        status.asking.clone_from(&draft.share.asking);
    }

    fn look_again(&self, draft: &VmDraft<'_>) -> Option<Duration> {
        if draft.share.is_unknown() {
            return Some(AT_ONCE);
        }
        let is_refused = draft.obstacles.is_empty() && draft.share.refusal(&ALL).is_some();
        is_refused.then_some(A_WHILE)
    }
}

/// Has the status say what is asked for, when nothing else is left to do.
pub(super) struct Asking;

impl Stage<VmDraft<'_>> for Asking {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let told = draft.vm.object.status.as_ref();
        let told = told.and_then(|it| it.asking.as_ref());
        let asking = draft.share.asking.as_ref();
        if draft.steps.is_empty() && asking.is_some() && asking != told {
            draft.steps.push(Step::WriteStatus);
            // Mostly it is given at once: what is told with it is true by then.
            let obstacles = &mut draft.obstacles;
            obstacles.retain(|obstacle| obstacle.condition.reason != WAITING_FOR_QUOTA);
        }
        Flow::Next
    }
}

/// What a quota bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Cpu,
    Memory,
    Disk,
}

use Field::{Cpu, Disk, Memory};

/// Why nothing is made of a VM whose owner's other VMs may ask for the same.
const WAITING_FOR_QUOTA: &str = "WaitingForQuota";

/// All of it: a VM that is new gets all that it asks for, or nothing.
const ALL: [Field; 3] = [Cpu, Memory, Disk];

/// What a machine needs.
pub(super) const MACHINE: [Field; 2] = [Cpu, Memory];

impl Field {
    fn path(self) -> &'static str {
        match self {
            Cpu => "spec.cpu",
            Memory => "spec.memory",
            Disk => "spec.disk",
        }
    }

    fn of(self, charge: &Charge) -> u64 {
        match self {
            Cpu => charge.cpu,
            Memory => charge.memory,
            Disk => charge.disk,
        }
    }

    fn in_size(self, size: &VmSize) -> u64 {
        self.of(&size.into())
    }

    /// Sets this field as `from` has it, in its spelling.
    fn copy(self, from: &VmSize, into: &mut VmSize) {
        match self {
            Cpu => into.cpu = from.cpu,
            Memory => into.memory.clone_from(&from.memory),
            Disk => into.disk.clone_from(&from.disk),
        }
    }
}

/// How it stands with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// The VM may have what its spec says.
    Granted,
    /// That is not known yet: it asks, or has asked.
    Asking,
    /// No, with the reason for people.
    Refused(String),
    /// Something else is in the way, and so nothing is asked for.
    Unasked,
}

/// What a VM may have now, and what its status has to say of that.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Share {
    /// What is to be given to it: its spec, or what it has where that asks for
    /// more than there is. What is absent it may not have.
    pub size: VmSize,
    /// The size of its disk, in terms of its spec.
    pub has_disk: Option<Bytes>,
    /// For the status, once it has been given.
    pub granted: Option<VmSize>,
    /// For the status.
    pub asking: Option<VmSize>,
    answers: Vec<(Field, Answer)>,
}

impl Share {
    /// What the status says already, when nothing is to be given now.
    pub(super) fn as_told(vm: &Vm<'_>, seen: &Observed) -> Self {
        let status = vm.object.status.as_ref();
        Self {
            size: wish(vm.object),
            has_disk: given_disk(vm, seen),
            granted: status.and_then(|status| status.granted.clone()),
            asking: status.and_then(|status| status.asking.clone()),
            answers: Vec::new(),
        }
    }

    /// What the VM may have. It asks for more only if it `may_ask`: when nothing
    /// else is in the way.
    pub(super) fn of(vm: &Vm<'_>, seen: &Observed, may_ask: bool) -> Self {
        let wish = wish(vm.object);
        let has_disk = given_disk(vm, seen);
        if names::user_of_namespace(vm.namespace).is_none() {
            return Self {
                size: wish,
                has_disk,
                ..Self::default()
            };
        }
        let status = vm.object.status.as_ref();
        let held = held(vm, seen, has_disk.as_ref());
        let asked = status.and_then(|status| status.asking.clone());
        let asked = asked.unwrap_or_default();
        let is_new = held.is_empty();
        // What cannot be given is not asked for.
        let cannot_grow = lost::is_unmanaged(vm, seen);

        let mut judge = None;
        let mut answers = Vec::new();
        for field in ALL {
            let amount = field.in_size(&wish);
            let answer = if amount <= field.in_size(&held) {
                Answer::Granted
            } else if !may_ask || field == Disk && cannot_grow {
                Answer::Unasked
            } else {
                let judge = judge.get_or_insert_with(|| Judge::of(vm, seen, &held));
                // For this and not for more: what it has got is known by what it asked.
                let has_asked = amount == field.in_size(&asked);
                judge.answer(field, amount, field.in_size(&held), has_asked)
            };
            answers.push((field, answer));
        }
        // All or nothing: what is asked for in vain is not asked for.
        if is_new && answers.iter().any(|(_, answer)| *answer != Answer::Granted) {
            let is_refused = |(_, answer): &(Field, Answer)| matches!(answer, Answer::Refused(_));
            let all = if answers.iter().any(is_refused) {
                Answer::Unasked
            } else {
                Answer::Asking
            };
            for (_, answer) in &mut answers {
                if matches!(answer, Answer::Granted | Answer::Asking) {
                    *answer = all.clone();
                }
            }
        }
        let (mut size, mut asking) = (VmSize::default(), VmSize::default());
        for (field, answer) in &answers {
            let source = if *answer == Answer::Granted {
                &wish
            } else {
                &held
            };
            field.copy(source, &mut size);
            if *answer == Answer::Asking {
                field.copy(&wish, &mut asking);
            }
        }
        let granted = in_use(&size, &held, seen, has_disk.as_ref());
        Self {
            size,
            has_disk,
            granted: Some(granted).filter(|size| !size.is_empty()),
            asking: Some(asking).filter(|size| !size.is_empty()),
            answers,
        }
    }

    /// The VM as it may be: like `object`, and no larger than that.
    pub(super) fn fitted<'a>(&self, object: &'a KiteVirtualMachine) -> Cow<'a, KiteVirtualMachine> {
        let mut fitted = Cow::Borrowed(object);
        let VmSize { cpu, memory, disk } = &self.size;
        if let Some(cpu) = cpu.filter(|cpu| *cpu != object.spec.cpu) {
            fitted.to_mut().spec.cpu = cpu;
        }
        if let Some(memory) = memory.as_ref().filter(|it| **it != object.spec.memory) {
            fitted.to_mut().spec.memory = memory.clone();
        }
        if let Some(disk) = disk.as_ref().filter(|it| **it != object.spec.disk) {
            fitted.to_mut().spec.disk = disk.clone();
        }
        fitted
    }

    /// Why something cannot be made that needs these fields; none if it can, or if
    /// that is for something else to say.
    pub(super) fn lack(&self, needs: &[Field]) -> Option<Lack<'_>> {
        if needs.iter().all(|field| field.in_size(&self.size) > 0) {
            return None;
        }
        if let Some(why) = self.refusal(needs) {
            return Some(Lack::Refused(why));
        }
        let mut answers = self.answers.iter();
        let is_asking = answers.any(|it| needs.contains(&it.0) && it.1 == Answer::Asking);
        is_asking.then_some(Lack::Unknown)
    }

    /// Why the VM may not have what it asks for of these, for people.
    pub(super) fn refusal(&self, of: &[Field]) -> Option<&str> {
        let mut asked = self.answers.iter().filter(|(field, _)| of.contains(field));
        asked.find_map(|(_, answer)| match answer {
            Answer::Refused(why) => Some(why.as_str()),
            Answer::Granted | Answer::Asking | Answer::Unasked => None,
        })
    }

    /// Whether it is not known yet whether the VM may have what it asks for.
    pub(super) fn is_unknown(&self) -> bool {
        self.asking.is_some()
    }
}

/// Why a VM lacks what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack<'a> {
    /// There is no room for it, for this reason.
    Refused(&'a str),
    /// That is not known yet.
    Unknown,
}

/// Why the VM does not fit beside its owner's others.
pub(super) fn obstacle(share: &Share, needs: &[Field], seen: &Observed) -> Option<Obstacle> {
    let obstacle = |phase, reason, why: &str| {
        Obstacle::new(VIRTUAL_MACHINE_READY, phase, reason, why.to_owned())
    };
    Some(match share.lack(needs)? {
        Lack::Refused(why) if seen.siblings.unread.is_empty() && !seen.is_owner_unread() => {
            obstacle(VmPhase::Failed, "QuotaExceeded", why)
        }
        Lack::Refused(why) => obstacle(VmPhase::Failed, "QuotaUnknown", why),
        Lack::Unknown => obstacle(
            VmPhase::Pending,
            WAITING_FOR_QUOTA,
            "waiting until all VMs of the user are seen to have room beside each other",
        ),
    })
}

/// Whether the VM asks for more than it holds, so that its owner's others have to
/// be looked at.
pub(super) fn asks(vm: &Vm<'_>, seen: &Observed) -> bool {
    let has_disk = given_disk(vm, seen);
    let (wish, held) = (wish(vm.object), held(vm, seen, has_disk.as_ref()));
    let mut fields = ALL.into_iter();
    fields.any(|field| field.in_size(&wish) > field.in_size(&held))
}

fn wish(object: &KiteVirtualMachine) -> VmSize {
    let spec = &object.spec;
    VmSize {
        cpu: Some(spec.cpu),
        memory: Some(spec.memory.clone()),
        disk: Some(spec.disk.clone()),
    }
}

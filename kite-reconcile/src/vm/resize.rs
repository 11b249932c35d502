//! A VM that runs and was given more of CPUs or memory, which takes `KubeVirt` a
//! migration to another launcher.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    conditions::NewCondition,
    crd::vm_condition::RESIZING,
    kubevirt::{StatusCondition, VirtualMachineInstance},
};

use super::{
    blockers::{failed_move, fixed, since},
    draft::{Seen, VmDraft},
    moving,
    observe::Observed,
    orders::{self, Progress, TRIES},
};
use crate::{reports::words_of, stage::Stage};

/// Goes by `instance`, `kubevirt`, `moves`, `resizing_since`, `refused` and `now`.
pub(super) struct Resize;

impl Stage<VmDraft<'_>> for Resize {
    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        condition(draft.seen)
    }

    fn deadline(&self, (_, seen): &Seen<'_>) -> Option<Timestamp> {
        next(seen)
    }
}

/// `KubeVirt`'s conditions of an instance that waits for more of something. They say since
/// when in no version up to 1.9.
const CHANGES: [&str; 2] = ["HotVCPUChange", "HotMemoryChange"];

/// After how long a resize that was not seen to end is told of: longer than a
/// migration takes whose turn it is.
const SLOW: Duration = Duration::from_secs(600);

/// What `KubeVirt`'s object must say for instances to move by themselves.
const SETTING: &str = "spec.workloadUpdateStrategy.workloadUpdateMethods: [LiveMigrate] in the \
                       KubeVirt object";

/// How far a resize is: reason and words; none where nothing is being resized.
pub(super) fn told(seen: &Observed) -> Option<(&'static str, String)> {
    let instance = seen.instance.as_ref();
    let failed = |why: &str| {
        let message = format!(
            "the VM runs and could not be given its new size ({why}): it has it after a restart \
             (set spec.restartedAt)"
        );
        Some(("ResizeFailed", message))
    };
    if let Some(why) = failure(instance) {
        return failed(&why);
    }
    let waits = waiting(instance).next()?;
    let is_left = moving::is_left_to_kite(instance, seen.kubevirt.as_ref());
    let progress = progress(seen).filter(|_| is_left);
    let asked = asked(seen, waits);
    let last = || failed_move(instance, asked).map(|why| format!(" ({why})"));
    match progress {
        Some(Progress::GivenUp) => {
            let why = last().unwrap_or_default();
            return failed(&format!(
                "it could not be moved to another launcher for that in {TRIES} tries{why}, and \
                 there is no other"
            ));
        }
        Some(Progress::Moved(until)) if until <= seen.now => {
            return failed("it was moved to another launcher, and has not got it there, either");
        }
        Some(
            Progress::Unordered | Progress::Ordered(..) | Progress::Failed(..) | Progress::Moved(_),
        )
        | None => {}
    }
    if let Some(why) = unmoved(seen, is_left) {
        return Some((
            "ResizeWaits",
            format!(
                "the VM runs and has its new size after a restart (set spec.restartedAt): while \
                 it runs, {why}"
            ),
        ));
    }
    let is_slow = || asked.is_some_and(|asked| due(asked) <= seen.now);
    let late = delayed(progress, last).or_else(|| {
        is_slow().then(|| {
            let why = last().unwrap_or_default();
            let minutes = SLOW.as_secs() / 60;
            format!("it was not moved to another launcher for that in {minutes} minutes{why}")
        })
    });
    if let Some(why) = late {
        return Some(("ResizeWaits", slow(&why, is_left)));
    }
    Some(("Resizing", under_way(seen, is_left)))
}

/// That the instance waits for its new size, and since when it does: a condition for as long
/// as that lasts, as nothing else has a time for it.
pub(super) fn condition(seen: &Observed) -> Option<NewCondition> {
    if !is_under_way(seen.instance.as_ref()) {
        return None;
    }
    let (reason, message) = told(seen)?;
    Some(NewCondition::new(RESIZING, true, reason, message))
}

/// Why nobody moves the VM while it runs.
fn unmoved(seen: &Observed, is_left: bool) -> Option<String> {
    if let Some(why) = fixed(seen.instance.as_ref()) {
        return Some(format!("it cannot be moved to another launcher ({why})"));
    }
    if let Some(refused) = moving::refused(seen) {
        return Some(format!(
            "it is not moved to another launcher, which is tried again ({})",
            refused.why
        ));
    }
    (is_left && seen.moves.is_none()).then(|| {
        format!(
            "KubeVirt does not move it to another launcher for that unless an administrator \
             sets {SETTING}, or gives Kite's controller the rights of this version, by which it \
             does"
        )
    })
}

/// What holds up an order of Kite's, or has brought the last ones to nothing; `last` says why
/// in brackets, where that is known.
fn delayed(progress: Option<Progress<'_>>, last: impl Fn() -> Option<String>) -> Option<String> {
    let failed = |times: u32| {
        (times > 0).then(|| {
            let why = last().unwrap_or_default();
            format!(
                "it could not be moved to another launcher for that in {times} of {TRIES} \
                 tries{why}, and it is tried again"
            )
        })
    };
    match progress? {
        Progress::Ordered(number, order) => match orders::said(order) {
            Some(words) => Some(format!(
                "KubeVirt has not begun to move it to another launcher for that ({words})"
            )),
            None => failed(number.saturating_sub(1)),
        },
        Progress::Failed(number, _) => failed(number),
        Progress::Unordered | Progress::Moved(_) | Progress::GivenUp => None,
    }
}

/// That nothing has come of a resize yet, for this reason.
fn slow(why: &str, is_left: bool) -> String {
    let beside = if is_left {
        "at the room on other nodes".to_owned()
    } else {
        format!("whether {SETTING} is set")
    };
    format!(
        "the VM runs and is not given its new size, as {why}: an administrator must look at its \
         VirtualMachineInstanceMigrations, and {beside}; after a restart (set spec.restartedAt) \
         it has that size, too"
    )
}

/// That nothing is wrong.
fn under_way(seen: &Observed, is_left: bool) -> String {
    let moves = seen.moves.as_ref().filter(|_| is_left);
    let waits = moves.is_some_and(|it| !it.is_unfinished() && it.ahead(seen.now) > 0);
    if waits {
        return "the VM runs and is given its new size when it is its turn: for that it moves to \
                another launcher, and other VMs are to move first"
            .to_owned();
    }
    "the VM runs and is being given its new size, for which it moves to another launcher".to_owned()
}

/// Whether the instance waits for more of something, so that it matters how
/// `KubeVirt` is configured.
pub(super) fn is_under_way(instance: Option<&VirtualMachineInstance>) -> bool {
    waiting(instance).next().is_some()
}

/// When a resize that is under way is told of as a slow one.
pub(super) fn next(seen: &Observed) -> Option<Timestamp> {
    let waits = waiting(seen.instance.as_ref()).next()?;
    let due = asked(seen, waits).map(due);
    due.filter(|due| *due > seen.now)
}

/// Since when the instance waits, as far as anybody knows: what it says itself; what was
/// ordered first for this very size; or since when the VM's own status tells of it.
fn asked(seen: &Observed, waits: &StatusCondition) -> Option<Timestamp> {
    let ordered = || match progress(seen)? {
        Progress::Ordered(1, order) => orders::made(order),
        Progress::Unordered
        | Progress::Ordered(..)
        | Progress::Failed(..)
        | Progress::Moved(_)
        | Progress::GivenUp => None,
    };
    since(waits).or_else(ordered).or(seen.resizing_since)
}

fn progress(seen: &Observed) -> Option<Progress<'_>> {
    let (moves, instance) = (seen.moves.as_ref()?, seen.instance.as_ref()?);
    Some(moves.progress(instance))
}

fn waiting(instance: Option<&VirtualMachineInstance>) -> impl Iterator<Item = &StatusCondition> {
    changes(instance).filter(|it| it.status == "True")
}

/// Why the instance cannot have more.
fn failure(instance: Option<&VirtualMachineInstance>) -> Option<String> {
    changes(instance)
        .filter(|it| it.status == "False")
        .find_map(words_of)
}

fn changes(instance: Option<&VirtualMachineInstance>) -> impl Iterator<Item = &StatusCondition> {
    let status = instance.and_then(|instance| instance.status.as_ref());
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.filter(|it| CHANGES.contains(&it.type_.as_str()))
}

fn due(asked: Timestamp) -> Timestamp {
    asked.checked_add(SLOW).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
#[path = "resize_tests.rs"]
mod tests;

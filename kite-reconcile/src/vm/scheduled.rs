//! Snapshots that are taken by a schedule, and those of them that go again.
//!
//! What is due and what may go [`kite_disks::schedule`] decides; here is what was seen, in its
//! words. A snapshot is named by the time that it was due, so that two of us make one; what was
//! begun stands in the status, so that one which its owner deletes is not taken anew.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    conditions::{self, NewCondition},
    crd::{
        Consistency, KiteSnapshot, KiteVirtualMachineStatus, SNAPSHOTS_APART, ScheduleStatus,
        SnapshotPhase, SnapshotSchedule, SnapshotSource,
        vm_condition::{READY, SNAPSHOTS_SCHEDULED},
    },
    kubevirt::VirtualMachine,
};
use kite_disks::schedule::{self as times, Standing, State, Taken};
use kite_render::{
    Vm,
    schedule::{self, Due},
};
use kube::ResourceExt as _;

use super::{
    disks::View,
    draft::{Seen, VmDraft},
    expiry::whole_seconds,
    lost::{self, Loss},
    observe::Observed,
};
use crate::{
    plan::{Change, Refusal, Step},
    refused::Refused,
    reports,
    stage::{Flow, Stage},
    standing::guarded,
};

/// Within how long after their time those of all VMs are begun.
const SPREAD: Duration = Duration::from_secs(600);

/// For how long one may be on its way before it counts as one that has failed.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// Goes by `snapshots`, `disk`, `claim`, `machine`, `instance`, `owner`, `refused` and `now`.
pub(super) struct Scheduled;

impl Stage<VmDraft<'_>> for Scheduled {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let (vm, seen) = (draft.vm, draft.seen);
        let Some(Ok(known)) = &draft.scheduled else {
            return Flow::Next;
        };
        if let Some(due) = known.decided.take
            && known.occupied(due).is_none()
            && refusal(Refused::Taking, vm, seen).is_none()
        {
            let snapshot = guarded(&known.snapshot(due), None);
            let take = Change::Take(snapshot.into());
            draft.steps.push(Step::Change(take));
        }
        if refusal(Refused::Clearing, vm, seen).is_none() {
            let go = known.own.iter().map(|it| it.object);
            let go = go.filter(|it| known.decided.delete.contains(&it.name_any()));
            let go = go.map(|it| Step::Change(Change::Clear(Box::new(it.clone()))));
            draft.steps.extend(go);
        }
        Flow::Next
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        let told = match draft.scheduled.as_ref()? {
            Ok(known) => known.told(),
            Err(invalid) => no("ScheduleInvalid", format!("spec.snapshots: {invalid}")),
        };
        Some(told)
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        let known = draft.scheduled.as_ref();
        let known = known.and_then(|it| it.as_ref().ok());
        status.snapshots = known.map(Schedule::status);
    }

    fn deadline(&self, (vm, seen): &Seen<'_>) -> Option<Timestamp> {
        // Until that is written nothing is followed; and what is none is looked at once.
        told(vm)?;
        let view = View::of(vm, super::disks::Known::of(seen));
        let known = Schedule::of(&view, seen)?.ok()?;
        // One that is being taken is waited for no longer than that.
        let going = known.own.iter().filter(|it| it.state == State::Going);
        let late = going.filter_map(|it| it.late);
        late.chain(known.decided.look_again).min()
    }
}

fn no(reason: &str, message: String) -> NewCondition {
    NewCondition::new(SNAPSHOTS_SCHEDULED, false, reason, message)
}

/// What cannot be done for now.
fn refusal<'a>(what: Refused, vm: &Vm<'_>, seen: &'a Observed) -> Option<&'a Refusal> {
    what.among(&seen.refused, &vm.object.metadata)
}

/// What the status says of the schedule that the spec has.
fn told<'a>(vm: &Vm<'a>) -> Option<&'a ScheduleStatus> {
    let spec = vm.object.spec.snapshots.as_deref()?;
    let told = vm.object.status.as_ref()?.snapshots.as_ref()?;
    (told.schedule == spec.schedule && told.time_zone == spec.time_zone).then_some(told)
}

/// A snapshot that the schedule has made.
struct Own<'a> {
    object: &'a KiteSnapshot,
    name: String,
    due: Due,
    state: State,
    /// When it is waited for no longer.
    late: Option<Timestamp>,
    /// When it counts as taken: a clock may have been ahead of what the API server says.
    at: Timestamp,
}

/// A schedule, what came of it so far, and what is to be done.
pub(super) struct Schedule<'a> {
    vm: &'a Vm<'a>,
    seen: &'a Observed,
    spec: &'a SnapshotSchedule,
    since: Timestamp,
    begun: Option<Timestamp>,
    own: Vec<Own<'a>>,
    /// Why none is begun now.
    pause: Option<&'static str>,
    decided: Decided,
}

/// What is decided.
struct Decided {
    take: Option<Timestamp>,
    skip: Option<Timestamp>,
    delete: Vec<String>,
    standing: Standing,
    look_again: Option<Timestamp>,
}

impl<'a> Schedule<'a> {
    /// What is known of the VM's schedule, or why it is none.
    pub(super) fn of(view: &View<'a>, seen: &'a Observed) -> Option<Result<Self, times::Invalid>> {
        let vm = view.vm;
        let spec = vm.object.spec.snapshots.as_deref()?;
        // What was not looked at may be there.
        let all = seen.snapshots.as_ref()?;
        let (told, zone) = (told(vm), spec.time_zone.as_deref());
        let schedule = match told {
            Some(_) => times::Schedule::read(&spec.schedule, zone),
            None => times::Schedule::parse(&spec.schedule, zone, SNAPSHOTS_APART),
        };
        let schedule = match schedule {
            Ok(schedule) => schedule,
            Err(invalid) => return Some(Err(invalid)),
        };
        let now = seen.now;
        let own = all.iter().filter_map(|it| Own::of(vm, it, now));
        let own: Vec<_> = own.collect();
        let since = told.map_or_else(|| whole_seconds(now), |it| it.since.0.min(now));
        let begun = own.iter().map(|it| it.due.at);
        let begun = begun.chain(told.and_then(|it| Some(it.last.as_ref()?.0)));
        let begun = begun.filter(|at| *at <= now).max();
        // Those that go count as begun alone.
        let stays = |it: &Own<'_>| it.object.metadata.deletion_timestamp.is_none();
        let own: Vec<_> = own.into_iter().filter(stays).collect();
        let taken = own.iter().map(|it| Taken {
            name: &it.name,
            at: it.at,
            state: it.state,
            is_protected: it.is_kept(now)
                || is_needed(view, it)
                || is_last_of_lost(view, it, &own, all),
        });
        let taken: Vec<_> = taken.collect();
        let pause = pause(view, seen);
        let plan = times::plan(&times::Seen {
            schedule: &schedule,
            since,
            begun,
            offset: times::offset(vm.uid, SPREAD),
            taken: &taken,
            keep: spec.keep as usize,
            most_failures: spec.max_failures as usize,
            is_paused: pause.is_some(),
            is_unchanged: is_unchanged(&own, seen),
            now,
        });
        let decided = Decided {
            take: plan.take,
            skip: plan.skip,
            delete: plan.delete.into_iter().map(str::to_owned).collect(),
            standing: plan.standing,
            look_again: plan.look_again,
        };
        Some(Ok(Self {
            vm,
            seen,
            spec,
            since,
            begun,
            own,
            pause,
            decided,
        }))
    }

    /// The name of the one that is due at this time, where somebody has made one by hand.
    fn occupied(&self, due: Timestamp) -> Option<String> {
        let name = times::name(self.vm.name, due);
        let mut all = self.seen.snapshots.iter().flatten();
        all.any(|it| it.name_any() == name).then_some(name)
    }

    /// The snapshot that is due at this time.
    fn snapshot(&self, due: Timestamp) -> KiteSnapshot {
        let name = times::name(self.vm.name, due);
        let machine = self.seen.machine.as_ref().and_then(at_rest);
        let due = Due { at: due, machine };
        schedule::snapshot(self.vm, name, self.spec, &due)
    }

    fn status(&self) -> ScheduleStatus {
        let next = self.decided.look_again;
        ScheduleStatus {
            schedule: self.spec.schedule.clone(),
            time_zone: self.spec.time_zone.clone(),
            since: Time(self.since),
            last: self.decided.skip.or(self.begun).map(Time),
            next: next.map(|it| Time(whole_seconds(it))),
        }
    }

    fn told(&self) -> NewCondition {
        let (keep, schedule) = (self.spec.keep, &self.spec.schedule);
        let zone = self.spec.time_zone.as_deref().unwrap_or("UTC");
        if let Standing::Suspended(failures) = self.decided.standing {
            return no("ScheduleSuspended", self.failed(failures));
        }
        if let Some(Refusal { why, .. }) = refusal(Refused::Taking, self.vm, self.seen) {
            let message = format!(
                "the API server refuses the snapshot that is due: {why}; where that is a quota, \
                 it needs room for one more than the {keep} of spec.snapshots.keep, beside those \
                 that have failed, are lost, are kept or were taken by hand"
            );
            return no("SnapshotRefused", message);
        }
        if let Some(Refusal { why, .. }) = refusal(Refused::Clearing, self.vm, self.seen) {
            let names = self.decided.delete.join(", ");
            let message = format!("the API server refuses that old snapshots go ({names}): {why}");
            return no("SnapshotRefused", message);
        }
        if let Some(why) = self.pause {
            return no("ScheduleWaits", format!("no snapshot is taken {why}"));
        }
        if let Some(name) = self.decided.take.and_then(|due| self.occupied(due)) {
            let message = format!(
                "no snapshot is taken for this time: there is a KiteSnapshot {name} that the \
                 schedule has not made; delete it, or wait for the next time"
            );
            return no("ScheduleWaits", message);
        }
        NewCondition::new(
            SNAPSHOTS_SCHEDULED,
            true,
            "ScheduleFollowed",
            format!(
                "snapshots are taken by the schedule {schedule:?} ({zone}), within ten minutes, \
                 and the last {keep} that can be restored are kept"
            ),
        )
    }

    /// What is said where so many have failed.
    fn failed(&self, failures: usize) -> String {
        let failed = |it: &&Own<'_>| matches!(it.state, State::Failed | State::Stuck);
        let mut failed: Vec<_> = self.own.iter().filter(failed).collect();
        failed.sort_by_key(|it| it.at);
        let why = failed.last().and_then(|it| {
            let status = it.object.status.as_ref()?;
            let failure = status.failure.as_ref().map(|it| &it.message);
            let told = || Some(&conditions::find(&status.conditions, READY)?.message);
            reports::bounded(failure.or_else(told)?)
        });
        let why = why.unwrap_or_else(|| "nobody says why".to_owned());
        let names: Vec<_> = failed.iter().map(|it| it.name.as_str()).collect();
        format!(
            "the last {failures} snapshots have failed, and no more are taken: {}. Mend that and \
             delete those that failed (kubectl delete kitesnapshot -n {} {}), or change \
             spec.snapshots.schedule",
            match failed.last().map(|it| it.state) {
                Some(State::Stuck) => format!("the last one comes to no end ({why})"),
                _ => why,
            },
            self.vm.namespace,
            names.join(" ")
        )
    }
}

impl<'a> Own<'a> {
    /// The snapshot, if it is one that the schedule has made: not a copy of one under another
    /// name, nor of another VM.
    fn of(vm: &Vm<'_>, object: &'a KiteSnapshot, now: Timestamp) -> Option<Self> {
        let due = schedule::due(vm, object)?;
        let name = object.name_any();
        let spec = &object.spec;
        let is_of_vm = spec.vm == vm.name && spec.vm_uid.as_deref() == Some(vm.uid);
        if !is_of_vm || name != times::name(vm.name, due.at) {
            return None;
        }
        let created = object.metadata.creation_timestamp.as_ref();
        let created = created.map_or(due.at, |it| it.0);
        let late = created.checked_add(PATIENCE).ok();
        Some(Self {
            state: state(object, late.is_some_and(|it| it <= now)),
            late,
            at: due.at.min(created),
            object,
            name,
            due,
        })
    }

    /// Whether its owner keeps it, or nobody can read whether they do.
    fn is_kept(&self, now: Timestamp) -> bool {
        self.object.is_kept(now) || self.object.unreadable().is_some()
    }

    /// What it was taken of.
    fn source(&self) -> Option<&'a SnapshotSource> {
        source(self.object)
    }
}

fn source(snapshot: &KiteSnapshot) -> Option<&SnapshotSource> {
    snapshot.status.as_ref()?.source.as_ref()
}

fn state(snapshot: &KiteSnapshot, is_late: bool) -> State {
    let status = snapshot.status.as_ref();
    let has_failed = status.is_some_and(|it| it.failure.is_some());
    match status.and_then(|it| it.phase) {
        _ if has_failed => State::Failed,
        Some(SnapshotPhase::Ready) if snapshot.unreadable().is_none() => State::Good,
        Some(SnapshotPhase::Lost) => State::Lost,
        Some(SnapshotPhase::Failed) => State::Failed,
        _ if is_late => State::Stuck,
        _ => State::Going,
    }
}

/// Whether a restore of the VM that is not carried out wants the snapshot, or the copy that was
/// made from it may not be whole.
fn is_needed(view: &View<'_>, own: &Own<'_>) -> bool {
    let name = own.name.as_str();
    let restore = view.vm.object.spec.restore.as_ref();
    let wanted = restore.and_then(|it| it.snapshot.as_deref());
    let mut disks = view.disks.iter();
    (wanted == Some(name) && view.is_asked())
        || disks.any(|it| it.copy_of == Some(name) && !it.is_proven)
}

/// Whether it is the last of a disk that was lost: another has its claim's name by now, as no
/// disk of a restore has. Newer ones show nothing of what was on it, unless the VM has a disk
/// again that is copied from one of it.
fn is_last_of_lost(
    view: &View<'_>,
    own: &Own<'_>,
    others: &[Own<'_>],
    all: &[KiteSnapshot],
) -> bool {
    let Some(of) = own.source() else {
        return false;
    };
    let is_other = |uid: &str| uid != of.claim_uid;
    let has_successor = view.claim_uid(&of.claim).is_some_and(is_other)
        || others.iter().any(|it| {
            let source = it.source().filter(|it| it.claim == of.claim);
            it.at > own.at && source.is_some_and(|it| is_other(&it.claim_uid))
        });
    let is_alike = |it: &&Own<'_>| it.source().is_some_and(|it| it.claim_uid == of.claim_uid);
    let good = others.iter().filter(|it| it.state == State::Good);
    let is_last = good.filter(is_alike).all(|it| it.at <= own.at);
    let known = view.seen();
    let present = known.current().and_then(|(_, disk)| disk);
    let copied = present.filter(|it| it.is_proven).and_then(|it| it.copy_of);
    let is_back = copied.is_some_and(|name| {
        let mut all = all.iter().filter(|it| it.name_any() == name);
        all.any(|it| source(it).is_some_and(|it| it.claim_uid == of.claim_uid))
    });
    has_successor && is_last && !is_back
}

/// Whether nothing has run since the last good one, which was taken while nothing ran.
fn is_unchanged(own: &[Own<'_>], seen: &Observed) -> bool {
    let good = own.iter().filter(|it| it.state == State::Good);
    let Some(last) = good.max_by_key(|it| it.at) else {
        return false;
    };
    let status = last.object.status.as_ref();
    status.and_then(|it| it.consistency) == Some(Consistency::Offline)
        && seen.instance.is_none()
        && last.due.machine.is_some()
        && last.due.machine == seen.machine.as_ref().and_then(at_rest)
}

/// Uid and generation of a machine that is to be off.
fn at_rest(machine: &VirtualMachine) -> Option<String> {
    let is_off = machine.spec.run_strategy.as_deref() == Some("Halted");
    let generation = machine.metadata.generation?;
    let uid = machine.metadata.uid.as_deref()?;
    is_off.then(|| format!("{uid}/{generation}"))
}

/// Why none is begun now, if that is so.
fn pause(view: &View<'_>, seen: &Observed) -> Option<&'static str> {
    let owner = seen.owner.as_ref();
    if owner.is_some_and(|it| it.spec.suspended) {
        return Some("while the VM's owner is suspended");
    }
    let known = view.seen();
    let present = known.current().and_then(|(_, disk)| disk);
    if lost::loss(view.vm, seen) == Some(Loss::Remade) {
        return Some("of a disk that is another than the guest had");
    }
    let is_proven = match present {
        Some(disk) if disk.is_leaving => return Some("of a disk that is being deleted"),
        Some(disk) => disk.is_proven,
        None if lost::is_unmanaged(view.vm, seen) => {
            let status = view.vm.object.status.as_ref();
            let has_run_on = status.and_then(|it| it.disk.as_ref()?.has_run_on.clone());
            let claim = seen.claim.as_ref().and_then(|it| it.metadata.uid.clone());
            claim.is_some() && claim == has_run_on
        }
        None => return Some("as long as there is no disk"),
    };
    (!is_proven).then_some("before a guest has run on the disk: start the VM once")
}

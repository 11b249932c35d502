//! Snapshots that are taken by a schedule, and those of them that go again.
//!
//! What is due and what may go [`kite_disks::schedule`] decides; here is what was seen, in its
//! words. A snapshot is named by the time that it was due, so that two of us make one; what was
//! begun stands in the status, so that one which its owner deletes is not taken anew.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    conditions::NewCondition,
    crd::{
        Consistency, KiteSnapshot, KiteVirtualMachineStatus, ScheduleStatus, SnapshotPhase,
        SnapshotSchedule, vm_condition::SNAPSHOTS_SCHEDULED,
    },
    kubevirt::VirtualMachine,
};
use kite_disks::schedule::{self as times, Schedule, Standing, State, Taken};
use kite_render::{
    Vm,
    schedule::{self, Due},
};
use kube::ResourceExt as _;

use super::{
    disks::View,
    draft::{Seen, VmDraft},
    expiry::whole_seconds,
    observe::Observed,
};
use crate::{
    plan::{Change, Step},
    refused::Refused,
    reports,
    stage::{Flow, Stage},
    standing::guarded,
};

/// Time between two of a VM at least.
const LEAST_GAP: Duration = Duration::from_secs(3600);

/// Within how long after their time those of all VMs are begun.
const SPREAD: Duration = Duration::from_secs(600);

/// Goes by `snapshots`, `disk`, `claim`, `machine`, `instance`, `owner`, `refused` and `now`.
pub(super) struct Scheduled;

impl Stage<VmDraft<'_>> for Scheduled {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let Some(Ok(known)) = Known::of(&draft.view, draft.seen) else {
            return Flow::Next;
        };
        let plan = known.plan();
        if let Some(due) = plan.take
            && refusal(draft.vm, draft.seen).is_none()
        {
            let snapshot = known.snapshot(due);
            draft
                .steps
                .push(Step::Change(Change::Take(guarded(&snapshot, None).into())));
        }
        let go = known.own.iter();
        let go = go.filter(|it| plan.delete.contains(&it.name_any()));
        let go = go.map(|&it| Step::Change(Change::DeleteUnchanged(it.clone().into())));
        draft.steps.extend(go);
        Flow::Next
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        let told = match Known::of(&draft.view, draft.seen)? {
            Ok(known) => known.told(),
            Err(invalid) => no("ScheduleInvalid", format!("spec.snapshots: {invalid}")),
        };
        Some(told)
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        let known = Known::of(&draft.view, draft.seen).and_then(Result::ok);
        status.snapshots = known.map(|known| known.status());
    }

    fn deadline(&self, (vm, seen): &Seen<'_>) -> Option<Timestamp> {
        vm.object.spec.snapshots.as_ref()?;
        let view = View::of(vm, super::disks::Known::of(seen));
        let known = Known::of(&view, seen)?.ok()?;
        known.plan().look_again
    }
}

fn no(reason: &str, message: String) -> NewCondition {
    NewCondition::new(SNAPSHOTS_SCHEDULED, false, reason, message)
}

/// Why none can be made for now.
fn refusal<'a>(vm: &Vm<'_>, seen: &'a Observed) -> Option<&'a str> {
    let refusal = Refused::Taking.among(&seen.refused, &vm.object.metadata)?;
    Some(&refusal.why)
}

/// A schedule, and what came of it so far.
struct Known<'a> {
    vm: &'a Vm<'a>,
    seen: &'a Observed,
    spec: &'a SnapshotSchedule,
    schedule: Schedule,
    since: Timestamp,
    begun: Option<Timestamp>,
    /// Those that it has made.
    own: Vec<&'a KiteSnapshot>,
    dues: Vec<Due>,
    names: Vec<String>,
    /// Why none is begun now.
    pause: Option<&'static str>,
}

impl<'a> Known<'a> {
    /// What is known of the VM's schedule, or why it is none.
    fn of(view: &View<'a>, seen: &'a Observed) -> Option<Result<Self, times::Invalid>> {
        let vm = view.vm;
        let spec = vm.object.spec.snapshots.as_deref()?;
        // What was not looked at may be there.
        let all = seen.snapshots.as_ref()?;
        let told = vm.object.status.as_ref();
        let told = told.and_then(|it| it.snapshots.as_ref());
        let told = told.filter(|it| it.schedule == spec.schedule && it.time_zone == spec.time_zone);
        let zone = spec.time_zone.as_deref();
        let schedule = match told {
            Some(_) => Schedule::read(&spec.schedule, zone),
            None => Schedule::parse(&spec.schedule, zone, LEAST_GAP),
        };
        let schedule = match schedule {
            Ok(schedule) => schedule,
            Err(invalid) => return Some(Err(invalid)),
        };
        let own = all
            .iter()
            .filter_map(|it| Some((it, schedule::due(vm, it)?)));
        let own: Vec<_> = own.collect();
        let last = own.iter().map(|(_, due)| due.at);
        let last = last.filter(|at| *at <= seen.now).max();
        // Those that go count as begun alone.
        let stays = |it: &(&KiteSnapshot, Due)| it.0.metadata.deletion_timestamp.is_none();
        let (own, dues): (Vec<_>, Vec<_>) = own.into_iter().filter(stays).unzip();
        Some(Ok(Self {
            vm,
            seen,
            spec,
            schedule,
            since: told.map_or_else(|| whole_seconds(seen.now), |it| it.since.0),
            begun: told.and_then(|it| Some(it.last.as_ref()?.0)).max(last),
            names: own.iter().map(|it| it.name_any()).collect(),
            own,
            dues,
            pause: pause(view, seen),
        }))
    }

    fn plan(&self) -> Decided {
        let taken: Vec<Taken<'_>> = (0..self.own.len()).map(|at| self.taken(at)).collect();
        let plan = times::plan(&times::Seen {
            schedule: &self.schedule,
            since: self.since,
            begun: self.begun,
            offset: times::offset(self.vm.uid, SPREAD),
            taken: &taken,
            keep: self.spec.keep as usize,
            most_failures: self.spec.max_failures as usize,
            is_paused: self.pause.is_some(),
            is_unchanged: self.is_unchanged(&taken),
            now: self.seen.now,
        });
        // Somebody has made one of that name by hand.
        let is_free = |due: &Timestamp| {
            let name = times::name(self.vm.name, *due);
            let mut all = self.seen.snapshots.iter().flatten();
            !all.any(|it| it.name_any() == name)
        };
        Decided {
            take: plan.take.filter(is_free),
            skip: plan.skip,
            delete: plan.delete.into_iter().map(str::to_owned).collect(),
            standing: plan.standing,
            look_again: plan.look_again,
        }
    }

    fn taken(&self, at: usize) -> Taken<'_> {
        let snapshot = self.own[at];
        Taken {
            name: &self.names[at],
            at: self.dues[at].at,
            state: state(snapshot),
            is_protected: snapshot.is_kept(self.seen.now) || snapshot.unreadable().is_some(),
        }
    }

    /// Whether nothing has run since the last good one, which was taken while nothing ran.
    fn is_unchanged(&self, taken: &[Taken<'_>]) -> bool {
        let good = taken.iter().zip(&self.own).zip(&self.dues);
        let good = good.filter(|((it, _), _)| it.state == State::Good);
        let Some(((_, last), due)) = good.max_by_key(|((it, _), _)| it.at) else {
            return false;
        };
        let consistency = last.status.as_ref().and_then(|it| it.consistency);
        let machine = self.seen.machine.as_ref();
        consistency == Some(Consistency::Offline)
            && self.seen.instance.is_none()
            && due.machine.is_some()
            && due.machine == machine.and_then(at_rest)
    }

    /// The snapshot that is due at this time.
    fn snapshot(&self, due: Timestamp) -> KiteSnapshot {
        let name = times::name(self.vm.name, due);
        let machine = self.seen.machine.as_ref().and_then(at_rest);
        let due = Due { at: due, machine };
        schedule::snapshot(self.vm, name, self.spec, &due)
    }

    fn status(&self) -> ScheduleStatus {
        let plan = self.plan();
        let next = plan.look_again;
        ScheduleStatus {
            schedule: self.spec.schedule.clone(),
            time_zone: self.spec.time_zone.clone(),
            since: Time(self.since),
            last: plan.skip.or(self.begun).map(Time),
            next: next.map(|it| Time(whole_seconds(it))),
        }
    }

    fn told(&self) -> NewCondition {
        let (keep, schedule) = (self.spec.keep, &self.spec.schedule);
        let zone = self.spec.time_zone.as_deref().unwrap_or("UTC");
        match (
            self.plan().standing,
            self.pause,
            refusal(self.vm, self.seen),
        ) {
            (Standing::Suspended(failures), ..) => no("ScheduleSuspended", self.failed(failures)),
            (_, _, Some(why)) => no(
                "SnapshotRefused",
                format!(
                    "the API server refuses the snapshot that is due: {why}; make room in the \
                     quota, which needs one more than spec.snapshots.keep says, {keep}, or keep \
                     fewer"
                ),
            ),
            (_, Some(why), _) => no("ScheduleWaits", format!("no snapshot is taken {why}")),
            (Standing::Waits | Standing::Takes | Standing::Paused, None, None) => {
                NewCondition::new(
                    SNAPSHOTS_SCHEDULED,
                    true,
                    "ScheduleFollowed",
                    format!(
                        "snapshots are taken by the schedule {schedule:?} ({zone}), within ten \
                         minutes, and the last {keep} that can be restored are kept"
                    ),
                )
            }
        }
    }

    /// What is said where so many have failed.
    fn failed(&self, failures: usize) -> String {
        let failed = self.own.iter().zip(&self.dues);
        let mut failed: Vec<_> = failed
            .filter(|(it, _)| state(it) == State::Failed)
            .collect();
        failed.sort_by_key(|(_, due)| due.at);
        let why = failed.last().and_then(|(it, _)| {
            let failure = it.status.as_ref()?.failure.as_ref()?;
            reports::bounded(&failure.message)
        });
        let names: Vec<_> = failed.iter().map(|(it, _)| it.name_any()).collect();
        format!(
            "the last {failures} snapshots have failed, and no more are taken: {}. Mend that and \
             delete those that failed (kubectl delete kitesnapshot -n {} {}), or change \
             spec.snapshots.schedule",
            why.unwrap_or_else(|| "nobody says why".to_owned()),
            self.vm.namespace,
            names.join(" ")
        )
    }
}

/// What is decided.
struct Decided {
    take: Option<Timestamp>,
    skip: Option<Timestamp>,
    delete: Vec<String>,
    standing: Standing,
    look_again: Option<Timestamp>,
}

fn state(snapshot: &KiteSnapshot) -> State {
    let status = snapshot.status.as_ref();
    let has_failed = status.is_some_and(|it| it.failure.is_some());
    match status.and_then(|it| it.phase) {
        _ if has_failed => State::Failed,
        Some(SnapshotPhase::Ready) if snapshot.unreadable().is_none() => State::Good,
        Some(SnapshotPhase::Lost) => State::Lost,
        Some(SnapshotPhase::Failed) => State::Failed,
        _ => State::Going,
    }
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
    match present {
        Some(disk) if disk.is_leaving => Some("of a disk that is being deleted"),
        Some(disk) if disk.is_proven => None,
        Some(_) => Some("before a guest has run on the disk: start the VM once"),
        None => Some("as long as there is no disk"),
    }
}

//! What can happen: users' words, what storage and the machine do by themselves, rivals, and
//! a controller whose views are of several ages, beside one that sees all at once.

use kite_disks::Fill;
use stateright::{Model, Property};

use crate::acts::Do;
use crate::state::{Budget, Busy, KINDS, Kind, World, bit};
use crate::world::{Asked, Data, Driver, Instance, MOST, SnapshotObject, Source};

pub struct Histories {
    pub driver: Driver,
    pub budget: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Ask(Source),
    /// An earlier request comes back.
    AskAgain(u8),
    AskNoMore,
    TakeSnapshot {
        is_protected: bool,
    },
    DeleteSnapshot(u8),
    /// The owner deletes the machine.
    EndIt,

    Tick,
    SayDone(u8),
    Copied(u8),
    CopyFails(u8),
    Appear,
    Run,
    End,
    /// What has left the API server is gone.
    Gone(u8),
    RobDisk(u8),
    RobMachine,
    /// Somebody points the machine at another disk.
    RobPointer(u8),
    /// Somebody takes the mark off the machine's disk, or off the machine.
    RobMark,
    RobMachineMark,
    /// The controller that sees all at once.
    Prompt(Do),
    See(Kind),
    /// Its plan has a step for which all is read again.
    MakeCertain,
    Decide(Do),
    Read,
    Act,
    /// A crash, or a lost request.
    Forget,
}

impl World {
    /// What storage and the machine do by themselves, sooner or later.
    pub fn progress(&self, driver: Driver, steps: &mut Vec<Step>) {
        for (place, disk) in (0u8..).zip(&self.api.disks) {
            let Some(disk) = disk else { continue };
            let volume = self.volumes[usize::from(disk.uid)];
            if let Data::Copying(_) = volume {
                steps.push(Step::Copied(place));
                if driver.is_early && disk.fill == Fill::Going {
                    steps.push(Step::SayDone(place));
                }
            }
            if volume == Data::Broken && disk.fill == Fill::Going {
                steps.push(Step::CopyFails(place));
            }
            let is_used = self.api.instance.is_some_and(|it| it.disk == place);
            if disk.is_leaving && !is_used {
                steps.push(Step::Gone(place));
            }
        }
        let wants = self.api.machine.filter(|it| !it.is_halted);
        match (wants, self.api.instance) {
            (Some(machine), None) => {
                let disk = self.disk(machine.disk);
                if disk.is_some_and(|it| !it.is_leaving && it.fill == Fill::Done) {
                    steps.push(Step::Appear);
                }
            }
            (None, Some(_)) => steps.push(Step::End),
            // It is attached once its data is there.
            (Some(_), Some(it)) if !it.runs && self.volume(it.disk) == Data::Whole => {
                steps.push(Step::Run);
            }
            _ => {}
        }
    }

    fn words(&self, steps: &mut Vec<Step>) {
        if self.left.requests > 0 {
            for (place, snapshot) in (0u8..).zip(&self.api.snapshots) {
                if snapshot.is_some_and(|it| !it.is_leaving) {
                    steps.push(Step::Ask(Source::Snapshot(place)));
                }
            }
            steps.push(Step::Ask(Source::Image));
            for (place, disk) in (0u8..).zip(&self.api.disks) {
                if disk.is_some_and(|it| it.mark.is_some()) {
                    steps.push(Step::Ask(Source::Former(place)));
                }
            }
            if self.api.request.is_some() {
                steps.push(Step::AskNoMore);
            }
            let asked = self.api.request.map(|it| it.at);
            let earlier = (0..self.requests).filter(|it| asked != Some(*it));
            steps.extend(earlier.map(Step::AskAgain));
        }
        if self.left.snapshots > 0 && self.cuts.contains(&Data::None) {
            let pointed = self
                .api
                .machine
                .map_or(Data::None, |it| self.volume(it.disk));
            if pointed == Data::Whole {
                steps.extend([false, true].map(|it| Step::TakeSnapshot { is_protected: it }));
            }
        }
        if self.left.deletions > 0 {
            for (place, snapshot) in (0u8..).zip(&self.api.snapshots) {
                if snapshot.is_some_and(|it| !it.is_leaving) {
                    steps.push(Step::DeleteSnapshot(place));
                }
            }
        }
        if self.left.ends > 0 {
            steps.push(Step::EndIt);
        }

        if self.left.ticks > 0 {
            steps.push(Step::Tick);
        }
    }

    fn faults(&self, steps: &mut Vec<Step>) {
        for (place, disk) in (0u8..).zip(&self.api.disks) {
            let Some(disk) = disk else { continue };
            let copies = matches!(self.volumes[usize::from(disk.uid)], Data::Copying(_));
            if self.left.failures > 0 && copies {
                steps.push(Step::CopyFails(place));
            }
            if self.left.rivals > 0 && !disk.is_leaving {
                steps.push(Step::RobDisk(place));
            }
        }
        if let Some(machine) = self.api.machine
            && self.left.rivals > 0
        {
            steps.push(Step::RobMachine);
            let disks = (0u8..).zip(&self.api.disks);
            let others = disks
                .filter(|(at, it)| it.is_some_and(|it| it.mark.is_some()) && *at != machine.disk);
            steps.extend(others.map(|(at, _)| Step::RobPointer(at)));
            if self.disk(machine.disk).is_some_and(|it| it.mark.is_some()) {
                steps.push(Step::RobMark);
            }
            if machine.mark.is_some() {
                steps.push(Step::RobMachineMark);
            }
        }
    }
}

impl Model for Histories {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.budget)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.words(steps);
        world.faults(steps);
        world.progress(self.driver, steps);
        let (acts, _) = world.planned(&world.api, self.driver);
        steps.extend(acts.into_iter().map(Step::Prompt));
        if self.budget.old_steps == 0 {
            return;
        }
        match world.busy {
            Busy::No if world.left.old_steps > 0 => {
                let kinds = KINDS.into_iter().filter(|it| !world.is_seen(*it));
                steps.extend(kinds.map(Step::See));
                let (acts, _) = world.planned(&world.view, self.driver);
                // Who starts a machine need not make certain.
                if acts.contains(&Do::Start) {
                    steps.push(Step::Decide(Do::Start));
                }
                if acts.iter().any(|it| *it != Do::Start) {
                    steps.push(Step::MakeCertain);
                }
            }
            Busy::No => {}
            Busy::Reads(_) => steps.extend([Step::Read, Step::Forget]),
            Busy::Knows => {
                let (acts, _) = world.planned(&world.view, self.driver);
                steps.extend(acts.into_iter().map(Step::Decide));
                steps.push(Step::Forget);
            }
            Busy::Acts(_) => steps.extend([Step::Act, Step::Forget]),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of step")]
    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        let driver = self.driver;
        match step {
            Step::Ask(from) => {
                world.left.requests -= 1;
                world.api.request = Some(Asked {
                    at: world.requests,
                    from,
                });
                world.sources[usize::from(world.requests)] = from;
                world.requests += 1;
            }
            Step::AskAgain(at) => {
                world.left.requests -= 1;
                let from = world.sources[usize::from(at)];
                world.api.request = Some(Asked { at, from });
            }
            Step::AskNoMore => {
                world.left.requests -= 1;
                world.api.request = None;
            }
            Step::TakeSnapshot { .. } => {
                world.left.snapshots -= 1;
                let at = world.cuts.iter().position(|it| *it == Data::None)?;
                let of = world.api.machine?.disk;
                world.cuts[at] = world.volume(of);
                world.cut_of[at] = world.disk(of)?.uid;
                world.api.snapshots[at] = Some(SnapshotObject {
                    of,
                    is_protected: step == Step::TakeSnapshot { is_protected: true },
                    is_leaving: false,
                });
            }
            Step::EndIt => {
                world.left = Budget {
                    ends: 0,
                    requests: 0,
                    snapshots: 0,
                    ..world.left
                };
                world.api.is_ended = true;
            }
            Step::DeleteSnapshot(at) => {
                world.left.deletions -= 1;
                world.api.snapshots[usize::from(at)].as_mut()?.is_leaving = true;
            }

            Step::Tick => {
                world.left.ticks -= 1;
                world.clock += 1;
                // No request is on its way for as long as disks are kept.
                world.busy = Busy::No;
            }
            Step::SayDone(place) => world.disk_mut(place)?.fill = Fill::Done,
            Step::Copied(place) => {
                let uid = usize::from(world.disk(place)?.uid);
                world.volumes[uid] = match world.volumes[uid] {
                    Data::Copying(Some(cut)) => world.cuts[usize::from(cut)],
                    _ => Data::Whole,
                };
                world.disk_mut(place)?.fill = Fill::Done;
            }
            Step::CopyFails(place) => {
                let uid = usize::from(world.disk(place)?.uid);
                if world.volumes[uid] != Data::Broken {
                    world.left.failures -= 1;
                }
                world.volumes[uid] = Data::Broken;
                let disk = world.disk_mut(place)?;
                // Who has said that it is done does not take that back.
                if disk.fill == Fill::Going {
                    disk.fill = Fill::Failed;
                }
            }
            Step::Appear => {
                let disk = world.api.machine?.disk;
                world.api.instance = Some(Instance { disk, runs: false });
            }
            Step::Run => {
                let instance = world.api.instance.as_mut()?;
                instance.runs = true;
                let disk = instance.disk;
                world.ran = world.disk(disk)?.uid;
            }
            Step::End => world.api.instance = None,
            Step::Gone(place) => world.lose(place, driver),
            Step::RobDisk(place) => {
                world.left.rivals -= 1;
                let disk = world.disk_mut(place)?;
                disk.is_leaving = true;
                let uid = disk.uid;
                world.robbed |= bit(uid);
            }
            Step::RobPointer(place) => {
                world.left.rivals -= 1;
                world.api.machine.as_mut()?.disk = place;
            }
            Step::RobMark => {
                world.left.rivals -= 1;
                let disk = world.api.machine?.disk;
                world.disk_mut(disk)?.mark = None;
            }
            Step::RobMachineMark => {
                world.left.rivals -= 1;
                world.api.machine.as_mut()?.mark = None;
            }
            Step::RobMachine => {
                world.left.rivals -= 1;
                world.api.machine = None;
            }
            Step::Prompt(act) => world.carry_out(act, &last.api, driver)?,
            Step::See(kind) => world.see(kind),
            Step::MakeCertain => {
                world.left.old_steps -= 1;
                world.busy = Busy::Reads(0);
            }
            Step::Decide(act) => {
                if world.busy == Busy::No {
                    world.left.old_steps -= 1;
                }
                world.busy = Busy::Acts(act);
            }
            Step::Read => {
                let Busy::Reads(kind) = world.busy else {
                    return None;
                };
                world.see(KINDS[usize::from(kind)]);
                world.busy = if usize::from(kind) + 1 < KINDS.len() {
                    Busy::Reads(kind + 1)
                } else {
                    Busy::Knows
                };
            }
            Step::Act => {
                let Busy::Acts(act) = world.busy else {
                    return None;
                };
                world.busy = Busy::No;
                let view = world.view.clone();
                if world.carry_out(act, &view, driver).is_none() {
                    world.happened.refused_old = true;
                }
            }
            Step::Forget => world.busy = Busy::No,
        }
        Some(world)
    }

    fn within_boundary(&self, world: &World) -> bool {
        usize::from(world.uids) < MOST
    }

    fn properties(&self) -> Vec<Property<Self>> {
        crate::properties::all()
    }
}

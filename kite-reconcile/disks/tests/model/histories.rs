//! What can happen: users' words, what storage and the machine do by themselves, rivals, and
//! a controller whose views are of several ages, beside one that sees all at once.

use kite_disks::{Act, End, Fill, From, Plan, Standing, may_be_deleted, plan, plan_end};
use stateright::{Model, Property};

use crate::world::{
    Api, Asked, Data, DiskObject, Driver, Instance, MOST, MachineObject, Marked, SNAPSHOTS,
    SnapshotObject, Source, number, request, unmark,
};

/// How much of each may happen in one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub requests: u8,
    pub snapshots: u8,
    pub deletions: u8,
    pub ends: u8,
    pub writes: u8,
    pub ticks: u8,
    pub rivals: u8,
    pub failures: u8,
    /// How often the controller with old views takes a step.
    pub old_steps: u8,
}

pub struct Histories {
    pub driver: Driver,
    pub budget: Budget,
}

/// A kind of object, of which a view has an age of its own. They are read in this order
/// before a step that has to be certain.
const KINDS: [Kind; 5] = [
    Kind::Request,
    Kind::Disks,
    Kind::Snapshots,
    Kind::Machine,
    Kind::Instance,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What the machine's owner says.
    Request,
    Disks,
    Snapshots,
    Machine,
    Instance,
}

/// A step of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Do {
    Make {
        place: u8,
        asked: Asked,
    },
    Stop,
    Start,
    /// Deletes the machine that was ended.
    Destroy,
    Mark {
        disk: u8,
        mark: Marked,
    },
    Point {
        disk: u8,
        mark: Marked,
    },
    Prove {
        disk: u8,
    },
    Delete {
        disk: u8,
    },
    Release {
        snapshot: u8,
    },
}

/// What the controller with old views is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Busy {
    No,
    /// It reads all again, and has come to this kind.
    Reads(u8),
    /// It has read all again, and not decided yet.
    Knows,
    /// The step is on its way.
    Acts(Do),
}

/// What must not have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "none depends on another")]
pub struct Harm {
    /// A disk went that was in use, or kept, or that a snapshot needed.
    pub deleted: bool,
    /// The machine went back to a former disk by itself, or a request was carried out twice.
    pub went_back: bool,
    /// The machine was pointed elsewhere while its guest ran.
    pub pulled_away: bool,
    /// A disk that has been written to came for a copy.
    pub is_stale: bool,
    /// A snapshot went while it was copied.
    pub broke_a_copy: bool,
}

/// What has happened, to see that the histories come there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "none depends on another")]
pub struct Happened {
    pub restored: bool,
    pub undone: bool,
    pub cleared: bool,
    pub refused_old: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub api: Api,
    pub left: Budget,
    pub clock: u8,
    /// By the uid of their disks.
    pub volumes: [Data; MOST],
    pub cuts: [Data; 2],
    /// Uids of the disks that the cuts are of.
    pub cut_of: [u8; 2],
    pub uids: u8,
    pub machines: u8,
    pub written: u8,
    pub requests: u8,
    /// What was asked for, by the value.
    pub sources: [Source; MOST],
    pub view: Api,
    pub busy: Busy,
    /// Requests by which the machine was pointed elsewhere.
    pub carried: u8,
    /// Uid of the disk that the machine was pointed at last.
    pub pointed: u8,
    /// Uid of the disk that a guest ran on last.
    pub ran: u8,
    /// When the machine was pointed elsewhere, by uid.
    pub left_at: [Option<u8>; MOST],
    /// Uids of what somebody else has deleted.
    pub robbed: u8,
    pub harm: Harm,
    pub happened: Happened,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Ask(Source),
    /// An earlier request, by its value.
    AskAgain(u8),

    AskNoMore,
    TakeSnapshot {
        is_protected: bool,
    },
    DeleteSnapshot(u8),
    /// The owner deletes the machine.
    EndIt,
    /// A guest writes.
    Write,
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
    /// Somebody takes the mark off the machine's disk.
    RobMark,
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

fn bit(number: u8) -> u8 {
    1 << number
}

impl World {
    fn new(budget: Budget) -> Self {
        let first = Marked {
            turn: 0,
            request: None,
            since: None,
        };
        let mut disks = [None; MOST];
        disks[0] = Some(DiskObject {
            uid: 0,
            mark: Some(first),
            made_for: None,
            copy_of: None,
            fill: Fill::Done,
            is_proven: true,
            is_leaving: false,
        });
        let mut volumes = [Data::None; MOST];
        volumes[0] = Data::Whole(0);
        let api = Api {
            is_ended: false,
            request: None,
            disks,
            machine: Some(MachineObject {
                uid: 0,
                disk: 0,
                mark: first,
                is_halted: false,
            }),
            instance: Some(Instance {
                disk: 0,
                runs: true,
            }),
            snapshots: [None; 2],
        };
        Self {
            view: api.clone(),
            api,
            left: budget,
            clock: 0,
            volumes,
            cuts: [Data::None; 2],
            cut_of: [0; 2],
            uids: 1,
            machines: 1,
            written: 0,
            requests: 0,
            sources: [Source::Image; MOST],
            busy: Busy::No,
            carried: 0,
            pointed: 0,
            ran: 0,
            left_at: [None; MOST],
            robbed: 0,
            harm: Harm::default(),
            happened: Happened::default(),
        }
    }

    pub fn disk(&self, place: u8) -> Option<&DiskObject> {
        self.api.disks[usize::from(place)].as_ref()
    }

    fn disk_mut(&mut self, place: u8) -> Option<&mut DiskObject> {
        self.api.disks[usize::from(place)].as_mut()
    }

    pub fn volume(&self, place: u8) -> Data {
        let disk = self.disk(place);
        disk.map_or(Data::None, |it| self.volumes[usize::from(it.uid)])
    }

    /// What a controller would do that sees `api`, and whether it makes certain before.
    pub fn planned(&self, api: &Api, driver: Driver) -> (Vec<(Do, bool)>, Standing) {
        api.seen(driver, self.clock, |seen| {
            let plan = if api.is_ended {
                Plan {
                    acts: match plan_end(seen) {
                        End::Delete(acts) => acts,
                        End::Waits | End::Over { .. } => Vec::new(),
                    },
                    standing: Standing::Settled,
                    look_again: None,
                }
            } else {
                plan(seen)
            };
            let act = |act: &Act<'_>| match *act {
                Act::Make {
                    generation,
                    request: wanted,
                } => Do::Make {
                    place: u8::try_from(generation - 1).unwrap(),
                    asked: Asked {
                        at: request(wanted.at),
                        from: match wanted.from {
                            From::Snapshot(name) => {
                                let place = SNAPSHOTS.iter().position(|it| *it == name);
                                Source::Snapshot(place.unwrap().try_into().unwrap())
                            }
                            _ => Source::Image,
                        },
                    },
                },
                Act::Stop => Do::Stop,
                Act::Mark { disk, mark } => Do::Mark {
                    disk: number(disk),
                    mark: unmark(mark),
                },
                Act::Point { disk, mark } => Do::Point {
                    disk: number(disk),
                    mark: unmark(mark),
                },
                Act::Prove { disk } => Do::Prove { disk: number(disk) },
                Act::Delete { disk } => Do::Delete { disk: number(disk) },
            };
            let acts = plan.acts.iter().map(|it| (act(it), it.is_certain()));
            let mut acts: Vec<_> = acts.collect();
            // What is asked for again and again changes nothing.
            acts.retain(|(it, _)| *it != Do::Stop || api.machine.is_some_and(|it| !it.is_halted));
            let waits = matches!(plan.standing, Standing::Stopping | Standing::Switching);
            if api.is_ended && api.machine.is_some() {
                acts.push((Do::Destroy, true));
            } else if !waits && api.machine.is_some_and(|it| it.is_halted) {
                acts.push((Do::Start, false));
            }
            for (place, snapshot) in api.snapshots.iter().enumerate() {
                let is_leaving =
                    snapshot.is_some_and(|it| it.is_leaving || (api.is_ended && !it.is_protected));
                let open = seen.request.filter(|_| !api.is_ended);
                if is_leaving && may_be_deleted(SNAPSHOTS[place], seen.disks, open) {
                    let snapshot = place.try_into().unwrap();
                    acts.push((Do::Release { snapshot }, true));
                }
            }
            (acts, plan.standing)
        })
    }

    /// Carries out what was planned from `basis`, unless what it rests on has changed.
    fn carry_out(&mut self, act: Do, basis: &Api, driver: Driver) -> Option<()> {
        let is_same = |it: &Self, disk: u8| {
            let place = usize::from(disk);
            basis.disks[place].is_some() && it.api.disks[place] == basis.disks[place]
        };
        let is_machine = self.api.machine == basis.machine;
        match act {
            Do::Make { place, asked } => {
                let free = self.api.disks.get(usize::from(place))?.is_none();
                if !free || usize::from(self.uids) == MOST {
                    return None;
                }
                let copy_of = match asked.from {
                    Source::Snapshot(snapshot) => Some(snapshot),
                    _ => None,
                };
                let whole =
                    copy_of.is_none_or(|it| matches!(self.cuts[usize::from(it)], Data::Whole(_)));
                self.volumes[usize::from(self.uids)] = if whole {
                    Data::Copying(copy_of)
                } else {
                    Data::Broken
                };
                self.api.disks[usize::from(place)] = Some(DiskObject {
                    uid: self.uids,
                    mark: None,
                    made_for: Some(asked.at),
                    copy_of,
                    fill: Fill::Going,
                    is_proven: false,
                    is_leaving: false,
                });
                self.uids += 1;
            }
            Do::Stop | Do::Start => {
                if !is_machine {
                    return None;
                }
                self.api.machine.as_mut()?.is_halted = act == Do::Stop;
            }
            Do::Destroy => {
                if !is_machine {
                    return None;
                }
                self.api.machine = None;
            }
            Do::Mark { disk, mark } => {
                if !is_same(self, disk) {
                    return None;
                }
                self.disk_mut(disk)?.mark = Some(mark);
            }
            Do::Prove { disk } => {
                if !is_same(self, disk) {
                    return None;
                }
                self.disk_mut(disk)?.is_proven = true;
            }
            Do::Point { disk, mark } => {
                if !is_machine {
                    return None;
                }
                self.point(disk, mark);
            }
            Do::Delete { disk } => {
                if !is_same(self, disk) {
                    return None;
                }
                self.judge_deletion(disk, driver);
                self.happened.cleared |= self.disk(disk)?.mark.is_some();
                self.lose(disk, driver);
            }
            Do::Release { snapshot } => {
                let snapshot = usize::from(snapshot);
                let object = self.api.snapshots[snapshot]?;
                if basis.snapshots[snapshot] != Some(object) {
                    return None;
                }
                let is_told = object.is_leaving || (self.api.is_ended && !object.is_protected);
                self.harm.deleted |= !is_told;
                let mut disks = self.api.disks.iter().flatten();
                let copying = Data::Copying(u8::try_from(snapshot).ok());
                self.harm.broke_a_copy |= !self.api.is_ended
                    && disks.any(|it| {
                        !it.is_leaving
                            && it.fill != Fill::Failed
                            && self.volumes[usize::from(it.uid)] == copying
                    });
                self.api.snapshots[snapshot] = None;
                self.cut_breaks(snapshot);
            }
        }
        Some(())
    }

    fn point(&mut self, disk: u8, mark: Marked) {
        let uid = self.disk(disk).map(|it| it.uid);
        if self.api.machine.is_none_or(|it| it.disk != disk) && self.api.instance.is_some() {
            self.harm.pulled_away = true;
        }
        if uid.is_some_and(|it| it != self.pointed) {
            self.left_at[usize::from(self.pointed)] = Some(self.clock);
            let request = mark.request.map(bit);
            let is_asked = request.is_some_and(|it| self.carried & it == 0);
            self.harm.went_back |= !is_asked;
            let source = mark.request.map(|it| self.sources[usize::from(it)]);
            let was_used = uid.is_some_and(|it| self.left_at[usize::from(it)].is_some());
            let copy_of = self.disk(disk).and_then(|it| it.copy_of);
            self.harm.is_stale |= match source {
                Some(Source::Former(former)) => former != disk,
                Some(Source::Snapshot(snapshot)) => was_used || copy_of != Some(snapshot),
                Some(Source::Image) => was_used || copy_of.is_some(),
                None => false,
            };
            self.carried |= request.unwrap_or_default();
            let was_there = self.disk(disk).is_some_and(|it| it.is_proven);
            self.happened.undone |= was_there;
            self.happened.restored |= !was_there;
        }
        self.pointed = uid.unwrap_or(self.pointed);
        let is_halted = self.api.machine.is_some_and(|it| it.is_halted);
        let uid = self.api.machine.map_or(self.machines, |it| it.uid);
        self.machines += u8::from(self.api.machine.is_none());
        self.api.machine = Some(MachineObject {
            uid,
            disk,
            mark,
            is_halted,
        });
    }

    /// Whether Kite may delete it, by what is true.
    fn judge_deletion(&mut self, place: u8, driver: Driver) {
        let Some(disk) = self.disk(place) else {
            return;
        };
        let machine = self.api.machine;
        let is_told = self.api.is_ended;
        let is_used = machine.is_some_and(|it| it.disk == place)
            || self.api.instance.is_some_and(|it| it.disk == place)
            || (self.pointed == disk.uid && !is_told);
        let is_kept = !is_told && self.left_at[usize::from(disk.uid)] == Some(self.clock);
        let snapshots = self.api.snapshots.iter().enumerate();
        let mut needed = snapshots.filter(|(at, snapshot)| {
            snapshot.is_some_and(|it| !it.is_leaving && (it.is_protected || !is_told))
                && self.cut_of[*at] == disk.uid
        });
        let is_needed = !driver.outlives && needed.next().is_some();
        let is_last = self.ran == disk.uid && !self.is_sure() && !is_told;
        let is_wanted = !is_told
            && self.api.request.is_some_and(|it| {
                it.from == Source::Former(place) && self.carried & bit(it.at) == 0
            });
        let others = self.api.disks.iter().flatten().filter(|it| {
            let has_been = self.left_at[usize::from(it.uid)].is_some() || self.pointed == it.uid;
            it.uid != disk.uid && !it.is_leaving && has_been
        });
        let is_good = |it: &DiskObject| matches!(self.volumes[usize::from(it.uid)], Data::Whole(_));
        let is_the_only = !is_told && disk.mark.is_some() && !others.into_iter().any(is_good);
        self.harm.deleted |= is_used || is_kept || is_needed || is_last || is_wanted || is_the_only;
    }

    /// Whether the disk that the machine was pointed at last is known to be whole.
    pub fn is_sure(&self) -> bool {
        let mut disks = self.api.disks.iter().flatten();
        disks.any(|it| it.uid == self.pointed && it.is_proven && !it.is_leaving)
    }

    /// The disk is gone, and with it what dies with it.
    fn lose(&mut self, place: u8, driver: Driver) {
        let Some(disk) = self.api.disks[usize::from(place)].take() else {
            return;
        };
        self.volumes[usize::from(disk.uid)] = Data::None;
        for cut in 0..2 {
            if !driver.outlives && self.cut_of[cut] == disk.uid {
                self.cut_breaks(cut);
            }
        }
    }

    fn cut_breaks(&mut self, cut: usize) {
        if self.cuts[cut] == Data::None {
            return;
        }
        self.cuts[cut] = Data::Broken;
        for volume in &mut self.volumes {
            if *volume == Data::Copying(u8::try_from(cut).ok()) {
                *volume = Data::Broken;
            }
        }
    }

    fn see(&mut self, kind: Kind) {
        match kind {
            Kind::Request => {
                self.view.request = self.api.request;
                self.view.is_ended = self.api.is_ended;
            }
            Kind::Disks => self.view.disks = self.api.disks,
            Kind::Snapshots => self.view.snapshots = self.api.snapshots,
            Kind::Machine => self.view.machine = self.api.machine,
            Kind::Instance => self.view.instance = self.api.instance,
        }
    }

    fn is_seen(&self, kind: Kind) -> bool {
        match kind {
            Kind::Request => {
                self.view.request == self.api.request && self.view.is_ended == self.api.is_ended
            }
            Kind::Disks => self.view.disks == self.api.disks,
            Kind::Snapshots => self.view.snapshots == self.api.snapshots,
            Kind::Machine => self.view.machine == self.api.machine,
            Kind::Instance => self.view.instance == self.api.instance,
        }
    }

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
            (Some(_), Some(instance)) if !instance.runs => {
                if let Data::Whole(_) = self.volume(instance.disk) {
                    steps.push(Step::Run);
                }
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
            if let Data::Whole(_) = pointed {
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
        if self.left.writes > 0 && self.api.instance.is_some_and(|it| it.runs) {
            steps.push(Step::Write);
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
        steps.extend(acts.into_iter().map(|(act, _)| Step::Prompt(act)));
        if self.budget.old_steps == 0 {
            return;
        }
        match world.busy {
            Busy::No if world.left.old_steps > 0 => {
                let kinds = KINDS.into_iter().filter(|it| !world.is_seen(*it));
                steps.extend(kinds.map(Step::See));
                let (acts, _) = world.planned(&world.view, self.driver);
                if acts.iter().any(|(_, is_certain)| *is_certain) {
                    steps.push(Step::MakeCertain);
                }
                let others = acts.into_iter().filter(|(_, is_certain)| !is_certain);
                steps.extend(others.map(|(act, _)| Step::Decide(act)));
            }
            Busy::No => {}
            Busy::Reads(_) => steps.extend([Step::Read, Step::Forget]),
            Busy::Knows => {
                let (acts, _) = world.planned(&world.view, self.driver);
                steps.extend(acts.into_iter().map(|(act, _)| Step::Decide(act)));
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
            Step::Write => {
                world.left.writes -= 1;
                let uid = world.disk(world.api.instance?.disk)?.uid;
                world.written += 1;
                world.volumes[usize::from(uid)] = Data::Whole(world.written);
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
                    _ => Data::Whole(0),
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

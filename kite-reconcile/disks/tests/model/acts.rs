//! What controllers do, how it is carried out, and whether it was right.

use kite_disks::{Act, End, Fill, From, Plan, Standing, may_be_deleted, plan, plan_end};

use crate::state::{World, bit};
use crate::world::{
    Api, Asked, Data, DiskObject, Driver, MOST, MachineObject, Marked, SNAPSHOTS, Source, number,
    request, unmark,
};

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

impl World {
    /// What a controller would do that sees `api`.
    pub fn planned(&self, api: &Api, driver: Driver) -> (Vec<Do>, Standing) {
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
            let mut acts: Vec<_> = plan.acts.iter().map(act).collect();
            // What is asked for again and again changes nothing.
            acts.retain(|it| *it != Do::Stop || api.machine.is_some_and(|it| !it.is_halted));
            let waits = matches!(plan.standing, Standing::Stopping | Standing::Switching);
            if api.is_ended && api.machine.is_some() {
                acts.push(Do::Destroy);
            } else if !waits && api.machine.is_some_and(|it| it.is_halted) {
                acts.push(Do::Start);
            }
            for (place, snapshot) in api.snapshots.iter().enumerate() {
                let is_leaving =
                    snapshot.is_some_and(|it| it.is_leaving || (api.is_ended && !it.is_protected));
                let open = seen.request.filter(|_| !api.is_ended);
                if is_leaving && may_be_deleted(SNAPSHOTS[place], seen.disks, open) {
                    let snapshot = place.try_into().unwrap();
                    acts.push(Do::Release { snapshot });
                }
            }
            (acts, plan.standing)
        })
    }

    /// Carries out what was planned from `basis`, unless what it rests on has changed.
    pub fn carry_out(&mut self, act: Do, basis: &Api, driver: Driver) -> Option<()> {
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
                self.harm.reused |= !self.api.is_ended && self.had & bit(place) != 0;
                let copy_of = match asked.from {
                    Source::Snapshot(snapshot) => Some(snapshot),
                    _ => None,
                };
                let whole = copy_of.is_none_or(|it| self.cuts[usize::from(it)] == Data::Whole);
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
                self.judge_deletion(disk, basis, driver);
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
        let is_change = self.api.machine.is_none_or(|it| it.disk != disk);
        self.harm.pulled_away |= is_change && self.api.instance.is_some() && !self.api.is_ended;
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
        self.had |= bit(disk);
        let is_halted = self.api.machine.is_some_and(|it| it.is_halted);
        let uid = self.api.machine.map_or(self.machines, |it| it.uid);
        self.machines += u8::from(self.api.machine.is_none());
        self.api.machine = Some(MachineObject {
            uid,
            disk,
            mark: Some(mark),
            is_halted,
        });
    }

    /// Whether Kite may delete it, by what is true.
    fn judge_deletion(&mut self, place: u8, basis: &Api, driver: Driver) {
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
        let answered = machine.and_then(|it| it.mark?.request);
        // What is asked for when its time is over, and after all was read afresh, comes too late.
        let seen = self.api.request.filter(|it| basis.request == Some(*it));
        let is_wanted = !is_told
            && seen.is_some_and(|it| it.from == Source::Former(place) && Some(it.at) > answered);
        let is_another = |it: &DiskObject| it.uid != disk.uid && !it.is_leaving;
        let is_the_only = !is_told && disk.mark.is_some() && !self.good().any(is_another);
        self.harm.deleted |= is_used || is_kept || is_needed || is_last || is_wanted || is_the_only;
    }
}

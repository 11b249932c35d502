//! The cluster and its storage, as they are: what everybody can see of them, and what is true.

use std::time::Duration;

use jiff::Timestamp;
use kite_disks::{Disk, Fill, From, Machine, Mark, Power, Request, Seen, Snapshot};

/// How many disks, requests and snapshots a history can have.
pub const MOST: usize = 6;
pub const DISKS: [&str; MOST] = ["d1", "d2", "d3", "d4", "d5", "d6"];

pub const SNAPSHOTS: [&str; 2] = ["s1", "s2"];

/// For how long a disk is kept. The clock ticks in the same.
pub const KEEP: Duration = Duration::from_secs(1);

/// A mark: turn, request, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marked {
    pub turn: u8,
    pub request: Option<u8>,
    pub since: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DiskObject {
    pub uid: u8,
    pub mark: Option<Marked>,
    pub made_for: Option<u8>,
    pub copy_of: Option<u8>,
    pub fill: Fill,
    pub is_proven: bool,
    pub is_leaving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MachineObject {
    pub uid: u8,
    pub disk: u8,
    pub mark: Option<Marked>,
    pub is_halted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    pub disk: u8,
    pub runs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Snapshot(u8),
    Image,
    Former(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    pub at: u8,
    pub from: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotObject {
    pub of: u8,
    /// It outlives the machine, by its owner's word.
    pub is_protected: bool,
    pub is_leaving: bool,
}

/// What the API server shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Api {
    /// Whether its owner has deleted the machine.
    pub is_ended: bool,
    pub request: Option<Asked>,
    pub disks: [Option<DiskObject>; MOST],
    pub machine: Option<MachineObject>,
    pub instance: Option<Instance>,
    pub snapshots: [Option<SnapshotObject>; 2],
}

/// What is in a volume, or in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    None,
    /// It is being copied. None: from an image.
    Copying(Option<u8>),
    Whole,
    Broken,
}

/// What storage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Driver {
    /// Snapshots outlive the disk that they were taken of.
    pub outlives: bool,
    /// It says that a copy is done before it is.
    pub is_early: bool,
}

/// When the request of this number was made.
pub fn asked_at(request: u8) -> Timestamp {
    Timestamp::from_second(1000 + i64::from(request)).unwrap()
}

/// The number of the request that was made then.
pub fn request(at: Timestamp) -> u8 {
    u8::try_from(at.as_second() - 1000).unwrap()
}

fn mark(it: Marked) -> Mark {
    Mark {
        turn: it.turn.into(),
        request: it.request.map(asked_at),
        since: it.since.map_or(Timestamp::MIN, time),
    }
}

pub fn unmark(it: Mark) -> Marked {
    let since = (it.since != Timestamp::MIN).then(|| it.since.as_second().try_into().unwrap());
    Marked {
        turn: it.turn.try_into().unwrap(),
        request: it.request.map(request),
        since,
    }
}

pub fn number(name: &str) -> u8 {
    let place = DISKS.iter().position(|it| *it == name).unwrap();
    place.try_into().unwrap()
}

fn time(clock: u8) -> Timestamp {
    Timestamp::from_second(clock.into()).unwrap()
}

impl Api {
    /// What a controller sees in it.
    pub fn seen<T>(&self, driver: Driver, clock: u8, then: impl FnOnce(&Seen<'_>) -> T) -> T {
        let there = self.disks.iter().enumerate();
        let disks = there.filter_map(|(place, disk)| {
            let disk = (*disk)?;
            Some(Disk {
                name: DISKS[place],
                generation: u32::try_from(place + 1).unwrap(),
                mark: disk.mark.map(mark),
                made_for: disk.made_for.map(asked_at),
                copy_of: disk.copy_of.map(|it| SNAPSHOTS[usize::from(it)]),
                fill: disk.fill,
                is_proven: disk.is_proven,
                is_leaving: disk.is_leaving,
            })
        });
        let disks: Vec<_> = disks.collect();
        let machine = self.machine.map(|it| Machine {
            disk: DISKS[usize::from(it.disk)],
            generation: u32::from(it.disk) + 1,
            mark: it.mark.map(mark),
        });
        let power = match self.instance {
            Some(Instance { disk, runs: true }) => Power::Runs {
                on: DISKS[usize::from(disk)],
            },
            None if self.machine.is_none_or(|it| it.is_halted) => Power::Off,
            _ => Power::Changes,
        };
        let request = self.request.map(|asked| Request {
            at: asked_at(asked.at),
            from: match asked.from {
                Source::Image => From::Image,
                Source::Former(disk) => From::Former(DISKS[usize::from(disk)]),
                Source::Snapshot(it) => match self.snapshots[usize::from(it)] {
                    Some(snapshot) if !snapshot.is_leaving => {
                        From::Snapshot(SNAPSHOTS[usize::from(it)])
                    }
                    _ => From::Unusable(SNAPSHOTS[usize::from(it)]),
                },
            },
        });
        let snapshots: Vec<_> = self.snapshots.iter().flatten().collect();
        let snapshots: Vec<_> = snapshots
            .into_iter()
            .map(|it| Snapshot {
                of: DISKS[usize::from(it.of)],
                outlives: driver.outlives,
            })
            .collect();
        then(&Seen {
            disks: &disks,
            others: 0,
            machine,
            power,
            request,
            snapshots: &snapshots,
            keep: KEEP,
            now: time(clock),
        })
    }
}

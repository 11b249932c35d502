//! All that is true at a moment of a history, and what is remembered of it.

use kite_disks::Fill;

use crate::acts::Do;
use crate::world::{Api, Data, DiskObject, Driver, Instance, MOST, MachineObject, Marked, Source};

/// How much of each may happen in one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub requests: u8,
    pub snapshots: u8,
    pub deletions: u8,
    pub ends: u8,

    pub ticks: u8,
    pub rivals: u8,
    pub failures: u8,
    /// How often the controller with old views takes a step.
    pub old_steps: u8,
}

/// A kind of object, of which a view has an age of its own. They are read in this order
/// before a step that has to be certain.
pub const KINDS: [Kind; 5] = [
    Kind::Request,
    Kind::Snapshots,
    Kind::Disks,
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
    /// A disk got the number of one that was the machine's.
    pub reused: bool,
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

    pub requests: u8,
    /// What was asked for, by the request.
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
    /// Places of disks that the machine has ever been pointed at.
    pub had: u8,
    /// Uids of what somebody else has deleted.
    pub robbed: u8,
    pub harm: Harm,
    pub happened: Happened,
}

pub fn bit(number: u8) -> u8 {
    1 << number
}

impl World {
    pub fn new(budget: Budget) -> Self {
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
        volumes[0] = Data::Whole;
        let api = Api {
            is_ended: false,
            request: None,
            disks,
            machine: Some(MachineObject {
                uid: 0,
                disk: 0,
                mark: Some(first),
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

            requests: 0,
            sources: [Source::Image; MOST],
            busy: Busy::No,
            carried: 0,
            pointed: 0,
            ran: 0,
            left_at: [None; MOST],
            had: bit(0),
            robbed: 0,
            harm: Harm::default(),
            happened: Happened::default(),
        }
    }

    pub fn disk(&self, place: u8) -> Option<&DiskObject> {
        self.api.disks[usize::from(place)].as_ref()
    }

    pub fn disk_mut(&mut self, place: u8) -> Option<&mut DiskObject> {
        self.api.disks[usize::from(place)].as_mut()
    }

    pub fn volume(&self, place: u8) -> Data {
        let disk = self.disk(place);
        disk.map_or(Data::None, |it| self.volumes[usize::from(it.uid)])
    }

    /// Disks that the machine has been pointed at, and that are whole.
    pub fn good(&self) -> impl Iterator<Item = &DiskObject> {
        self.api.disks.iter().flatten().filter(|it| {
            let uid = usize::from(it.uid);
            let has_been = self.left_at[uid].is_some() || self.pointed == it.uid;
            has_been && self.volumes[uid] == Data::Whole
        })
    }

    /// Whether the disk that the machine was pointed at last is known to be whole.
    pub fn is_sure(&self) -> bool {
        let mut disks = self.api.disks.iter().flatten();
        disks.any(|it| it.uid == self.pointed && it.is_proven && !it.is_leaving)
    }

    /// The disk is gone, and with it what dies with it.
    pub fn lose(&mut self, place: u8, driver: Driver) {
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

    pub fn cut_breaks(&mut self, cut: usize) {
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

    pub fn see(&mut self, kind: Kind) {
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

    pub fn is_seen(&self, kind: Kind) -> bool {
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
}

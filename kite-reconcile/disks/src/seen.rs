//! What is seen of a machine's disks.

use std::time::Duration;

use jiff::Timestamp;

/// When a disk became the machine's, and for which request. On the disk itself, and on the
/// machine for the disk that it points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Rises with each disk that becomes the machine's.
    pub turn: u32,
    /// The request that was carried out by it, by its time.
    pub request: Option<Timestamp>,
    /// When it was written.
    pub since: Timestamp,
}

impl Mark {
    /// That of a machine's first disk, which nobody has asked for by a request; also of what
    /// was made before there were marks.
    pub const FIRST: Self = Self {
        turn: 0,
        request: None,
        since: Timestamp::MIN,
    };
}

/// How far storage says that a disk's data is; what is nearest to being used comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fill {
    /// There. Some drivers say so while they still copy.
    Done,
    /// On its way.
    Going,
    /// It cannot be made.
    Failed,
}

/// A disk that was made for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Disk<'a> {
    /// Its name, which is that of its claim.
    pub name: &'a str,
    /// Its number among the machine's, from 1. It is in the name.
    pub generation: u32,
    /// None: it has never been the machine's, but for the first one.
    pub mark: Option<Mark>,
    /// The request for which it was made, by its time; none for the first one.
    pub made_for: Option<Timestamp>,
    /// The snapshot that it is copied from, if it is one.
    pub copy_of: Option<&'a str>,
    /// How far its data is.
    pub fill: Fill,
    /// Whether a guest has run on it: then all of its data is there. That is noted with the
    /// uid of its claim, and counts for no other claim.
    pub is_proven: bool,
    /// Whether somebody has deleted it, or its claim, which may be gone already.
    pub is_leaving: bool,
}

impl<'a> Disk<'a> {
    /// The disk that a machine begins with.
    #[must_use]
    pub const fn first(name: &'a str, fill: Fill) -> Self {
        Self {
            name,
            generation: 1,
            mark: Some(Mark::FIRST),
            made_for: None,
            copy_of: None,
            fill,
            is_proven: false,
            is_leaving: false,
        }
    }

    /// Its mark. The first one has one even where it is not written.
    pub(crate) fn own_mark(&self) -> Option<Mark> {
        let first = self.made_for.is_none().then_some(Mark::FIRST);
        self.mark.or(first)
    }
}

/// Whether the machine's guest runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Power<'a> {
    /// No instance of it is there, and none is to be.
    #[default]
    Off,
    /// A guest runs on the disk of this name. Storage has attached it, and must not do that
    /// before all of its data is there.
    Runs {
        /// Name of the disk.
        on: &'a str,
    },
    /// Anything in between.
    Changes,
}

/// The machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine<'a> {
    /// Name of the disk that it points at.
    pub disk: &'a str,
    /// That disk's number, which its name has: the disk itself may be gone.
    pub generation: u32,
    /// The mark that was written with that. None: it is from before there were marks, or
    /// somebody has taken it off.
    pub mark: Option<Mark>,
}

/// What a disk is asked to be made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum From<'a> {
    /// A snapshot of this name, which can be used.
    Snapshot(&'a str),
    /// A snapshot of this name, which cannot be used.
    Unusable(&'a str),
    /// The machine's image: what was written is given up.
    Image,
    /// The former disk of this name, which is kept.
    Former(&'a str),
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request<'a> {
    /// Each request is later than the one before, and is carried out once. One that is not
    /// later has come back, as from a backup, and is none.
    pub at: Timestamp,
    /// What the disk is to be made from.
    pub from: From<'a>,
}

/// A snapshot that is there, or may be about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot<'a> {
    /// Name of the disk that it is of.
    pub of: &'a str,
    /// Whether it is known to outlive that disk.
    pub outlives: bool,
}

/// What is seen of a machine and its disks.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// All disks that were made for it: for this machine, and not for a former one of its
    /// name.
    pub disks: &'a [Disk<'a>],
    /// The highest number that disks of others have under such names: of a former machine,
    /// kept for a snapshot. 0: there are none.
    pub others: u32,
    /// None: there is none.
    pub machine: Option<Machine<'a>>,
    /// Whether its guest runs; that of a machine that is gone may for a while.
    pub power: Power<'a>,
    /// What is asked for.
    pub request: Option<Request<'a>>,
    /// Snapshots of those disks, whoever has taken them.
    pub snapshots: &'a [Snapshot<'a>],
    /// For how long a disk is kept that is not the machine's any more: longer than any request
    /// to the cluster is on its way.
    pub keep: Duration,
    /// The present time.
    pub now: Timestamp,
}

impl<'a> Seen<'a> {
    /// The highest mark there is, and the disk of it: the machine's. No disk: it is lost.
    /// Nothing at all: no disk was made yet.
    #[must_use]
    pub fn current(&self) -> Option<(Mark, Option<&'a Disk<'a>>)> {
        let told = self.machine.and_then(|it| Some((it.mark?, it.disk)));
        let marks = self.disks.iter().filter_map(Disk::own_mark);
        let turns = marks.chain(told.map(|(mark, _)| mark));
        let Some(turn) = turns.map(|it| it.turn).max() else {
            // Nothing has a mark: the machine has its first disk.
            let disk = self.machine.map(|it| self.disk(it.disk));
            return disk.map(|disk| (Mark::FIRST, disk));
        };
        let is_lost = |it: &Machine<'_>| it.mark.is_none() && self.disk(it.disk).is_none();
        if self.machine.as_ref().is_some_and(is_lost) {
            // Of the mark nothing is left, and there may be older disks.
            let mark = Mark {
                turn,
                ..Mark::FIRST
            };
            return Some((mark, None));
        }
        let pointed = told.filter(|(mark, _)| mark.turn == turn);
        let own = self
            .disks
            .iter()
            .filter_map(|it| Some((it.own_mark()?, it)));
        let own = own.filter(|(mark, _)| mark.turn == turn);
        // Two of one turn are two decisions that nobody knew of: one that a guest has run on
        // is the machine's.
        let is_there = |disk: &Disk<'_>| pointed.is_some_and(|(_, name)| name == disk.name);
        let best = own.max_by_key(|(_, it)| (is_there(it), it.is_proven, it.generation));
        match (best, pointed) {
            (Some((_, disk)), Some((mark, _))) if is_there(disk) => Some((mark, Some(disk))),
            (Some((mark, disk)), _) => Some((mark, Some(disk))),
            // Whoever pointed it there has seen the mark of that disk.
            (None, Some((mark, name))) => Some((mark, self.disk(name))),
            (None, None) => None,
        }
    }

    pub(crate) fn disk(&self, name: &str) -> Option<&'a Disk<'a>> {
        self.disks.iter().find(|it| it.name == name)
    }

    /// A number that no disk of the machine's has had: each one that was the machine's has
    /// raised the turn.
    pub(crate) fn unused_generation(&self, turn: u32) -> u32 {
        let pointed = self.machine.map(|it| it.generation);
        let known = self.disks.iter().map(|it| it.generation).chain(pointed);
        known
            .max()
            .unwrap_or_default()
            .max(self.others)
            .max(turn.saturating_add(1))
            .saturating_add(1)
    }
}

//! What is to be done next.

use std::time::Duration;

use crate::hold::is_needed;
use crate::seen::{Disk, Fill, From, Mark, Power, Request, Seen};

/// A step, which is planned once more from what was read afresh before it is carried out. Which
/// object it rests on, and how it has to be refused where that has changed, is said at each. The version of a disk is that of the object which carries its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act<'a> {
    /// Makes a disk of this number, with the request's time on it. Refused if there is one.
    Make {
        /// Its number.
        generation: u32,
        /// What for, and from what.
        request: Request<'a>,
    },
    /// Has the guest stop. What its owner says of its power stays as it is. Refused unless the
    /// machine is the version that was seen.
    Stop,
    /// Decides that the disk is the machine's. Refused unless the disk is the version that
    /// was seen.
    Mark {
        /// The disk's name.
        disk: &'a str,
        /// The mark.
        mark: Mark,
    },
    /// Points the machine at the disk, and writes the disk's mark on it. Refused unless the
    /// machine is the version that was seen; or if there is one, where none was seen.
    Point {
        /// The disk's name.
        disk: &'a str,
        /// Its mark, from now on: the former disk is kept from then.
        mark: Mark,
    },
    /// Notes on the disk that a guest has run on it. Refused unless the disk is the version
    /// that was seen.
    Prove {
        /// The disk's name.
        disk: &'a str,
    },
    /// Deletes the disk. Refused unless it is the version that was seen.
    Delete {
        /// The disk's name.
        disk: &'a str,
    },
}

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// There is none, or it was carried out.
    Settled,
    /// The new disk is being made; the machine is as it was.
    Copying,
    /// The new disk is there, and the guest is to stop.
    Stopping,
    /// It is the machine's, which does not point there yet.
    Switching,
    /// It cannot be carried out; nothing was changed.
    Refused(Refusal),
    /// The machine's disk is gone, and nobody has asked for another. To be told only after
    /// all was read afresh: an old view of the disks looks the same.
    Lost,
}

/// Why a request cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Its snapshot cannot be used.
    Snapshot,
    /// There is no former disk of that name, or it is not whole.
    Former,
    /// Storage cannot make the disk.
    Copy,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    /// The steps that may be taken now.
    pub acts: Vec<Act<'a>>,
    /// How the request stands.
    pub standing: Standing,
    /// When time alone calls for something.
    pub look_again: Option<Duration>,
}

/// What is to be done about the disks that are `seen`. A machine without any disk is left
/// to whoever makes its first one.
#[must_use]
pub fn plan<'a>(seen: &Seen<'a>) -> Plan<'a> {
    let mut plan = Plan {
        acts: Vec::new(),
        standing: Standing::Settled,
        look_again: None,
    };
    let Some((mark, current)) = seen.current() else {
        return plan;
    };
    if let Some((disk, mark)) = unmarked(seen, mark, current) {
        // Somebody has taken its mark off, as a backup does that is older.
        plan.standing = Standing::Switching;
        plan.acts.push(Act::Mark {
            disk: disk.name,
            mark,
        });
        return plan;
    }
    // One that is not later was carried out, or is one of before.
    let open = seen
        .request
        .filter(|it| mark.request.is_none_or(|last| it.at > last));
    match (current, open) {
        (Some(disk), _) if is_behind(seen, mark, disk) => point(seen, mark, disk, &mut plan),
        (_, Some(request)) => plan.standing = serve(seen, request, mark, &mut plan.acts),
        (None, None) => plan.standing = Standing::Lost,
        (Some(disk), None) => plan.acts.extend(parted(seen, mark, disk)),
    }
    if let Some(current) = current {
        prove(seen, current, mark, &mut plan);
    }
    clear(seen, current, mark, open, &mut plan);
    plan
}

/// What is to be done about the disks of a machine that was deleted by its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// The machine or its guest is there: until then it may write.
    Waits,
    /// These may be deleted, by steps like any other.
    Delete(Vec<Act<'a>>),
    /// Nothing is left but as many disks as that, which snapshots need and go with the last of
    /// them. The machine's name is free.
    Over {
        /// How many.
        held: usize,
    },
}

/// What is to be done about the disks of a machine that was deleted by its owner: they go,
/// unless a snapshot needs them, which its owner has deleted as well or wants to keep.
#[must_use]
pub fn plan_end<'a>(seen: &Seen<'a>) -> End<'a> {
    if seen.machine.is_some() || seen.power != Power::Off {
        return End::Waits;
    }
    let is_held = |it: &&Disk<'a>| is_needed(it, seen.snapshots);
    let (held, free): (Vec<&Disk<'a>>, Vec<&Disk<'a>>) = seen.disks.iter().partition(is_held);
    if free.is_empty() {
        return End::Over { held: held.len() };
    }
    let free = free.into_iter().filter(|it| !it.is_leaving);
    End::Delete(free.map(|it| Act::Delete { disk: it.name }).collect())
}

/// The machine's disk, or the one that it points at still, if that lacks its mark.
fn unmarked<'a>(
    seen: &Seen<'a>,
    mark: Mark,
    current: Option<&'a Disk<'a>>,
) -> Option<(&'a Disk<'a>, Mark)> {
    let told = seen
        .machine
        .and_then(|it| Some((seen.disk(it.disk)?, it.mark?)));
    let current = current.map(|it| (it, mark));
    let lacks =
        |(disk, mark): &(&Disk<'_>, Mark)| disk.own_mark().is_none_or(|own| own.turn < mark.turn);
    // Not of what others have pointed it at, which has a mark of its own.
    let is_own = |(disk, _): &(&Disk<'_>, Mark)| disk.mark.is_none();
    let pointed = told.filter(|it| is_own(it) && lacks(it));
    pointed.or_else(|| current.filter(lacks))
}

/// Whether the machine does not have the mark yet that is the highest, or somebody else has
/// pointed it elsewhere.
fn is_behind(seen: &Seen<'_>, mark: Mark, current: &Disk<'_>) -> bool {
    seen.machine
        .is_none_or(|it| it.disk != current.name || it.mark.is_none_or(|own| own.turn < mark.turn))
}

fn point<'a>(seen: &Seen<'a>, mark: Mark, disk: &Disk<'a>, plan: &mut Plan<'a>) {
    plan.standing = Standing::Switching;
    let is_there = seen.machine.is_some_and(|it| it.disk == disk.name);
    if seen.power == Power::Off || is_there {
        plan.acts.push(Act::Point {
            disk: disk.name,
            mark: Mark {
                since: seen.now,
                ..mark
            },
        });
    } else if seen.machine.is_some() {
        plan.acts.push(Act::Stop);
    }
}

/// What brings the request nearer.
fn serve<'a>(
    seen: &Seen<'a>,
    request: Request<'a>,
    mark: Mark,
    acts: &mut Vec<Act<'a>>,
) -> Standing {
    let target = match request.from {
        From::Former(name) => {
            let kept = seen.disk(name).filter(|it| it.own_mark().is_some());
            match kept.filter(|it| it.fill == Fill::Done && !it.is_leaving) {
                Some(kept) => kept,
                None => return Standing::Refused(Refusal::Former),
            }
        }
        from @ (From::Snapshot(_) | From::Image | From::Unusable(_)) => {
            let made = seen.disks.iter().filter(|it| is_made_for(it, request));
            // There may be several, where somebody with an old view made one of another number.
            match (made.min_by_key(|it| it.fill), from) {
                (Some(made), _) => made,
                (None, From::Unusable(_)) => return Standing::Refused(Refusal::Snapshot),
                (None, _) => {
                    let generation = seen.unused_generation(mark.turn);
                    acts.push(Act::Make {
                        generation,
                        request,
                    });
                    return Standing::Copying;
                }
            }
        }
    };
    match target.fill {
        Fill::Going => return Standing::Copying,
        Fill::Failed => return Standing::Refused(Refusal::Copy),
        Fill::Done => {}
    }
    let points_elsewhere = seen.machine.is_some_and(|it| it.disk != target.name);
    if points_elsewhere && seen.power != Power::Off {
        acts.push(Act::Stop);
        return Standing::Stopping;
    }
    let mark = Mark {
        // Not below its number, so that no other disk gets that.
        turn: (mark.turn + 1).max(target.generation - 1),
        request: Some(request.at),
        since: seen.now,
    };
    acts.push(Act::Mark {
        disk: target.name,
        mark,
    });
    Standing::Switching
}

/// Whether the disk was made for the request. One that has been the machine's may have been
/// written to.
fn is_made_for(disk: &Disk<'_>, request: Request<'_>) -> bool {
    let is_same = match request.from {
        From::Snapshot(name) | From::Unusable(name) => disk.copy_of == Some(name),
        From::Image => disk.copy_of.is_none(),
        From::Former(_) => false,
    };
    is_same && disk.made_for == Some(request.at) && disk.mark.is_none() && !disk.is_leaving
}

fn prove<'a>(seen: &Seen<'a>, current: &Disk<'a>, mark: Mark, plan: &mut Plan<'a>) {
    let on = Power::Runs { on: current.name };
    let runs = !is_behind(seen, mark, current) && seen.power == on;
    if runs && current.fill == Fill::Done && !current.is_proven && !current.is_leaving {
        plan.acts.push(Act::Prove { disk: current.name });
    }
}

/// Whether a guest has run on the machine's disk, and the machine points there.
fn is_sure(seen: &Seen<'_>, mark: Mark, current: &Disk<'_>) -> bool {
    let is_whole = current.is_proven && current.fill == Fill::Done && !current.is_leaving;
    is_whole && !is_behind(seen, mark, current)
}

/// A turn of its own for the machine's disk, where another disk has the same: of two decisions
/// that did not know of one another. Without it nobody could tell that the other is a former one.
fn parted<'a>(seen: &Seen<'a>, mark: Mark, current: &Disk<'a>) -> Option<Act<'a>> {
    let is_other = |it: &Disk<'_>| {
        let own = it.own_mark();
        it.name != current.name && !it.is_leaving && own.is_some_and(|own| own.turn == mark.turn)
    };
    let is_shared = seen.disks.iter().any(is_other);
    (is_shared && is_sure(seen, mark, current)).then(|| Act::Mark {
        disk: current.name,
        mark: Mark {
            turn: mark.turn + 1,
            ..mark
        },
    })
}

/// Has go what nobody needs.
fn clear<'a>(
    seen: &Seen<'a>,
    current: Option<&Disk<'a>>,
    mark: Mark,
    open: Option<Request<'a>>,
    plan: &mut Plan<'a>,
) {
    let asked = open.map(|it| it.at);
    // As long as the machine does not point there, the former one is not former. And where
    // somebody deletes the machine's disk, the former one may be all that is left.
    let is_sure = current.is_some_and(|it| is_sure(seen, mark, it));
    let left = left(seen, mark);
    for disk in seen.disks {
        let is_current = current.is_some_and(|it| it.name == disk.name);
        let is_wanted = open.is_some_and(|it| it.from == From::Former(disk.name));
        if is_current || is_wanted || disk.is_leaving || is_used(seen, disk) {
            continue;
        }
        let own = disk.own_mark();
        let is_over = match own {
            // Not of the same turn: nobody knows who has seen it as the machine's.
            Some(own) => is_sure && own.turn < mark.turn && left.is_none(),
            // It has nothing of its own, and nobody asks for it any more.
            None => asked.is_none() || disk.made_for != asked,
        };
        if is_over && !is_needed(disk, seen.snapshots) {
            plan.acts.push(Act::Delete { disk: disk.name });
        } else if is_sure && own.is_some() {
            plan.look_again = left;
        }
    }
}

fn is_used(seen: &Seen<'_>, disk: &Disk<'_>) -> bool {
    let points_there = seen.machine.is_some_and(|it| it.disk == disk.name);
    points_there || seen.power == Power::Runs { on: disk.name }
}

/// For how long the disks before the one of `mark` are still kept.
fn left(seen: &Seen<'_>, mark: Mark) -> Option<Duration> {
    let has_been = seen.now.duration_since(mark.since);
    // One of the future, by somebody else's clock, begins now.
    let has_been = Duration::try_from(has_been).unwrap_or_default();
    seen.keep.checked_sub(has_been).filter(|it| !it.is_zero())
}

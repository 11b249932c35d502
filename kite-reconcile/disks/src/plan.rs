//! What is to be done next.

use std::time::Duration;

use crate::hold::is_needed;
use crate::seen::{Disk, Fill, From, Mark, Power, Request, Seen};

/// A step. Which object it rests on, and how it has to be refused where that has changed, is
/// said at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act<'a> {
    /// Makes a disk of this number, with the request's value on it. Refused if there is one.
    Make {
        /// Its number.
        generation: u32,
        /// What for, and from what.
        request: Request<'a>,
    },
    /// Has the guest stop. What its owner says of its power stays as it is.
    Stop,
    /// Decides that the disk is the machine's. Refused unless the disk is the version that
    /// was seen.
    Mark {
        /// The disk's name.
        disk: &'a str,
        /// The mark.
        mark: Mark<'a>,
    },
    /// Points the machine at the disk, and writes the disk's mark on it. Refused unless the
    /// machine is the version that was seen; or if there is one, where none was seen.
    Point {
        /// The disk's name.
        disk: &'a str,
        /// Its mark, from now on: the former disk is kept from then.
        mark: Mark<'a>,
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

impl Act<'_> {
    /// Whether it is planned again from what was read for it, before it is carried out.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Make { .. })
    }
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
    /// The machine's disk is gone, and nobody has asked for another.
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
    let open = seen.request.filter(|it| mark.request != Some(it.at));
    match open {
        _ if is_behind(seen, mark) => point(seen, mark, current, &mut plan),
        Some(request) => plan.standing = serve(seen, request, mark, &mut plan.acts),
        None if current.is_none() => plan.standing = Standing::Lost,
        None => {}
    }
    if let Some(current) = current {
        prove(seen, current, mark, &mut plan);
    }
    clear(seen, current, (mark, open), &mut plan);
    plan
}

/// What is to be done about the disks of a machine that was deleted by its owner: they go,
/// unless a snapshot needs them, which its owner has deleted as well or wants to keep.
#[must_use]
pub fn plan_end<'a>(seen: &Seen<'a>) -> Vec<Act<'a>> {
    // Until then its guest may write.
    if seen.machine.is_some() || seen.power != Power::Off {
        return Vec::new();
    }
    let may_go = |it: &&Disk<'a>| !it.is_leaving && !is_needed(it, seen.snapshots);
    let gone = seen.disks.iter().filter(may_go);
    gone.map(|it| Act::Delete { disk: it.name }).collect()
}

/// Whether the machine does not have the mark yet that is the highest.
fn is_behind(seen: &Seen<'_>, mark: Mark<'_>) -> bool {
    seen.machine.is_none_or(|it| it.mark.turn < mark.turn)
}

fn point<'a>(seen: &Seen<'a>, mark: Mark<'a>, disk: Option<&Disk<'a>>, plan: &mut Plan<'a>) {
    // Without a machine there is no mark but a disk's.
    let Some(disk) = disk else {
        return;
    };
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
    mark: Mark<'a>,
    acts: &mut Vec<Act<'a>>,
) -> Standing {
    let target = match request.from {
        From::Former(name) => {
            let kept = seen.disk(name).filter(|it| it.mark.is_some());
            match kept.filter(|it| it.fill == Fill::Done && !it.is_leaving) {
                Some(kept) => kept,
                None => return Standing::Refused(Refusal::Former),
            }
        }
        from @ (From::Snapshot(_) | From::Image | From::Unusable) => {
            let made = seen.disks.iter().filter(|it| is_made_for(it, request));
            // There may be several, where somebody with an old view made one of another number.
            match (made.min_by_key(|it| it.fill), from) {
                (Some(made), _) => made,
                (None, From::Unusable) => return Standing::Refused(Refusal::Snapshot),
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
        turn: mark.turn + 1,
        request: Some(request.at),
        since: seen.now,
    };
    acts.push(Act::Mark {
        disk: target.name,
        mark,
    });
    Standing::Switching
}

/// Whether the disk was made for the request. One that has been the machine's was made for an
/// earlier one of that value, and has been written to.
fn is_made_for(disk: &Disk<'_>, request: Request<'_>) -> bool {
    let is_same = match request.from {
        From::Snapshot(name) => disk.copy_of == Some(name),
        From::Image => disk.copy_of.is_none(),
        From::Unusable => disk.copy_of.is_some(),
        From::Former(_) => false,
    };
    is_same && disk.made_for == Some(request.at) && disk.mark.is_none() && !disk.is_leaving
}

fn prove<'a>(seen: &Seen<'a>, current: &Disk<'a>, mark: Mark<'a>, plan: &mut Plan<'a>) {
    let on = Power::Runs { on: current.name };
    let machine = seen.machine.filter(|it| it.mark.turn == mark.turn);
    let points_there = machine.is_some_and(|it| it.disk == current.name);
    let runs = points_there && seen.power == on;
    if runs && current.fill == Fill::Done && !current.is_proven && !current.is_leaving {
        plan.acts.push(Act::Prove { disk: current.name });
    }
}

/// Has go what nobody needs.
fn clear<'a>(
    seen: &Seen<'a>,
    current: Option<&Disk<'a>>,
    (mark, open): (Mark<'a>, Option<Request<'a>>),
    plan: &mut Plan<'a>,
) {
    let asked = open.map(|it| it.at);
    // As long as the machine does not point there, the former one is not former. And where
    // somebody deletes the machine's disk, the former one may be all that is left.
    let is_sure = current.is_some_and(|it| it.is_proven && !it.is_leaving);
    let is_proven = is_sure && !is_behind(seen, mark);
    let left = left(seen, mark);
    for disk in seen.disks {
        let is_current = current.is_some_and(|it| it.name == disk.name);
        if is_current || disk.is_leaving || is_used(seen, disk) {
            continue;
        }
        let is_over = if disk.mark.is_some() {
            is_proven && left.is_none()
        } else {
            // It has nothing of its own, and nobody asks for it any more.
            asked.is_none() || disk.made_for != asked
        };
        if is_over && !is_needed(disk, seen.snapshots) {
            plan.acts.push(Act::Delete { disk: disk.name });
        } else if is_proven && disk.mark.is_some() {
            plan.look_again = left;
        }
    }
}

fn is_used(seen: &Seen<'_>, disk: &Disk<'_>) -> bool {
    let points_there = seen.machine.is_some_and(|it| it.disk == disk.name);
    points_there || seen.power == Power::Runs { on: disk.name }
}

/// For how long the disks before the one of `mark` are still kept.
fn left(seen: &Seen<'_>, mark: Mark<'_>) -> Option<Duration> {
    let has_been = seen.now.duration_since(mark.since);
    // One of the future, by somebody else's clock, begins now.
    let has_been = Duration::try_from(has_been).unwrap_or_default();
    seen.keep.checked_sub(has_been).filter(|it| !it.is_zero())
}

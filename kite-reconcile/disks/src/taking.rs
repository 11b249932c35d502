//! How a snapshot of a machine's disk is taken: the guest's file systems are frozen where that
//! is possible, and let go on always; and what is told of it is true.
//!
//! A freeze ends by itself after a time that the request names, if the guest is where it was.
//! So what is told to be [`Quiesced`](Consistency::Quiesced) was cut while that time cannot
//! have passed: after that the guest is asked to go on, whatever storage does, for nobody lets
//! it go who has moved to another node meanwhile. The time counts from a note that is written
//! before the first request to freeze, since a second one does not restart it. The note is the
//! machine's, and one snapshot has it at a time; who has none freezes nothing, and nothing is
//! begun while the guest is reported frozen by somebody else.

use std::time::Duration;

use jiff::Timestamp;

/// What is left of a freeze for clocks of two controllers that differ.
const MARGIN: Duration = Duration::from_secs(3);

/// Whether the guest's file systems are to be at rest in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Quiesce {
    /// If the guest can be frozen; else it is as after a power failure.
    #[default]
    IfPossible,
    /// There is no snapshot else.
    Required,
    /// The guest is left alone.
    No,
}

/// What is seen of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guest<'a> {
    /// There is no instance, and none is to be.
    Off,
    /// There is one, or is to be, and it is not known to run, or it is being moved: it cannot
    /// be frozen now.
    Changes,
    /// It runs.
    Runs {
        /// Uid of the instance.
        instance: &'a str,
        /// Whether its agent is connected and it is not paused.
        can_freeze: bool,
        /// Whether its file systems are reported frozen, which may come late, and end late.
        is_frozen: bool,
    },
}

/// How consistent a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Nothing ran.
    Offline,
    /// The guest's file systems were at rest.
    Quiesced,
    /// As after a power failure.
    CrashConsistent,
}

/// A note that an instance is to be frozen, written before the first request to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Freeze<'a> {
    /// Uid of the instance.
    pub instance: &'a str,
    /// When it was written.
    pub since: Timestamp,
}

/// The machine as it was when the snapshot was asked of storage, written on that request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Before<'a> {
    /// Version of the machine, which changes whenever it is started or has stopped.
    pub machine: &'a str,
    /// Uid of the instance that was seen frozen, and within its time.
    pub frozen: Option<&'a str>,
    /// Whether there was none.
    pub is_off: bool,
}

/// How far storage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut<'a> {
    /// It was not asked.
    None,
    /// It was asked, and has not cut yet.
    Asked,
    /// It says that it cannot, and has for as long as it may.
    Failed,
    /// It has cut.
    Made(Before<'a>),
}

/// What is seen of a snapshot that is being taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "none depends on another")]
pub struct Taking<'a> {
    /// What its owner wants.
    pub quiesce: Quiesce,
    /// The guest.
    pub guest: Guest<'a>,
    /// Version of the machine.
    pub machine: &'a str,
    /// This snapshot's note of a freeze, until the guest was let go on.
    pub freeze: Option<Freeze<'a>>,
    /// Whether another snapshot of the machine has a note.
    pub is_another_on: bool,
    /// For how long the guest is frozen at most, as the request to freeze says: a minute, and
    /// less where its own limit is lower, as ten seconds are with Windows.
    pub limit: Duration,
    /// Whether all of the disk's data is known to be there: a guest has run on it.
    pub is_proven: bool,
    /// Whether it has been waited for long enough.
    pub is_late: bool,
    /// Whether its owner has deleted it.
    pub is_leaving: bool,
    /// What is told of it already.
    pub told: Option<Result<Consistency, Failed>>,
    /// How far storage is.
    pub cut: Cut<'a>,
    /// The present time.
    pub now: Timestamp,
}

/// Why there is no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failed {
    /// No guest has ever run on the disk: its data may still be on its way.
    NeverRan,
    /// The guest cannot be frozen, and has to be.
    CannotFreeze,
    /// The guest has to be at rest while storage cuts, and was not, or is not known to have
    /// been.
    NotAtRest,
    /// Storage cannot cut, or has not in time.
    Storage,
    /// Its owner has deleted it first.
    Deleted,
}

/// What is to be done next. All of it is decided by what was read afresh: how far storage is
/// before the machine, and its guest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next<'a> {
    /// Nothing, until something changes.
    Wait,
    /// Write the note. Refused if the snapshot, or where the machine's note is kept, is another
    /// version.
    Note(Freeze<'a>),
    /// Ask the instance of this uid to freeze for [`Taking::limit`].
    Freeze(&'a str),
    /// Have storage cut, with this on the request.
    Cut(Before<'a>),
    /// Write what is told of it. Refused if the snapshot is another version.
    Tell(Result<Consistency, Failed>),
    /// Ask the instance of this uid to go on, whether it is frozen or not; and take the note
    /// away once it has said so, or is gone.
    Thaw(&'a str),
    /// Delete what storage has cut.
    Discard,
}

/// What is to be done next for a snapshot.
#[must_use]
pub fn take<'a>(seen: &Taking<'a>) -> Next<'a> {
    if let Some(told) = seen.told {
        return match (seen.freeze, told, seen.cut) {
            (Some(freeze), _, _) => Next::Thaw(freeze.instance),
            (None, Err(_), Cut::Asked | Cut::Failed | Cut::Made(_)) => Next::Discard,
            _ => Next::Wait,
        };
    }
    if seen.is_leaving {
        return Next::Tell(Err(Failed::Deleted));
    }
    match seen.cut {
        Cut::Made(before) => Next::Tell(judge(seen, before)),
        Cut::Failed => Next::Tell(Err(Failed::Storage)),
        Cut::Asked if seen.is_late => Next::Tell(Err(Failed::Storage)),
        Cut::Asked => over(seen).unwrap_or(Next::Wait),
        Cut::None if !seen.is_proven => Next::Tell(Err(Failed::NeverRan)),
        Cut::None => begin(seen),
    }
}

/// What is to be done for a guest whose time is over, if it has been noted. After a move
/// nobody lets it go on by itself, and what is cut from now on is not known to be at rest.
fn over<'a>(seen: &Taking<'a>) -> Option<Next<'a>> {
    let note = expired(seen)?;
    Some(match seen.quiesce {
        Quiesce::Required => Next::Tell(Err(Failed::NotAtRest)),
        Quiesce::IfPossible | Quiesce::No => Next::Thaw(note.instance),
    })
}

/// The note of a freeze whose time is over.
fn expired<'a>(seen: &Taking<'a>) -> Option<Freeze<'a>> {
    seen.freeze.filter(|it| !is_in_time(seen, *it))
}

fn begin<'a>(seen: &Taking<'a>) -> Next<'a> {
    let ask = |frozen| {
        Next::Cut(Before {
            machine: seen.machine,
            frozen,
            is_off: seen.guest == Guest::Off,
        })
    };
    let wait = match (seen.is_late, seen.quiesce) {
        (false, _) => Next::Wait,
        (true, Quiesce::Required) => Next::Tell(Err(Failed::NotAtRest)),
        (true, Quiesce::IfPossible | Quiesce::No) => ask(None),
    };
    let (instance, can_freeze, is_frozen) = match seen.guest {
        Guest::Off => return ask(None),
        Guest::Changes if seen.quiesce == Quiesce::No => return ask(None),
        // It may be frozen where it came from, and is asked again where it is.
        Guest::Changes => return expired(seen).map_or(wait, |it| Next::Thaw(it.instance)),
        Guest::Runs {
            instance,
            can_freeze,
            is_frozen,
        } => (instance, can_freeze, is_frozen),
    };
    let noted = seen.freeze.filter(|it| it.instance == instance);
    match (seen.quiesce, noted) {
        (Quiesce::No, _) => ask(None),
        (Quiesce::Required, None) if !can_freeze => Next::Tell(Err(Failed::CannotFreeze)),
        (_, None) if !can_freeze => ask(None),
        // What is reported may be what another one has left.
        (_, None) if is_frozen || seen.is_another_on => wait,
        (_, None) => Next::Note(Freeze {
            instance,
            since: seen.now,
        }),
        (_, Some(note)) if is_in_time(seen, note) && is_frozen => ask(Some(instance)),
        (_, Some(note)) if is_in_time(seen, note) => Next::Freeze(instance),
        (Quiesce::Required, Some(_)) => Next::Tell(Err(Failed::NotAtRest)),
        (Quiesce::IfPossible, Some(_)) => ask(None),
    }
}

/// Whether what was frozen since the note cannot have gone on by itself.
fn is_in_time(seen: &Taking<'_>, note: Freeze<'_>) -> bool {
    let has_been = Duration::try_from(seen.now.duration_since(note.since));
    // A clock that has gone back tells nothing.
    has_been.is_ok_and(|it| it + MARGIN < seen.limit)
}

/// What is true of a cut that was just seen.
fn judge(seen: &Taking<'_>, before: Before<'_>) -> Result<Consistency, Failed> {
    let still = |frozen: &str| {
        let noted = seen.freeze.filter(|it| it.instance == frozen);
        let is_frozen = matches!(
            seen.guest,
            Guest::Runs { instance, is_frozen: true, .. } if instance == frozen
        );
        is_frozen && noted.is_some_and(|it| is_in_time(seen, it))
    };
    let is_same = before.machine == seen.machine;
    if before.is_off && is_same && seen.guest == Guest::Off {
        Ok(Consistency::Offline)
    } else if before.frozen.is_some_and(still) {
        Ok(Consistency::Quiesced)
    } else if seen.quiesce == Quiesce::Required {
        Err(Failed::NotAtRest)
    } else {
        Ok(Consistency::CrashConsistent)
    }
}

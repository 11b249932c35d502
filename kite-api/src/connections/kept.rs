//! Which sessions that have ended are kept, and in whose place others stand.
//!
//! What is kept is kept for a month. Numbers bound it, too, since the API server's store is
//! bounded, but so that nobody pushes out what tells of somebody:
//!
//! - Sessions in which nothing was done are counted apart from all others, those that were
//!   used apart from those that were recorded, each by VM.
//! - Where there are too many of one sort, each login name, kind and address has its part:
//!   who comes again and again pushes out their own. Of addresses there can be as many as
//!   somebody likes, so those that came first have a part of their own, and all others one
//!   together.
//! - Of those that were used, what is beyond is not forgotten but counted: one that is kept of
//!   its like stands for it (`merge`), the oldest at first. It goes on doing so until it is
//!   about to be too old itself; then the newest of its like stands for it as well.
//! - Where there are too many in all, those of the owner with the most go first. Of these
//!   one from each address in which something was done goes last, and the recorded ones
//!   before that.
//!
//! What was recorded is found without its session, too (`archive`).

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use jiff::{Timestamp, ToSpan as _};
use kite_core::{
    cluster::ObjectKey,
    crd::{ConnectionKind, KiteConnection},
};

use super::claims::{Claims, key};

/// Sessions of one VM in which nothing was done that are kept when they have ended.
const MOST_IDLE: usize = 50;
/// Those in which something was done, and nothing recorded.
const MOST_USED: usize = 1_000;
/// Sessions of all VMs that are kept when they have ended.
const MOST_IN_ALL: usize = 20_000;
/// For how long they are kept.
const KEPT_HOURS: i64 = 30 * 24;
/// How long before that one that stands for others has another one do so.
const HANDED_ON_HOURS: i64 = 24;

/// What is to become of sessions.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// They are forgotten.
    pub(super) old: Vec<Arc<KiteConnection>>,
    /// Others stand in their place.
    pub(super) merges: Vec<Merge>,
}

/// That one session stands for others.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) into: Arc<KiteConnection>,
    /// Those that it has counted already: they are only deleted.
    pub(super) counted: Vec<Arc<KiteConnection>>,
    /// The names of all that it has counted and that are still there. Some of them may be
    /// neither deleted nor forgotten, such as one that was taken back as not over.
    pub(super) still: Vec<String>,
    /// Those that it has not. The oldest first.
    pub(super) gone: Vec<Arc<KiteConnection>>,
}

/// A plan in the making.
struct Draft {
    claims: Claims,
    old: Vec<Arc<KiteConnection>>,
    merges: HashMap<ObjectKey, Merge>,
    /// Who ended before is not kept.
    oldest: Timestamp,
    /// Who ended before stands for others no longer than it has to.
    aging: Timestamp,
}

impl Draft {
    fn merge(&mut self, into: &Arc<KiteConnection>) -> &mut Merge {
        let claims = &self.claims;
        let merge = self.merges.entry(key(into));
        merge.or_insert_with(|| Merge {
            into: Arc::clone(into),
            counted: Vec::new(),
            still: claims.still_there(into),
            gone: Vec::new(),
        })
    }

    fn is_old(&self, connection: &KiteConnection) -> bool {
        let ended = connection.spec.ended.as_ref();
        ended.is_some_and(|it| it.at.0 < self.oldest)
    }

    /// Whether it was decided already what becomes of `connection`: it was counted, or is
    /// to be by another one than it would be now.
    fn has_decided(&mut self, connection: &Arc<KiteConnection>) -> bool {
        let is_used = Done::of(connection) == Done::Used;
        if let Some(by) = self.claims.counted_by(connection).cloned() {
            // What was recorded since then is seen, too.
            if is_used && !self.is_old(&by) {
                self.merge(&by).counted.push(Arc::clone(connection));
            }
            return true;
        }
        let by = self.claims.claimed_by(connection).filter(|_| is_used);
        let Some(by) = by.cloned() else {
            return false;
        };
        // Otherwise it waits until that one is gone.
        if self.claims.is_free(&by) && !self.is_old(&by) {
            self.merge(&by).gone.push(Arc::clone(connection));
        }
        true
    }
}

/// What was done in a session that has ended: what says more is kept longer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Done {
    /// Something was recorded.
    Recorded,
    /// Something was carried, or nobody could say whether anything was.
    Used,
    /// Somebody logged in, and that was all.
    Nothing,
}

impl Done {
    fn of(connection: &KiteConnection) -> Self {
        let spec = &connection.spec;
        if !spec.recordings.is_empty() {
            return Self::Recorded;
        }
        let carried = spec.ended.as_ref().map(|it| (it.bytes_up, it.bytes_down));
        match carried {
            Some((Some(0), Some(0))) => Self::Nothing,
            _ => Self::Used,
        }
    }

    /// How many of one VM are kept, where so many are of those that were used.
    fn most(self, used: usize) -> usize {
        match self {
            Self::Recorded => usize::MAX,
            Self::Used => used,
            Self::Nothing => MOST_IDLE,
        }
    }
}

/// A session that has ended.
#[derive(Clone)]
struct Session {
    at: Timestamp,
    connection: Arc<KiteConnection>,
}

impl Session {
    /// By what the newest of several comes first.
    fn place(&self) -> (Reverse<Timestamp>, Option<&str>) {
        (Reverse(self.at), self.connection.metadata.name.as_deref())
    }

    /// When it was opened, or the first of those for which it stands.
    fn first(&self) -> Timestamp {
        let spec = &self.connection.spec;
        let earlier = spec.earlier.as_ref().map(|it| it.first.0);
        earlier.map_or(spec.opened_at.0, |first| first.min(spec.opened_at.0))
    }
}

/// Sessions of one VM that are alike.
struct Alike {
    done: Done,
    /// The newest first.
    sessions: Vec<Session>,
    /// How many of them are kept.
    kept: usize,
}

/// What becomes of those of `all` that have ended. `all` are all that there are.
pub(super) fn plan(all: Vec<Arc<KiteConnection>>, now: Timestamp) -> Plan {
    plan_within(all, now, MOST_USED)
}

/// The same with so many of a VM that were used.
pub(super) fn plan_within(all: Vec<Arc<KiteConnection>>, now: Timestamp, used: usize) -> Plan {
    let oldest = now - KEPT_HOURS.hours();
    let mut draft = Draft {
        claims: Claims::of(&all),
        old: Vec::new(),
        merges: HashMap::new(),
        oldest,
        aging: oldest + HANDED_ON_HOURS.hours(),
    };
    let mut of_vm: HashMap<_, Vec<Session>> = HashMap::new();
    for connection in all {
        let Some(at) = connection.spec.ended.as_ref().map(|it| it.at.0) else {
            continue;
        };
        if at < oldest {
            draft.old.push(connection);
            continue;
        }
        if draft.has_decided(&connection) {
            continue;
        }
        let owner = connection.metadata.namespace.clone();
        let vm = connection.spec.vm.uid.clone();
        let sessions = of_vm.entry((owner, vm, Done::of(&connection))).or_default();
        sessions.push(Session { at, connection });
    }
    let mut of_owner: HashMap<Option<String>, Vec<Alike>> = HashMap::new();
    for ((owner, _, done), sessions) in of_vm {
        let alike = of_owner.entry(owner).or_default();
        alike.extend(by_door(done, sessions, done.most(used)));
    }
    let count = |all: &Vec<Alike>| all.iter().map(|it| it.kept).sum::<usize>();
    let each = part_of_each(of_owner.values().map(count).collect(), MOST_IN_ALL);
    for mut all in of_owner.into_values() {
        shrink(&mut all, each);
        for alike in all {
            alike.go(&mut draft);
        }
    }
    Plan {
        old: draft.old,
        merges: draft.merges.into_values().collect(),
    }
}

impl Alike {
    /// Those that are not kept go.
    fn go(mut self, draft: &mut Draft) {
        if self.done != Done::Used || self.kept == 0 {
            let gone = self.sessions.split_off(self.kept);
            draft.old.extend(gone.into_iter().map(|it| it.connection));
            return;
        }
        let bears = |it: &Session| draft.claims.bears(&it.connection);
        let (bearers, mut kept): (Vec<_>, Vec<_>) = self.sessions.into_iter().partition(bears);
        let is_young = |it: &Session| it.at >= draft.aging;
        let (mut bearers, mut moving): (Vec<_>, Vec<_>) = bearers.into_iter().partition(is_young);
        // There may be several, since what is alike changes with what else there is. Up to
        // half of what is kept stays as it is.
        moving.extend(bearers.split_off(bearers.len().min(self.kept.div_ceil(2))));
        let mut gone = kept.split_off(kept.len().min(self.kept - bearers.len()));
        let next = if moving.is_empty() {
            kept.last()
        } else {
            kept.first().filter(|it| is_young(it))
        };
        let Some(into) = bearers.first().or(next).or(moving.first()).cloned() else {
            return;
        };
        // Only newer ones stand for older ones, so that none is handed around.
        moving.retain(|it| into.place() < it.place() && !draft.claims.is_busy(&it.connection));
        gone.extend(moving);
        if gone.is_empty() {
            return;
        }
        gone.sort_by(|one, other| other.place().cmp(&one.place()));
        let gone = gone.into_iter().map(|it| it.connection);
        draft.merge(&into.connection).gone.extend(gone);
    }
}

/// Sorts the sessions of one VM by who came from where, each with its part.
fn by_door(done: Done, sessions: Vec<Session>, most: usize) -> Vec<Alike> {
    let mut doors: HashMap<(ConnectionKind, String, Option<String>), Vec<Session>> = HashMap::new();
    for session in sessions {
        let spec = &session.connection.spec;
        let door = (spec.kind, spec.login.clone(), spec.peer.clone());
        doors.entry(door).or_default().push(session);
    }
    let mut doors: Vec<_> = doors.into_iter().collect();
    let mut alike = Vec::new();
    if doors.len() > most / 2 {
        doors.sort_by_cached_key(|((_, _, peer), sessions)| {
            (sessions.iter().map(Session::first).min(), peer.clone())
        });
        let mut others: HashMap<(ConnectionKind, String), Vec<Session>> = HashMap::new();
        for ((kind, login, _), sessions) in doors.split_off(most / 2) {
            others.entry((kind, login)).or_default().extend(sessions);
        }
        alike.extend(others.into_values());
    }
    alike.extend(doors.into_iter().map(|(_, sessions)| sessions));
    let part = part_of_each(alike.iter().map(Vec::len).collect(), most);
    let alike = alike.into_iter().map(|mut sessions| {
        sessions.sort_by(|one, other| one.place().cmp(&other.place()));
        let kept = sessions.len().min(part);
        Alike {
            done,
            sessions,
            kept,
        }
    });
    alike.collect()
}

/// Keeps no more than `most` of one owner's.
fn shrink(all: &mut [Alike], most: usize) {
    let mut places = Vec::new();
    for (index, alike) in all.iter().enumerate() {
        for (number, session) in alike.sessions.iter().take(alike.kept).enumerate() {
            let stands_for_others = number == 0 && alike.done == Done::Used;
            places.push((!stands_for_others, alike.done, session.place(), index));
        }
    }
    if places.len() <= most {
        return;
    }
    places.sort_unstable();
    let mut kept = vec![0; all.len()];
    for (_, _, _, index) in places.into_iter().take(most) {
        if let Some(kept) = kept.get_mut(index) {
            *kept += 1;
        }
    }
    for (alike, kept) in all.iter_mut().zip(kept) {
        alike.kept = kept;
    }
}

/// Up to how many each may keep so that all together keep `most`: who has fewer keeps
/// all.
fn part_of_each(mut counts: Vec<usize>, most: usize) -> usize {
    counts.sort_unstable();
    let (mut left, mut others) = (most, counts.len());
    for count in counts {
        let part = left / others;
        if count > part {
            return part;
        }
        left -= count;
        others -= 1;
    }
    usize::MAX
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;

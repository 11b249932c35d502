//! How many consoles there may be, and who gives way to whom.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use kite_rest::{Problem, ProblemKind};
use parking_lot::Mutex;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use super::{ConsoleKind, ConsoleLimits};

/// How long consoles get to end in order: somewhat longer than clients get to hear
/// the last words.
const DRAIN: Duration = Duration::from_secs(3);

/// The consoles of this replica.
#[derive(Default)]
pub(crate) struct Places {
    sockets: AtomicUsize,
    numbers: AtomicU64,
    table: Mutex<Table>,
    /// The process is about to end.
    ending: CancellationToken,
    guests: TaskTracker,
}

#[derive(Default)]
struct Table {
    by_user: HashMap<String, usize>,
    by_vm: HashMap<String, usize>,
    /// Their numbers.
    open: HashSet<u64>,
    /// Who is at the one serial line or screen of a VM, by its uid.
    at: HashMap<(String, ConsoleKind), (u64, CancellationToken)>,
}

/// A socket that is open, whether or not it has a console yet.
pub(crate) struct Guest {
    places: Arc<Places>,
    /// Whoever ends the process waits for it.
    _here: TaskTrackerToken,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.places.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place at a console.
pub(crate) struct Place {
    places: Arc<Places>,
    pub(crate) number: u64,
    user: String,
    vm: String,
    kind: ConsoleKind,
    /// Somebody else has taken it.
    pub(crate) taken: CancellationToken,
}

impl Places {
    /// Lets a socket in, if there is room for any.
    pub(crate) fn knock(self: &Arc<Self>, limits: &ConsoleLimits) -> Result<Guest, Problem> {
        if self.ending.is_cancelled() {
            return Err(Problem::new(
                ProblemKind::Unavailable,
                "this server is about to end: try again",
            ));
        }
        if self.sockets.fetch_add(1, Ordering::Relaxed) >= limits.total {
            self.sockets.fetch_sub(1, Ordering::Relaxed);
            return Err(crowded("this server has as many consoles open as it may"));
        }
        Ok(Guest {
            places: Arc::clone(self),
            _here: self.guests.token(),
        })
    }

    /// Ends all consoles, and waits until their clients were told or have been given
    /// the time to hear it. Nobody is let in any more.
    pub(crate) async fn drain(&self) {
        self.ending.cancel();
        self.guests.close();
        if tokio::time::timeout(DRAIN, self.guests.wait())
            .await
            .is_err()
        {
            tracing::warn!("consoles are cut off whose clients do not read");
        }
    }

    /// Whether somebody has the place with this number.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.table.lock().open.contains(&number)
    }

    /// Waits until the process is about to end.
    pub(crate) async fn ending(&self) {
        self.ending.cancelled().await;
    }

    /// A place for the account `user` at a VM, both by uid.
    pub(crate) fn enter(
        self: &Arc<Self>,
        limits: &ConsoleLimits,
        user: &str,
        vm: &str,
        kind: ConsoleKind,
    ) -> Result<Place, Problem> {
        let mut table = self.table.lock();
        let count = |counts: &HashMap<String, usize>, key| counts.get(key).copied().unwrap_or(0);
        if count(&table.by_user, user) >= limits.per_user {
            let most = limits.per_user;
            return Err(crowded(&format!("you have {most} consoles open")));
        }
        if count(&table.by_vm, vm) >= limits.per_vm {
            let most = limits.per_vm;
            return Err(crowded(&format!("the VM has {most} consoles open")));
        }
        *table.by_user.entry(user.to_owned()).or_default() += 1;
        *table.by_vm.entry(vm.to_owned()).or_default() += 1;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        table.open.insert(number);
        Ok(Place {
            places: Arc::clone(self),
            number,
            user: user.to_owned(),
            vm: vm.to_owned(),
            kind,
            taken: CancellationToken::new(),
        })
    }
}

impl Place {
    /// Takes over from whoever is at the one serial line or screen of the VM. Of
    /// terminals there may be many.
    pub(crate) fn take_over(&self) {
        if self.kind == ConsoleKind::Terminal {
            return;
        }
        let key = (self.vm.clone(), self.kind);
        let mine = (self.number, self.taken.clone());
        if let Some((_, before)) = self.places.table.lock().at.insert(key, mine) {
            before.cancel();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.places.table.lock();
        one_less(&mut table.by_user, &self.user);
        one_less(&mut table.by_vm, &self.vm);
        table.open.remove(&self.number);
        let key = (std::mem::take(&mut self.vm), self.kind);
        if table.at.get(&key).is_some_and(|(at, _)| *at == self.number) {
            table.at.remove(&key);
        }
    }
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn crowded(what: &str) -> Problem {
    Problem::new(
        ProblemKind::TooManyRequests,
        format!("{what}: close one and try again"),
    )
    .retry_after(Duration::from_secs(10))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn limits() -> ConsoleLimits {
        ConsoleLimits {
            per_user: 2,
            per_vm: 3,
            total: 2,
            ..ConsoleLimits::default()
        }
    }

    #[test]
    fn places_are_counted_and_given_back() {
        let (places, limits) = (Arc::new(Places::default()), limits());
        let enter = |user, vm| places.enter(&limits, user, vm, ConsoleKind::Terminal);
        let first = enter("ann", "web").unwrap();
        let second = enter("ann", "db").unwrap();
        assert!(enter("ann", "web").is_err());
        let number = first.number;
        assert!(places.has(number) && places.has(second.number));
        let _third = enter("bob", "web").unwrap();
        let _fourth = enter("bob", "web").unwrap();
        assert!(enter("eve", "web").is_err());
        drop(first);
        assert!(!places.has(number) && places.has(second.number));
        let _fifth = enter("eve", "web").unwrap();
        drop(places.knock(&limits).unwrap());
        let _all = [
            places.knock(&limits).unwrap(),
            places.knock(&limits).unwrap(),
        ];
        assert!(places.knock(&limits).is_err());
    }

    #[test]
    fn the_next_one_takes_over_and_the_first_leaves_it_alone() {
        let (places, limits) = (Arc::new(Places::default()), limits());
        let enter = |kind| {
            let place = places.enter(&limits, "ann", "web", kind).unwrap();
            place.take_over();
            place
        };
        let first = enter(ConsoleKind::Vnc);
        let serial = enter(ConsoleKind::Serial);
        assert!(!first.taken.is_cancelled() && !serial.taken.is_cancelled());
        drop(serial);
        let second = enter(ConsoleKind::Vnc);
        assert!(first.taken.is_cancelled() && !second.taken.is_cancelled());
        drop(first);
        let third = enter(ConsoleKind::Vnc);
        assert!(second.taken.is_cancelled() && !third.taken.is_cancelled());
    }
}

//! Memory that is kept between users and machines: one budget for the process, and a
//! part of it at most for the machines of one owner.
//!
//! Three quarters are for channels: each pays [`CHANNEL`] when it opens, or does not
//! open. That covers its two SSH sessions and [`FLOOR`] of each of its queues, so
//! whoever reads always goes on. The other quarter is for what queues hold beyond that,
//! so that what stalls keeps nobody from opening something. A queue's mark, above which its sender
//! is held back, is its part of what is left: the rest divided by the queues that are
//! held back. So many that stall get little each, and one gets [`MOST`]. Of the whole
//! each owner has a part, however many queues it is that stall.
//!
//! Nothing is ever dropped for want of memory. Marks bound what machines send, since
//! their connections are not read above them. What users send has a window of its own
//! that cannot be taken back, so it may exceed the mark: once the budget is used up,
//! connections with a queue above its mark are not read ([`Share::is_full`]).

mod limit;

use std::collections::HashMap;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub(crate) use limit::default_budget;

/// What an open channel takes beside what its queues hold above [`FLOOR`], in bytes:
/// two SSH sessions with their buffers, and the floors.
pub(crate) const CHANNEL: usize = 256 * 1024;
/// What a queue may hold in any case, in bytes: the largest packet there is.
pub(crate) const FLOOR: usize = 32 * 1024;
/// What a queue may hold before its sender is held back, in bytes, while there is
/// memory enough.
pub(crate) const MOST: usize = 1024 * 1024;
/// An owner's machines together may take one part in so many of the budget.
const OWNERS: usize = 4;

/// A bound, and what is taken of it.
#[derive(Debug)]
struct Pot {
    limit: usize,
    used: AtomicUsize,
    /// Those that are held back: of one owner's queues, of the whole owners with some.
    /// For a moment it may be too low.
    held: AtomicIsize,
}

impl Pot {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            held: AtomicIsize::new(0),
        }
    }

    fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn try_take(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.limit
    }

    fn held(&self) -> usize {
        usize::try_from(self.held.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The part of a queue that has taken `own` of this, and may be counted as held back.
    fn part(&self, own: usize, is_counted: bool) -> usize {
        let others = self.used.load(Ordering::Relaxed).saturating_sub(own);
        let held = self.held() + usize::from(!is_counted);
        self.limit.saturating_sub(others) / held.max(1)
    }
}

/// What there is for channels, and for what waits on them.
#[derive(Debug)]
struct Pots {
    channels: Pot,
    waiting: Pot,
}

impl Pots {
    fn new(bytes: usize) -> Self {
        let waiting = bytes / 4;
        Self {
            channels: Pot::new(bytes - waiting),
            waiting: Pot::new(waiting),
        }
    }
}

/// The memory of a process for what is between users and machines.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    whole: Arc<Pots>,
    shares: Mutex<HashMap<String, Weak<Share>>>,
}

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            bytes,
            whole: Arc::new(Pots::new(bytes)),
            shares: Mutex::default(),
        }
    }

    /// What the machines of one owner may take together; the same for whoever asks
    /// while somebody has it.
    pub(crate) fn share(&self, owner: &str) -> Arc<Share> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(owner).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Share {
            whole: Arc::clone(&self.whole),
            own: Pots::new(self.bytes / OWNERS),
        });
        shares.insert(owner.to_owned(), Arc::downgrade(&share));
        share
    }

    /// Bytes that are taken.
    #[cfg(test)]
    fn used(&self) -> usize {
        let pots = [&self.whole.channels, &self.whole.waiting];
        pots.map(|pot| pot.used.load(Ordering::Relaxed))
            .iter()
            .sum()
    }
}

/// One owner's part of a [`Budget`].
#[derive(Debug)]
pub(crate) struct Share {
    whole: Arc<Pots>,
    own: Pots,
}

impl Share {
    fn channels(&self) -> [&Pot; 2] {
        [&self.own.channels, &self.whole.channels]
    }

    fn waiting(&self) -> [&Pot; 2] {
        [&self.own.waiting, &self.whole.waiting]
    }

    /// Pays for a channel; nothing if there is not enough left.
    pub(crate) fn open(self: &Arc<Self>) -> Option<Paid> {
        let [own, whole] = self.channels();
        if !own.try_take(CHANNEL) {
            return None;
        }
        if !whole.try_take(CHANNEL) {
            own.give(CHANNEL);
            return None;
        }
        Some(Paid(Arc::clone(self)))
    }

    /// Whether nothing is left for what waits.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting().iter().any(|pot| pot.is_full())
    }
}

/// A channel is paid for until this is dropped.
#[derive(Debug)]
pub(crate) struct Paid(Arc<Share>);

impl Drop for Paid {
    fn drop(&mut self) {
        for pot in self.0.channels() {
            pot.give(CHANNEL);
        }
    }
}

/// What one queue takes. Without a share it is not bounded by others.
#[derive(Debug, Default)]
pub(crate) struct Account {
    share: Option<Arc<Share>>,
    charged: usize,
    is_held: bool,
}

impl Drop for Account {
    fn drop(&mut self) {
        self.set(0);
        self.hold(false);
    }
}

impl Account {
    /// Takes out of this share.
    pub(crate) fn of(share: Option<Arc<Share>>) -> Self {
        Self {
            share,
            ..Self::default()
        }
    }

    /// The queue holds so many bytes now.
    pub(crate) fn set(&mut self, bytes: usize) {
        let Some(share) = &self.share else { return };
        let charged = bytes.saturating_sub(FLOOR);
        for pot in share.waiting() {
            if charged > self.charged {
                pot.take(charged - self.charged);
            } else {
                pot.give(self.charged - charged);
            }
        }
        self.charged = charged;
    }

    /// Whether the queue's sender is held back.
    pub(crate) fn hold(&mut self, is_held: bool) {
        let Some(share) = &self.share else { return };
        if std::mem::replace(&mut self.is_held, is_held) == is_held {
            return;
        }
        let [own, whole] = share.waiting();
        if is_held {
            if own.held.fetch_add(1, Ordering::Relaxed) == 0 {
                whole.held.fetch_add(1, Ordering::Relaxed);
            }
        } else if own.held.fetch_sub(1, Ordering::Relaxed) == 1 {
            whole.held.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Above so many bytes the queue's sender is to be held back now.
    pub(crate) fn mark(&self) -> usize {
        let Some(share) = &self.share else {
            return MOST;
        };
        let [own, whole] = share.waiting();
        let of_owner = own.part(self.charged, self.is_held);
        let of_whole = whole.part(self.charged, own.held() > 0);
        MOST.min(FLOOR + of_owner.min(of_whole))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

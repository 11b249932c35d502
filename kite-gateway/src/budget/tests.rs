//! What the budget promises, over random histories.
#![allow(clippy::unwrap_used)]

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

const MIB: usize = 1024 * 1024;

/// A queue whose sender sends packets whenever it is not held back, to nobody.
struct Stalled {
    account: Account,
    bytes: usize,
    _paid: Paid,
}

impl Stalled {
    fn open(share: &Arc<Share>) -> Option<Self> {
        Some(Self {
            _paid: share.open()?,
            account: Account::of(Some(Arc::clone(share))),
            bytes: 0,
        })
    }

    fn fill(&mut self) {
        while !self.account.is_held {
            self.bytes += FLOOR;
            self.account.set(self.bytes);
            if self.bytes > self.account.mark() {
                self.account.hold(true);
            }
        }
    }
}

#[test]
fn who_stalls_alone_gets_all_that_a_queue_may_have() {
    let budget = Budget::new(512 * MIB);
    let mut one = Stalled::open(&budget.share("ann")).unwrap();
    one.fill();
    assert!(
        one.bytes > MOST && one.bytes <= MOST + FLOOR,
        "{}",
        one.bytes
    );
    drop(one);
    assert_eq!(budget.used(), 0);
}

#[test]
fn an_owner_takes_a_part_however_many_stall() {
    let budget = Budget::new(512 * MIB);
    let share = budget.share("ann");
    let mut all = Vec::new();
    while let Some(mut next) = Stalled::open(&share) {
        next.fill();
        all.push(next);
    }
    // As many as there would be if nobody stalled.
    assert_eq!(all.len(), 512 * MIB / OWNERS / 4 * 3 / CHANNEL);
    // Each overshoots its mark by a packet at most.
    let most = 512 * MIB / OWNERS + all.len() * FLOOR;
    assert!(budget.used() <= most, "{} > {most}", budget.used());
    // Somebody else's channel has as much as ever.
    let mut other = Stalled::open(&budget.share("bob")).unwrap();
    other.fill();
    assert!(other.bytes > MOST, "{}", other.bytes);
    assert!(share.open().is_none());
    drop(all);
    assert!(share.open().is_some());
    drop(other);
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_whole_is_never_exceeded_by_more_than_a_packet_for_each() {
    let budget = Budget::new(64 * MIB);
    let mut random = StdRng::seed_from_u64(1);
    let mut all: Vec<Stalled> = Vec::new();
    for _ in 0..20_000 {
        let owner = random.random_range(0..8_u32).to_string();
        match random.random_range(0..4) {
            0 | 1 => all.extend(Stalled::open(&budget.share(&owner))),
            2 if !all.is_empty() => {
                let which = random.random_range(0..all.len());
                all[which].fill();
            }
            _ if !all.is_empty() => {
                let which = random.random_range(0..all.len());
                if random.random() {
                    drop(all.swap_remove(which));
                } else {
                    // Read to the end: whatever else stalls, it may go on.
                    let it = &mut all[which];
                    it.bytes = 0;
                    it.account.set(0);
                    it.account.hold(false);
                    assert!(it.account.mark() >= FLOOR);
                }
            }
            _ => {}
        }
        let most = 64 * MIB + all.len() * FLOOR;
        assert!(budget.used() <= most, "{} > {most}", budget.used());
    }
    drop(all);
    assert_eq!(budget.used(), 0);
    assert_eq!(budget.whole.waiting.held.load(Ordering::Relaxed), 0);
}

#[test]
fn a_share_is_one_while_somebody_has_it() {
    let budget = Budget::new(MIB);
    let share = budget.share("ann");
    assert!(Arc::ptr_eq(&share, &budget.share("ann")));
    assert!(!Arc::ptr_eq(&share, &budget.share("bob")));
    drop(share);
    drop(budget.share("cid"));
    assert_eq!(budget.shares.lock().len(), 1, "others are forgotten");
}

#[test]
fn what_has_no_share_is_bounded_by_itself_alone() {
    let mut account = Account::default();
    account.set(10 * MIB);
    account.hold(true);
    assert_eq!(account.mark(), MOST);
}

//! A bound of what goes on at a time, of which one network has at most a share: whoever
//! fills theirs keeps out nobody else.

use std::{collections::HashMap, net::IpAddr};

use kite_core::cidr::place;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The bound.
pub(crate) struct Shares {
    all: Semaphore,
    /// Most that one network has of it.
    each: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One of them, until it is dropped.
pub(crate) struct Share<'a> {
    shares: &'a Shares,
    network: Option<IpAddr>,
    _permit: SemaphorePermit<'a>,
}

/// Whether somebody is refused by chance, though `left` are left: never while there are
/// `low`, and the likelier, the fewer there are. Otherwise whoever comes again the moment
/// that one is free had them all; so, whoever tries again gets through.
pub(crate) fn is_unlucky(left: usize, low: usize) -> bool {
    left < rand::random_range(1..=low)
}

impl Shares {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self {
            all: Semaphore::new(all),
            each,
            taken: Mutex::default(),
        }
    }

    /// One for what comes from `address`, if there is one left. What comes from nowhere
    /// that is known has no share to fill.
    pub(crate) fn take(&self, address: Option<IpAddr>) -> Option<Share<'_>> {
        let network = address.map(place);
        let permit = self.all.try_acquire().ok()?;
        if let Some(network) = network {
            let mut taken = self.taken.lock();
            let count = taken.entry(network).or_default();
            if *count >= self.each {
                return None;
            }
            *count += 1;
        }
        Some(Share {
            shares: self,
            network,
            _permit: permit,
        })
    }

    /// How many are left for all.
    pub(crate) fn available_permits(&self) -> usize {
        self.all.available_permits()
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let Some(network) = self.network else { return };
        let mut taken = self.shares.taken.lock();
        if let Some(count) = taken.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_fewer_are_left_the_more_are_refused_by_chance() {
        let refused = |left| (0..10_000).filter(|_| is_unlucky(left, 8)).count();
        assert_eq!(refused(0), 10_000);
        assert!((8_000..9_500).contains(&refused(1)));
        assert!((4_000..6_000).contains(&refused(4)));
        assert_eq!(refused(8), 0);
        assert_eq!(refused(9), 0);
    }

    #[test]
    fn one_network_keeps_out_nobody_else() {
        let shares = Shares::new(4, 2);
        let at = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        // Of one network, by as many addresses as it likes.
        let own = [at("2001:db8::1"), at("2001:db8::2")];
        let held: Vec<_> = own.map(|it| shares.take(it).unwrap()).into();
        assert!(shares.take(at("2001:db8::3")).is_none());
        assert_eq!(shares.available_permits(), 2);
        let other = shares.take(at("192.0.2.1")).unwrap();
        let unknown = shares.take(None).unwrap();
        assert!(shares.take(at("192.0.2.2")).is_none());
        drop((other, held));
        assert!(shares.take(at("2001:db8::3")).is_some());
        drop(unknown);
        assert_eq!(shares.available_permits(), 4);
        assert!(shares.taken.lock().is_empty());
    }
}

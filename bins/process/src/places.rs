//! How many connections are served at a time, in all and from one address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use kite_core::cidr;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that have a place, by where they come from.
type Counts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// Places for connections.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    counts: Counts,
    per_address: Option<usize>,
}

/// What a connection has for as long as it is served.
pub(crate) struct Place {
    _one_of_all: OwnedSemaphorePermit,
    counted: Option<(Counts, IpAddr)>,
}

impl Places {
    /// So many in all, and `per_address` from one address, if that is bounded.
    pub(crate) fn new(all: usize, per_address: Option<usize>) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            counts: Counts::default(),
            per_address,
        }
    }

    /// Waits until one is free. `None` when they are closed.
    pub(crate) async fn one(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// A place for a connection from `address`, if one is free at once.
    pub(crate) fn free(&self, address: IpAddr) -> Option<Place> {
        let place = Arc::clone(&self.all).try_acquire_owned().ok()?;
        self.give(place, address)
    }

    /// Whether a connection from `address` would be given one.
    pub(crate) fn has_room(&self, address: IpAddr) -> bool {
        self.per_address.is_none_or(|most| {
            let counts = self.counts.lock();
            counts.get(&cidr::place(address)).copied().unwrap_or(0) < most
        })
    }

    /// Gives it to a connection from `address`, unless that has as many as it may.
    pub(crate) fn give(&self, place: OwnedSemaphorePermit, address: IpAddr) -> Option<Place> {
        let mut counted = None;
        if let Some(most) = self.per_address {
            let network = cidr::place(address);
            let mut counts = self.counts.lock();
            let count = counts.entry(network).or_default();
            if *count >= most {
                return None;
            }
            *count += 1;
            counted = Some((Arc::clone(&self.counts), network));
        }
        Some(Place {
            _one_of_all: place,
            counted,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((counts, network)) = &self.counted else {
            return;
        };
        let mut counts = counts.lock();
        if let Some(count) = counts.get_mut(network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_one_address_so_many_have_a_place_and_of_others_too() {
        let places = Places::new(100, Some(2));
        let take = async |address: &str| {
            let one = places.one().await.unwrap();
            places.give(one, address.parse().unwrap())
        };
        let first = take("192.0.2.1").await.unwrap();
        let _second = take("::ffff:192.0.2.1").await.unwrap();
        assert!(take("192.0.2.1").await.is_none());
        let _other = take("192.0.2.2").await.unwrap();
        let _of_network = (
            take("2001:db8::1").await.unwrap(),
            take("2001:db8::2").await.unwrap(),
        );
        assert!(take("2001:db8::3").await.is_none());
        assert!(take("2001:db8:0:1::1").await.is_some());
        drop(first);
        let _again = take("192.0.2.1").await.unwrap();
        assert_eq!(places.counts.lock().len(), 3);

        let unbounded = Places::new(3, None);
        let mut held = Vec::new();
        for _ in 0..3 {
            let one = unbounded.one().await.unwrap();
            held.push(unbounded.give(one, "192.0.2.1".parse().unwrap()).unwrap());
        }
        assert_eq!(unbounded.all.available_permits(), 0);
    }
}

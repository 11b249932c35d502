//! How many connections may be open, in all and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Why a connection is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The gateway has as many as it may.
    Total,
    /// The address has as many as it may.
    Address,
}

impl Refusal {
    /// A word for metrics.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Address => "address",
        }
    }
}

#[derive(Default)]
struct Counts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Counts connections.
pub(crate) struct Admission {
    counts: Arc<Mutex<Counts>>,
    max_total: usize,
    max_per_address: usize,
}

/// A connection that counts until this is dropped.
pub(crate) struct Admitted {
    counts: Arc<Mutex<Counts>>,
    address: IpAddr,
}

impl Admission {
    pub(crate) fn new(max_total: usize, max_per_address: usize) -> Self {
        Self {
            counts: Arc::default(),
            max_total,
            max_per_address,
        }
    }

    /// Takes a connection, or says why not.
    pub(crate) fn admit(&self, address: IpAddr) -> Result<Admitted, Refusal> {
        let address = address.to_canonical();
        let mut counts = self.counts.lock();
        if counts.total >= self.max_total {
            return Err(Refusal::Total);
        }
        let here = counts.by_address.get(&address).copied().unwrap_or(0);
        if here >= self.max_per_address {
            return Err(Refusal::Address);
        }
        counts.total += 1;
        counts.by_address.insert(address, here + 1);
        Ok(Admitted {
            counts: Arc::clone(&self.counts),
            address,
        })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.total -= 1;
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn counts_per_address_and_in_all() {
        let admission = Admission::new(3, 2);
        let a: IpAddr = "10.0.0.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let b: IpAddr = "10.0.0.2".parse().unwrap();
        let first = admission.admit(a).unwrap();
        let _second = admission.admit(mapped).unwrap();
        assert_eq!(admission.admit(a).err(), Some(Refusal::Address));
        let _third = admission.admit(b).unwrap();
        assert_eq!(admission.admit(b).err(), Some(Refusal::Total));
        drop(first);
        let _fourth = admission.admit(a).unwrap();
        assert_eq!(admission.counts.lock().by_address.len(), 2);
    }
}

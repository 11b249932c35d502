//! How many connections may be open, in all and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cidr::place;

/// Why a connection is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The gateway has as many as it may.
    Total,
    /// The address has as many as it may.
    Address,
    /// The operator does not want it.
    Denied,
    /// Somebody there guessed passwords.
    Banned,
    /// A proxy did not say where it comes from.
    Proxy,
}

impl Refusal {
    /// All words for metrics.
    pub(crate) const KINDS: [&str; 5] = ["total", "address", "denied", "banned", "proxy"];

    /// A word for metrics.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Address => "address",
            Self::Denied => "denied",
            Self::Banned => "banned",
            Self::Proxy => "proxy",
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
    max_per_address: usize,
    address: Option<IpAddr>,
}

impl Admission {
    pub(crate) fn new(max_total: usize, max_per_address: usize) -> Self {
        Self {
            counts: Arc::default(),
            max_total,
            max_per_address,
        }
    }

    /// Takes a connection, or says why not. Where it comes from is said by
    /// [`Admitted::comes_from`].
    pub(crate) fn admit(&self) -> Result<Admitted, Refusal> {
        let mut counts = self.counts.lock();
        if counts.total >= self.max_total {
            return Err(Refusal::Total);
        }
        counts.total += 1;
        Ok(Admitted {
            counts: Arc::clone(&self.counts),
            max_per_address: self.max_per_address,
            address: None,
        })
    }
}

impl Admitted {
    /// Counts the connection for its address as well.
    pub(crate) fn comes_from(&mut self, address: IpAddr) -> Result<(), Refusal> {
        let address = place(address);
        let mut counts = self.counts.lock();
        let here = counts.by_address.get(&address).copied().unwrap_or(0);
        if here >= self.max_per_address {
            return Err(Refusal::Address);
        }
        counts.by_address.insert(address, here + 1);
        self.address = Some(address);
        Ok(())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.total -= 1;
        let Some(address) = self.address else { return };
        if let Some(count) = counts.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&address);
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
        let admit = |address| {
            let mut admitted = admission.admit()?;
            admitted.comes_from(address)?;
            Ok(admitted)
        };
        let first = admit(a).unwrap();
        let _second = admit(mapped).unwrap();
        assert_eq!(admit(a).err(), Some(Refusal::Address));
        let _third = admit(b).unwrap();
        assert_eq!(admit(b).err(), Some(Refusal::Total));
        drop(first);
        let _fourth = admit(a).unwrap();
        assert_eq!(admission.counts.lock().by_address.len(), 2);
    }
}

//! How many connections may be open, in all and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use kite_core::cidr::place;
use parking_lot::Mutex;

use crate::standing::Standing;

/// Why a connection is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The gateway has as many as it may.
    Total,
    /// The address has as many as it may.
    Address,
    /// The operator does not want it.
    Denied,
    /// As many connections as may have not logged in.
    Startups,
    /// The same for the address, or the network around it.
    AddressStartups,
    /// A proxy did not say where it comes from.
    Proxy,
}

impl Refusal {
    /// All words for metrics.
    pub(crate) const KINDS: [&str; 6] = [
        "total",
        "address",
        "denied",
        "startups",
        "address_startups",
        "proxy",
    ];

    /// A word for metrics.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Address => "address",
            Self::Denied => "denied",
            Self::Startups => "startups",
            Self::AddressStartups => "address_startups",
            Self::Proxy => "proxy",
        }
    }
}

#[derive(Default)]
struct Counts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

#[derive(Clone, Copy)]
struct Bounds {
    total: usize,
    per_address: usize,
    /// Further ones for addresses that are trusted.
    reserved: usize,
}

/// Counts connections.
pub(crate) struct Admission {
    counts: Arc<Mutex<Counts>>,
    bounds: Bounds,
}

/// A connection that counts until this is dropped.
pub(crate) struct Admitted {
    counts: Arc<Mutex<Counts>>,
    bounds: Bounds,
    address: Option<IpAddr>,
}

impl Admission {
    pub(crate) fn new(total: usize, per_address: usize, reserved: usize) -> Self {
        Self {
            counts: Arc::default(),
            bounds: Bounds {
                total,
                per_address,
                reserved,
            },
        }
    }

    /// Takes a connection, or says why not. Where it comes from is said by
    /// [`Admitted::comes_from`].
    pub(crate) fn admit(&self) -> Result<Admitted, Refusal> {
        let mut counts = self.counts.lock();
        let Bounds {
            total, reserved, ..
        } = self.bounds;
        if counts.total >= total.saturating_add(reserved) {
            return Err(Refusal::Total);
        }
        counts.total += 1;
        Ok(Admitted {
            counts: Arc::clone(&self.counts),
            bounds: self.bounds,
            address: None,
        })
    }
}

impl Admitted {
    /// Counts the connection for its address as well, unless many clients share that.
    /// Who is trusted may have what is kept free.
    pub(crate) fn comes_from(
        &mut self,
        address: IpAddr,
        standing: Standing,
    ) -> Result<(), Refusal> {
        let address = place(address);
        let mut counts = self.counts.lock();
        if counts.total > self.bounds.total && standing != Standing::Trusted {
            return Err(Refusal::Total);
        }
        if standing == Standing::Many {
            return Ok(());
        }
        let here = counts.by_address.get(&address).copied().unwrap_or(0);
        if here >= self.bounds.per_address {
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

    fn admit(
        admission: &Admission,
        address: &str,
        standing: Standing,
    ) -> Result<Admitted, Refusal> {
        let mut admitted = admission.admit()?;
        admitted.comes_from(address.parse().unwrap(), standing)?;
        Ok(admitted)
    }

    #[test]
    fn counts_per_address_and_in_all() {
        let admission = Admission::new(3, 2, 0);
        let admit = |address| admit(&admission, address, Standing::Stranger);
        let first = admit("10.0.0.1").unwrap();
        let _second = admit("::ffff:10.0.0.1").unwrap();
        assert_eq!(admit("10.0.0.1").err(), Some(Refusal::Address));
        let _third = admit("10.0.0.2").unwrap();
        assert_eq!(admit("10.0.0.2").err(), Some(Refusal::Total));
        drop(first);
        let _fourth = admit("10.0.0.1").unwrap();
        assert_eq!(admission.counts.lock().by_address.len(), 2);
    }

    #[test]
    fn some_places_are_for_who_is_trusted() {
        let admission = Admission::new(2, 10, 1);
        let _both: Vec<_> = (0..2)
            .map(|_| admit(&admission, "10.0.0.1", Standing::Known).unwrap())
            .collect();
        for standing in [Standing::Stranger, Standing::Known, Standing::Many] {
            let refused = admit(&admission, "10.0.0.2", standing);
            assert_eq!(refused.err(), Some(Refusal::Total));
        }
        let _third = admit(&admission, "10.0.0.3", Standing::Trusted).unwrap();
        let refused = admit(&admission, "10.0.0.3", Standing::Trusted);
        assert_eq!(refused.err(), Some(Refusal::Total));
    }

    #[test]
    fn an_address_that_many_share_has_no_bound_of_its_own() {
        let admission = Admission::new(5, 1, 0);
        let _many: Vec<_> = (0..5)
            .map(|_| admit(&admission, "10.0.0.1", Standing::Many).unwrap())
            .collect();
        let refused = admit(&admission, "10.0.0.1", Standing::Many);
        assert_eq!(refused.err(), Some(Refusal::Total));
    }
}

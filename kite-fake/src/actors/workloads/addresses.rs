//! Which Pod has which address.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::actors::kind::Key;

/// First address that Pods get; the next ones follow.
const FIRST: u32 = Ipv4Addr::new(10, 244, 0, 2).to_bits();

/// The addresses that Pods have.
#[derive(Debug)]
pub(super) struct Addresses {
    holders: BTreeMap<u32, Key>,
    held: BTreeMap<Key, u32>,
    /// All from the first up to this one are taken.
    free: u32,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            holders: BTreeMap::new(),
            held: BTreeMap::new(),
            free: FIRST,
        }
    }
}

impl Addresses {
    /// A Pod's address: its own, else the lowest that no other Pod has.
    pub(super) fn of(&mut self, key: &Key) -> Ipv4Addr {
        if let Some(ip) = self.held.get(key)
            && self.holders.get(ip) == Some(key)
        {
            return Ipv4Addr::from_bits(*ip);
        }
        let free = (self.free..u32::MAX).find(|ip| !self.holders.contains_key(ip));
        let ip = free.unwrap_or(FIRST);
        self.hold(ip, key);
        self.free = ip;
        Ipv4Addr::from_bits(ip)
    }

    /// A Pod is seen with an address.
    pub(super) fn hold(&mut self, ip: u32, key: &Key) {
        if self.held.get(key) != Some(&ip) {
            self.release(key);
        }
        self.held.insert(key.clone(), ip);
        self.holders.insert(ip, key.clone());
    }

    /// A Pod is gone.
    pub(super) fn release(&mut self, key: &Key) {
        let Some(ip) = self.held.remove(key) else {
            return;
        };
        // Another may have been seen with it since.
        if self.holders.get(&ip) == Some(key) {
            self.holders.remove(&ip);
            self.free = self.free.min(ip).max(FIRST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::kind::POD;

    #[test]
    fn a_pod_gets_the_lowest_address_that_is_free() {
        let key = |name: &str| Key::new(&POD, Some("default"), name);
        let ip = |last| Ipv4Addr::new(10, 244, 0, last);
        let mut addresses = Addresses::default();
        addresses.hold(ip(3).to_bits(), &key("seen"));
        assert_eq!(addresses.of(&key("a")), ip(2));
        assert_eq!(addresses.of(&key("b")), ip(4));
        assert_eq!(addresses.of(&key("a")), ip(2));
        addresses.release(&key("a"));
        addresses.release(&key("a"));
        assert_eq!(addresses.of(&key("c")), ip(2));
        assert_eq!(addresses.of(&key("a")), ip(5));
    }
}

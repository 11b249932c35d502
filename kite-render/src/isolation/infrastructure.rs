//! The cluster's own addresses: those of its nodes and of their pods, and those
//! of its API server, which need not be a node's. They need not be private.

use std::{collections::BTreeSet, net::IpAddr};

use k8s_openapi::api::{
    core::v1::Node,
    discovery::v1::{Endpoint, EndpointSlice},
};

use super::Isolation;
use kite_core::versions::as_option;

/// A range of addresses in CIDR notation.
#[derive(Clone, Copy, Debug)]
struct Range {
    /// The first address, as a number.
    base: u128,
    /// How many bits are the same for all of it.
    prefix: u32,
    /// How many bits an address has.
    bits: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let (base, bits) = match address.parse().ok()? {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let prefix = prefix.parse().ok()?;
        (prefix <= bits).then_some(Self { base, prefix, bits })
    }

    /// Whether all of `other` lies in it.
    fn holds(&self, other: &Self) -> bool {
        let differing = self.base ^ other.base;
        self.bits == other.bits
            && self.prefix <= other.prefix
            && differing.checked_shr(self.bits - self.prefix).unwrap_or(0) == 0
    }
}

/// The addresses of nodes and of the pods on them, in CIDR notation.
pub fn addresses<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for node in nodes {
        let status = node.status.as_ref();
        let own = status.and_then(|status| status.addresses.as_ref());
        // Host names are no addresses.
        all.extend(
            own.into_iter()
                .flatten()
                .filter_map(|own| one(&own.address)),
        );
        let spec = node.spec.as_ref();
        let pods = spec.and_then(|spec| spec.pod_cidrs.as_ref());
        all.extend(pods.into_iter().flatten().cloned());
    }
    all
}

/// The addresses behind a Service, in CIDR notation, whether they answer now or
/// not.
pub fn endpoints<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> BTreeSet<String> {
    slices
        .into_iter()
        .filter_map(|slice| as_option::<Vec<Endpoint>, _>(&slice.endpoints))
        .flatten()
        .flat_map(|endpoint| &endpoint.addresses)
        .filter_map(|address| one(address))
        .collect()
}

/// The range of one address; none for a host name.
pub(super) fn one(address: &str) -> Option<String> {
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    Some(format!("{address}/{bits}"))
}

/// Whether `ranges` leave nothing of `cidr`.
pub(super) fn cover(ranges: &[String], cidr: &str) -> bool {
    let Some(cidr) = Range::parse(cidr) else {
        return false;
    };
    let mut ranges = ranges.iter().filter_map(|range| Range::parse(range));
    ranges.any(|range| range.holds(&cidr))
}

impl Isolation {
    /// The same isolation, with `ranges` blocked too. What is blocked already, and
    /// what is no part of what would be open, is left out; what is as wide as all
    /// that would be open closes it.
    #[must_use]
    pub fn around<'a>(&self, ranges: impl IntoIterator<Item = &'a String>) -> Self {
        let mut isolation = self.clone();
        for text in ranges {
            let Some(range) = Range::parse(text) else {
                continue;
            };
            let (open, blocked) = if range.bits == 32 {
                (super::IPV4, &mut isolation.blocked_ipv4)
            } else {
                (super::IPV6, &mut isolation.blocked_ipv6)
            };
            let is_open =
                Range::parse(open).is_some_and(|open| open.holds(&range) || range.holds(&open));
            let is_blocked = blocked
                .iter()
                .filter_map(|blocked| Range::parse(blocked))
                .any(|blocked| blocked.holds(&range));
            if is_open && !is_blocked {
                blocked.push(text.clone());
            }
        }
        isolation
    }

    /// Whether VMs are kept from an address.
    pub fn closes(&self, address: IpAddr) -> bool {
        let (open, blocked) = match address {
            IpAddr::V4(_) => (super::IPV4, &self.blocked_ipv4),
            IpAddr::V6(_) => (super::IPV6, &self.blocked_ipv6),
        };
        let one = one(&address.to_string()).and_then(|it| Range::parse(&it));
        let is_in = |range: &str| {
            let range = Range::parse(range);
            range.zip(one).is_some_and(|(range, one)| range.holds(&one))
        };
        !is_in(open) || blocked.iter().any(|it| is_in(it))
    }
}

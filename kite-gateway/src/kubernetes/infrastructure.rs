//! The addresses of nodes, pods and load balancers, out of the platform's status, in
//! which the controller writes what it knows of them. So the gateway needs no right to
//! read nodes.

use kite_core::cidr::Cidr;
use kite_core::crd::KitePlatform;
use kube::runtime::watcher::Event;

use crate::standing::Infrastructure;

/// Takes over what an event of the platform's watch tells. What was known stays while the
/// platform is gone or cannot be read.
pub(super) fn take(infrastructure: &Infrastructure, event: &Event<KitePlatform>) {
    if let Event::Apply(platform) | Event::InitApply(platform) = event {
        infrastructure.set(ranges(platform));
    }
}

/// What the status says. A range that cannot be read is left out.
fn ranges(platform: &KitePlatform) -> Vec<Cidr> {
    let status = platform.status.as_ref();
    let said = status.map(|status| status.cluster_addresses.as_slice());
    let mut ranges = Vec::new();
    for text in said.unwrap_or_default() {
        match text.parse() {
            Ok(range) => ranges.push(range),
            Err(error) => tracing::warn!(%error, "status.clusterAddresses of the KitePlatform"),
        }
    }
    ranges
}

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
    if let Event::Apply(platform) | Event::InitApply(platform) = event
        && let Some(status) = &platform.status
    {
        infrastructure.set(ranges(&status.cluster_addresses));
    }
}

/// What the status says. A range that cannot be read is left out.
fn ranges(said: &[String]) -> Vec<Cidr> {
    let mut ranges = Vec::new();
    for text in said {
        match text.parse() {
            Ok(range) => ranges.push(range),
            Err(error) => tracing::warn!(%error, "status.clusterAddresses of the KitePlatform"),
        }
    }
    ranges
}

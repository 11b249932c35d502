//! The addresses of nodes, pods and load balancers, out of the platform's status, in
//! which the controller writes what it knows of them. So the gateway needs no right to
//! read nodes.

use kite_core::cidr::Cidr;
use kite_core::crd::KitePlatform;
use kite_core::names;
use kite_core::watch_backoff::WatchBackoff;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::watch::feed;
use crate::standing::Infrastructure;

/// Keeps `infrastructure` by a watch through `client` until `shutdown`. What was known
/// stays while the platform is gone or cannot be read.
pub async fn watch_infrastructure(
    client: Client,
    infrastructure: Infrastructure,
    shutdown: CancellationToken,
) {
    let only = watcher::Config::default().fields(&format!("metadata.name={}", names::PLATFORM));
    let platforms = watcher(Api::<KitePlatform>::all(client), only);
    let feeding = feed(
        "KitePlatform",
        platforms.backoff(WatchBackoff::default()),
        |event| {
            if let Event::Apply(platform) | Event::InitApply(platform) = event {
                infrastructure.set(ranges(&platform));
            }
        },
    );
    tokio::select! {
        () = feeding => {}
        () = shutdown.cancelled() => {}
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

//! Whether the network policies around users' namespaces close the addresses that pods really have:
//! the controller knows the ranges that nodes name, which some network plugins ignore.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use kite_render::isolation::{Isolation, addresses as of_nodes};
use kube::ResourceExt as _;

use super::{
    Aim,
    cluster::unseen,
    facts::{Facts, Seen},
    finding::{Finding, State},
};

const CHECK: &str = "podAddresses";
/// So many are named.
const NAMED: usize = 3;

/// Compares them.
pub(super) fn addresses(facts: &Facts, aim: &Aim) -> Finding {
    let Seen::Known(pods) = &facts.pods else {
        return unseen(CHECK, "pods", &facts.pods);
    };
    let settings = match (&facts.platform, &aim.planned) {
        (Seen::Known(platform), _) => Some(&platform.spec),
        (_, planned) => planned.as_ref(),
    };
    let nodes = facts.nodes.known().into_iter().flatten();
    let mut closed = of_nodes(nodes);
    closed.extend(
        settings
            .into_iter()
            .flat_map(|it| it.blocked_networks.clone()),
    );
    let isolation = Isolation::default().around(&closed);
    let open: Vec<_> = pods
        .iter()
        .flat_map(|pod| own_addresses(pod).map(move |address| (pod, address)))
        .filter(|(_, address)| !isolation.closes(*address))
        .map(|(pod, address)| {
            let namespace = pod.namespace().unwrap_or_default();
            format!("{address} ({namespace}/{})", pod.name_any())
        })
        .collect();
    if open.is_empty() {
        return Finding::fit(CHECK, "VMs are kept from the addresses of all pods");
    }
    let named = open[..open.len().min(NAMED)].join(", ");
    let more = match open.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Finding::of(
        CHECK,
        State::Warning,
        format!(
            "VMs reach pods that no NetworkPolicy closes, for their addresses are public and in \
             none of the ranges that nodes name (spec.podCIDRs): {named}{more}"
        ),
        "add the ranges from which your network plugin gives pods addresses to \
         spec.blockedNetworks of the KitePlatform",
    )
}

/// The addresses of a pod that are not its node's.
fn own_addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> {
    let shares = pod.spec.as_ref().and_then(|it| it.host_network) == Some(true);
    let addresses = pod.status.as_ref().and_then(|it| it.pod_ips.as_ref());
    addresses
        .into_iter()
        .flatten()
        .filter(move |_| !shares)
        .filter_map(|it| it.ip.parse().ok())
}

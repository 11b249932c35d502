//! Whether the gateway sees the addresses of clients, and whose addresses it sees if not.

use std::net::IpAddr;

use kite_core::{
    conditions::NewCondition,
    crd::{GatewayExposure, TrafficPolicy, platform_condition::CLIENT_ADDRESSES_SEEN},
};

use super::Observed;

/// The addresses behind each of which there may be many clients, in CIDR notation: those
/// of nodes, of pods, and `balancers`.
pub(super) fn shared_addresses(seen: &Observed, balancers: &[String]) -> Vec<String> {
    // Some balancers have names instead.
    let balancers = balancers.iter().filter_map(|address| {
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Some(format!("{address}/{bits}"))
    });
    let mut all = seen.nodes.clone();
    all.extend(balancers);
    all.into_iter().collect()
}

/// What is said of it; nothing of a gateway that is not exposed.
pub(super) fn condition(gateway: &GatewayExposure, is_proxied: bool) -> Option<NewCondition> {
    if !gateway.enabled {
        return None;
    }
    let (holds, reason, message) = match gateway.traffic_policy {
        _ if is_proxied => (
            true,
            "ProxyProtocol",
            "the gateway is told clients' addresses by its load balancers",
        ),
        TrafficPolicy::Local => (
            true,
            "TrafficPolicyLocal",
            "the gateway sees clients' addresses: spec.gateway.trafficPolicy is Local",
        ),
        TrafficPolicy::Cluster => (
            false,
            "TrafficPolicyCluster",
            "the gateway sees nodes' addresses instead of clients', so that it can neither ban \
             an address that guesses passwords nor bound what comes from one: set \
             spec.gateway.trafficPolicy to Local, or have the load balancer speak the PROXY \
             protocol and name it by --proxy-protocol-from of kite-gateway",
        ),
    };
    Some(NewCondition::new(
        CLIENT_ADDRESSES_SEEN,
        holds,
        reason,
        message,
    ))
}

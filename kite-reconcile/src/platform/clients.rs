//! Whether the gateway and the API see the addresses of clients, and whose they see if not.

use std::net::IpAddr;

use kite_core::{
    conditions::NewCondition,
    crd::{
        GatewayExposure, KitePlatformSpec, KitePlatformStatus, TrafficPolicy,
        platform_condition::CLIENT_ADDRESSES_SEEN,
    },
};

use super::{Observed, draft::PlatformDraft};
use crate::stage::Stage;

/// Goes by `nodes`, and by the gateway's addresses.
pub(super) struct Clients;

impl Stage<PlatformDraft<'_>> for Clients {
    fn condition(&self, draft: &PlatformDraft<'_>) -> Option<NewCondition> {
        let settings = draft.settings;
        let spec = &draft.platform.object.spec;
        condition(spec, settings.proxied, settings.web_direct)
    }

    fn report(&self, draft: &PlatformDraft<'_>, status: &mut KitePlatformStatus) {
        status.cluster_addresses = shared_addresses(draft.seen, &draft.gateway.addresses);
    }
}

/// The addresses behind each of which there may be many clients, in CIDR notation: those
/// of nodes, of pods, and `balancers`.
fn shared_addresses(seen: &Observed, balancers: &[String]) -> Vec<String> {
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

/// What is wrong where the web page is behind a proxy, and the API believes that its
/// clients are not.
const WEB: &str = "the API sees the addresses of the cluster's proxies instead of clients', so \
                   that it bounds guesses at passwords by account alone: say by \
                   --trusted-proxies of kite-api how many proxies append to X-Forwarded-For";

/// What is said of it; nothing where neither the gateway is exposed nor anything is known
/// of the web page. `is_web_direct` says that the API takes no proxy's word for clients'
/// addresses.
fn condition(
    spec: &KitePlatformSpec,
    is_proxied: bool,
    is_web_direct: bool,
) -> Option<NewCondition> {
    let gateway = &spec.gateway;
    let gateway = gateway.enabled.then(|| of_gateway(gateway, is_proxied));
    // Whatever exposes it is a proxy.
    let is_web_hidden = is_web_direct && spec.web.enabled && spec.base_domain.is_some();
    let (holds, reason, message) = match gateway {
        Some((false, reason, message)) if is_web_hidden => {
            (false, reason, format!("{message}; and {WEB}"))
        }
        _ if is_web_hidden => (false, "NoTrustedProxies", WEB.to_owned()),
        Some((holds, reason, message)) => (holds, reason, message.to_owned()),
        None => return None,
    };
    Some(NewCondition::new(
        CLIENT_ADDRESSES_SEEN,
        holds,
        reason,
        message,
    ))
}

fn of_gateway(gateway: &GatewayExposure, is_proxied: bool) -> (bool, &'static str, &'static str) {
    match gateway.traffic_policy {
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
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kite_core::conditions::ConditionStatus;

    use super::*;

    #[test]
    fn whether_the_web_page_sees_clients_is_told_too() {
        let mut spec = KitePlatformSpec::default();
        let said = |spec: &KitePlatformSpec, is_direct| {
            let said = condition(spec, false, is_direct)?;
            Some((said.status, said.reason, said.message))
        };
        let is_seen = (ConditionStatus::True, "TrafficPolicyLocal".to_owned());
        for (domain, is_direct) in [(None, true), (Some("kite.test".to_owned()), false)] {
            spec.base_domain = domain;
            let (status, reason, _) = said(&spec, is_direct).unwrap();
            assert_eq!((status, reason), is_seen);
        }
        let (status, reason, message) = said(&spec, true).unwrap();
        assert_eq!(
            (status, reason.as_str()),
            (ConditionStatus::False, "NoTrustedProxies")
        );
        assert!(message.contains("--trusted-proxies"), "{message}");
        spec.gateway.traffic_policy = TrafficPolicy::Cluster;
        let (_, reason, message) = said(&spec, true).unwrap();
        assert_eq!(reason, "TrafficPolicyCluster");
        for remedy in ["trafficPolicy to Local", "--trusted-proxies"] {
            assert!(message.contains(remedy), "{message}");
        }
        spec.gateway.enabled = false;
        let (_, reason, _) = said(&spec, true).unwrap();
        assert_eq!(reason, "NoTrustedProxies");
        assert!(said(&spec, false).is_none());
        spec.web.enabled = false;
        assert!(said(&spec, true).is_none());
    }
}

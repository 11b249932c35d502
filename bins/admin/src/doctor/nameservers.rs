//! Whom users' VMs ask for names: the cluster's DNS tells them of each other.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, Service};
use kite_render::isolation::Isolation;
use kube::ResourceExt;

use super::{
    Aim,
    cluster::unseen,
    facts::{Facts, Seen},
    finding::{Finding, State},
};

const CHECK: &str = "nameservers";
const REMEDY: &str = "name nameservers that know nothing of the cluster in spec.nameservers of the \
                      KitePlatform, at addresses that are no Service's";

/// Looks at the nameservers that the platform names, or is to name.
pub(super) fn nameservers(facts: &Facts, aim: &Aim) -> Finding {
    let settings = match (&facts.platform, &aim.planned) {
        (Seen::Known(platform), _) => Some(&platform.spec),
        (Seen::Absent, None) => None,
        (_, Some(planned)) => Some(planned),
        (unknown, None) => return unseen(CHECK, "the KitePlatform", unknown),
    };
    let named = settings.map(|it| it.nameservers.as_slice());
    let named = named.unwrap_or_default();
    if named.is_empty() {
        let message = "VMs ask the cluster's DNS, which tells whoever asks which users and VMs \
                       there are: their Services have names";
        return Finding::of(CHECK, State::Warning, message, REMEDY);
    }
    let pods = facts.pods.known().into_iter().flatten();
    let services = facts.dns_services.known().into_iter().flatten();
    let what_is = |address: &String| {
        let is_pod = pods.clone().any(|pod| is_of_cluster_dns(pod, address));
        let service = services.clone().find(|it| is_at(it, address));
        match service.map(ResourceExt::name_any) {
            Some(name) => Some(format!("the address of its Service {name}")),
            None if is_pod => Some("one of its pods".to_owned()),
            None => is_of_node(address).then(|| "an address of a node's own cache".to_owned()),
        }
    };
    let clusters = |address: &String| Some((address.clone(), what_is(address)?));
    if let Some((address, what)) = named.iter().find_map(clusters) {
        let message = format!("VMs ask the cluster's own DNS: {address} is {what}");
        return Finding::of(CHECK, State::Warning, message, REMEDY);
    }
    let named = named.join(", ");
    Finding::fit(CHECK, format!("VMs ask {named} and not the cluster's DNS"))
}

/// Whether a Service has this address.
fn is_at(service: &Service, address: &str) -> bool {
    let spec = service.spec.as_ref();
    let addresses = spec.and_then(|it| it.cluster_ips.as_ref());
    addresses.into_iter().flatten().any(|it| it == address)
}

/// Whether an address is one that only its node knows, as node-local caches have.
fn is_of_node(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(it)) => it.is_link_local() || it.is_loopback(),
        Ok(IpAddr::V6(it)) => it.is_unicast_link_local() || it.is_loopback(),
        Err(_) => false,
    }
}

/// Whether a pod of the cluster's DNS has this address.
fn is_of_cluster_dns(pod: &Pod, address: &str) -> bool {
    let dns = Isolation::default().dns;
    let is_one = dns.iter().any(|dns| {
        let mut labels = dns.labels.iter();
        pod.namespace().as_deref() == Some(&dns.namespace)
            && labels.all(|(label, value)| pod.labels().get(label) == Some(value))
    });
    let addresses = pod.status.as_ref().and_then(|it| it.pod_ips.as_ref());
    is_one && addresses.into_iter().flatten().any(|it| it.ip == address)
}

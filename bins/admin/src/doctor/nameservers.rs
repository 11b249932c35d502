//! Whom users' VMs ask for names: the cluster's DNS tells them of each other.

use k8s_openapi::api::core::v1::Pod;
use kite_render::walls::Walls;
use kube::ResourceExt as _;

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
    let is_clusters = |address: &&String| pods.clone().any(|pod| is_of_cluster_dns(pod, address));
    if let Some(address) = named.iter().find(is_clusters) {
        let message = format!("VMs ask the cluster's own DNS: {address} is one of its pods");
        return Finding::of(CHECK, State::Warning, message, REMEDY);
    }
    let named = named.join(", ");
    Finding::fit(CHECK, format!("VMs ask {named} and not the cluster's DNS"))
}

/// Whether a pod of the cluster's DNS has this address.
fn is_of_cluster_dns(pod: &Pod, address: &str) -> bool {
    let dns = Walls::default().dns;
    let is_one = dns.iter().any(|dns| {
        let mut labels = dns.labels.iter();
        pod.namespace().as_deref() == Some(&dns.namespace)
            && labels.all(|(label, value)| pod.labels().get(label) == Some(value))
    });
    let addresses = pod.status.as_ref().and_then(|it| it.pod_ips.as_ref());
    is_one && addresses.into_iter().flatten().any(|it| it.ip == address)
}

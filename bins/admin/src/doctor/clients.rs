//! Whether the SSH gateway sees the addresses of clients.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kite_core::crd::{KitePlatformSpec, TrafficPolicy};
use kube::ResourceExt as _;

use super::{
    Aim,
    facts::{Facts, Seen},
    finding::{Finding, State},
};

/// What is looked at here.
pub(super) const CHECK: &str = "clientAddresses";
/// Who has to be told where connections come from.
const GATEWAY: &str = "kite-gateway";
/// By which option, and by which variable.
const OPTION: &str = "--proxy-protocol-from";
const VARIABLE: &str = "KITE_PROXY_PROTOCOL_FROM";

/// Whether it does; nothing of a gateway that is not exposed.
pub(super) fn clients(facts: &Facts, aim: &Aim) -> Option<Finding> {
    let settings = match (&facts.platform, &aim.planned) {
        (Seen::Known(platform), _) => &platform.spec,
        (Seen::Absent, Some(planned)) => planned,
        _ => return None,
    };
    settings
        .gateway
        .enabled
        .then(|| finding(settings, aim.proxied || is_told(facts)))
}

fn finding(settings: &KitePlatformSpec, is_told: bool) -> Finding {
    match settings.gateway.traffic_policy {
        _ if is_told => Finding::fit(CHECK, "the gateway is told them by its load balancers"),
        TrafficPolicy::Local => Finding::fit(CHECK, "the gateway sees them"),
        TrafficPolicy::Cluster => Finding::of(
            CHECK,
            State::Warning,
            "the gateway sees nodes' addresses instead of clients': it can neither ban an address \
             that guesses passwords nor bound what comes from one",
            format!(
                "set spec.gateway.trafficPolicy of the KitePlatform to Local, or have the load \
                 balancer speak the PROXY protocol and name it by {OPTION} (kite install --env \
                 gateway:{VARIABLE}=CIDR,...)"
            ),
        ),
    }
}

/// Whether the gateway that is there has load balancers that tell it.
fn is_told(facts: &Facts) -> bool {
    let deployments = facts.deployments.known().into_iter().flatten();
    let deployments = deployments.map(|it| (it.name_any(), &it.spec.template));
    let sets = facts.stateful_sets.known().into_iter().flatten();
    let sets = sets.map(|it| (it.name_any(), &it.spec.template));
    deployments
        .chain(sets)
        .any(|(name, template)| name == GATEWAY && names_proxies(template))
}

fn names_proxies(template: &PodTemplateSpec) -> bool {
    let mut containers = template.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|container| {
        let mut arguments = container.args.iter().chain(&container.command).flatten();
        let mut variables = container.env.iter().flatten();
        arguments.any(|it| it.starts_with(OPTION))
            || variables.any(|it| {
                let is_empty = it.value.as_deref() == Some("");
                it.name == VARIABLE && !is_empty
            })
    })
}

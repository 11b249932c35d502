//! Whether the SSH gateway and the API see the addresses of clients.

use k8s_openapi::api::core::v1::{PodTemplateSpec, Service};
use kite_core::crd::{KitePlatformSpec, TrafficPolicy};
use kube::ResourceExt as _;

use super::{
    Aim,
    exposure::addresses,
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
/// Who has to be told how many proxies there are, and by which option and variable.
const API: &str = "kite-api";
const PROXIES_OPTION: &str = "--trusted-proxies";
const PROXIES_VARIABLE: &str = "KITE_TRUSTED_PROXIES";

/// That addresses are hidden, and what to do about it.
type Hidden = (String, String);

/// Whether they do; nothing of a gateway that is not exposed, and of the web page only what
/// hides them.
pub(super) fn clients(facts: &Facts, aim: &Aim) -> Option<Finding> {
    let settings = match (&facts.platform, &aim.planned) {
        (Seen::Known(platform), _) => &platform.spec,
        (Seen::Absent, Some(planned)) => planned,
        _ => return None,
    };
    let is_told = aim.proxied || is_told(facts);
    let is_exposed = settings.gateway.enabled;
    let gateway = is_exposed.then(|| of_gateway(settings, is_told)).flatten();
    let hidden: Vec<Hidden> = gateway.into_iter().chain(of_web(facts, aim)).collect();
    if hidden.is_empty() {
        let fit = if is_told {
            "the gateway is told them by its load balancers"
        } else {
            "the gateway sees them"
        };
        return is_exposed.then(|| Finding::fit(CHECK, fit));
    }
    let (messages, remedies): (Vec<_>, Vec<_>) = hidden.into_iter().unzip();
    let (messages, remedies) = (messages.join("; "), remedies.join("; "));
    Some(Finding::of(CHECK, State::Warning, messages, remedies))
}

fn of_gateway(settings: &KitePlatformSpec, is_told: bool) -> Option<Hidden> {
    if is_told || settings.gateway.traffic_policy == TrafficPolicy::Local {
        return None;
    }
    let message = "the gateway sees nodes' addresses instead of clients': it can neither ban an \
                   address that guesses passwords nor bound what comes from one";
    let remedy = format!(
        "set spec.gateway.trafficPolicy of the KitePlatform to Local, or have the load balancer \
         speak the PROXY protocol and name it by {OPTION} (kite install --env \
         gateway:{VARIABLE}=CIDR,...)"
    );
    Some((message.to_owned(), remedy))
}

/// The web page, once it is exposed: by a proxy, whatever its kind.
fn of_web(facts: &Facts, aim: &Aim) -> Option<Hidden> {
    let platform = facts.platform.known()?;
    let settings = &platform.spec;
    if !settings.web.enabled || settings.base_domain.is_none() {
        return None;
    }
    let at_the_api = "it bounds guesses at passwords by account alone";
    if templates(facts, API).any(trusts_no_proxy) {
        let message = format!(
            "the API sees the addresses of the cluster's proxies instead of clients': {at_the_api}"
        );
        let remedy = format!(
            "say by {PROXIES_OPTION} of kite-api ({PROXIES_VARIABLE}) how many proxies append to \
             X-Forwarded-For"
        );
        return Some((message, remedy));
    }
    let status = platform.status.as_ref()?;
    let services = facts.balanced.known().into_iter().flatten();
    let mut services = services.filter(|it| it.namespace().as_deref() != Some(&*aim.namespace));
    let hiding = services.find(|it| {
        let addresses = addresses(it);
        hides(it) && addresses.iter().any(|it| status.addresses.contains(it))
    })?;
    let name = format!(
        "{}/{}",
        hiding.namespace().unwrap_or_default(),
        hiding.name_any()
    );
    let message = format!(
        "the Service {name}, by which the web page is reached, has externalTrafficPolicy Cluster: \
         unless its load balancer tells the proxy behind it whose requests they are, the API sees \
         nodes' addresses instead of clients', and {at_the_api}"
    );
    let remedy = format!(
        "set externalTrafficPolicy of {name} to Local, or have the load balancer speak the PROXY \
         protocol to it"
    );
    Some((message, remedy))
}

/// Whether nodes put their own addresses in the place of clients'.
fn hides(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let policy = spec.and_then(|spec| spec.external_traffic_policy.as_deref());
    policy == Some("Cluster")
}

/// Whether the gateway that is there has load balancers that tell it.
fn is_told(facts: &Facts) -> bool {
    templates(facts, GATEWAY).any(names_proxies)
}

/// What the pods of this process are made of.
fn templates<'a>(facts: &'a Facts, process: &'a str) -> impl Iterator<Item = &'a PodTemplateSpec> {
    let deployments = facts.deployments.known().into_iter().flatten();
    let deployments = deployments.map(|it| (it.name_any(), &it.spec.template));
    let sets = facts.stateful_sets.known().into_iter().flatten();
    let sets = sets.map(|it| (it.name_any(), &it.spec.template));
    let all = deployments.chain(sets);
    all.filter_map(move |(name, template)| (name == process).then_some(template))
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

/// Whether it says so: a variable that another pod's manifest leaves out tells nothing.
fn trusts_no_proxy(template: &PodTemplateSpec) -> bool {
    let none = format!("{PROXIES_OPTION}=0");
    let mut containers = template.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|container| {
        let mut arguments = container.args.iter().chain(&container.command).flatten();
        let mut variables = container.env.iter().flatten();
        arguments.any(|it| *it == none)
            || variables.any(|it| it.name == PROXIES_VARIABLE && it.value.as_deref() == Some("0"))
    })
}

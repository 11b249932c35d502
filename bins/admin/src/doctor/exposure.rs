//! How people reach VMs, the web page and the gateway.

use std::net::IpAddr;

use k8s_openapi::api::{core::v1::Service, networking::v1::IngressClass};
use kite_core::crd::{GatewayServiceType, KitePlatformSpec, KitePlatformStatus};
use kube::{ResourceExt, api::DynamicObject};
use serde_json::Value;

use super::{
    Aim,
    cluster::unseen,
    facts::{Facts, Seen},
    finding::{Finding, State},
};

const EXPOSURE: &str = "exposure";
const CERTIFICATE: &str = "certificate";
const BALANCER: &str = "loadBalancer";
const DNS: &str = "dns";
/// What is looked at here.
pub(super) const CHECKS: [&str; 4] = [EXPOSURE, CERTIFICATE, BALANCER, DNS];
const NO_BALANCER: &str = "install a load balancer controller such as MetalLB, or set \
                           spec.gateway.serviceType of the KitePlatform to NodePort";
/// Annotation of the class that Ingresses without one get.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

pub(super) fn exposure(facts: &Facts, aim: &Aim) -> Vec<Finding> {
    let (settings, status) = match (&facts.platform, &aim.planned) {
        (Seen::Known(platform), _) => (&platform.spec, platform.status.clone()),
        (Seen::Absent, Some(planned)) => (planned, None),
        (Seen::Absent, None) => return vec![unplanned(facts), ability(facts)],
        (seen @ (Seen::Refused | Seen::Failed(_)), _) => {
            return vec![unseen(EXPOSURE, "the KitePlatform", seen)];
        }
    };
    let mut findings = vec![domain(facts, settings)];
    findings.extend(certificate(facts, settings));
    findings.extend(balancer(facts, settings));
    findings.extend(dns(facts, settings, &status.unwrap_or_default()));
    findings
}

/// What there is for web addresses, while nobody has said yet what they shall be.
fn unplanned(facts: &Facts) -> Finding {
    let gateways = gateways(facts);
    let Seen::Known(classes) = &facts.ingress_classes else {
        return unseen(EXPOSURE, "IngressClasses", &facts.ingress_classes);
    };
    if let Some(class) = classes.iter().find(|class| is_default(class)) {
        let class = class.name_any();
        let used = format!("Ingresses of {class} are there for web addresses");
        let message = match gateways.first() {
            Some(first) => format!(
                "{used}; so is the Gateway API ({}), which --gateway-api {first} of kite install \
                 uses instead",
                gateways.join(", ")
            ),
            None => used,
        };
        return Finding::fit(EXPOSURE, message);
    }
    let names: Vec<_> = classes.iter().map(ResourceExt::name_any).collect();
    let mut ways = Vec::new();
    ways.extend(names.first().map(|it| format!("--ingress-class {it}")));
    ways.extend(gateways.first().map(|it| format!("--gateway-api {it}")));
    if ways.is_empty() {
        return Finding::of(
            EXPOSURE,
            State::Warning,
            "there is neither an IngressClass nor a Gateway: neither the page nor a VM would have \
             a web address",
            "install an ingress controller, or a controller of the Gateway API with a Gateway, and \
             name it by --ingress-class or --gateway-api of kite install; without, the page is \
             reached by kubectl port-forward",
        );
    }
    let mut found = Vec::new();
    if !names.is_empty() {
        found.push(format!(
            "no IngressClass is the cluster's default ({})",
            names.join(", ")
        ));
    }
    if !gateways.is_empty() {
        let are = if gateways.len() == 1 {
            "a Gateway is"
        } else {
            "Gateways are"
        };
        found.push(format!("{are} there ({})", gateways.join(", ")));
    }
    Finding::of(
        EXPOSURE,
        State::Warning,
        format!(
            "{}: nothing is used unless it is named",
            found.join(", and ")
        ),
        format!(
            "name it: {} of kite install, or spec.exposure of the KitePlatform; without, the page \
             is reached by kubectl port-forward",
            ways.join(" or ")
        ),
    )
}

/// The Gateways that there are, each as it is named, those first that work.
fn gateways(facts: &Facts) -> Vec<String> {
    let mut found: Vec<_> = facts.gateways.known().into_iter().flatten().collect();
    found.sort_by_key(|it| !has_condition(it, "Programmed"));
    let name = |it: &DynamicObject| {
        let namespace = it.namespace().unwrap_or_default();
        format!("{namespace}/{}", it.name_any())
    };
    found.into_iter().map(name).collect()
}

fn domain(facts: &Facts, settings: &KitePlatformSpec) -> Finding {
    let exposure = &settings.exposure;
    if settings.base_domain.is_none() {
        return Finding::of(
            EXPOSURE,
            State::Warning,
            "without a base domain neither the web page nor a VM has a name",
            "set spec.baseDomain of the KitePlatform, or reach the page by kubectl port-forward",
        );
    }
    if let Some(named) = &exposure.gateway {
        return by_gateway(facts, &format!("{}/{}", named.namespace, named.name));
    }
    let Seen::Known(classes) = &facts.ingress_classes else {
        return unseen(EXPOSURE, "IngressClasses", &facts.ingress_classes);
    };
    let wanted = exposure.ingress_class_name.as_deref();
    let class = match wanted {
        Some(wanted) => classes.iter().find(|class| class.name_any() == wanted),
        None => classes.iter().find(|class| is_default(class)),
    };
    match (class, wanted) {
        (Some(class), _) => Finding::fit(EXPOSURE, format!("by Ingresses of {}", class.name_any())),
        (None, Some(wanted)) => Finding::of(
            EXPOSURE,
            State::Unfit,
            format!("there is no IngressClass {wanted:?}"),
            "install its controller, or name another in spec.exposure.ingressClassName",
        ),
        (None, None) => Finding::of(
            EXPOSURE,
            State::Unfit,
            "no IngressClass is the cluster's default",
            match gateways(facts).first() {
                Some(gateway) => format!(
                    "name the Gateway {gateway} in spec.exposure.gateway (--gateway-api of kite \
                     install), or an IngressClass in spec.exposure.ingressClassName"
                ),
                None => "name one in spec.exposure.ingressClassName, or install an ingress \
                         controller"
                    .to_owned(),
            },
        ),
    }
}

fn is_default(class: &IngressClass) -> bool {
    let annotation = class.annotations().get(DEFAULT_CLASS);
    annotation.is_some_and(|it| it == "true")
}

fn by_gateway(facts: &Facts, name: &str) -> Finding {
    match &facts.gateway {
        Seen::Known(gateway) if has_condition(gateway, "Programmed") => {
            Finding::fit(EXPOSURE, format!("by the Gateway {name}"))
        }
        Seen::Known(_) => Finding::of(
            EXPOSURE,
            State::Unfit,
            format!("the Gateway {name} is not programmed"),
            "look at its conditions, and whether a controller of its class runs",
        ),
        Seen::Absent => Finding::of(
            EXPOSURE,
            State::Unfit,
            format!("there is no Gateway {name}"),
            "install the Gateway API with a controller and make it, or name another in \
             spec.exposure.gateway",
        ),
        seen @ (Seen::Refused | Seen::Failed(_)) => unseen(EXPOSURE, "the Gateway", seen),
    }
}

/// Whether an object has a condition of this type that is true.
fn has_condition(object: &DynamicObject, of_type: &str) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    let is_met = |it: &Value| it["type"] == of_type && it["status"] == "True";
    conditions.is_some_and(|conditions| conditions.iter().any(is_met))
}

fn certificate(facts: &Facts, settings: &KitePlatformSpec) -> Option<Finding> {
    let named = settings.exposure.certificate.cluster_issuer.as_ref()?;
    Some(match &facts.issuer {
        Seen::Known(issuer) if has_condition(issuer, "Ready") => {
            Finding::fit(CERTIFICATE, format!("by the ClusterIssuer {named}"))
        }
        Seen::Known(_) => Finding::of(
            CERTIFICATE,
            State::Unfit,
            format!("the ClusterIssuer {named} is not ready"),
            format!("look at kubectl describe clusterissuer {named}"),
        ),
        Seen::Absent => Finding::of(
            CERTIFICATE,
            State::Unfit,
            format!("there is no ClusterIssuer {named}"),
            "install cert-manager and make it, or name another in \
             spec.exposure.certificate.clusterIssuer",
        ),
        seen @ (Seen::Refused | Seen::Failed(_)) => unseen(CERTIFICATE, "ClusterIssuers", seen),
    })
}

/// Whether the gateway's Service has got an address, or would.
fn balancer(facts: &Facts, settings: &KitePlatformSpec) -> Option<Finding> {
    let gateway = &settings.gateway;
    let is_balanced = gateway.service_type == GatewayServiceType::LoadBalancer;
    if !gateway.enabled || !is_balanced {
        return None;
    }
    let service = match &facts.gateway_service {
        Seen::Known(service) => service,
        Seen::Absent => return Some(ability(facts)),
        seen @ (Seen::Refused | Seen::Failed(_)) => {
            return Some(unseen(BALANCER, "the gateway's Service", seen));
        }
    };
    Some(match addresses(service).as_slice() {
        [] => Finding::of(
            BALANCER,
            State::Unfit,
            "nothing gives the gateway's Service an address",
            NO_BALANCER,
        ),
        addresses => Finding::fit(
            BALANCER,
            format!("the gateway is at {}", addresses.join(", ")),
        ),
    })
}

/// Whether others' Services get addresses, before the gateway's own asks for one.
fn ability(facts: &Facts) -> Finding {
    let Seen::Known(services) = &facts.balanced else {
        return unseen(BALANCER, "Services", &facts.balanced);
    };
    let name = |service: &Service| {
        let namespace = service.namespace().unwrap_or_default();
        format!("{namespace}/{}", service.name_any())
    };
    let served = services.iter().find(|it| !addresses(it).is_empty());
    match (served, services.first()) {
        (Some(served), _) => {
            let address = addresses(served).join(", ");
            Finding::fit(
                BALANCER,
                format!("{} has the address {address}", name(served)),
            )
        }
        (None, Some(waiting)) => Finding::of(
            BALANCER,
            State::Warning,
            format!("nothing gives the Service {} an address", name(waiting)),
            NO_BALANCER,
        ),
        (None, None) => Finding::of(
            BALANCER,
            State::Unknown,
            "no Service has asked for an address yet",
            "look again once Kite is installed: the gateway's will",
        ),
    }
}

/// The addresses that something in front of the cluster gave it.
pub(super) fn addresses(service: &Service) -> Vec<String> {
    let status = service.status.as_ref();
    let balancer = status.and_then(|it| it.load_balancer.as_ref());
    let ingress = balancer.and_then(|it| it.ingress.as_ref());
    ingress
        .into_iter()
        .flatten()
        .filter_map(|it| it.ip.clone().or_else(|| it.hostname.clone()))
        .collect()
}

/// Whether names lead to where the platform is.
fn dns(facts: &Facts, settings: &KitePlatformSpec, status: &KitePlatformStatus) -> Vec<Finding> {
    let public = settings.gateway.public_host.as_ref();
    facts
        .names
        .iter()
        .map(|(host, found)| {
            let expected = if public == Some(host) {
                &status.gateway_addresses
            } else {
                &status.addresses
            };
            leads(host, found, expected)
        })
        .collect()
}

fn leads(host: &str, found: &Result<Vec<IpAddr>, String>, expected: &[String]) -> Finding {
    let wanted = match expected {
        [] => "the address of its ingress controller or gateway".to_owned(),
        expected => expected.join(", "),
    };
    let remedy = format!("let {host} resolve to {wanted}, and names below the base domain, too");
    let found = match found.as_deref() {
        Ok([]) => {
            return Finding::of(
                DNS,
                State::Warning,
                format!("{host} has no address"),
                remedy,
            );
        }
        Err(error) => {
            let message = format!("{host} does not resolve here: {error}");
            return Finding::of(DNS, State::Warning, message, remedy);
        }
        Ok(found) => found,
    };
    let texts: Vec<_> = found.iter().map(IpAddr::to_string).collect();
    let list = texts.join(", ");
    // What has names instead of addresses is not resolved once more.
    let numbers: Vec<IpAddr> = expected.iter().filter_map(|it| it.parse().ok()).collect();
    if numbers.is_empty() || found.iter().any(|address| numbers.contains(address)) {
        return Finding::fit(DNS, format!("{host} resolves to {list}"));
    }
    let message = format!("{host} resolves to {list}, and Kite is at {wanted}");
    let remedy =
        format!("{remedy}; where an address is translated on the way this is as it should be");
    Finding::of(DNS, State::Warning, message, remedy)
}

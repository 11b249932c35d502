//! How the web page and the API are reached.

use k8s_openapi::{api::networking::v1::Ingress, apimachinery::pkg::apis::meta::v1::Condition};
use kite_core::{
    conditions::NewCondition,
    crd::{GatewayReference, KitePlatformStatus, platform_condition::WEB_EXPOSED},
    gateway_api::{Gateway, HttpRoute},
    names,
};
use kite_render::{
    Platform,
    platform::web::{self, Listeners},
};

use super::{
    Observed,
    draft::PlatformDraft,
    part::{Part, remove, want},
};
use crate::stage::{Flow, Stage};

/// Goes by `ingress`, `route`, `redirect`, `gateway` and `has_namespace`.
pub(super) struct Web;

impl Stage<PlatformDraft<'_>> for Web {
    fn plan(&self, draft: &mut PlatformDraft<'_>) -> Flow {
        draft.steps.append(&mut draft.web.steps);
        Flow::Next
    }

    fn condition(&self, draft: &PlatformDraft<'_>) -> Option<NewCondition> {
        Some(draft.web.condition.clone())
    }

    fn report(&self, draft: &PlatformDraft<'_>, status: &mut KitePlatformStatus) {
        status.url.clone_from(&draft.web.url);
        status.addresses.clone_from(&draft.web.addresses);
    }
}

/// How the page is reached, and what is to be done for it.
pub(super) fn part(platform: &Platform<'_>, seen: &Observed) -> Part {
    let spec = &platform.object.spec;
    let Some(host) = web::host(platform) else {
        let mut steps = Vec::new();
        remove(platform, &mut steps, seen.ingress.as_ref());
        remove(platform, &mut steps, seen.redirect.as_ref());
        remove(platform, &mut steps, seen.route.as_ref());
        let part = if spec.web.enabled {
            Part::unwanted(
                WEB_EXPOSED,
                "NoBaseDomain",
                "the web page is not exposed: set spec.baseDomain to a domain that leads here",
            )
        } else {
            Part::unwanted(
                WEB_EXPOSED,
                "Disabled",
                "the web page is not exposed: spec.web.enabled is false",
            )
        };
        return Part { steps, ..part };
    };
    match &spec.exposure.gateway {
        Some(gateway) => by_routes(platform, host, gateway, seen),
        None => by_ingress(platform, host, seen),
    }
}

fn by_ingress(platform: &Platform<'_>, host: &str, seen: &Observed) -> Part {
    let mut steps = Vec::new();
    let desired = web::ingress(platform, host);
    if let Err(part) = want(&mut steps, &desired, seen.ingress.as_ref(), WEB_EXPOSED) {
        return *part;
    }
    // The new way stands before the old one goes.
    if steps.is_empty() {
        remove(platform, &mut steps, seen.redirect.as_ref());
        remove(platform, &mut steps, seen.route.as_ref());
    }
    let addresses = seen.ingress.as_ref().map(taken_by).unwrap_or_default();
    let part = if addresses.is_empty() {
        let class = match &platform.object.spec.exposure.ingress_class_name {
            Some(class) => format!("of class {class}"),
            None => "of the cluster's default class".to_owned(),
        };
        Part::lacks(
            WEB_EXPOSED,
            "Pending",
            format!(
                "waiting for the ingress controller {class} to give Ingress {}/{} an address: see \
                 spec.exposure.ingressClassName",
                platform.namespace,
                names::PLATFORM_WEB
            ),
        )
    } else {
        reachable(&format!("https://{host}"), addresses, "")
    };
    Part { steps, ..part }
}

fn taken_by(ingress: &Ingress) -> Vec<String> {
    let status = ingress.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let addresses = balancer.and_then(|balancer| balancer.ingress.as_ref());
    addresses
        .into_iter()
        .flatten()
        .filter_map(|at| at.ip.clone().or_else(|| at.hostname.clone()))
        .collect()
}

fn by_routes(
    platform: &Platform<'_>,
    host: &str,
    reference: &GatewayReference,
    seen: &Observed,
) -> Part {
    let name = format!("{}/{}", reference.namespace, reference.name);
    let Some(gateway) = &seen.gateway else {
        // What stands is left as it is: the Gateway may come back.
        return Part::lacks(
            WEB_EXPOSED,
            "GatewayNotFound",
            format!(
                "Gateway {name} is not there: create it, or name another in spec.exposure.gateway"
            ),
        );
    };
    let listeners = Listeners::of(gateway, host);
    if listeners.is_empty() {
        return Part::lacks(
            WEB_EXPOSED,
            "NoListener",
            format!(
                "Gateway {name} has no listener for {host} with protocol HTTPS or HTTP: add one"
            ),
        );
    }
    let (desired, redirect) = web::routes(platform, host, reference, &listeners);
    let mut steps = Vec::new();
    let wanted =
        want(&mut steps, &desired, seen.route.as_ref(), WEB_EXPOSED).and_then(
            |()| match &redirect {
                Some(redirect) => want(&mut steps, redirect, seen.redirect.as_ref(), WEB_EXPOSED),
                None => Ok(()),
            },
        );
    if let Err(part) = wanted {
        return *part;
    }
    // The new way stands before the old one goes.
    if steps.is_empty() {
        remove(platform, &mut steps, seen.ingress.as_ref());
        if redirect.is_none() {
            remove(platform, &mut steps, seen.redirect.as_ref());
        }
    }
    let routes = [seen.route.as_ref(), seen.redirect.as_ref()];
    let refusal = routes.into_iter().flatten().find_map(refusal);
    let is_taken = seen.route.as_ref().is_some_and(is_taken);
    let part = match refusal {
        Some(refusal) => Part::lacks(
            WEB_EXPOSED,
            "RouteRefused",
            format!(
                "Gateway {name} does not take the route: {}",
                refusal.message
            ),
        ),
        None if !is_taken => Part::lacks(
            WEB_EXPOSED,
            "Pending",
            format!(
                "waiting for Gateway {name} to take HTTPRoute {}",
                names::PLATFORM_WEB
            ),
        ),
        None => {
            let addresses = addresses_of(gateway);
            if listeners.https.is_empty() {
                let note = ", unencrypted: the Gateway has no HTTPS listener for it";
                reachable(&format!("http://{host}"), addresses, note)
            } else {
                reachable(&format!("https://{host}"), addresses, "")
            }
        }
    };
    Part { steps, ..part }
}

fn addresses_of(gateway: &Gateway) -> Vec<String> {
    let status = gateway.status.as_ref();
    let addresses = status.map(|status| status.addresses.as_slice());
    addresses
        .unwrap_or_default()
        .iter()
        .map(|address| address.value.clone())
        .collect()
}

/// What a Gateway has against a route, if it speaks of it as it is now.
fn refusal(route: &HttpRoute) -> Option<&Condition> {
    verdicts(route).find(|verdict| {
        ["Accepted", "ResolvedRefs"].contains(&verdict.type_.as_str()) && verdict.status == "False"
    })
}

/// Whether a Gateway has accepted a route as it is now.
fn is_taken(route: &HttpRoute) -> bool {
    verdicts(route).any(|verdict| verdict.type_ == "Accepted" && verdict.status == "True")
}

/// What Gateways say of the present generation of a route.
fn verdicts(route: &HttpRoute) -> impl Iterator<Item = &Condition> {
    let generation = route.metadata.generation;
    let parents = route
        .status
        .as_ref()
        .map(|status| status.parents.as_slice());
    parents
        .unwrap_or_default()
        .iter()
        .flat_map(|parent| &parent.conditions)
        .filter(move |verdict| {
            let spoken_of = verdict.observed_generation;
            spoken_of.is_none() || generation.is_none() || spoken_of == generation
        })
}

fn reachable(url: &str, addresses: Vec<String>, note: &str) -> Part {
    let at = match addresses.as_slice() {
        [] => String::new(),
        some => format!(" ({})", some.join(", ")),
    };
    Part {
        addresses,
        url: Some(url.to_owned()),
        ..Part::new(
            WEB_EXPOSED,
            true,
            "Exposed",
            format!("the web page is at {url}{at}{note}"),
        )
    }
}

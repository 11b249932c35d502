//! What to do about the platform. Pure.

use std::time::Duration;

use k8s_openapi::{
    api::{core::v1::Service, networking::v1::Ingress},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kite_core::{
    cluster::Object,
    conditions::NewCondition,
    crd::{
        GatewayReference, GatewayServiceType, KitePlatform, KitePlatformStatus, TrafficPolicy,
        platform_condition::{GATEWAY_EXPOSED, READY, WEB_EXPOSED},
    },
    gateway_api::{Gateway, HttpRoute},
    names,
};
use kite_render::{
    Platform,
    platform::{
        gateway,
        web::{self, Listeners},
    },
};
use kube::{
    ResourceExt as _,
    api::{ObjectMeta, PropagationPolicy},
};

use super::{
    Observed, Reference, Referent, Unseen, clients, host_keys::host_keys, references, unread,
};
use crate::{
    Error,
    context::Settings,
    matches::sets,
    objects::AnyObject,
    plan::{Change, Plan, Step},
    standing::{Needed, Standing, guarded, needed, standing},
};

/// When to look at the platform again though nothing was heard.
const RESYNC: Duration = Duration::from_secs(600);

/// When to look again for a namespace.
const SOON: Duration = Duration::from_secs(30);

/// What to do about the platform `object`, given what was observed.
pub fn plan(
    object: &KitePlatform,
    seen: &Observed,
    settings: &Settings,
) -> Result<Plan<KitePlatformStatus>, Error> {
    let platform = Platform::of(object, &settings.namespace)?;
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(leaving(object));
    }
    if let Some(why) = &object.spec.unreadable {
        return Ok(unread::plan(object, why));
    }
    let (gateway, web) = if seen.has_namespace {
        (gateway_part(&platform, seen), web_part(&platform, seen))
    } else {
        let message = format!(
            "namespace {0}, in which Kite is said to run, is not there: create it, or start the \
             controller with --namespace",
            platform.namespace
        );
        let missing = |type_| Part::lacks(type_, "NamespaceMissing", message.clone());
        (missing(GATEWAY_EXPOSED), missing(WEB_EXPOSED))
    };
    let lacking = [&gateway, &web].into_iter().find(|part| part.is_lacking);
    let ready = match lacking {
        None => NewCondition::new(READY, true, "Ready", "all that is to be exposed is"),
        Some(part) => NewCondition {
            type_: READY,
            ..part.condition.clone()
        },
    };
    let cluster_addresses = clients::shared_addresses(seen, &gateway.addresses);
    let (proxied, web_direct) = (settings.proxied, settings.web_direct);
    let seen_clients = clients::condition(&object.spec, proxied, web_direct);
    let resolved = references::condition(&seen.missing, &seen.unseen);
    let conditions = [ready, gateway.condition, web.condition, resolved];
    Ok(Plan {
        status: KitePlatformStatus {
            observed_generation: None,
            url: web.url,
            addresses: web.addresses,
            gateway_addresses: gateway.addresses,
            gateway_port: gateway.port,
            gateway_host_keys: host_keys(seen.host_key.as_ref()),
            cluster_addresses,
            conditions: Vec::new(),
            unreadable: None,
        },
        steps: [gateway.steps, web.steps].concat(),
        conditions: conditions.into_iter().chain(seen_clients).collect(),
        again: if seen.has_namespace && !awaits_untold(seen, settings) {
            RESYNC
        } else {
            // Nothing tells of a namespace that comes.
            SOON
        },
    })
}

/// Whether a Secret is missing of which nothing tells when it comes, since not all of
/// them are watched, or something could not be looked for.
fn awaits_untold(seen: &Observed, settings: &Settings) -> bool {
    let is_secret = |it: &Reference| it.kind == Referent::Secret;
    let has_failed = |it: &Unseen| !it.is_refused;
    settings.own_role.is_some() && seen.missing.iter().any(is_secret)
        || seen.unseen.iter().any(has_failed)
}

/// Somebody's finalizer still holds the platform; what it owns goes after it.
fn leaving(object: &KitePlatform) -> Plan<KitePlatformStatus> {
    let message = "waiting for the finalizers of others to go";
    Plan {
        steps: Vec::new(),
        status: KitePlatformStatus {
            conditions: Vec::new(),
            ..object.status.clone().unwrap_or_default()
        },
        conditions: vec![NewCondition::new(READY, false, "Deleting", message)],
        again: RESYNC,
    }
}

/// One thing that the platform exposes, or does not.
struct Part {
    steps: Vec<Step>,
    condition: NewCondition,
    /// It is wanted, and not there yet.
    is_lacking: bool,
    addresses: Vec<String>,
    port: Option<u16>,
    url: Option<String>,
}

impl Part {
    fn new(type_: &'static str, holds: bool, reason: &str, message: impl Into<String>) -> Self {
        Self {
            steps: Vec::new(),
            condition: NewCondition::new(type_, holds, reason, message),
            is_lacking: false,
            addresses: Vec::new(),
            port: None,
            url: None,
        }
    }

    /// It is wanted and not there, for this reason.
    fn lacks(type_: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            is_lacking: true,
            ..Self::new(type_, false, reason, message)
        }
    }

    /// It is not wanted.
    fn unwanted(type_: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(type_, false, reason, message)
    }
}

fn gateway_part(platform: &Platform<'_>, seen: &Observed) -> Part {
    let spec = &platform.object.spec.gateway;
    let mut steps = Vec::new();
    let Some(desired) = gateway::service(platform) else {
        remove(platform, &mut steps, seen.service.as_ref());
        return Part {
            steps,
            ..Part::unwanted(
                GATEWAY_EXPOSED,
                "Disabled",
                "the gateway is not exposed: spec.gateway.enabled is false",
            )
        };
    };
    if let Some(stored) = seen.service.as_ref()
        && changes_class(&desired, stored)
        && standing(&stored.metadata, &desired.metadata) == Standing::Ours
    {
        // The class of a load balancer cannot be changed: it takes a new Service.
        let step = Step::Change(Change::Delete(
            stored.clone().into(),
            PropagationPolicy::Background,
        ));
        return Part {
            steps: vec![step],
            ..Part::lacks(
                GATEWAY_EXPOSED,
                "Replacing",
                "the Service is made anew: the class of a load balancer cannot be changed",
            )
        };
    }
    if let Err(part) = want(&mut steps, &desired, seen.service.as_ref(), GATEWAY_EXPOSED) {
        return *part;
    }
    let (addresses, node_port) = match &seen.service {
        Some(stored) if steps.is_empty() => (balancer_of(stored), node_port(stored)),
        _ => (Vec::new(), None),
    };
    let part = match spec.service_type {
        GatewayServiceType::NodePort => match node_port {
            Some(port) => Part {
                port: Some(port),
                addresses: spec.public_host.iter().cloned().collect(),
                ..Part::new(
                    GATEWAY_EXPOSED,
                    true,
                    "Exposed",
                    match spec.traffic_policy {
                        TrafficPolicy::Cluster => {
                            format!("the gateway is at port {port} of every node")
                        }
                        TrafficPolicy::Local => format!(
                            "the gateway is at port {port} of every node that has a pod of it"
                        ),
                    },
                )
            },
            None => Part::lacks(
                GATEWAY_EXPOSED,
                "Pending",
                "waiting for the Service's port on the nodes",
            ),
        },
        GatewayServiceType::LoadBalancer if addresses.is_empty() => Part::lacks(
            GATEWAY_EXPOSED,
            "Pending",
            format!(
                "waiting for a load balancer controller to give Service {}/{} an address: if the \
                 cluster has none, set spec.gateway.serviceType to NodePort",
                platform.namespace,
                names::GATEWAY_EXTERNAL_SERVICE
            ),
        ),
        GatewayServiceType::LoadBalancer => {
            let at = addresses.join(", ");
            let port = spec.service_port;
            Part {
                port: Some(port),
                addresses,
                ..Part::new(
                    GATEWAY_EXPOSED,
                    true,
                    "Exposed",
                    format!("the gateway is at {at}, port {port}"),
                )
            }
        }
    };
    Part { steps, ..part }
}

/// Whether `stored` is a load balancer of another class than `desired` names, or
/// has the one that the spec named before. A class that the spec never named is
/// left alone: some clusters set one.
fn changes_class(desired: &Service, stored: &Service) -> bool {
    let of = |service: &Service| {
        let spec = service.spec.as_ref()?;
        Some((spec.type_.clone(), spec.load_balancer_class.clone()))
    };
    match (of(desired), of(stored)) {
        (Some((type_, Some(wanted))), Some((was, class))) => {
            type_ == was && class.as_ref() != Some(&wanted)
        }
        (Some((type_, None)), Some((was, Some(_)))) => {
            type_ == was && sets(&stored.metadata, &["spec", "loadBalancerClass"])
        }
        _ => false,
    }
}

fn balancer_of(service: &Service) -> Vec<String> {
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    ingress
        .into_iter()
        .flatten()
        .filter_map(|at| at.ip.clone().or_else(|| at.hostname.clone()))
        .collect()
}

fn node_port(service: &Service) -> Option<u16> {
    let port = service.spec.as_ref()?.ports.as_ref()?.first()?.node_port?;
    u16::try_from(port).ok().filter(|port| *port > 0)
}

fn web_part(platform: &Platform<'_>, seen: &Observed) -> Part {
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

/// Has `desired` applied if that changes anything; or says what is in the way.
fn want<K: Object>(
    steps: &mut Vec<Step>,
    desired: &K,
    stored: Option<&K>,
    type_: &'static str,
) -> Result<(), Box<Part>>
where
    AnyObject: From<K>,
{
    match needed(desired, stored, "platform") {
        Needed::Nothing => Ok(()),
        Needed::Apply => {
            steps.push(Step::Change(Change::Apply(guarded(desired, stored).into())));
            Ok(())
        }
        Needed::Wait(message) => Err(Box::new(Part::lacks(type_, "WaitingForDeletion", message))),
        Needed::Blocked(_) => {
            let name = desired.meta().name.as_deref().unwrap_or_default();
            let kind = K::kind(&());
            Err(Box::new(Part::lacks(
                type_,
                "NameTaken",
                format!("{kind} {name} is there and belongs to something else: delete it"),
            )))
        }
    }
}

/// Has an object that is not wanted any more deleted, if it is the platform's.
fn remove<K: Object>(platform: &Platform<'_>, steps: &mut Vec<Step>, stored: Option<&K>)
where
    AnyObject: From<K>,
{
    let Some(stored) = stored else { return };
    let like: ObjectMeta = platform.metadata(&stored.name_any());
    if standing(stored.meta(), &like) == Standing::Ours {
        let step = Step::Change(Change::Delete(
            stored.clone().into(),
            PropagationPolicy::Background,
        ));
        steps.push(step);
    }
}

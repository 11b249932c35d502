//! How the SSH gateway is reached.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kite_core::{
    conditions::NewCondition,
    crd::{
        GatewayServiceType, KitePlatformStatus, TrafficPolicy, platform_condition::GATEWAY_EXPOSED,
    },
    names,
};
use kite_render::{Platform, platform::gateway};
use kube::api::PropagationPolicy;

use super::{
    Observed,
    draft::{PlatformDraft, SOON},
    part::{Part, remove, want},
};
use crate::{
    matches::sets,
    plan::{Change, Step},
    stage::{Flow, Stage},
    standing::{Standing, standing},
};

/// Goes by `service` and `has_namespace`.
pub(super) struct Gateway;

impl Stage<PlatformDraft<'_>> for Gateway {
    fn plan(&self, draft: &mut PlatformDraft<'_>) -> Flow {
        draft.steps.append(&mut draft.gateway.steps);
        Flow::Next
    }

    fn condition(&self, draft: &PlatformDraft<'_>) -> Option<NewCondition> {
        Some(draft.gateway.condition.clone())
    }

    fn report(&self, draft: &PlatformDraft<'_>, status: &mut KitePlatformStatus) {
        status
            .gateway_addresses
            .clone_from(&draft.gateway.addresses);
        status.gateway_port = draft.gateway.port;
    }

    fn look_again(&self, draft: &PlatformDraft<'_>) -> Option<Duration> {
        // Nothing tells of a namespace that comes.
        (!draft.seen.has_namespace).then_some(SOON)
    }
}

/// How the gateway is reached, and what is to be done for it.
pub(super) fn part(platform: &Platform<'_>, seen: &Observed) -> Part {
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

//! Whether a VM's domain leads to it: what the controller of its Ingress or the
//! Gateway of its route says.

use k8s_openapi::{api::networking::v1::Ingress, apimachinery::pkg::apis::meta::v1::Condition};
use kite_core::{
    cluster::Object,
    conditions::{ConditionStatus, NewCondition},
    crd::{KitePlatformSpec, vm_condition::EXPOSED},
    gateway_api::HttpRoute,
};
use kite_render::{Vm, exposure, exposure::Exposure};

use super::{observe::Observed, status::has_domain};
use crate::standing::{Needed, needed};

/// The condition; none for a VM that asks for no domain.
pub(super) fn condition(vm: &Vm<'_>, seen: &Observed) -> Option<NewCondition> {
    let prefix = vm.object.spec.domain_prefix.as_deref()?;
    let Some(host) = exposure::host(vm, &seen.platform) else {
        return Some(no(
            "NoBaseDomain",
            "the platform has no base domain: an administrator must set spec.baseDomain of \
             KitePlatform default",
        ));
    };
    if !has_domain(seen) {
        return Some(no(
            "DomainNotReserved",
            format!("{prefix:?} does not belong to this VM: see the condition Reserved"),
        ));
    }
    if let Some(why) = &seen.exposure_refused {
        return Some(no(
            "Refused",
            format!(
                "{why}: an administrator must look at spec.exposure of KitePlatform default, \
                 and whether the cluster has what it names"
            ),
        ));
    }
    Some(match exposure::exposure(vm, &seen.platform, &host) {
        Exposure::Ingress(desired) => made(&*desired, seen.ingress.as_ref())
            .unwrap_or_else(|stored| by_ingress(stored, &host)),
        Exposure::Route(desired) => made(&*desired, seen.route.as_ref())
            .unwrap_or_else(|stored| by_route(stored, &seen.platform, &host)),
    })
}

/// Whether the domain is led to the VM by an object that is there.
pub(super) fn is_made(seen: &Observed) -> bool {
    match &seen.platform.exposure.gateway {
        Some(_) => seen.route.is_some(),
        None => seen.ingress.is_some(),
    }
}

/// The host that an Ingress serves.
pub(super) fn host_of_ingress(ingress: &Ingress) -> Option<&str> {
    let rules = ingress.spec.as_ref()?.rules.as_ref()?;
    rules.first()?.host.as_deref()
}

/// The host that a route serves.
pub(super) fn host_of_route(route: &HttpRoute) -> Option<&str> {
    route.spec.hostnames.first().map(String::as_str)
}

/// What is to be said of an object that is not there or not ours; else it.
fn made<'a, K: Object>(desired: &K, stored: Option<&'a K>) -> Result<NewCondition, &'a K> {
    let kind = K::kind(&());
    let Some(stored) = stored else {
        return Ok(no("NotMade", format!("the {kind} is not made yet")));
    };
    match needed(desired, Some(stored), "VM") {
        Needed::Wait(message) => Ok(no("WaitingForDeletion", message)),
        Needed::Blocked(message) => Ok(no("NameTaken", message)),
        Needed::Nothing | Needed::Apply => Err(stored),
    }
}

fn by_ingress(ingress: &Ingress, host: &str) -> NewCondition {
    let balancer = ingress
        .status
        .as_ref()
        .and_then(|s| s.load_balancer.as_ref());
    let address = balancer
        .and_then(|balancer| balancer.ingress.as_ref())
        .and_then(|all| all.first())
        .and_then(|one| one.ip.as_deref().or(one.hostname.as_deref()));
    match address {
        Some(address) => yes(host, address),
        None => unknown(
            "NoAddress",
            "the Ingress is made, and no ingress controller has told its address: some never \
             do; if the domain does not answer, an administrator must look whether there is one \
             for spec.exposure.ingressClassName of KitePlatform default",
        ),
    }
}

fn by_route(route: &HttpRoute, platform: &KitePlatformSpec, host: &str) -> NewCondition {
    let Some(gateway) = &platform.exposure.gateway else {
        return unknown("NoGateway", "the platform names no Gateway");
    };
    let name = format!("Gateway {}/{}", gateway.namespace, gateway.name);
    let parents = route.status.as_ref().map(|status| &status.parents[..]);
    let said = parents.unwrap_or_default().iter().filter(|parent| {
        parent.parent_ref.name == gateway.name
            && parent.parent_ref.namespace.as_ref() == Some(&gateway.namespace)
    });
    let current =
        |condition: &&Condition| condition.observed_generation >= route.metadata.generation;
    let mut accepted = false;
    for condition in said.flat_map(|parent| &parent.conditions).filter(current) {
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Accepted", "True") => accepted = true,
            ("Accepted" | "ResolvedRefs", "False") => {
                return no(
                    &condition.reason,
                    format!(
                        "{name} does not take the HTTPRoute: {}: an administrator must look at \
                         its listeners",
                        condition.message
                    ),
                );
            }
            _ => {}
        }
    }
    if accepted {
        yes(host, &name)
    } else {
        unknown(
            "NotTakenUp",
            format!(
                "the HTTPRoute is made, and {name} has not taken it up: if it stays so, an \
                 administrator must look at spec.exposure.gateway of KitePlatform default"
            ),
        )
    }
}

fn yes(host: &str, by: &str) -> NewCondition {
    NewCondition::new(
        EXPOSED,
        true,
        "Exposed",
        format!("port 80 is reached at {host}, by {by}"),
    )
}

fn no(reason: &str, message: impl Into<String>) -> NewCondition {
    NewCondition::new(EXPOSED, false, reason, message)
}

fn unknown(reason: &str, message: impl Into<String>) -> NewCondition {
    NewCondition::new(EXPOSED, ConditionStatus::Unknown, reason, message)
}

//! Whether a VM's domain leads to it: what the controller of its Ingress or the
//! Gateway of its route says.

use k8s_openapi::{api::networking::v1::Ingress, apimachinery::pkg::apis::meta::v1::Condition};
use kite_core::{
    cluster::Object,
    conditions::{ConditionStatus, NewCondition},
    crd::{KitePlatformSpec, KiteReservation, vm_condition::EXPOSED},
    gateway_api::HttpRoute,
    names::{self, VmClaim},
};
use kite_render::{Vm, exposure, exposure::Exposure as Means, service};
use kube::api::PropagationPolicy;

use super::{draft::VmDraft, observe::Observed, reserved::has_domain};
use crate::{
    matches::is_applied,
    objects::AnyObject,
    plan::{Change, Refusal, Step},
    refused::Refused,
    stage::{Flow, Stage},
    standing::{Needed, Standing, guarded, needed, standing},
};

/// The condition; none for a VM that asks for no domain.
fn condition(vm: &Vm<'_>, seen: &Observed) -> Option<NewCondition> {
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
    let service = seen.web_service.as_ref().map(Some);
    if let Some(Ok(not_ours)) = service.map(|it| made(&service::web(vm), it)) {
        return Some(not_ours);
    }
    if let Some(Refusal { why, .. }) = refused(vm, seen) {
        return Some(no(
            "Refused",
            format!(
                "{why}: an administrator must look at spec.exposure of KitePlatform default, \
                 and whether the cluster has what it names"
            ),
        ));
    }
    Some(match exposure::exposure(vm, &seen.platform, &host) {
        Means::Ingress(desired) => {
            made(&*desired, seen.ingress.as_ref()).unwrap_or_else(|stored| {
                certificate(vm, seen).unwrap_or_else(|| by_ingress(stored, &host))
            })
        }
        Means::Route(desired) => made(&*desired, seen.route.as_ref())
            .unwrap_or_else(|stored| by_route(stored, &seen.platform, &host)),
    })
}

/// Why it may not be exposed for now.
fn refused<'a>(vm: &Vm<'_>, seen: &'a Observed) -> Option<&'a Refusal> {
    Refused::Exposure.among(&seen.refused, &vm.object.metadata)
}

/// Whether the VM's present domain is led to it by an object of its own: not one
/// of somebody else's that has the name, and not one that still serves a former
/// domain.
pub(super) fn is_made(vm: &Vm<'_>, seen: &Observed) -> bool {
    let host = exposure::host(vm, &seen.platform);
    let Some(host) = host.as_deref() else {
        return false;
    };
    match &seen.platform.exposure.gateway {
        Some(_) => own(vm, seen.route.as_ref()).and_then(host_of_route) == Some(host),
        None => own(vm, seen.ingress.as_ref()).and_then(host_of_ingress) == Some(host),
    }
}

/// Whether something of the VM's still leads to it from the domain that a
/// reservation stands for: until then another VM that got it would share it.
pub(super) fn leads_from(vm: &Vm<'_>, seen: &Observed, claim: &KiteReservation) -> bool {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let Some(VmClaim::Domain(prefix)) = names::vm_claim_of_reservation(name) else {
        return false;
    };
    // The base domain may have been another, too.
    let is_below = |host: &str| host.split('.').next() == Some(prefix);
    own(vm, seen.ingress.as_ref())
        .and_then(host_of_ingress)
        .is_some_and(is_below)
        || own(vm, seen.route.as_ref())
            .and_then(host_of_route)
            .is_some_and(is_below)
}

/// The object, if it is the VM's, also while it is on its way out.
pub(super) fn own<'a, K: Object>(vm: &Vm<'_>, stored: Option<&'a K>) -> Option<&'a K> {
    let like = vm.metadata(vm.name.to_owned());
    stored.filter(|stored| standing(stored.meta(), &like) != Standing::Foreign)
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

/// That the certificate is not there which the platform says is.
fn certificate(vm: &Vm<'_>, seen: &Observed) -> Option<NewCondition> {
    let name = exposure::given_certificate(vm, &seen.platform)?;
    let namespace = vm.namespace;
    seen.certificate_missing.then(|| {
        no(
            "CertificateMissing",
            format!(
                "Secret {namespace}/{name} is not there, which spec.exposure.certificate.secretName \
                 of KitePlatform default names: browsers refuse the domain until an administrator \
                 puts a TLS Secret of this name there, or chooses another certificate"
            ),
        )
    })
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

/// What leads from the domain to the VM. Goes by `web_service`, `ingress`, `route`, `claims`,
/// `platform`, `certificate_missing` and `refused`.
pub(super) struct Exposure;

impl Stage<VmDraft<'_>> for Exposure {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        if draft.is_prepared {
            let stored = draft.seen.web_service.as_ref();
            let is_led = draft.wanted(&service::web(draft.vm), stored);
            expose(draft, is_led);
        }
        Flow::Next
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        condition(draft.vm, draft.seen)
    }
}

/// Makes what leads from the domain to the VM. The other means goes once this is there;
/// what leads from a domain that is not wanted any more, at once. Nothing
/// leads to a Service that is not the VM's own and as it should be (`is_led`): it
/// may be one of anything that an ingress controller reaches. While its own is on
/// its way out, to be made anew, what leads to it stays.
fn expose(draft: &mut VmDraft<'_>, is_led: bool) {
    let (vm, seen) = (draft.vm, draft.seen);
    let former = own(vm, seen.web_service.as_ref());
    let may_lead = is_led || former.is_some_and(|it| is_applied(&service::web(vm), it));
    let host = exposure::host(vm, &seen.platform);
    let host = host.filter(|_| may_lead && has_domain(seen));
    let desired = host
        .as_deref()
        .map(|host| exposure::exposure(vm, &seen.platform, host));
    let may_be_made = is_led && refused(vm, seen).is_none();
    let (is_ingress, is_route) = match &desired {
        Some(Means::Ingress(desired)) => {
            if may_be_made {
                draft.exposed(&**desired, seen.ingress.as_ref());
            }
            (true, false)
        }
        Some(Means::Route(desired)) => {
            if may_be_made {
                draft.exposed(&**desired, seen.route.as_ref());
            }
            (false, true)
        }
        None => (false, false),
    };
    let host = host.as_deref();
    let is_there = desired.is_none() || is_made(vm, seen);
    let mut old_ingress = seen.ingress.as_ref().filter(|_| !is_ingress);
    let mut old_route = seen.route.as_ref().filter(|_| !is_route);
    if !is_there {
        old_ingress = old_ingress.filter(|it| host_of_ingress(it) != host);
        old_route = old_route.filter(|it| host_of_route(it) != host);
    }
    draft.withdraw(old_ingress);
    draft.withdraw(old_route);
}

impl VmDraft<'_> {
    /// Plans for what exposes the VM. An object of somebody else's that has its
    /// name is told by the condition, and holds up nothing else.
    fn exposed<K: Object>(&mut self, desired: &K, stored: Option<&K>)
    where
        AnyObject: From<K>,
    {
        if needed(desired, stored, "VM") == Needed::Apply {
            self.steps.push(Step::Change(Change::Expose(
                guarded(desired, stored).into(),
            )));
        }
    }

    fn withdraw<K: Object>(&mut self, stored: Option<&K>)
    where
        AnyObject: From<K>,
    {
        let Some(stored) = stored else { return };
        let like = self.vm.metadata(self.vm.name.to_owned());
        if standing(stored.meta(), &like) == Standing::Ours {
            self.steps.push(Step::Change(Change::Delete(
                stored.clone().into(),
                PropagationPolicy::Background,
            )));
        }
    }
}

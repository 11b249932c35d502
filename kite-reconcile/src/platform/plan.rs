//! What to do about the platform. Pure.

use std::time::Duration;

use kite_core::{
    conditions::NewCondition,
    crd::{
        KitePlatform, KitePlatformStatus,
        platform_condition::{GATEWAY_EXPOSED, READY, WEB_EXPOSED},
    },
};
use kite_render::Platform;

use super::{
    Observed, Reference, Referent, Unseen, clients, gateway, host_keys, part::Part, references,
    unread, web,
};
use crate::{Error, context::Settings, plan::Plan};

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
        (gateway::part(&platform, seen), web::part(&platform, seen))
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
    let told = object.status.as_ref();
    let told = told.map_or(&[][..], |it| &it.gateway_host_keys);
    let secret = seen.host_key.as_ref();
    let (gateway_host_keys, kept) = host_keys::look(told, secret, &settings.namespace, seen.now);
    // Of a gateway that others expose, or nobody, nothing is said; what its key is, and which
    // it replaces, is told all the same.
    let kept = kept.filter(|_| object.spec.gateway.enabled);
    let resolved = references::condition(&seen.missing, &seen.unseen);
    let conditions = [ready, gateway.condition, web.condition, resolved];
    Ok(Plan {
        status: KitePlatformStatus {
            observed_generation: None,
            url: web.url,
            addresses: web.addresses,
            gateway_addresses: gateway.addresses,
            gateway_port: gateway.port,
            gateway_host_keys,
            cluster_addresses,
            conditions: Vec::new(),
            unreadable: None,
        },
        steps: [gateway.steps, web.steps].concat(),
        conditions: conditions
            .into_iter()
            .chain(seen_clients)
            .chain(kept)
            .collect(),
        requeue_after: if seen.has_namespace && !awaits_untold(seen, settings) {
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
        requeue_after: RESYNC,
    }
}

//! What to do about the platform. Pure.

use kite_core::{
    conditions::NewCondition,
    crd::{
        KitePlatform, KitePlatformStatus,
        platform_condition::{GATEWAY_EXPOSED, READY, WEB_EXPOSED},
    },
};
use kite_render::Platform;

use super::{
    Observed,
    authorities::Authorities,
    clients::Clients,
    draft::PlatformDraft,
    gateway::{self, Gateway},
    host_keys::HostKeys,
    part::Part,
    references::References,
    unread,
    web::{self, Web},
};
use crate::{
    Error,
    context::Settings,
    plan::Plan,
    stage::{RESYNC, Stage, compose},
};

/// The stages, in the order in which they plan and in which their conditions are told.
const STAGES: &[&dyn for<'a> Stage<PlatformDraft<'a>>] = &[
    &Gateway,
    &Web,
    &References,
    &Clients,
    &Authorities,
    &HostKeys,
];

/// What to do about the platform `object`, given what was observed.
///
/// # Errors
/// [`Error::Render`] if the object has no name or uid from which others can be made.
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
    let draft = PlatformDraft {
        platform: &platform,
        seen,
        settings,
        steps: Vec::new(),
        gateway: exposed(&platform, seen, GATEWAY_EXPOSED, gateway::part),
        web: exposed(&platform, seen, WEB_EXPOSED, web::part),
    };
    compose(STAGES, draft)
}

/// What is to be exposed, as `part` says, if there is a namespace for it.
fn exposed(
    platform: &Platform<'_>,
    seen: &Observed,
    type_: &'static str,
    part: fn(&Platform<'_>, &Observed) -> Part,
) -> Part {
    if seen.has_namespace {
        return part(platform, seen);
    }
    let message = format!(
        "namespace {0}, in which Kite is said to run, is not there: create it, or start the \
         controller with --namespace",
        platform.namespace
    );
    Part::lacks(type_, "NamespaceMissing", message)
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

//! `freeze` and `unfreeze`: what the agent in a guest is asked to do with its file systems.

use std::time::Duration;

use http::Method;
use kite_fake::actors::objects::{Objects, text};
use kite_fake::actors::storage::{STILL, annotation};
use kite_fake::actors::{ActorError, Gate, Stage};
use kite_fake::status::Status;
use kube::api::DynamicObject;
use serde_json::Value;

use super::{Ask, Told, refused};
use crate::kubevirt::freezing;
use crate::stages;

/// What virt-api says of virt-handler's refusals.
fn handler_said(message: &str) -> Status {
    Status::internal(format!(
        "Internal error occurred: unexpected return code 400 (400 Bad Request), message: {message}"
    ))
}

pub(super) async fn freeze(ask: &Ask<'_>) -> Result<Told, Status> {
    let instance = running(ask, "VM is not running").await?;
    let limit = limit(ask).map_err(handler_said)?;
    pass(ask, stages::GUEST_FROZEN, &instance).await?;
    // It may have gone or begun to move meanwhile.
    let instance = ask.object().await?;
    if let Some(why) = freezing::refusal(&instance) {
        return Err(handler_said(why));
    }
    let context = ask.context();
    let objects = Objects::new(&context, "virt-handler");
    let pod = freezing::launcher_of(objects, &instance).await;
    let pod = pod.map_err(api_error)?;
    if let Some(pod) = pod
        && let Some(annotations) = freezing::frozen(&pod, context.clock.now(), limit)
    {
        let done = freezing::annotate(objects, &pod, annotations);
        done.await.map_err(api_error)?;
    }
    Ok(Told::Done)
}

pub(super) async fn thaw(ask: &Ask<'_>) -> Result<Told, Status> {
    let instance = running(ask, "VMI is not running").await?;
    let context = ask.context();
    let objects = Objects::new(&context, "virt-handler");
    let pod = freezing::launcher_of(objects, &instance).await;
    if let Some(pod) = pod.map_err(api_error)? {
        // Who was asked once lets them go by himself no more, whatever comes of it.
        let done = freezing::annotate(objects, &pod, freezing::untimed());
        done.await.map_err(api_error)?;
    }
    pass(ask, stages::GUEST_THAWED, &instance).await?;
    let pod = freezing::launcher_of(objects, &instance).await;
    let pod = pod.map_err(api_error)?;
    if let Some(pod) = pod.filter(|pod| annotation(pod, STILL).is_some()) {
        let done = freezing::annotate(objects, &pod, freezing::thawed());
        done.await.map_err(api_error)?;
    }
    Ok(Told::Done)
}

async fn running(ask: &Ask<'_>, or_else: &str) -> Result<DynamicObject, Status> {
    ask.wants(&Method::PUT)?;
    let instance = ask.object().await?;
    if text(&instance, "/status/phase") == "Running" {
        Ok(instance)
    } else {
        Err(ask.conflict(or_else))
    }
}

/// For how long at most; for ever where that is 0.
fn limit(ask: &Ask<'_>) -> Result<Option<Duration>, &'static str> {
    let body: Value = if ask.body.is_empty() {
        Value::Null
    } else {
        let body = serde_json::from_slice(ask.body);
        body.map_err(|_| "failed to unmarshal unfreeze timeout")?
    };
    let Some(limit) = body["unfreezeTimeout"].as_str() else {
        return Err("Unfreeze timeout in freeze request is not set");
    };
    let limit: jiff::SignedDuration = limit
        .parse()
        .map_err(|_| "failed to unmarshal unfreeze timeout")?;
    let seconds = u64::try_from(limit.as_secs()).unwrap_or_default();
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

/// Waits until the rules let the guest do it.
async fn pass(ask: &Ask<'_>, stage: Stage, instance: &DynamicObject) -> Result<(), Status> {
    let context = ask.context();
    let mut changes = context.rules.changes();
    loop {
        match context.gate(stage, instance, "") {
            Gate::Open => return Ok(()),
            Gate::Wait(rest) => tokio::time::sleep(rest).await,
            // Nobody will change them where that cannot be heard.
            Gate::Held => changes.changed().await.unwrap_or_default(),
            Gate::Fail(why) => return Err(handler_said(&why.message)),
        }
    }
}

fn api_error(error: ActorError) -> Status {
    match error {
        ActorError::Api { source, .. } => refused(&source),
        other => Status::internal(other.to_string()),
    }
}

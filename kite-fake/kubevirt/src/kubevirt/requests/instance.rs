//! What is asked of running instances.

use http::Method;
use kite_fake::actors::kind::Key;
use kite_fake::actors::objects::text;
use kite_fake::status::Status;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{Ask, Told, is_trial};
use crate::kinds::VIRTUAL_MACHINE;
use crate::kubevirt::conditions::find;
use crate::kubevirt::migration::is_active;

const NOT_RUNNING: &str = "VMI is not running";

fn is_paused(instance: &DynamicObject) -> bool {
    find(&instance.data["status"], "Paused").is_some_and(|c| c["status"] == "True")
}

pub(super) async fn pause(ask: &Ask<'_>, pause: bool) -> Result<Told, Status> {
    ask.wants(&Method::PUT)?;
    let options = ask.options()?;
    if !pause {
        refuse_while_snapshot(ask).await?;
    }
    let instance = ask.object().await?;
    let running = text(&instance, "/status/phase") == "Running";
    let status = &instance.data["status"];
    match (pause, is_paused(&instance)) {
        (true, _) if !running => return Err(ask.conflict("VM is not running")),
        (false, _) if !running => return Err(ask.conflict(NOT_RUNNING)),
        (true, _) if instance.data["spec"]["livenessProbe"].is_object() => {
            let why = "Pausing VMIs with LivenessProbe is currently not supported";
            let (group, resource) = (super::GROUP, ask.resource());
            return Err(Status::forbidden(group, resource, &ask.key.name, why));
        }
        (true, true) => return Err(ask.conflict("VMI is already paused")),
        (false, false) => return Err(ask.conflict("VMI is not paused")),
        (true, false) if is_active(status) => {
            let why = format!(
                "Cannot pause VM '{}' because it is currently being migrated",
                ask.key.name
            );
            return Err(ask.conflict(&why));
        }
        _ => {}
    }
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions: Vec<Value> = all.into_iter().filter(|c| c["type"] != "Paused").collect();
    if pause {
        let now = ask.now();
        conditions.push(json!({
            "type": "Paused",
            "status": "True",
            "reason": "PausedByUser",
            "message": "VMI was paused by user",
            "lastProbeTime": now,
            "lastTransitionTime": now,
        }));
    }
    ask.set_status(json!({"conditions": conditions}), is_trial(&options))
        .await?;
    Ok(Told::Done)
}

/// A VM that a snapshot is being taken of stays as it is.
async fn refuse_while_snapshot(ask: &Ask<'_>) -> Result<(), Status> {
    let key = Key::new(
        &VIRTUAL_MACHINE,
        ask.key.namespace.as_deref(),
        &ask.key.name,
    );
    let vm = ask.get(&key).await?;
    if vm.is_some_and(|vm| vm.data["status"]["snapshotInProgress"].is_string()) {
        let why = "VM has a snapshot in progress";
        let resource = "virtualmachine";
        return Err(Status::conflict(super::GROUP, resource, &ask.key.name, why));
    }
    Ok(())
}

/// The guest boots again inside its instance: nothing of it shows there.
pub(super) async fn soft_reboot(ask: &Ask<'_>) -> Result<Told, Status> {
    ask.wants(&Method::PUT)?;
    let instance = ask.object().await?;
    if text(&instance, "/status/phase") != "Running" {
        return Err(ask.conflict("VM is not running"));
    }
    if is_paused(&instance) {
        return Err(ask.conflict("VMI is paused"));
    }
    let agent = find(&instance.data["status"], "AgentConnected").is_some();
    if !agent && instance.data["spec"]["domain"]["features"]["acpi"]["enabled"] == false {
        let why = "VMI neither have the agent connected nor the ACPI feature enabled";
        return Err(ask.conflict(why));
    }
    Ok(Told::Done)
}

/// As [`soft_reboot`], without asking the guest.
pub(super) async fn reset(ask: &Ask<'_>) -> Result<Told, Status> {
    ask.wants(&Method::PUT)?;
    let instance = ask.object().await?;
    let phase = text(&instance, "/status/phase");
    if phase != "Running" {
        return Err(Status::internal(format!(
            "Failed to reset non-running VMI with phase {phase}: Unable to connect to \
             VirtualMachineInstance because phase is {phase} instead of Running"
        )));
    }
    Ok(Told::Done)
}

pub(super) async fn guest_info(ask: &Ask<'_>) -> Result<Told, Status> {
    ask.wants(&Method::GET)?;
    let instance = ask.object().await?;
    if text(&instance, "/status/phase") != "Running" {
        return Err(ask.conflict(NOT_RUNNING));
    }
    let status = &instance.data["status"];
    if find(status, "AgentConnected").is_none() {
        return Err(ask.conflict("VMI does not have guest agent connected"));
    }
    let spec = &instance.data["spec"];
    let hostname = spec["hostname"].as_str().unwrap_or(&ask.key.name);
    Ok(Told::Value(json!({
        "guestAgentVersion": "8.2.0",
        "hostname": hostname,
        "os": status["guestOSInfo"],
        "timezone": "UTC, 0",
        "userList": [],
        "fsInfo": {"disks": []},
        "fsFreezeStatus": status["fsFreezeStatus"].as_str().unwrap_or("thawed"),
    })))
}

pub(super) async fn cancel_evacuation(ask: &Ask<'_>) -> Result<Told, Status> {
    ask.wants(&Method::PUT)?;
    let options = ask.options()?;
    let instance = ask.object().await?;
    if instance.data["status"]["evacuationNodeName"].is_string() {
        let status = json!({"evacuationNodeName": Value::Null});
        ask.set_status(status, is_trial(&options)).await?;
    }
    Ok(Told::Done)
}

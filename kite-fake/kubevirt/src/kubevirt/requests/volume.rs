//! `addvolume` and `removevolume` of VMs and of instances.

use http::Method;
use kite_fake::actors::objects::text;
use kite_fake::status::Status;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{Ask, Told, is_trial};
use crate::kubevirt::hotplug::{EPHEMERAL, ephemeral};
use crate::kubevirt::volumes::{claim_name, is_hotplug, listed};

pub(super) async fn add(ask: &Ask<'_>) -> Result<Told, Status> {
    let options = read(ask)?;
    let name = options["name"].as_str().unwrap_or_default();
    let missing = if name.is_empty() {
        Some("AddVolumeOptions requires name to be set")
    } else if !options["disk"].is_object() {
        Some("AddVolumeOptions requires disk to not be nil")
    } else if !options["volumeSource"].is_object() {
        Some("AddVolumeOptions requires VolumeSource to not be nil")
    } else {
        None
    };
    if let Some(missing) = missing {
        return Err(Status::bad_request(missing));
    }
    let object = present(ask).await?;
    let spec = spec(ask, &object);
    let mut volume = options["volumeSource"].clone();
    for source in ["dataVolume", "persistentVolumeClaim"] {
        if volume[source].is_object() {
            volume[source]["hotpluggable"] = json!(true);
        }
    }
    volume["name"] = json!(name);
    let mut disk = options["disk"].clone();
    disk["name"] = json!(name);
    if let Some(serial) = options["disk"]["serial"].as_str() {
        disk["serial"] = json!(serial);
    } else {
        disk["serial"] = json!(name);
    }
    let source = claim_name(&volume).unwrap_or_default();
    for other in listed(spec) {
        if other["name"] == name {
            return Err(ask.conflict(&format!(
                "Unable to add volume [{name}] because volume with that name already exists"
            )));
        }
        if claim_name(other) == Some(source) {
            return Err(ask.conflict(&format!(
                "Unable to add volume source [{source}] because it already exists"
            )));
        }
    }
    let mut volumes = list(&spec["volumes"]);
    let mut disks = list(&spec["domain"]["devices"]["disks"]);
    volumes.push(volume);
    disks.push(disk);
    let mut own = ephemeral(&object);
    own.push(name.to_owned());
    write(ask, volumes, disks, &own, is_trial(&options)).await
}

pub(super) async fn remove(ask: &Ask<'_>) -> Result<Told, Status> {
    let options = read(ask)?;
    let name = options["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        let why = "RemoveVolumeOptions requires name to be set";
        return Err(Status::bad_request(why));
    }
    let object = present(ask).await?;
    let spec = spec(ask, &object);
    let found = listed(spec).find(|v| v["name"] == name || claim_name(v) == Some(name));
    let Some(found) = found else {
        return Err(ask.conflict(&format!(
            "Unable to remove volume [{name}] because it does not exist"
        )));
    };
    let volume = found["name"].as_str().unwrap_or_default();
    if !is_hotplug(found) {
        return Err(ask.conflict(&format!(
            "Unable to remove volume [{volume}] because it is not hotpluggable"
        )));
    }
    let without = |members: &Value| {
        let mut members = list(members);
        members.retain(|member| member["name"] != volume);
        members
    };
    let volumes = without(&spec["volumes"]);
    let disks = without(&spec["domain"]["devices"]["disks"]);
    let mut own = ephemeral(&object);
    own.retain(|other| other != volume);
    write(ask, volumes, disks, &own, is_trial(&options)).await
}

fn read(ask: &Ask<'_>) -> Result<Value, Status> {
    ask.wants(&Method::PUT)?;
    if ask.body.is_empty() {
        let why = "Request with no body, a new name is expected as the request body";
        return Err(Status::bad_request(why));
    }
    ask.options()
}

/// The VM, or the instance if it runs.
async fn present(ask: &Ask<'_>) -> Result<DynamicObject, Status> {
    let object = ask.object().await?;
    if !ask.is_machine() && text(&object, "/status/phase") != "Running" {
        return Err(ask.conflict("VMI is not running"));
    }
    Ok(object)
}

/// The instance's spec inside of what is asked.
fn spec<'a>(ask: &Ask<'_>, object: &'a DynamicObject) -> &'a Value {
    if ask.is_machine() {
        &object.data["spec"]["template"]["spec"]
    } else {
        &object.data["spec"]
    }
}

fn list(members: &Value) -> Vec<Value> {
    members.as_array().cloned().unwrap_or_default()
}

async fn write(
    ask: &Ask<'_>,
    volumes: Vec<Value>,
    disks: Vec<Value>,
    ephemeral: &[String],
    trial: bool,
) -> Result<Told, Status> {
    let spec = json!({"volumes": volumes, "domain": {"devices": {"disks": disks}}});
    let patch = if ask.is_machine() {
        json!({"spec": {"template": {"spec": spec}}})
    } else {
        // The instance alone has it: its VM does not know of it.
        let own = json!(ephemeral).to_string();
        json!({"metadata": {"annotations": {EPHEMERAL: own}}, "spec": spec})
    };
    ask.set(patch, trial).await?;
    Ok(Told::Accepted)
}

//! `start`, `stop`, `restart` and `migrate` of VMs.

use http::Method;
use kite_fake::actors::kind::{Key, POD};
use kite_fake::actors::objects::{text, uid};
use kite_fake::status::Status;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use super::{Ask, Told, is_trial};
use crate::kinds::{INSTANCE, MIGRATION};
use crate::kubevirt::instances::is_over;
use crate::kubevirt::launcher;
use crate::kubevirt::run::strategy;

const NOT_RUNNING: &str = "VM is not running";

pub(super) async fn start(ask: &Ask<'_>) -> Result<Told, Status> {
    ask.wants(&Method::PUT)?;
    let vm = ask.object().await?;
    let instance = ask.instance().await?;
    let phase = instance.as_ref().map(|i| text(i, "/status/phase"));
    if phase.is_some_and(|phase| !is_over(phase) && phase != "Unknown" && !phase.is_empty()) {
        return Err(ask.conflict("VM is already running"));
    }
    let options = ask.options()?;
    let (paused, trial) = (options["paused"] == true, is_trial(&options));
    let mut request = json!({"action": "Start"});
    if paused {
        request["data"] = json!({"paused": "true"});
    }
    let requests = match (strategy(&vm), phase) {
        ("Halted", _) if !paused => return run_strategy(ask, &vm, "Always", trial).await,
        ("RerunOnFailure", Some("Failed")) => {
            return Err(
                ask.conflict("RerunOnFailure does not support starting VM from failed state")
            );
        }
        ("RerunOnFailure" | "Manual", Some("Succeeded" | "Failed")) => {
            let id = instance.as_ref().map(uid);
            vec![json!({"action": "Stop", "uid": id}), request]
        }
        ("Halted" | "RerunOnFailure" | "Manual", _) => vec![request],
        (other, _) => {
            return Err(ask.conflict(&format!("{other} does not support manual start requests")));
        }
    };
    change(ask, &vm, requests, trial).await
}

pub(super) async fn stop(ask: &Ask<'_>) -> Result<Told, Status> {
    ask.wants(&Method::PUT)?;
    let options = ask.options()?;
    let trial = is_trial(&options);
    let vm = ask.object().await?;
    let instance = ask.instance().await?;
    let alive = instance.filter(|i| !is_over(text(i, "/status/phase")));
    let grace = options["gracePeriod"].as_i64();
    let before = alive
        .as_ref()
        .and_then(|i| i.data["spec"]["terminationGracePeriodSeconds"].as_i64());
    let strategy = strategy(&vm);
    if strategy == "Halted" && alive.is_some() {
        let shorter = grace.is_some_and(|grace| before.is_none_or(|before| grace < before));
        if !shorter {
            return Err(ask
                .conflict("Halted only supports manual stop requests with a shorter graceperiod"));
        }
    }
    if alive.is_none() && !matches!(strategy, "Always" | "Once") {
        return Err(ask.conflict(NOT_RUNNING));
    }
    if let (Some(_), Some(grace)) = (&alive, grace) {
        let key = Key::new(&INSTANCE, ask.key.namespace.as_deref(), &ask.key.name);
        let patch = json!({"spec": {"terminationGracePeriodSeconds": grace}});
        ask.patch(&key, patch, false, trial).await?;
    }
    match (strategy, alive) {
        ("Always" | "Once", _) => run_strategy(ask, &vm, "Halted", trial).await,
        (_, Some(instance)) => {
            let request = json!({"action": "Stop", "uid": uid(&instance)});
            change(ask, &vm, vec![request], trial).await
        }
        (_, None) => Err(ask.conflict(NOT_RUNNING)),
    }
}

pub(super) async fn restart(ask: &Ask<'_>) -> Result<Told, Status> {
    ask.wants(&Method::PUT)?;
    let options = ask.options()?;
    let grace = options["gracePeriodSeconds"].as_i64();
    if grace.is_some_and(|grace| grace > 0) {
        let why = "For force restart, only gracePeriod=0 is supported for now";
        return Err(Status::bad_request(why));
    }
    if grace.is_some_and(|grace| grace < 0) {
        let why = "gracePeriod has to be greater or equal to 0";
        return Err(Status::bad_request(why));
    }
    let vm = ask.object().await?;
    let strategy = strategy(&vm);
    if strategy == "Halted" || strategy == "Once" {
        // The word is misspelt there, too.
        let why = format!("RunStategy {strategy} does not support manual restart requests");
        return Err(ask.conflict(&why));
    }
    let Some(instance) = ask.instance().await? else {
        return Err(ask.conflict("VM is not running: Halted"));
    };
    let requests = vec![
        json!({"action": "Stop", "uid": uid(&instance)}),
        json!({"action": "Start"}),
    ];
    let told = change(ask, &vm, requests, is_trial(&options)).await?;
    if grace == Some(0) {
        kill(ask, &instance).await?;
    }
    Ok(told)
}

/// Ends the launcher without waiting for its guest.
async fn kill(ask: &Ask<'_>, instance: &DynamicObject) -> Result<(), Status> {
    let namespace = ask.key.namespace.as_deref();
    let api = POD.api(&ask.of.client, namespace);
    let selector = launcher::selector(&ask.key.name);
    let pods = api.list(&ListParams::default().labels(&selector)).await;
    let pods = pods.map_err(|e| super::refused(&e))?.items;
    if let Some(pod) = launcher::current(instance, &pods) {
        let params = DeleteParams {
            grace_period_seconds: Some(1),
            ..DeleteParams::default()
        };
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match api.delete(name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(super::refused(&error)),
        }
    }
    Ok(())
}

pub(super) async fn migrate(ask: &Ask<'_>) -> Result<Told, Status> {
    ask.wants(&Method::PUT)?;
    let options = ask.options()?;
    ask.object().await?;
    let instance = ask.instance().await?;
    let Some(instance) = instance else {
        let resource = "virtualmachineinstance";
        return Err(Status::not_found(super::GROUP, resource, &ask.key.name));
    };
    if text(&instance, "/status/phase") != "Running" {
        return Err(ask.conflict(NOT_RUNNING));
    }
    let mut spec = json!({"vmiName": ask.key.name});
    if options["addedNodeSelector"].is_object() {
        spec["addedNodeSelector"] = options["addedNodeSelector"].clone();
    }
    let body = json!({
        "apiVersion": MIGRATION.api_version(),
        "kind": MIGRATION.kind,
        "metadata": {"generateName": "kubevirt-migrate-vm-"},
        "spec": spec,
    });
    let object: DynamicObject =
        serde_json::from_value(body).map_err(|e| Status::internal(e.to_string()))?;
    let params = PostParams {
        field_manager: Some("virt-api".to_owned()),
        dry_run: is_trial(&options),
    };
    let api = MIGRATION.api(&ask.of.client, ask.key.namespace.as_deref());
    match api.create(&params, &object).await {
        Ok(_) => Ok(Told::Accepted),
        // As virt-api passes every refusal on.
        Err(error) => Err(Status::internal(super::refused(&error).message)),
    }
}

/// By another run strategy, in the field that the VM uses.
async fn run_strategy(
    ask: &Ask<'_>,
    vm: &DynamicObject,
    to: &str,
    trial: bool,
) -> Result<Told, Status> {
    let spec = if vm.data["spec"]["runStrategy"].is_string() {
        json!({"runStrategy": to})
    } else {
        json!({"running": to == "Always"})
    };
    ask.set(json!({"spec": spec}), trial).await?;
    Ok(Told::Accepted)
}

/// By requests in the VM's status. A single stop replaces what is there.
async fn change(
    ask: &Ask<'_>,
    vm: &DynamicObject,
    requests: Vec<Value>,
    trial: bool,
) -> Result<Told, Status> {
    let open = vm.data["status"]["stateChangeRequests"].as_array();
    let stops = requests.len() == 1 && requests[0]["action"] == "Stop";
    if open.is_some_and(|open| !open.is_empty()) && !stops {
        let why = "unable to complete request: stop/start already underway";
        return Err(Status::internal(why));
    }
    let status = json!({"stateChangeRequests": requests, "startFailure": Value::Null});
    ask.set_status(status, trial).await?;
    Ok(Told::Accepted)
}

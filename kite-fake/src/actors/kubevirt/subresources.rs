//! `subresources.kubevirt.io`: what people and programs ask of VMs directly.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::conditions::find;
use super::instances::is_over;
use super::run::strategy;
use crate::actors::catalog::Catalog;
use crate::actors::kind::{INSTANCE, Key, VIRTUAL_MACHINE};
use crate::actors::objects::{text, uid};
use crate::clock::Clock;
use crate::server::status_response;
use crate::service::{Extension, ResponseBody};
use crate::status::Status;

/// The paths that [`VmSubresources`] answers.
pub const SUBRESOURCES: &str = "/apis/subresources.kubevirt.io/";

/// Plays virt-api's subresources: `start`, `stop` and `restart` of VMs, `pause`
/// and `unpause` of instances. The others answer 501 with their name.
pub struct VmSubresources {
    client: Client,
    catalog: Catalog,
    clock: std::sync::Arc<dyn Clock>,
}

impl std::fmt::Debug for VmSubresources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VmSubresources").finish_non_exhaustive()
    }
}

impl VmSubresources {
    /// Does what is asked by `client`.
    pub fn new(client: Client, clock: std::sync::Arc<dyn Clock>) -> Self {
        Self {
            client,
            catalog: Catalog::default(),
            clock,
        }
    }
}

#[async_trait]
impl Extension for VmSubresources {
    async fn handle(&self, request: Request<Bytes>) -> Response<ResponseBody> {
        match self.answer(request.method(), request.uri().path()).await {
            Ok(()) => {
                let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
                *response.status_mut() = StatusCode::ACCEPTED;
                response
            }
            Err(status) => status_response(&status).map(|body| Full::new(body).boxed_unsync()),
        }
    }
}

impl VmSubresources {
    async fn answer(&self, method: &Method, path: &str) -> Result<(), Status> {
        let path = path.strip_prefix(SUBRESOURCES).unwrap_or_default();
        let parts: Vec<&str> = path.split('/').collect();
        let [
            "v1" | "v1alpha3",
            "namespaces",
            namespace,
            plural,
            name,
            verb,
        ] = parts[..]
        else {
            return Err(Status::no_such_resource());
        };
        let kind = match plural {
            "virtualmachines" => &VIRTUAL_MACHINE,
            "virtualmachineinstances" => &INSTANCE,
            _ => return Err(Status::no_such_resource()),
        };
        let key = Key::new(kind, Some(namespace), name);
        let known = match plural {
            "virtualmachines" => ["start", "stop", "restart"].contains(&verb),
            _ => ["pause", "unpause"].contains(&verb),
        };
        if !known {
            return Err(Status::unsupported(&format!("{plural}/{verb} of KubeVirt")));
        }
        if method != Method::PUT {
            return Err(Status::method_not_allowed());
        }
        let object = self
            .get(&key)
            .await?
            .ok_or_else(|| Status::not_found(&key.kind.group, &key.kind.plural, &key.name))?;
        match verb {
            "pause" => self.pause(&key, &object, true).await,
            "unpause" => self.pause(&key, &object, false).await,
            verb => self.power(&key, &object, verb).await,
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<DynamicObject>, Status> {
        let api = key.api(&self.client);
        api.get_opt(&key.name).await.map_err(|e| refused(&e))
    }

    async fn power(&self, key: &Key, vm: &DynamicObject, verb: &str) -> Result<(), Status> {
        let instance = Key::new(&INSTANCE, key.namespace.as_deref(), &key.name);
        let instance = self.get(&instance).await?;
        let alive = instance
            .as_ref()
            .filter(|i| !is_over(text(i, "/status/phase")));
        let demand = demand(verb, strategy(vm), alive.map(uid));
        let requests = match demand.map_err(|why| conflict(key, &why))? {
            Demand::Strategy(strategy) => return self.run_strategy(key, vm, strategy).await,
            Demand::Requests(requests) => requests,
        };
        let open = vm.data["status"]["stateChangeRequests"].as_array();
        if open.is_some_and(|open| !open.is_empty()) {
            let why = "unable to complete request: stop/start already underway";
            return Err(conflict(key, why));
        }
        self.status(key, json!({"stateChangeRequests": requests}))
            .await
    }

    async fn run_strategy(&self, key: &Key, vm: &DynamicObject, to: &str) -> Result<(), Status> {
        let mut spec = json!({"runStrategy": to});
        if !vm.data["spec"]["running"].is_null() {
            spec["running"] = Value::Null;
        }
        self.patch(key, json!({"spec": spec}), false).await
    }

    async fn pause(&self, key: &Key, instance: &DynamicObject, pause: bool) -> Result<(), Status> {
        if text(instance, "/status/phase") != "Running" {
            return Err(conflict(key, "VM is not running"));
        }
        let status = &instance.data["status"];
        let paused = find(status, "Paused").is_some_and(|c| c["status"] == "True");
        match (pause, paused) {
            (true, true) => return Err(conflict(key, "VMI is already paused")),
            (false, false) => return Err(conflict(key, "VMI is not paused")),
            _ => {}
        }
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions: Vec<Value> =
            all.into_iter().filter(|c| c["type"] != "Paused").collect();
        if pause {
            let now = crate::clock::rfc3339(self.clock.now());
            conditions.push(json!({
                "type": "Paused",
                "status": "True",
                "reason": "PausedByUser",
                "message": "VMI was paused by user",
                "lastProbeTime": now,
                "lastTransitionTime": now,
            }));
        }
        self.status(key, json!({"conditions": conditions})).await
    }

    async fn status(&self, key: &Key, status: Value) -> Result<(), Status> {
        let refresh = self.catalog.refresh(&self.client).await;
        refresh.map_err(|e| refused(&e))?;
        let subresource = self.catalog.has_status(&key.kind);
        self.patch(key, json!({"status": status}), subresource)
            .await
    }

    async fn patch(&self, key: &Key, patch: Value, status: bool) -> Result<(), Status> {
        let params = PatchParams {
            field_manager: Some("virt-api".to_owned()),
            ..PatchParams::default()
        };
        let (api, patch) = (key.api(&self.client), Patch::Merge(patch));
        let done = if status {
            api.patch_status(&key.name, &params, &patch).await
        } else {
            api.patch(&key.name, &params, &patch).await
        };
        done.map(drop).map_err(|e| refused(&e))
    }
}

/// How a request to start or stop is carried out.
#[derive(Debug, PartialEq)]
enum Demand {
    /// By another run strategy.
    Strategy(&'static str),
    /// By requests in the VM's status.
    Requests(Value),
}

/// What `verb` means for a VM with a run strategy, whose living instance has
/// the uid `alive`; or why it cannot be.
fn demand(verb: &str, strategy: &str, alive: Option<&str>) -> Result<Demand, String> {
    match (verb, strategy, alive) {
        ("restart", "Halted" | "Once", _)
        | ("start", "Always" | "Once", _)
        | ("stop", "Once", _) => Err(format!(
            "{strategy} does not support manual {verb} requests"
        )),
        ("restart" | "stop", _, None) => Err("VM is not running".to_owned()),
        ("start", _, Some(_)) => Err("VM is already running".to_owned()),
        ("restart", _, Some(instance)) => Ok(Demand::Requests(json!([
            {"action": "Stop", "uid": instance},
            {"action": "Start"},
        ]))),
        ("stop", "Always", _) => Ok(Demand::Strategy("Halted")),
        ("stop", _, Some(instance)) => Ok(Demand::Requests(json!([
            {"action": "Stop", "uid": instance},
        ]))),
        ("start", "Halted", _) => Ok(Demand::Strategy("Always")),
        _ => Ok(Demand::Requests(json!([{"action": "Start"}]))),
    }
}

fn conflict(key: &Key, why: &str) -> Status {
    Status::conflict(&key.kind.group, &key.kind.plural, &key.name, why)
}

/// What the API server said to the extension, said to whoever asked it.
fn refused(error: &kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => Status::new(status.code, "", status.message.clone()),
        error => Status::internal(error.to_string()),
    }
}

//! `EndpointSlices` of Services.

use std::collections::HashMap;

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::HOST_PORTS;
use super::selecting::{Selecting, selector, selector_text};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{ENDPOINT_SLICE, Key, Kind, POD, SERVICE};
use crate::actors::labels::labels;
use crate::actors::mirror::Found;
use crate::actors::objects::{
    Objects, controller_reference, ignore_missing, is_deleting, suffix, text, uid,
};

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[SERVICE, POD, ENDPOINT_SLICE];

/// Plays the endpoint slice controller: the Pods that a Service selects are in
/// its slice. A slice is written when what should be in it has changed since it
/// was last written, so an edit by hand stays until then.
#[derive(Debug, Default)]
pub struct EndpointSlices {
    selecting: Mutex<Selecting>,
    written: Mutex<HashMap<Key, Value>>,
}

#[async_trait]
impl Actor for EndpointSlices {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![SERVICE, POD, ENDPOINT_SLICE])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if change.kind == SERVICE {
            return self.selecting.lock().saw_service(change);
        }
        if change.kind == POD {
            return self.selecting.lock().saw_pod(change);
        }
        // Only a slice that is gone has to be looked at.
        let service = labels(&change.object).get(SERVICE_NAME);
        let namespace = change.object.metadata.namespace.as_deref();
        service
            .filter(|_| change.gone)
            .map(|name| Key::new(&SERVICE, namespace, name))
            .into_iter()
            .collect()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let service = objects.get(key).await?;
        let Some(service) = service.filter(|s| !selector(s).is_empty() && !is_deleting(s)) else {
            self.written.lock().remove(key);
            return Ok(Next::Done);
        };
        let namespace = key.namespace.as_deref();
        let pods = objects
            .list(&POD, namespace, &selector_text(&service))
            .await?;
        let desired = desired(&service, &pods);
        let ours = format!("{SERVICE_NAME}={},{MANAGED_BY}={MANAGER}", key.name);
        let slices = objects.list(&ENDPOINT_SLICE, namespace, &ours).await?;
        let slice = slices.iter().find(|slice| !is_deleting(slice));
        match slice {
            Some(_) if self.written.lock().get(key) == Some(&desired) => return Ok(Next::Done),
            Some(slice) if holds(slice, &desired) => {}
            Some(slice) => {
                let key = Key::of(&ENDPOINT_SLICE, slice);
                ignore_missing(objects.merge(&key, Some(slice), desired.clone()).await)?;
            }
            None => {
                let mut body = desired.clone();
                let mut labels = json!(service.metadata.labels.clone().unwrap_or_default());
                labels[SERVICE_NAME] = json!(key.name);
                labels[MANAGED_BY] = json!(MANAGER);
                body["addressType"] = json!("IPv4");
                body["metadata"] = json!({
                    "name": format!("{}-{}", key.name, suffix(uid(&service))),
                    "generateName": format!("{}-", key.name),
                    "namespace": namespace,
                    "labels": labels,
                    "ownerReferences": [controller_reference(&SERVICE, &service)],
                });
                objects.create(&ENDPOINT_SLICE, namespace, body).await?;
            }
        }
        self.written.lock().insert(key.clone(), desired);
        Ok(Next::Done)
    }
}

fn holds(slice: &DynamicObject, desired: &Value) -> bool {
    // The server writes an empty list as null.
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    ["endpoints", "ports"]
        .iter()
        .all(|field| list(&slice.data[*field]) == list(&desired[*field]))
}

/// Endpoints and ports of the slice of `service`.
fn desired(service: &DynamicObject, pods: &[Found]) -> Value {
    let mut reachable: Vec<&Found> = pods.iter().filter(|p| is_reachable(p)).collect();
    reachable.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let endpoints: Vec<Value> = reachable.iter().map(|pod| endpoint(service, pod)).collect();
    let ports = service.data["spec"]["ports"].as_array();
    let ports: Vec<Value> = ports
        .into_iter()
        .flatten()
        .filter_map(|port| {
            let number = match reachable.first() {
                Some(pod) => real_port(pod, target(port, pod)?)?,
                // Nothing is there that could say otherwise.
                None => {
                    u16::try_from(port["targetPort"].as_u64().or(port["port"].as_u64())?).ok()?
                }
            };
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let name = port["name"].as_str().unwrap_or_default();
            Some(json!({"name": name, "port": number, "protocol": protocol}))
        })
        .collect();
    json!({"endpoints": endpoints, "ports": ports})
}

fn host_ports(pod: &DynamicObject) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(HOST_PORTS).map(String::as_str)
}

/// Whether a Pod has an address at which something may answer.
pub(super) fn is_reachable(pod: &DynamicObject) -> bool {
    let over = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
    !over && !text(pod, "/status/podIP").is_empty() && host_ports(pod) != Some("")
}

fn endpoint(service: &DynamicObject, pod: &DynamicObject) -> Value {
    let terminating = is_deleting(pod);
    let all = service.data["spec"]["publishNotReadyAddresses"] == true;
    let conditions = pod.data["status"]["conditions"].as_array();
    let ready = conditions.is_some_and(|all| {
        all.iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    });
    json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": {
            "ready": (ready || all) && !terminating,
            "serving": ready,
            "terminating": terminating,
        },
        "nodeName": text(pod, "/spec/nodeName"),
        "targetRef": {
            "kind": "Pod",
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
        },
    })
}

/// The port of the Pod that a Service's port leads to.
pub(super) fn target(port: &Value, pod: &DynamicObject) -> Option<u16> {
    let number = |value: &Value| u16::try_from(value.as_u64()?).ok();
    let Some(name) = port["targetPort"].as_str() else {
        return number(&port["targetPort"]).or_else(|| number(&port["port"]));
    };
    let containers = pod.data["spec"]["containers"].as_array();
    let mut ports = containers
        .into_iter()
        .flatten()
        .flat_map(|c| c["ports"].as_array().into_iter().flatten());
    ports
        .find(|p| p["name"] == name)
        .and_then(|p| number(&p["containerPort"]))
}

/// Where a port of a Pod really is on the Pod's address.
pub(super) fn real_port(pod: &DynamicObject, port: u16) -> Option<u16> {
    let Some(map) = host_ports(pod) else {
        return Some(port);
    };
    let mut pairs = map.split(',').filter_map(|pair| pair.split_once('='));
    let (_, real) = pairs.find(|(of, _)| of.parse() == Ok(port))?;
    real.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn pod(host_ports: Option<&str>) -> DynamicObject {
        let annotations = host_ports.map(|ports| json!({HOST_PORTS: ports}));
        object(json!({
            "metadata": {"name": "p", "namespace": "a", "annotations": annotations},
            "spec": {"nodeName": "n"},
            "status": {
                "phase": "Running",
                "podIP": "127.0.0.1",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }))
    }

    fn service() -> DynamicObject {
        object(json!({
            "metadata": {"name": "s", "namespace": "a"},
            "spec": {"ports": [
                {"name": "ssh", "port": 2222, "targetPort": 22},
                {"name": "web", "port": 80},
            ]},
        }))
    }

    #[test]
    fn ports_are_those_of_the_pod() {
        let desired = desired(&service(), &[pod(None).into()]);
        assert_eq!(desired["ports"][0]["port"], 22);
        assert_eq!(desired["ports"][1]["port"], 80);
        assert_eq!(desired["endpoints"][0]["conditions"]["ready"], true);
    }

    #[test]
    fn ports_that_are_elsewhere_are_told_so() {
        let desired = desired(&service(), &[pod(Some("22=40022")).into()]);
        let ports = desired["ports"].as_array().unwrap();
        assert_eq!(ports.len(), 1);
        assert_eq!(ports[0]["port"], 40022);
    }

    #[test]
    fn a_pod_that_cannot_be_reached_yet_is_left_out() {
        let desired = desired(&service(), &[pod(Some("")).into()]);
        assert_eq!(desired["endpoints"], json!([]));
    }
}

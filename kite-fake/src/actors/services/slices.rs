//! `EndpointSlices` of Services.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::backend::{
    self, hostname, is_reachable, label_selector, ports, publishes_all, selector, selector_text,
};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{ENDPOINT_SLICE, Key, Kind, POD, SERVICE};
use crate::actors::labels::labels;
use crate::actors::mirror::Found;
use crate::actors::objects::{
    Deletion, Objects, controller_reference, ignore_missing, is_deleting, text,
};
use crate::actors::selecting::Selecting;
use crate::actors::workloads::pod_state::is_ready;

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[SERVICE, POD, ENDPOINT_SLICE];

/// Most endpoints of a slice.
const MOST: usize = 100;

/// Plays the endpoint slice controller: the Pods that a Service selects are in
/// its slices. Slices are written when what should be in them has changed since they
/// were last written, so an edit by hand stays until then.
#[derive(Debug, Default)]
pub struct EndpointSlices {
    selecting: Mutex<Selecting>,
    written: Mutex<HashMap<Key, Vec<Value>>>,
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
            return self
                .selecting
                .lock()
                .saw_selector(change, label_selector(&change.object));
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
        let mut slices = objects.list(&ENDPOINT_SLICE, namespace, &ours).await?;
        slices.retain(|slice| !is_deleting(slice));
        let is_written = self.written.lock().get(key) == Some(&desired);
        if is_written && slices.len() == desired.len() {
            return Ok(Next::Done);
        }
        for wanted in &desired {
            // One with the same ports is changed rather than another.
            let same = slices
                .iter()
                .position(|it| list(&it.data["ports"]) == list(&wanted["ports"]));
            let at = same.or_else(|| (!slices.is_empty()).then_some(0));
            match at.map(|at| slices.remove(at)) {
                Some(slice) if holds(&slice, wanted) => {}
                Some(slice) => {
                    let key = Key::of(&ENDPOINT_SLICE, &slice);
                    let patch = change(&slice, wanted);
                    ignore_missing(objects.merge(&key, Some(&slice), patch).await)?;
                }
                None => {
                    let mut body = wanted.clone();
                    body["addressType"] = json!("IPv4");
                    let metadata = &mut body["metadata"];
                    metadata["namespace"] = json!(namespace);
                    metadata["generateName"] = json!(format!("{}-", key.name));
                    metadata["ownerReferences"] = json!([controller_reference(&SERVICE, &service)]);
                    objects.create(&ENDPOINT_SLICE, namespace, body).await?;
                }
            }
        }
        for slice in slices {
            let key = Key::of(&ENDPOINT_SLICE, &slice);
            objects.delete(&key, &slice, Deletion::default()).await?;
        }
        self.written.lock().insert(key.clone(), desired);
        Ok(Next::Done)
    }
}

/// The server writes an empty list as null.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn holds(slice: &DynamicObject, wanted: &Value) -> bool {
    let same = |field: &str| list(&slice.data[field]) == list(&wanted[field]);
    same("endpoints")
        && same("ports")
        && json!(slice.metadata.labels) == wanted["metadata"]["labels"]
}

/// What makes a slice another; labels that it is not to have go.
fn change(slice: &DynamicObject, wanted: &Value) -> Value {
    let mut patch = wanted.clone();
    for label in slice.metadata.labels.iter().flatten().map(|(name, _)| name) {
        let labels = &mut patch["metadata"]["labels"];
        if labels.get(label).is_none() {
            labels[label] = Value::Null;
        }
    }
    patch
}

/// The slices of `service`: Pods with the same ports are together, so many at most.
fn desired(service: &DynamicObject, pods: &[Found]) -> Vec<Value> {
    let mut labels = backend::labels(service);
    labels.insert(SERVICE_NAME.to_owned(), json!(service.metadata.name));
    labels.insert(MANAGED_BY.to_owned(), json!(MANAGER));
    let slice = |ports: &[Value], endpoints: &[Value]| json!({"metadata": {"labels": labels}, "ports": ports, "endpoints": endpoints});
    let mut reachable: Vec<&Found> = pods.iter().filter(|pod| is_reachable(pod)).collect();
    reachable.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut by_ports: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for pod in reachable {
        let ports = ports(service, pod).into_iter();
        let ports: Vec<Value> = ports.map(|(port, number)| told(port, number)).collect();
        let (_, endpoints) = by_ports
            .entry(json!(ports).to_string())
            .or_insert_with(|| (ports, Vec::new()));
        endpoints.push(endpoint(service, pod));
    }
    if by_ports.is_empty() {
        // Nothing is there that could say otherwise.
        let ports = list(&service.data["spec"]["ports"])
            .iter()
            .filter_map(|port| {
                let number = port["targetPort"].as_u64().or(port["port"].as_u64())?;
                Some(told(port, u16::try_from(number).ok()?))
            });
        return vec![slice(&ports.collect::<Vec<_>>(), &[])];
    }
    let all = by_ports.values();
    all.flat_map(|(ports, endpoints)| endpoints.chunks(MOST).map(|some| slice(ports, some)))
        .collect()
}

/// A port of a Service that is there at this number.
fn told(port: &Value, number: u16) -> Value {
    let name = port["name"].as_str().unwrap_or_default();
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    let mut told = json!({"name": name, "port": number, "protocol": protocol});
    if port["appProtocol"].is_string() {
        told["appProtocol"] = port["appProtocol"].clone();
    }
    told
}

fn endpoint(service: &DynamicObject, pod: &DynamicObject) -> Value {
    let (ends, serves) = (is_deleting(pod), is_ready(pod));
    let mut endpoint = json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": {
            "ready": publishes_all(service) || serves && !ends,
            "serving": serves,
            "terminating": ends,
        },
        "nodeName": text(pod, "/spec/nodeName"),
        "targetRef": {
            "kind": "Pod",
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
        },
    });
    if let Some(hostname) = hostname(service, pod) {
        endpoint["hostname"] = json!(hostname);
    }
    endpoint
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::HOST_PORTS;
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
        assert_eq!(desired[0]["ports"][0]["port"], 22);
        assert_eq!(desired[0]["ports"][1]["port"], 80);
        assert_eq!(desired[0]["endpoints"][0]["conditions"]["ready"], true);
    }

    #[test]
    fn ports_that_are_elsewhere_are_told_so() {
        let desired = desired(&service(), &[pod(Some("22=40022")).into()]);
        let ports = desired[0]["ports"].as_array().unwrap();
        assert_eq!(ports.len(), 1);
        assert_eq!(ports[0]["port"], 40022);
    }

    #[test]
    fn a_pod_that_cannot_be_reached_yet_is_left_out() {
        let desired = desired(&service(), &[pod(Some("")).into()]);
        assert_eq!(desired[0]["endpoints"], json!([]));
    }

    #[test]
    fn pods_with_other_ports_are_in_another_slice_and_so_are_too_many() {
        let named = |name: String, port: u16| -> Found {
            let pod = json!({
                "metadata": {"name": name, "namespace": "a"},
                "spec": {"hostname": name, "subdomain": "s",
                    "containers": [{"ports": [{"name": "web", "containerPort": port}]}]},
                "status": {"phase": "Running", "podIP": "10.0.0.1"},
            });
            object(pod).into()
        };
        let service = object(json!({
            "metadata": {"name": "s", "namespace": "a", "labels": {"team": "x"}},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "ports": [
                {"port": 80, "targetPort": "web", "appProtocol": "http"},
            ]},
        }));
        let mut pods = vec![named("old".to_owned(), 8080)];
        pods.extend((0..101).map(|number| named(format!("new-{number:03}"), 9090)));
        let slices = desired(&service, &pods);
        let counts = slices
            .iter()
            .map(|it| (it["ports"][0]["port"].clone(), list(&it["endpoints"]).len()));
        let expected = [(json!(8080), 1), (json!(9090), 100), (json!(9090), 1)];
        assert_eq!(counts.collect::<Vec<_>>(), expected);
        let first = &slices[0];
        assert_eq!(first["endpoints"][0]["hostname"], "old");
        assert_eq!(first["endpoints"][0]["conditions"]["ready"], true);
        assert_eq!(first["ports"][0]["appProtocol"], "http");
        let labels = &first["metadata"]["labels"];
        assert_eq!(labels["service.kubernetes.io/headless"], "");
        assert_eq!(labels["team"], "x");
        let mut before = object(json!({"metadata": {"name": "s-1", "labels": {"gone": "y"}}}));
        before.data = json!({});
        assert_eq!(
            change(&before, first)["metadata"]["labels"]["gone"],
            Value::Null
        );
    }
}

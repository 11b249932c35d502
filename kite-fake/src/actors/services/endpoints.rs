//! Endpoints of Services: the older form of `EndpointSlices`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::backend::{
    self, hostname, is_listed, label_selector, publishes_all, selector, selector_text,
};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{ENDPOINTS, Key, Kind, POD, SERVICE};
use crate::actors::mirror::Found;
use crate::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text};
use crate::actors::selecting::Selecting;
use crate::actors::workloads::pod_state::is_ready;

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[SERVICE, POD, ENDPOINTS];
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// Plays the endpoints controller: the Pods that a Service selects are in the Endpoints of
/// its name, those that are ready apart from those that are not. Who edits them is
/// corrected.
#[derive(Debug, Default)]
pub struct Endpoints {
    selecting: Mutex<Selecting>,
}

#[async_trait]
impl Actor for Endpoints {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
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
        let key = change.key();
        vec![Key::new(&SERVICE, key.namespace.as_deref(), &key.name)]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let namespace = key.namespace.as_deref();
        let own = Key::new(&ENDPOINTS, namespace, &key.name);
        let there = objects.get(&own).await?;
        let Some(service) = objects.get(key).await? else {
            // They end with their Service, unless they never had one.
            if let Some(there) = there.filter(|it| is_ours(it) && !is_deleting(it)) {
                objects.delete(&own, &there, Deletion::default()).await?;
            }
            return Ok(Next::Done);
        };
        if selector(&service).is_empty() || is_deleting(&service) {
            return Ok(Next::Done);
        }
        let pods = objects
            .list(&POD, namespace, &selector_text(&service))
            .await?;
        let (labels, subsets) = (labels(&service), subsets(&service, &pods));
        match there {
            Some(there) if holds(&there, &labels, &subsets) => {}
            Some(there) => {
                let mut body = json!(*there);
                body["metadata"]["labels"] = labels;
                body["subsets"] = subsets;
                ignore_missing(objects.replace(&own, body).await)?;
            }
            None => {
                let metadata = json!({"name": key.name, "namespace": namespace, "labels": labels});
                let body = json!({"metadata": metadata, "subsets": subsets});
                objects.create(&ENDPOINTS, namespace, body).await?;
            }
        }
        Ok(Next::Done)
    }
}

fn is_ours(endpoints: &DynamicObject) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    labels.is_some_and(|it| it.get(MANAGED_BY).is_some_and(|by| by == MANAGER))
}

fn holds(there: &DynamicObject, labels: &Value, subsets: &Value) -> bool {
    json!(there.metadata.labels) == *labels && there.data["subsets"] == *subsets
}

/// The labels of the Service, and whose Endpoints these are.
fn labels(service: &DynamicObject) -> Value {
    let mut labels = backend::labels(service);
    labels.insert(MANAGED_BY.to_owned(), json!(MANAGER));
    Value::Object(labels)
}

/// Addresses with the same ports are together; nothing where there are none.
fn subsets(service: &DynamicObject, pods: &[Found]) -> Value {
    let mut sets: BTreeMap<String, (Value, Vec<Value>, Vec<Value>)> = BTreeMap::new();
    let mut pods: Vec<&Found> = pods.iter().filter(|pod| is_listed(service, pod)).collect();
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let all = publishes_all(service);
    for pod in pods {
        let Some(ports) = ports(service, pod) else {
            continue;
        };
        let set = sets.entry(ports.to_string());
        let (_, ready, unready) = set.or_insert_with(|| (ports, Vec::new(), Vec::new()));
        if all || is_ready(pod) {
            ready.push(address(service, pod));
        } else {
            unready.push(address(service, pod));
        }
    }
    let sets = sets.into_values().map(|(ports, ready, unready)| {
        let mut set = json!({});
        for (name, addresses) in [("addresses", ready), ("notReadyAddresses", unready)] {
            if !addresses.is_empty() {
                set[name] = json!(addresses);
            }
        }
        if ports.as_array().is_some_and(|ports| !ports.is_empty()) {
            set["ports"] = ports;
        }
        set
    });
    let sets: Vec<Value> = sets.collect();
    if sets.is_empty() {
        Value::Null
    } else {
        json!(sets)
    }
}

/// The ports of a Service on a Pod; `None` where it has some, and the Pod none of them.
fn ports(service: &DynamicObject, pod: &DynamicObject) -> Option<Value> {
    let asked = service.data["spec"]["ports"].as_array();
    let asked = asked.map_or(&[][..], Vec::as_slice);
    let found = backend::ports(service, pod)
        .into_iter()
        .map(|(port, number)| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let mut told = json!({"port": number, "protocol": protocol});
            for name in ["name", "appProtocol"] {
                if port[name].as_str().is_some_and(|it| !it.is_empty()) {
                    told[name] = port[name].clone();
                }
            }
            told
        });
    let found: Vec<Value> = found.collect();
    (asked.is_empty() || !found.is_empty()).then(|| json!(found))
}

fn address(service: &DynamicObject, pod: &DynamicObject) -> Value {
    let mut address = json!({
        "ip": text(pod, "/status/podIP"),
        "nodeName": text(pod, "/spec/nodeName"),
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    });
    if let Some(hostname) = hostname(service, pod) {
        address["hostname"] = json!(hostname);
    }
    address
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str, ready: &str, port: u16) -> Found {
        object(json!({
            "metadata": {"name": name, "namespace": "a"},
            "spec": {"nodeName": "n", "containers":
                [{"ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .into()
    }

    #[test]
    fn addresses_with_the_same_ports_are_together() {
        let service = object(json!({"metadata": {"name": "s"}, "spec":
            {"ports": [{"name": "web", "port": 80, "targetPort": "http"}]}}));
        let pods = [
            pod("a", "True", 8080),
            pod("b", "False", 8080),
            pod("c", "True", 9090),
        ];
        let subsets = subsets(&service, &pods);
        assert_eq!(subsets[0]["addresses"][0]["targetRef"]["name"], "a");
        assert_eq!(subsets[0]["notReadyAddresses"][0]["targetRef"]["name"], "b");
        assert_eq!(
            subsets[0]["ports"],
            json!([{"name": "web", "port": 8080, "protocol": "TCP"}])
        );
        assert_eq!(subsets[1]["ports"][0]["port"], 9090);
        assert_eq!(super::subsets(&service, &[]), Value::Null);
    }
}

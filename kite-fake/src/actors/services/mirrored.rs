//! `EndpointSlices` of Endpoints that somebody else than the control plane writes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::slices::{MANAGED_BY, SERVICE_NAME};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{ENDPOINT_SLICE, ENDPOINTS, Key, Kind, SERVICE};
use crate::actors::labels::labels;
use crate::actors::mirror::Found;
use crate::actors::objects::{
    Deletion, Objects, controller_reference, ignore_missing, is_deleting,
};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[ENDPOINTS, SERVICE, ENDPOINT_SLICE];
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Says of Endpoints that they have no slices.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Endpoints that are there for an election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that mean nothing on a slice.
const LEFT_OUT: [&str; 2] = [
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Plays the endpoint slice mirroring controller: Endpoints of a Service that selects
/// nothing have slices.
#[derive(Debug, Default)]
pub struct EndpointMirrors {
    /// Endpoints that have slices: of others there is nothing to look for.
    mirrored: Mutex<BTreeSet<Key>>,
}

#[async_trait]
impl Actor for EndpointMirrors {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let (key, labels) = (change.key(), labels(&change.object));
        let namespace = key.namespace.as_deref();
        if change.kind != ENDPOINT_SLICE {
            return vec![Key::new(&ENDPOINTS, namespace, &key.name)];
        }
        let is_ours = labels.get(MANAGED_BY).is_some_and(|by| by == MANAGER);
        let Some(service) = labels.get(SERVICE_NAME).filter(|_| is_ours) else {
            return Vec::new();
        };
        let key = Key::new(&ENDPOINTS, namespace, service);
        self.mirrored.lock().insert(key.clone());
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let namespace = key.namespace.as_deref();
        let wanted = wanted(objects, key).await?;
        if wanted.is_none() && !self.mirrored.lock().contains(key) {
            return Ok(Next::Done);
        }
        let ours = format!("{SERVICE_NAME}={},{MANAGED_BY}={MANAGER}", key.name);
        let mut there = objects.list(&ENDPOINT_SLICE, namespace, &ours).await?;
        there.retain(|slice| !is_deleting(slice));
        if wanted.is_none() && there.is_empty() {
            self.mirrored.lock().remove(key);
        }
        let wanted = wanted.map_or_else(Vec::new, |it| slices(&it, &key.name));
        for slice in wanted {
            let same = there.iter().position(|it| is_for_same(it, &slice));
            let Some(place) = same else {
                objects.create(&ENDPOINT_SLICE, namespace, slice).await?;
                continue;
            };
            let old = there.swap_remove(place);
            if !holds(&old, &slice) {
                let patch = json!({
                    "metadata": {"labels": slice["metadata"]["labels"]},
                    "endpoints": slice["endpoints"],
                });
                let key = Key::of(&ENDPOINT_SLICE, &old);
                ignore_missing(objects.merge(&key, Some(&old), patch).await)?;
            }
        }
        for left in there {
            let key = Key::of(&ENDPOINT_SLICE, &left);
            objects.delete(&key, &left, Deletion::default()).await?;
        }
        Ok(Next::Done)
    }
}

/// The Endpoints, if they are to have slices.
async fn wanted(objects: Objects<'_>, key: &Key) -> Result<Option<Found>, ActorError> {
    let Some(endpoints) = objects.get(key).await? else {
        return Ok(None);
    };
    let annotations = endpoints.metadata.annotations.as_ref();
    let is_election = annotations.is_some_and(|it| it.contains_key(LEADER));
    let is_skipped = labels(&endpoints).get(SKIP).is_some_and(|it| it == "true");
    if is_election || is_skipped || is_deleting(&endpoints) {
        return Ok(None);
    }
    let namespace = key.namespace.as_deref();
    let service = objects.find(&SERVICE, namespace, &key.name).await?;
    let is_by_hand = service.is_some_and(|it| it.data["spec"]["selector"].is_null());
    Ok(is_by_hand.then_some(endpoints))
}

/// The slices of Endpoints: one for the addresses of each family with the same ports.
fn slices(endpoints: &DynamicObject, service: &str) -> Vec<Value> {
    let mut sets: BTreeMap<(&str, String), (Value, Vec<Value>)> = BTreeMap::new();
    let subsets = endpoints.data["subsets"].as_array();
    for subset in subsets.into_iter().flatten() {
        let ports = ports(&subset["ports"]);
        for (list, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in subset[list].as_array().into_iter().flatten() {
                let ip = address["ip"].as_str().unwrap_or_default();
                let family = match ip.parse() {
                    Ok(IpAddr::V4(_)) => "IPv4",
                    Ok(IpAddr::V6(_)) => "IPv6",
                    Err(_) => continue,
                };
                let set = sets.entry((family, ports.to_string()));
                let (_, all) = set.or_insert_with(|| (ports.clone(), Vec::new()));
                all.push(endpoint(address, ready));
            }
        }
    }
    let mut labels = json!(labels(endpoints));
    labels[SERVICE_NAME] = json!(service);
    labels[MANAGED_BY] = json!(MANAGER);
    let mut annotations = json!(endpoints.metadata.annotations.clone().unwrap_or_default());
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    }
    let sets = sets.into_iter();
    sets.map(|((family, _), (ports, all))| {
        json!({
            "metadata": {
                "generateName": format!("{service}-"),
                "namespace": endpoints.metadata.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [controller_reference(&ENDPOINTS, endpoints)],
            },
            "addressType": family,
            "endpoints": all,
            "ports": ports,
        })
    })
    .collect()
}

/// Ports as slices have them: each with a name.
fn ports(given: &Value) -> Value {
    let ports = given.as_array().into_iter().flatten().map(|port| {
        let mut port = port.clone();
        if port["name"].is_null() {
            port["name"] = json!("");
        }
        port
    });
    ports.collect()
}

fn endpoint(address: &Value, ready: bool) -> Value {
    let mut endpoint = json!({"addresses": [address["ip"]], "conditions": {"ready": ready}});
    for member in ["hostname", "nodeName", "targetRef"] {
        if !address[member].is_null() {
            endpoint[member] = address[member].clone();
        }
    }
    endpoint
}

fn is_for_same(slice: &DynamicObject, wanted: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    slice.data["addressType"] == wanted["addressType"]
        && list(&slice.data["ports"]) == list(&wanted["ports"])
}

fn holds(slice: &DynamicObject, wanted: &Value) -> bool {
    slice.data["endpoints"] == wanted["endpoints"]
        && json!(slice.metadata.labels) == wanted["metadata"]["labels"]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_family_has_a_slice_of_its_own() {
        let endpoints = json!({"metadata": {"name": "s", "namespace": "a", "uid": "u",
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "T", "x": "y"}},
            "subsets": [{"addresses": [{"ip": "10.0.0.1", "nodeName": "n"}, {"ip": "fd00::1"}],
                "notReadyAddresses": [{"ip": "10.0.0.2"}],
                "ports": [{"port": 80, "protocol": "TCP"}]}]});
        let endpoints: DynamicObject = serde_json::from_value(endpoints).unwrap();
        let slices = slices(&endpoints, "s");
        assert_eq!(slices.len(), 2);
        assert_eq!(slices[0]["addressType"], "IPv4");
        assert_eq!(slices[0]["endpoints"][0]["nodeName"], "n");
        assert_eq!(slices[0]["endpoints"][1]["conditions"]["ready"], false);
        assert_eq!(slices[0]["ports"][0]["name"], "");
        assert_eq!(slices[0]["metadata"]["annotations"], json!({"x": "y"}));
        assert_eq!(slices[1]["endpoints"][0]["addresses"], json!(["fd00::1"]));
    }
}

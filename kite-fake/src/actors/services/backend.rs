//! What a Service leads to: which Pods answer for it, where, and on what ports.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::HOST_PORTS;
use crate::actors::objects::{is_deleting, text};
use crate::actors::workloads::pod_state::is_over;

/// Marks what belongs to Services without an address of their own.
const HEADLESS: &str = "service.kubernetes.io/headless";

fn host_ports(pod: &DynamicObject) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(HOST_PORTS).map(String::as_str)
}

/// Whether a Pod has an address at which something may answer.
pub(super) fn is_reachable(pod: &DynamicObject) -> bool {
    !is_over(pod) && !text(pod, "/status/podIP").is_empty() && host_ports(pod) != Some("")
}

/// Whether a Service leads to Pods however they are.
pub(super) fn publishes_all(service: &DynamicObject) -> bool {
    service.data["spec"]["publishNotReadyAddresses"] == true
}

/// Whether the Endpoints of a Service have the Pod. Slices have those that end, too.
pub(super) fn is_listed(service: &DynamicObject, pod: &DynamicObject) -> bool {
    is_reachable(pod) && (publishes_all(service) || !is_deleting(pod))
}

/// The name that a Pod has below that of the Service.
pub(super) fn hostname<'a>(service: &DynamicObject, pod: &'a DynamicObject) -> Option<&'a str> {
    let (host, domain) = (text(pod, "/spec/hostname"), text(pod, "/spec/subdomain"));
    let is_below = !host.is_empty() && Some(domain) == service.metadata.name.as_deref();
    is_below.then_some(host)
}

/// The labels of what tells where a Service leads: its own, and whether it is headless.
pub(super) fn labels(service: &DynamicObject) -> Map<String, Value> {
    let own = service.metadata.labels.iter().flatten();
    let mut labels: Map<String, Value> = own.map(|(k, v)| (k.clone(), json!(v))).collect();
    labels.remove(HEADLESS);
    if text(service, "/spec/clusterIP") == "None" {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    labels
}

/// The labels that a Service selects by.
pub(super) fn selector(service: &DynamicObject) -> BTreeMap<String, String> {
    let pairs = service.data["spec"]["selector"].as_object();
    let pairs = pairs.into_iter().flatten();
    pairs
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// The same as a query.
pub(super) fn selector_text(service: &DynamicObject) -> String {
    let pairs = selector(service).into_iter();
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join(",")
}

/// The same as the selector of other kinds; null where it selects nothing.
pub(super) fn label_selector(service: &DynamicObject) -> Value {
    match selector(service) {
        none if none.is_empty() => Value::Null,
        pairs => json!({"matchLabels": pairs}),
    }
}

/// The ports of a Service, and where each is on the Pod; those that the Pod has.
pub(super) fn ports<'a>(service: &'a DynamicObject, pod: &DynamicObject) -> Vec<(&'a Value, u16)> {
    let asked = service.data["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten();
    let there = |port| real_port(pod, target(port, pod)?);
    asked
        .filter_map(|port| Some((port, there(port)?)))
        .collect()
}

/// The port of the Pod that a Service's port leads to.
fn target(port: &Value, pod: &DynamicObject) -> Option<u16> {
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
fn real_port(pod: &DynamicObject, port: u16) -> Option<u16> {
    let Some(map) = host_ports(pod) else {
        return Some(port);
    };
    let mut pairs = map.split(',').filter_map(|pair| pair.split_once('='));
    let (_, real) = pairs.find(|(of, _)| of.parse() == Ok(port))?;
    real.parse().ok()
}

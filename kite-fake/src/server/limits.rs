//! `LimitRanger`: defaults and bounds that a namespace sets for claims and containers.

use serde_json::{Value, json};

use super::ApiServer;
use super::registry::Resource;
use crate::builtin::quantity;
use crate::status::Status;
use crate::store::GroupResource;

impl ApiServer {
    fn limits(&self, namespace: &str, kind: &str) -> Vec<Value> {
        let ranges = GroupResource::new("", "limitranges");
        self.store
            .range(&ranges, Some(namespace), None)
            .flat_map(|(_, range)| {
                range.value()["spec"]["limits"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
            })
            .filter(|limit| limit["type"] == kind)
            .collect()
    }

    /// Gives containers the namespace's default requests and limits.
    pub(crate) fn default_limits(&self, resource: &Resource, object: &mut Value) {
        if !resource.group.is_empty() || resource.plural != "pods" {
            return;
        }
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        for limit in self.limits(&namespace, "Container") {
            let containers = object["spec"]["containers"].as_array_mut();
            for container in containers.into_iter().flatten() {
                for (from, to) in [("default", "limits"), ("defaultRequest", "requests")] {
                    for (name, value) in limit[from].as_object().into_iter().flatten() {
                        let resources = &mut container["resources"];
                        if !resources.is_object() {
                            *resources = json!({});
                        }
                        if resources[to][name].is_null() {
                            resources[to][name] = value.clone();
                        }
                    }
                }
            }
        }
    }

    /// Refuses what is beyond the namespace's bounds.
    pub(crate) fn check_limits(&self, resource: &Resource, object: &Value) -> Result<(), Status> {
        if !resource.group.is_empty() {
            return Ok(());
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let mut wrong = Vec::new();
        match resource.plural.as_str() {
            "persistentvolumeclaims" => {
                let requests = &object["spec"]["resources"]["requests"];
                for limit in self.limits(namespace, "PersistentVolumeClaim") {
                    compare(
                        &limit,
                        requests,
                        requests,
                        "PersistentVolumeClaim",
                        &mut wrong,
                    );
                }
            }
            "pods" => {
                for limit in self.limits(namespace, "Container") {
                    let containers = object["spec"]["containers"].as_array();
                    for container in containers.into_iter().flatten() {
                        let resources = &container["resources"];
                        compare(
                            &limit,
                            &resources["requests"],
                            &resources["limits"],
                            "Container",
                            &mut wrong,
                        );
                    }
                }
            }
            _ => {}
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let text = match wrong.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Err(Status::forbidden(
            &resource.group,
            &resource.plural,
            name,
            &text,
        ))
    }
}

/// Compares requests with the minimum and limits with the maximum.
fn compare(limit: &Value, requests: &Value, limits: &Value, kind: &str, wrong: &mut Vec<String>) {
    let claim = kind == "PersistentVolumeClaim";
    let word = if claim { "request" } else { "limit" };
    for (bounds, given, least) in [
        (&limit["min"], requests, true),
        (&limit["max"], limits, false),
    ] {
        for (name, bound) in bounds.as_object().into_iter().flatten() {
            let label = if least { "minimum" } else { "maximum" };
            let text = bound.as_str().unwrap_or_default();
            let Some(bound) = quantity::nano(text) else {
                continue;
            };
            let shown = given[name].as_str();
            let Some(value) = shown.and_then(quantity::nano) else {
                let word = if least { "request" } else { word };
                wrong.push(format!(
                    "{label} {name} usage per {kind} is {text}.  No {word} is specified"
                ));
                continue;
            };
            if (least && value < bound) || (!least && value > bound) {
                let word = if least { "request" } else { word };
                wrong.push(format!(
                    "{label} {name} usage per {kind} is {text}, but {word} is {}",
                    shown.unwrap_or_default()
                ));
            }
        }
    }
}

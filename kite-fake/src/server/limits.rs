//! `LimitRanger`: defaults and bounds that a namespace sets for Pods,
//! containers and claims.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::ApiServer;
use super::usage::pod_totals;
use crate::builtin::quantity;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::GroupResource;

/// Where it is written what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl ApiServer {
    fn limit_ranges(&self, namespace: &str) -> Vec<Value> {
        let ranges = GroupResource::new("", "limitranges");
        self.store
            .range(&ranges, Some(namespace), None)
            .map(|(_, range)| range.value()["spec"]["limits"].clone())
            .collect()
    }

    /// Gives the containers of a new Pod the namespace's default requests and limits.
    pub(crate) fn default_limits(&self, resource: &Resource, object: &mut Value) {
        if !resource.group.is_empty() || resource.plural != "pods" {
            return;
        }
        let namespace = text(&object["metadata"]["namespace"]).to_owned();
        for range in self.limit_ranges(&namespace) {
            let mut told = Vec::new();
            for (list, what) in [("containers", ""), ("initContainers", "init ")] {
                let containers = object["spec"].get_mut(list).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    fill(container, what, &range, &mut told);
                }
            }
            if !told.is_empty() {
                let annotations = &mut object["metadata"]["annotations"];
                if !annotations.is_object() {
                    *annotations = json!({});
                }
                annotations[ANNOTATION] =
                    format!("LimitRanger plugin set: {}", told.join("; ")).into();
            }
        }
    }

    /// Refuses what is beyond the namespace's bounds; Pods only when they are new.
    pub(crate) fn check_limits(
        &self,
        resource: &Resource,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let pod = resource.plural == "pods";
        if !resource.group.is_empty()
            || !(pod || resource.plural == "persistentvolumeclaims")
            || (pod && old.is_some())
            || !object["metadata"]["deletionTimestamp"].is_null()
        {
            return Ok(());
        }
        let namespace = text(&object["metadata"]["namespace"]);
        for range in self.limit_ranges(namespace) {
            let mut wrong: Vec<String> = Vec::new();
            for limit in range.as_array().into_iter().flatten() {
                if pod {
                    check_pod(object, limit, &mut wrong);
                } else if limit["type"] == "PersistentVolumeClaim" {
                    let requests = amounts(&object["spec"]["resources"]["requests"]);
                    bounds(limit, &requests, None, &mut wrong);
                }
            }
            let mut seen: Vec<String> = Vec::new();
            wrong.retain(|text| {
                let new = !seen.contains(text);
                seen.push(text.clone());
                new
            });
            let text_of = match wrong.as_slice() {
                [] => continue,
                [one] => one.clone(),
                many => format!("[{}]", many.join(", ")),
            };
            let name = text(&object["metadata"]["name"]);
            return Err(Status::forbidden("", &resource.plural, name, &text_of));
        }
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Amounts of resources: nanounits, and how they are written.
type Amounts = BTreeMap<String, (i128, String)>;

fn amounts(list: &Value) -> Amounts {
    let members = list.as_object().into_iter().flatten();
    members
        .filter_map(|(name, value)| {
            let text = value.as_str()?;
            Some((name.clone(), (quantity::nano(text)?, text.to_owned())))
        })
        .collect()
}

/// Fills in what a container does not say, and tells of it.
fn fill(container: &mut Value, what: &str, range: &Value, told: &mut Vec<String>) {
    let name = text(&container["name"]).to_owned();
    for (from, to, word) in [
        ("defaultRequest", "requests", "request"),
        ("default", "limits", "limit"),
    ] {
        let mut set = Vec::new();
        let limits = range.as_array().into_iter().flatten();
        for limit in limits.filter(|l| l["type"] == "Container") {
            for (resource, value) in limit[from].as_object().into_iter().flatten() {
                let resources = &mut container["resources"];
                if !resources.is_object() {
                    *resources = json!({});
                }
                if resources[to][resource].is_null() {
                    resources[to][resource] = value.clone();
                    set.push(resource.clone());
                }
            }
        }
        if !set.is_empty() {
            set.sort();
            told.push(format!(
                "{} {word} for {what}container {name}",
                set.join(", ")
            ));
        }
    }
}

fn check_pod(pod: &Value, limit: &Value, wrong: &mut Vec<String>) {
    match text(&limit["type"]) {
        "Container" => {
            for list in ["containers", "initContainers"] {
                for container in pod["spec"][list].as_array().into_iter().flatten() {
                    let resources = &container["resources"];
                    let (requests, limits) = (
                        amounts(&resources["requests"]),
                        amounts(&resources["limits"]),
                    );
                    bounds(limit, &requests, Some(&limits), wrong);
                }
            }
        }
        "Pod" => {
            let requests = pod_totals(&pod["spec"], "requests");
            let limits = pod_totals(&pod["spec"], "limits");
            bounds(limit, &requests, Some(&limits), wrong);
        }
        _ => {}
    }
}

/// Compares amounts with a minimum, a maximum and a ratio. Claims have no limits.
fn bounds(limit: &Value, requests: &Amounts, limits: Option<&Amounts>, wrong: &mut Vec<String>) {
    let kind = text(&limit["type"]);
    for (name, (least, shown)) in amounts(&limit["min"]) {
        let told = format!("minimum {name} usage per {kind} is {shown}");
        let request = requests.get(&name);
        let limited = limits.and_then(|limits| limits.get(&name));
        wrong.extend(match (request, limited) {
            (None, _) => Some(format!("{told}.  No request is specified")),
            (Some((value, shown)), _) if *value < least => {
                Some(format!("{told}, but request is {shown}"))
            }
            (_, Some((value, shown))) if *value < least => {
                Some(format!("{told}, but limit is {shown}"))
            }
            _ => None,
        });
    }
    for (name, (most, shown)) in amounts(&limit["max"]) {
        let told = format!("maximum {name} usage per {kind} is {shown}");
        let request = requests.get(&name);
        let limited = limits.map(|limits| limits.get(&name));
        wrong.extend(match (limited, request) {
            (Some(None), _) => Some(format!("{told}.  No limit is specified")),
            (Some(Some((value, shown))), _) if *value > most => {
                Some(format!("{told}, but limit is {shown}"))
            }
            (None, None) => Some(format!("{told}.  No request is specified")),
            (_, Some((value, shown))) if *value > most => {
                Some(format!("{told}, but request is {shown}"))
            }
            _ => None,
        });
    }
    let Some(limits) = limits else { return };
    for (name, (most, shown)) in amounts(&limit["maxLimitRequestRatio"]) {
        let told = format!("{name} max limit to request ratio per {kind} is {shown}");
        let amount = |of: &Amounts| of.get(&name).map_or(0, |(value, _)| *value);
        wrong.extend(match (amount(requests), amount(limits)) {
            (0, _) => Some(format!(
                "{told}, but no request is specified or request is 0"
            )),
            (_, 0) => Some(format!("{told}, but no limit is specified or limit is 0")),
            (request, limited) => {
                let ratio = ratio(limited, request);
                (ratio > ratio_of(most))
                    .then(|| format!("{told}, but provided ratio is {ratio:.6}"))
            }
        });
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a ratio that is compared and printed"
)]
fn ratio(limit: i128, request: i128) -> f64 {
    limit as f64 / request as f64
}

fn ratio_of(nano: i128) -> f64 {
    ratio(nano, 1_000_000_000)
}

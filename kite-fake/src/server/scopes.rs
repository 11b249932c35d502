//! Which objects a quota is about (`pkg/quota/v1/evaluator`).

use serde_json::{Value, json};

use crate::builtin::{quality, selects};

/// What a container must say where a quota limits it.
const DEMANDED: &[&str] = &[
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether all scopes of a quota take an object.
pub(super) fn matches(quota: &Value, group: &str, plural: &str, object: &Value) -> bool {
    let spec = &quota["spec"];
    let named = spec["scopes"].as_array().into_iter().flatten();
    let named = named.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let selected = spec["scopeSelector"]["matchExpressions"].as_array();
    let selected = selected.into_iter().flatten().cloned();
    named.chain(selected).all(|scope| match (group, plural) {
        ("", "pods") => takes_pod(&scope, object),
        ("", "persistentvolumeclaims") => takes_claim(&scope, object),
        _ => false,
    })
}

fn takes_pod(scope: &Value, pod: &Value) -> bool {
    let spec = &pod["spec"];
    let terminating = spec["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|n| n >= 0);
    match text(&scope["scopeName"]) {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => quality(spec) == "BestEffort",
        "NotBestEffort" => quality(spec) != "BestEffort",
        "PriorityClass" => by_value(scope, text(&spec["priorityClassName"])),
        "CrossNamespacePodAffinity" => reaches_out(spec),
        _ => false,
    }
}

fn takes_claim(scope: &Value, claim: &Value) -> bool {
    scope["scopeName"] == "VolumeAttributesClass"
        && by_value(scope, text(&claim["spec"]["volumeAttributesClassName"]))
}

/// Whether an expression about one value holds; nothing is said of no value.
fn by_value(scope: &Value, value: &str) -> bool {
    let operator = text(&scope["operator"]);
    if operator == "Exists" {
        return !value.is_empty();
    }
    let expression = json!({
        "key": "value", "operator": operator, "values": scope["values"],
    });
    let labels = if value.is_empty() {
        json!({})
    } else {
        json!({"value": value})
    };
    selects(&json!({"matchExpressions": [expression]}), &labels)
}

/// Whether a Pod wants to be near, or far from, Pods of other namespaces.
fn reaches_out(spec: &Value) -> bool {
    let reaches = |term: &Value| {
        term["namespaces"].as_array().is_some_and(|n| !n.is_empty())
            || term["namespaceSelector"].is_object()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = &spec["affinity"][kind];
        let required = affinity["requiredDuringSchedulingIgnoredDuringExecution"].as_array();
        let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
        required.into_iter().flatten().any(reaches)
            || preferred
                .into_iter()
                .flatten()
                .any(|weighted| reaches(&weighted["podAffinityTerm"]))
    })
}

/// What the containers of a new Pod do not say, although the quota limits it.
pub(super) fn unsaid(quota: &Value, pod: &Value) -> Option<String> {
    let hard = quota["spec"]["hard"].as_object()?;
    let mut parts = Vec::new();
    for name in DEMANDED.iter().filter(|name| hard.contains_key(**name)) {
        let (list, resource) = match name.split_once('.') {
            Some((list, resource)) => (list, resource),
            None => ("requests", *name),
        };
        let mut silent: Vec<&str> = ["containers", "initContainers"]
            .iter()
            .flat_map(|kind| pod["spec"][kind].as_array().into_iter().flatten())
            .filter(|container| container["resources"][list][resource].is_null())
            .map(|container| text(&container["name"]))
            .collect();
        silent.sort_unstable();
        silent.dedup();
        if !silent.is_empty() {
            parts.push(format!("{name} for: {}", silent.join(",")));
        }
    }
    (!parts.is_empty()).then(|| format!("must specify {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(spec: &Value) -> Value {
        json!({"spec": spec})
    }

    #[test]
    fn a_pod_lies_in_the_scopes_that_its_specification_says() {
        let plain = json!({"spec": {"containers": [{"name": "c"}]}});
        let busy = json!({"spec": {"activeDeadlineSeconds": 5, "priorityClassName": "high",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
        for (scope, of_plain, of_busy) in [
            ("BestEffort", true, false),
            ("NotBestEffort", false, true),
            ("Terminating", false, true),
            ("NotTerminating", true, false),
            ("PriorityClass", false, true),
        ] {
            let quota = quota(&json!({"scopes": [scope]}));
            assert_eq!(matches(&quota, "", "pods", &plain), of_plain, "{scope}");
            assert_eq!(matches(&quota, "", "pods", &busy), of_busy, "{scope}");
            assert!(!matches(&quota, "", "secrets", &plain), "{scope}");
        }
        let by_class = quota(&json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}));
        assert!(matches(&by_class, "", "pods", &busy));
        assert!(!matches(&by_class, "", "pods", &plain));
    }

    #[test]
    fn what_is_limited_must_be_said() {
        let quota =
            quota(&json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "3"}}));
        let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a",
            "resources": {"requests": {"cpu": "1"}}}]}});
        assert_eq!(
            unsaid(&quota, &pod).as_deref(),
            Some("must specify limits.memory for: a,b; requests.cpu for: b")
        );
    }
}

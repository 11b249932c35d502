//! Kinds with few rules: Namespace, Event, Lease, `LimitRange`, `ResourceQuota`.

use serde_json::{Value, json};

use crate::builtin::access::{
    copy, default, has, list, list_mut, members, number, object_mut, set, text,
};
use crate::builtin::quantity;
use crate::schema::{FieldError, Validation};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A namespace carries its name as a label.
pub(in crate::builtin) fn default_namespace(namespace: &mut Value) {
    let meta = object_mut(namespace, "metadata");
    let name = text(meta, "name").to_owned();
    if !name.is_empty() {
        set(object_mut(meta, "labels"), NAME_LABEL, name);
    }
}

pub(in crate::builtin) fn prepare_namespace(namespace: &mut Value) {
    // The name may have been generated since.
    default_namespace(namespace);
    set(namespace, "status", json!({"phase": "Active"}));
    let spec = object_mut(namespace, "spec");
    if !list(spec, "finalizers").contains(&json!("kubernetes")) {
        let mut finalizers = list(spec, "finalizers").to_vec();
        finalizers.push(json!("kubernetes"));
        set(spec, "finalizers", finalizers);
    }
}

/// `spec.finalizers` change through the `finalize` subresource only.
pub(in crate::builtin) fn prepare_namespace_update(
    new: &mut Value,
    old: &Value,
    subresource: &str,
) {
    if subresource != "finalize" {
        copy(object_mut(new, "spec"), &old["spec"], "finalizers");
    }
}

pub(in crate::builtin) fn validate_event(event: &Value, found: &mut Validation) {
    let namespace = text(&event["metadata"], "namespace");
    let member = if has(event, "involvedObject") {
        "involvedObject"
    } else {
        "regarding"
    };
    let involved = text(&event[member], "namespace");
    // An object without a namespace has its events in the default one.
    let fits = if involved.is_empty() {
        matches!(namespace, "default" | "kube-system")
    } else {
        involved == namespace
    };
    if !fits {
        found.errors.push(FieldError::invalid(
            "involvedObject.namespace",
            &json!(involved),
            "does not match event.namespace",
        ));
    }
}

pub(in crate::builtin) fn validate_lease(lease: &Value, found: &mut Validation) {
    let spec = &lease["spec"];
    if let Some(seconds) = number(spec, "leaseDurationSeconds").filter(|n| *n <= 0) {
        found.errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            &json!(seconds),
            "must be greater than 0",
        ));
    }
    if let Some(transitions) = number(spec, "leaseTransitions").filter(|n| *n < 0) {
        found.errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            &json!(transitions),
            "must be greater than or equal to 0",
        ));
    }
    if has(spec, "holderIdentity") && text(spec, "holderIdentity").is_empty() {
        found.errors.push(FieldError::invalid(
            "spec.holderIdentity",
            &json!(""),
            "must not be empty",
        ));
    }
}

/// For containers, limits come from maxima, requests from limits and minima.
pub(in crate::builtin) fn default_limit_range(range: &mut Value) {
    for limit in list_mut(object_mut(range, "spec"), "limits") {
        if text(limit, "type") != "Container" {
            continue;
        }
        for (to, from) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            let values: Vec<(String, Value)> = members(limit, from)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            for (name, value) in values {
                let target = object_mut(limit, to);
                if !has(target, &name) {
                    set(target, &name, value);
                }
            }
        }
    }
}

pub(in crate::builtin) fn validate_limit_range(range: &Value, found: &mut Validation) {
    let limits = list(&range["spec"], "limits");
    for (place, limit) in limits.iter().enumerate() {
        let path = format!("spec.limits[{place}]");
        if text(limit, "type").is_empty() {
            found
                .errors
                .push(FieldError::required(format!("{path}.type"), ""));
        }
        let value = |of: &str, name: &str| limit[of][name].as_str().and_then(quantity::parse);
        for (name, max) in members(limit, "max") {
            if let (Some(low), Some(high)) = (value("min", name), value("max", name))
                && low > high
            {
                found.errors.push(FieldError::invalid(
                    format!("{path}.min[{name}]"),
                    &limit["min"][name],
                    format!(
                        "min value {} is greater than max value {}",
                        limit["min"][name].as_str().unwrap_or_default(),
                        max.as_str().unwrap_or_default()
                    ),
                ));
            }
        }
    }
}

/// Whether a quota may limit a resource of this name, which has no domain.
fn is_standard_quota(name: &str) -> bool {
    const COUNTED: &[&str] = &[
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    ];
    const MEASURED: &[&str] = &["cpu", "ephemeral-storage", "memory"];
    let (of, resource) = name.split_once('.').unwrap_or(("", name));
    COUNTED.contains(&name)
        || match of {
            "" | "limits" => MEASURED.contains(&resource),
            "requests" => {
                MEASURED.contains(&resource)
                    || resource == "storage"
                    || resource.starts_with("hugepages-")
            }
            _ => false,
        }
}

pub(in crate::builtin) fn validate_quota(quota: &Value, found: &mut Validation) {
    for (name, value) in members(&quota["spec"], "hard") {
        let text = value.as_str().unwrap_or_default();
        if quantity::parse(text).is_some_and(quantity::Quantity::is_negative) {
            found.errors.push(FieldError::invalid(
                format!("spec.hard[{name}]"),
                &json!(text),
                "must be greater than or equal to 0",
            ));
        }
        let field = format!("spec.hard[{name}]");
        let malformed = crate::names::qualified(name);
        if !name.contains('/') && !is_standard_quota(name) {
            if malformed.is_empty() {
                found.errors.push(FieldError::invalid(
                    &*field,
                    &json!(name),
                    "must be a standard resource type or fully qualified",
                ));
            }
            found.errors.push(FieldError::invalid(
                &*field,
                &json!(name),
                "must be a standard resource for quota",
            ));
        }
        for wrong in malformed {
            found
                .errors
                .push(FieldError::invalid(&*field, &json!(name), wrong));
        }
    }
}

pub(in crate::builtin) fn validate_disruption_budget(budget: &Value, found: &mut Validation) {
    let spec = &budget["spec"];
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        found.errors.push(FieldError::invalid(
            "spec",
            spec,
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    super::network::selector(&spec["selector"], "spec.selector", &mut found.errors);
}

pub(in crate::builtin) fn default_priority_class(class: &mut Value) {
    default(class, "preemptionPolicy", "PreemptLowerPriority");
}

/// An autoscaler without metrics looks at the processor.
pub(in crate::builtin) fn default_autoscaler(autoscaler: &mut Value) {
    let spec = object_mut(autoscaler, "spec");
    default(spec, "minReplicas", 1);
    if list(spec, "metrics").is_empty() {
        set(
            spec,
            "metrics",
            json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}]),
        );
    }
}

pub(in crate::builtin) fn default_validating_webhooks(object: &mut Value) {
    webhooks(object, false);
}

pub(in crate::builtin) fn default_mutating_webhooks(object: &mut Value) {
    webhooks(object, true);
}

fn webhooks(object: &mut Value, mutating: bool) {
    for hook in list_mut(object, "webhooks") {
        default(hook, "failurePolicy", "Fail");
        default_constraints(hook);
        default(hook, "timeoutSeconds", 10);
        if mutating {
            default(hook, "reinvocationPolicy", "Never");
        }
        let client = object_mut(hook, "clientConfig");
        if has(client, "service") {
            default(object_mut(client, "service"), "port", 443);
        }
    }
}

pub(in crate::builtin) fn default_policy(policy: &mut Value) {
    let spec = object_mut(policy, "spec");
    default(spec, "failurePolicy", "Fail");
    if has(spec, "matchConstraints") {
        default_constraints(object_mut(spec, "matchConstraints"));
    }
}

pub(in crate::builtin) fn default_policy_binding(binding: &mut Value) {
    let spec = object_mut(binding, "spec");
    if has(spec, "matchResources") {
        default_constraints(object_mut(spec, "matchResources"));
    }
}

/// What a webhook or an admission policy is asked about.
fn default_constraints(constraints: &mut Value) {
    default(constraints, "matchPolicy", "Equivalent");
    default(constraints, "namespaceSelector", json!({}));
    default(constraints, "objectSelector", json!({}));
    for rules in ["rules", "resourceRules", "excludeResourceRules"] {
        for rule in list_mut(constraints, rules) {
            default(rule, "scope", "*");
        }
    }
}

pub(in crate::builtin) fn default_api_service(service: &mut Value) {
    let spec = object_mut(service, "spec");
    if has(spec, "service") {
        default(object_mut(spec, "service"), "port", 443);
    }
}

//! Kinds with few rules: Namespace, Lease, budgets, registrations.

use serde_json::{Value, json};

use crate::builtin::check;
use crate::members::{copy, default, has, list, list_mut, number, object_mut, set, text};
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

/// A node is kept free of Pods until it says that it is ready (the admission plugin
/// `TaintNodesByCondition`).
pub(in crate::builtin) fn prepare_node(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let spec = object_mut(node, "spec");
    let mut taints = list(spec, "taints").to_vec();
    let is_there = |taint: &Value| taint["key"] == KEY && taint["effect"] == "NoSchedule";
    if !taints.iter().any(is_there) {
        taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
        set(spec, "taints", taints);
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

/// Checks the finalizers that hold a namespace.
pub(in crate::builtin) fn validate_namespace(namespace: &Value, found: &mut Validation) {
    for finalizer in list(&namespace["spec"], "finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        check::qualified(name, "spec.finalizers", &mut found.errors);
        let standard = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        if !name.contains('/') && !standard {
            found.errors.push(FieldError::invalid(
                "spec.finalizers",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

/// A namespace's phase says whether it is being deleted, and nothing else.
pub(in crate::builtin) fn validate_namespace_status(
    new: &Value,
    _: &Value,
    found: &mut Validation,
) {
    let deleting = has(&new["metadata"], "deletionTimestamp");
    let (phase, wrong) = if deleting {
        (
            "Terminating",
            "may only be 'Terminating' if `deletionTimestamp` is not empty",
        )
    } else {
        (
            "Active",
            "may only be 'Active' if `deletionTimestamp` is empty",
        )
    };
    if text(&new["status"], "phase") != phase {
        found.errors.push(FieldError::invalid(
            "status.Phase",
            &json!(text(&new["status"], "phase")),
            wrong,
        ));
    }
}

/// How leaders are chosen among candidates.
const STRATEGIES: &[&str] = &["OldestEmulationVersion"];

pub(in crate::builtin) fn validate_lease(lease: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &lease["spec"];
    if let Some(seconds) = number(spec, "leaseDurationSeconds").filter(|n| *n <= 0) {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            &json!(seconds),
            "must be greater than 0",
        ));
    }
    check::not_negative(spec, "leaseTransitions", "spec", errors);
    if has(spec, "strategy") {
        let strategy = text(spec, "strategy");
        if strategy.contains('/') {
            check::qualified(strategy, "spec.strategy", errors);
        } else if !STRATEGIES.contains(&strategy) {
            errors.push(FieldError::not_supported(
                "spec.strategy",
                &json!(strategy),
                STRATEGIES,
            ));
        }
    }
    if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
        errors.push(FieldError::forbidden(
            "spec.preferredHolder",
            "may only be specified if `strategy` is defined",
        ));
    }
}

/// A new budget's status has all numbers.
pub(in crate::builtin) fn prepare_disruption_budget(budget: &mut Value) {
    let numbers = json!({
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    });
    set(budget, "status", numbers);
}

pub(in crate::builtin) fn validate_disruption_budget(budget: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &budget["spec"];
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        errors.push(FieldError::invalid(
            "spec",
            spec,
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for member in ["minAvailable", "maxUnavailable"] {
        if has(spec, member) {
            count_or_percent(&spec[member], &format!("spec.{member}"), true, errors);
        }
    }
    super::network::selector(&spec["selector"], "spec.selector", errors);
    check::one_of(
        spec,
        "unhealthyPodEvictionPolicy",
        &["AlwaysAllow", "IfHealthyBudget"],
        "spec",
        errors,
    );
}

/// A number that is not negative, or a percentage, which may have to stay below 100%.
pub(super) fn count_or_percent(
    value: &Value,
    field: &str,
    whole: bool,
    errors: &mut Vec<FieldError>,
) {
    const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                errors.push(FieldError::invalid(field, value, PERCENT));
            } else if whole && digits.parse().is_ok_and(|n: u64| n > 100) {
                errors.push(FieldError::invalid(
                    field,
                    value,
                    "must not be greater than 100%",
                ));
            }
        }
        number => {
            if number.as_i64().is_some_and(|n| n < 0) {
                errors.push(FieldError::invalid(field, number, check::NEGATIVE));
            }
        }
    }
}

/// A budget's status counts Pods.
pub(in crate::builtin) fn validate_budget_status(new: &Value, _: &Value, found: &mut Validation) {
    for member in [
        "currentHealthy",
        "desiredHealthy",
        "disruptionsAllowed",
        "expectedPods",
    ] {
        check::not_negative(&new["status"], member, "status", &mut found.errors);
    }
}

pub(in crate::builtin) fn default_priority_class(class: &mut Value) {
    default(class, "preemptionPolicy", "PreemptLowerPriority");
}

/// Highest priority that is not the system's.
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

pub(in crate::builtin) fn validate_priority_class(class: &Value, found: &mut Validation) {
    let name = text(&class["metadata"], "name");
    let value = number(class, "value").unwrap_or(0);
    let system = matches!(
        (name, value),
        ("system-cluster-critical", 2_000_000_000) | ("system-node-critical", 2_000_001_000)
    );
    let errors = &mut found.errors;
    if name.starts_with("system-") {
        if !system {
            errors.push(FieldError::forbidden(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. error: ".to_owned()
                    + &format!("{name} is not a known system priority class"),
            ));
        }
    } else if value > HIGHEST_PRIORITY {
        errors.push(FieldError::forbidden(
            "value",
            format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}"),
        ));
    }
    check::one_of(
        class,
        "preemptionPolicy",
        &["Never", "PreemptLowerPriority"],
        "",
        errors,
    );
}

/// A class keeps its number, for Pods hold it.
pub(in crate::builtin) fn validate_priority_class_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    if number(new, "value") != number(old, "value") {
        found.errors.push(FieldError::forbidden(
            "value",
            "may not be changed in an update.",
        ));
    }
    check::immutable(new, old, "preemptionPolicy", "", &mut found.errors);
}

/// An autoscaler without metrics looks at the processor.
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

/// Checks the name of a container runtime.
pub(in crate::builtin) fn validate_runtime_class(class: &Value, found: &mut Validation) {
    let handler = text(class, "handler");
    check::label(handler, "handler", &mut found.errors);
}

/// A class keeps its runtime.
pub(in crate::builtin) fn validate_runtime_class_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    check::immutable(new, old, "handler", "", &mut found.errors);
}

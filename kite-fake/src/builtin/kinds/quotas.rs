//! `LimitRange` and `ResourceQuota`: names of resources and amounts of them.

use serde_json::{Value, json};

use crate::builtin::{check, quantity};
use crate::members::{has, list, list_mut, members, object_mut, set, text};
use crate::names::qualified;
use crate::schema::{FieldError, Validation};

/// What is counted in a namespace.
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
/// What containers use.
const MEASURED: &[&str] = &["cpu", "ephemeral-storage", "memory"];

/// Whether a quota may limit a resource of this name, which has no domain.
fn is_standard_quota(name: &str) -> bool {
    let (of, resource) = name.split_once('.').unwrap_or(("", name));
    COUNTED.contains(&name)
        || name.starts_with("hugepages-")
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

/// Checks the name of a resource.
pub(super) fn resource_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let malformed = qualified(name);
    let standard = name.contains('/')
        || name == "storage"
        || name == "limits.ephemeral-storage"
        || is_standard_quota(name);
    if malformed.is_empty() && !standard {
        errors.push(FieldError::invalid(
            field,
            &json!(name),
            "must be a standard resource type or fully qualified",
        ));
    }
    check::invalid(field, &json!(name), malformed, errors);
}

/// Checks the name of a resource that a container may have.
pub(super) fn container_resource_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    resource_name(name, field, errors);
    let wrong = if name.contains('/') {
        (!check::is_native(name) && !check::is_extended(name))
            .then_some("doesn't follow extended resource name standard")
    } else {
        (!MEASURED.contains(&name) && !name.starts_with("hugepages-"))
            .then_some("must be a standard resource for containers")
    };
    check::invalid(field, &json!(name), wrong, errors);
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
    let errors = &mut found.errors;
    let mut kinds: Vec<&str> = Vec::new();
    for (place, limit) in list(&range["spec"], "limits").iter().enumerate() {
        let path = format!("spec.limits[{place}]");
        let kind = text(limit, "type");
        limit_type(kind, &format!("{path}.type"), errors);
        if kinds.contains(&kind) {
            errors.push(FieldError::duplicate(format!("{path}.type"), &json!(kind)));
        }
        kinds.push(kind);
        one_limit(limit, kind, &path, errors);
    }
}

fn limit_type(kind: &str, field: &str, errors: &mut Vec<FieldError>) {
    let malformed = qualified(kind);
    let standard = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
    if malformed.is_empty() && !kind.contains('/') && !standard {
        errors.push(FieldError::invalid(
            field,
            &json!(kind),
            "must be a standard limit type or fully qualified",
        ));
    }
    check::invalid(field, &json!(kind), malformed, errors);
}

const BOUNDS: [&str; 5] = [
    "max",
    "min",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];

fn one_limit(limit: &Value, kind: &str, path: &str, errors: &mut Vec<FieldError>) {
    let of_pod = kind == "Pod";
    let mut names: Vec<&String> = Vec::new();
    for bound in BOUNDS {
        let field = format!("{path}.{bound}");
        if of_pod && bound.starts_with("default") {
            if members(limit, bound).next().is_some() {
                errors.push(FieldError::forbidden(
                    field,
                    "may not be specified when `type` is 'Pod'",
                ));
            }
            continue;
        }
        for (name, _) in members(limit, bound) {
            let field = format!("{field}[{name}]");
            if matches!(kind, "Pod" | "Container") {
                container_resource_name(name, &field, errors);
            } else {
                resource_name(name, &field, errors);
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if kind == "PersistentVolumeClaim"
        && limit["min"]["storage"].is_null()
        && limit["max"]["storage"].is_null()
    {
        errors.push(FieldError::required(
            format!("{path}.limits"),
            "either minimum or maximum storage value is required, but neither was provided",
        ));
    }
    names.sort();
    for name in names {
        order(limit, name, of_pod, path, errors);
    }
}

/// Checks the amounts of one resource against each other.
fn order(limit: &Value, name: &str, of_pod: bool, path: &str, errors: &mut Vec<FieldError>) {
    let amount = |bound: &str| {
        let text = limit[bound][name].as_str()?;
        (!of_pod || !bound.starts_with("default")).then_some(())?;
        Some((quantity::nano(text)?, text))
    };
    // Less, more, the field that is blamed, the value that is quoted, and what they are called.
    let rules = [
        ("min", "max", "min", "min", "min value", "max value"),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            "defaultRequest",
            "min value",
            "default request value",
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            "defaultRequest",
            "default request value",
            "max value",
        ),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "defaultRequest",
            "default request value",
            "default limit value",
        ),
        (
            "min",
            "default",
            "default",
            "min",
            "min value",
            "default value",
        ),
        (
            "default",
            "max",
            "default",
            "max",
            "default value",
            "max value",
        ),
    ];
    for (less, more, blamed, quoted, less_name, more_name) in rules {
        if let (Some((low, low_text)), Some((high, high_text))) = (amount(less), amount(more))
            && low > high
        {
            errors.push(FieldError::invalid(
                format!("{path}.{blamed}[{name}]"),
                &limit[quoted][name],
                format!("{less_name} {low_text} is greater than {more_name} {high_text}"),
            ));
        }
    }
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        ratio_of(limit, name, ratio, &amount, path, errors);
    }
    let overcommits = check::is_native(name) && !name.starts_with("hugepages-");
    if let (Some((limited, limited_text)), Some((requested, requested_text))) =
        (amount("default"), amount("defaultRequest"))
        && !overcommits
        && limited != requested
    {
        errors.push(FieldError::invalid(
            format!("{path}.defaultRequest[{name}]"),
            &limit["defaultRequest"][name],
            format!(
                "default value {limited_text} must equal to defaultRequest value {requested_text} in {name}"
            ),
        ));
    }
}

#[allow(clippy::cast_precision_loss, reason = "a ratio that is printed")]
fn ratio_of<'a>(
    limit: &Value,
    name: &str,
    (ratio, ratio_text): (i128, &str),
    amount: &dyn Fn(&str) -> Option<(i128, &'a str)>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let field = format!("{path}.maxLimitRequestRatio[{name}]");
    let value = &limit["maxLimitRequestRatio"][name];
    if ratio < ONE {
        errors.push(FieldError::invalid(
            &*field,
            value,
            format!("ratio {ratio_text} is less than 1"),
        ));
    }
    if let (Some((low, _)), Some((high, _))) = (amount("min"), amount("max")) {
        let most = high as f64 / low as f64;
        if ratio as f64 / ONE as f64 > most {
            errors.push(FieldError::invalid(
                field,
                value,
                format!("ratio {ratio_text} is greater than max/min = {most:.6}"),
            ));
        }
    }
}

/// One whole, in nanounits.
const ONE: i128 = 1_000_000_000;

/// What narrows a quota to some objects.
const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Whether a resource can be limited for the objects of a scope only.
fn fits_scope(scope: &str, resource: &str) -> bool {
    let compute = || {
        matches!(
            resource,
            "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory"
        )
    };
    match scope {
        "BestEffort" => resource == "pods",
        "NotBestEffort"
        | "NotTerminating"
        | "PriorityClass"
        | "Terminating"
        | "CrossNamespacePodAffinity" => resource == "pods" || compute(),
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
                || resource.contains(".storageclass.storage.k8s.io/")
        }
        _ => true,
    }
}

pub(in crate::builtin) fn validate_quota(quota: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &quota["spec"];
    amounts(spec, "hard", "spec", errors);
    scopes(spec, errors);
    if has(spec, "scopeSelector") {
        scope_selector(spec, errors);
    }
}

fn amounts(of: &Value, member: &str, path: &str, errors: &mut Vec<FieldError>) {
    for (name, value) in members(of, member) {
        let field = format!("{path}.{member}[{name}]");
        resource_name(name, &field, errors);
        if !name.contains('/') && !is_standard_quota(name) {
            errors.push(FieldError::invalid(
                &*field,
                &json!(name),
                "must be a standard resource for quota",
            ));
        }
        check::resource_value(name, value, &field, errors);
    }
}

/// Complaints of scopes about resources, one for each pair that does not fit.
fn misfits(spec: &Value, scope: &str) -> usize {
    members(spec, "hard")
        .filter(|(name, _)| is_standard_quota(name) && !fits_scope(scope, name))
        .count()
}

fn conflicting(scopes: &[&str]) -> usize {
    [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ]
    .iter()
    .filter(|pair| pair.iter().all(|scope| scopes.contains(scope)))
    .count()
}

fn scopes(spec: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.scopes";
    let named: Vec<&str> = list(spec, "scopes")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut refuse = |count: usize, wrong: &str| {
        for _ in 0..count {
            errors.push(FieldError::invalid(FIELD, &spec["scopes"], wrong));
        }
    };
    for scope in &named {
        refuse(usize::from(!SCOPES.contains(scope)), "unsupported scope");
        refuse(
            misfits(spec, scope),
            "unsupported scope applied to resource",
        );
    }
    refuse(conflicting(&named), "conflicting scopes");
}

fn scope_selector(spec: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    const ONLY_EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
    let mut named: Vec<&str> = Vec::new();
    for expression in list(&spec["scopeSelector"], "matchExpressions") {
        let scope = text(expression, "scopeName");
        let operator = text(expression, "operator");
        let values = list(expression, "values");
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(
                format!("{PATH}.scopeName"),
                &json!(scope),
                "unsupported scope",
            ));
        }
        for _ in 0..misfits(spec, scope) {
            errors.push(FieldError::invalid(
                PATH,
                &selector_as_stored(&spec["scopeSelector"]),
                "unsupported scope applied to resource",
            ));
        }
        let by_value = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !by_value && operator != "Exists" {
            errors.push(FieldError::invalid(
                format!("{PATH}.operator"),
                &json!(operator),
                ONLY_EXISTS,
            ));
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{PATH}.values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::invalid(
                format!("{PATH}.values"),
                &expression["values"],
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                format!("{PATH}.operator"),
                &json!(other),
                "not a valid selector operator",
            )),
        }
        named.push(scope);
    }
    for _ in 0..conflicting(&named) {
        errors.push(FieldError::invalid(
            "spec.scopes",
            &spec["scopes"],
            "conflicting scopes",
        ));
    }
}

/// A selector with the member names that the server has inside.
fn selector_as_stored(selector: &Value) -> Value {
    let all: Vec<Value> = list(selector, "matchExpressions")
        .iter()
        .map(|expression| {
            json!({
                "ScopeName": expression["scopeName"],
                "Operator": expression["operator"],
                "Values": expression["values"],
            })
        })
        .collect();
    json!({"MatchExpressions": all})
}

/// A quota keeps its scopes.
pub(in crate::builtin) fn validate_quota_update(new: &Value, old: &Value, found: &mut Validation) {
    let scopes = |quota: &Value| {
        let mut all: Vec<String> = list(&quota["spec"], "scopes")
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        all.sort();
        all.dedup();
        all
    };
    if scopes(new) != scopes(old) {
        found.errors.push(FieldError::invalid(
            "spec.scopes",
            &new["spec"]["scopes"],
            check::IMMUTABLE,
        ));
    }
}

/// Checks what a quota's controller reports.
pub(in crate::builtin) fn validate_quota_status(new: &Value, _: &Value, found: &mut Validation) {
    for member in ["hard", "used"] {
        amounts(&new["status"], member, "status", &mut found.errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "written in place")]
    fn wrongs(check: fn(&Value, &mut Validation), spec: Value) -> Vec<String> {
        let mut found = Validation::default();
        check(&json!({"spec": spec}), &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn scopes_fit_what_they_limit() {
        assert_eq!(
            wrongs(
                validate_quota,
                json!({"hard": {"pods": "1", "requests.cpu": "1"}, "scopes": ["NotTerminating"]})
            ),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs(
                validate_quota,
                json!({"hard": {"secrets": "1"}, "scopes": ["BestEffort", "NotBestEffort"]})
            ),
            [
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes",
            ]
        );
        assert_eq!(
            wrongs(
                validate_quota,
                json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions":
                    [{"scopeName": "PriorityClass", "operator": "In"}]}})
            ),
            [
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            ]
        );
    }

    #[test]
    fn counted_things_are_whole() {
        assert_eq!(
            wrongs(validate_quota, json!({"hard": {"pods": "500m"}})),
            ["spec.hard[pods]: Invalid value: \"500m\": must be an integer"]
        );
        assert_eq!(
            wrongs(validate_quota, json!({"hard": {"storage": "1Gi"}})),
            [
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota"
            ]
        );
    }

    #[test]
    fn the_bounds_of_a_limit_have_an_order() {
        assert_eq!(
            wrongs(
                validate_limit_range,
                json!({"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "3"},
                    "default": {"cpu": "4"}, "defaultRequest": {"cpu": "1"}}]})
            ),
            [
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1",
                "spec.limits[0].default[cpu]: Invalid value: \"3\": default value 4 is greater than max value 3",
            ]
        );
        assert_eq!(
            wrongs(
                validate_limit_range,
                json!({"limits": [{"type": "Pod", "default": {"cpu": "1"}},
                    {"type": "PersistentVolumeClaim"}, {"type": "Pod", "max": {"storage": "1Gi"}}]})
            ),
            [
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
                "spec.limits[1].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                "spec.limits[2].type: Duplicate value: \"Pod\"",
                "spec.limits[2].max[storage]: Invalid value: \"storage\": must be a standard resource for containers",
            ]
        );
    }
}

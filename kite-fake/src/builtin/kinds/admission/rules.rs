//! What policies and webhooks are about.

use serde_json::{Value, json};

use super::Errors;
use crate::builtin::check;
use crate::builtin::kinds::network;
use crate::members::{has, list};
use crate::schema::FieldError;

/// What rules may name.
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];

/// Checks the objects that a policy or a binding names.
pub(super) fn match_resources(of: &Value, path: &str, errors: &mut Errors) {
    if check::required(of, "matchPolicy", path, errors) {
        check::one_of(of, "matchPolicy", MATCH_POLICIES, path, errors);
    }
    for member in ["namespaceSelector", "objectSelector"] {
        let field = format!("{path}.{member}");
        if has(of, member) {
            network::selector(&of[member], &field, errors);
        } else {
            errors.push(FieldError::required(field, ""));
        }
    }
    for member in ["resourceRules", "excludeResourceRules"] {
        for (i, one) in list(of, member).iter().enumerate() {
            named_rule(one, &format!("{path}.{member}[{i}]"), errors);
        }
    }
}

fn named_rule(one: &Value, path: &str, errors: &mut Errors) {
    let given = list(one, "resourceNames");
    for (i, name) in given.iter().enumerate() {
        let field = format!("{path}.resourceNames[{i}]");
        check::path_segment(name.as_str().unwrap_or_default(), &field, errors);
        if given.iter().take(i).any(|earlier| earlier == name) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
    rule(one, path, errors);
}

/// Checks which requests are meant.
pub(super) fn rule(rule: &Value, path: &str, errors: &mut Errors) {
    for (member, others) in [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ] {
        let all = list(rule, member);
        let field = format!("{path}.{member}");
        if all.is_empty() {
            errors.push(FieldError::required(&field, ""));
        }
        if all.len() > 1 && all.iter().any(|one| one == "*") {
            let why = format!("if '*' is present, must not specify other {others}");
            errors.push(FieldError::invalid(&field, &rule[member], why));
        }
        for (i, one) in all.iter().enumerate() {
            let field = format!("{field}[{i}]");
            let word = one.as_str().unwrap_or_default();
            match member {
                "operations" if !OPERATIONS.contains(&word) => {
                    errors.push(FieldError::not_supported(field, one, OPERATIONS));
                }
                "apiVersions" if word.is_empty() => errors.push(FieldError::required(field, "")),
                _ => {}
            }
        }
    }
    resources(rule, &format!("{path}.resources"), errors);
    check::one_of(rule, "scope", SCOPES, path, errors);
}

fn resources(rule: &Value, path: &str, errors: &mut Errors) {
    let all: Vec<&str> = list(rule, "resources")
        .iter()
        .map(|one| one.as_str().unwrap_or_default())
        .collect();
    if all.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    for (i, one) in all.iter().enumerate() {
        let field = format!("{path}[{i}]");
        if one.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let Some((plural, below)) = one.split_once('/') else {
            continue;
        };
        let before = all.get(..i).unwrap_or_default();
        for wider in [format!("{plural}/*"), format!("*/{below}")] {
            if before.contains(&wider.as_str()) {
                let why = format!("if '{wider}' is present, must not specify {one}");
                errors.push(FieldError::invalid(&field, &json!(one), why));
            }
        }
    }
    if all.len() > 1 && all.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, &rule["resources"], why));
    }
    let whole = all
        .iter()
        .any(|one| *one != "*" && !one.contains('/') && !one.is_empty());
    if all.contains(&"*") && whole {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, &rule["resources"], why));
    }
}

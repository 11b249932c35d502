//! Admission policies and webhooks: what they may say, and what bindings may.

mod expressions;
mod mutating;
mod rules;
mod validating;
mod webhooks;

use serde_json::{Value, json};

pub(in crate::builtin) use self::mutating::{validate_mutating, validate_mutating_binding};
use self::rules::match_resources;
pub(in crate::builtin) use self::validating::{validate_validating, validate_validating_binding};
pub(in crate::builtin) use self::webhooks::validate_webhooks;
use super::network;
use crate::builtin::check;
use crate::members::{has, list, text};
use crate::names;
use crate::schema::FieldError;

type Errors = Vec<FieldError>;

const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

fn param_kind(kind: &Value, path: &str, errors: &mut Errors) {
    if check::required(kind, "apiVersion", path, errors) {
        let given = text(kind, "apiVersion");
        let (group, version) = given.split_once('/').unwrap_or(("", given));
        let field = format!("{path}.apiVersion");
        if version.contains('/') {
            let why = format!("unexpected GroupVersion string: {given}");
            errors.push(FieldError::invalid(&field, &json!(given), why));
        } else {
            if !group.is_empty() {
                joined(&field, group, &names::subdomain(group), "", errors);
            }
            if version.is_empty() {
                let why = "version must be specified";
                errors.push(FieldError::invalid(&field, &json!(given), why));
            } else {
                joined(&field, version, &names::label_1035(version), "", errors);
            }
        }
    }
    if check::required(kind, "kind", path, errors) {
        let given = text(kind, "kind");
        let wrongs = names::label_1035(&given.to_lowercase());
        let before = "may have mixed case, but should otherwise match: ";
        joined(&format!("{path}.kind"), given, &wrongs, before, errors);
    }
}

/// All complaints about a value as one.
fn joined(field: &str, value: &str, wrongs: &[String], before: &str, errors: &mut Errors) {
    if !wrongs.is_empty() {
        let why = format!("{before}{}", wrongs.join(","));
        errors.push(FieldError::invalid(field, &json!(value), why));
    }
}

fn param_ref(reference: &Value, path: &str, errors: &mut Errors) {
    const BOTH: &str = "name and selector are mutually exclusive";
    let name = text(reference, "name");
    let has_selector = has(reference, "selector");
    if !name.is_empty() {
        check::path_segment(name, &format!("{path}.name"), errors);
        if has_selector {
            errors.push(FieldError::forbidden(format!("{path}.name"), BOTH));
        }
    }
    if has_selector {
        let field = format!("{path}.selector");
        network::selector(&reference["selector"], &field, errors);
        if !name.is_empty() {
            errors.push(FieldError::forbidden(field, BOTH));
        }
    }
    if name.is_empty() && !has_selector {
        errors.push(FieldError::required(
            path,
            "one of name or selector must be specified",
        ));
    }
    if check::required(reference, "parameterNotFoundAction", path, errors) {
        let supported = &["Allow", "Deny"];
        check::one_of(
            reference,
            "parameterNotFoundAction",
            supported,
            path,
            errors,
        );
    }
}

/// Checks what all policies say: what follows when they fail, their parameters and what
/// they are about.
fn what_it_is_about(spec: &Value, errors: &mut Errors) {
    if check::required(spec, "failurePolicy", "spec", errors) {
        check::one_of(spec, "failurePolicy", FAILURE_POLICIES, "spec", errors);
    }
    if has(spec, "paramKind") {
        param_kind(&spec["paramKind"], "spec.paramKind", errors);
    }
    let path = "spec.matchConstraints";
    if has(spec, "matchConstraints") {
        let constraints = &spec["matchConstraints"];
        match_resources(constraints, path, errors);
        if list(constraints, "resourceRules").is_empty() {
            errors.push(FieldError::required(format!("{path}.resourceRules"), ""));
        }
    } else {
        errors.push(FieldError::required(path, ""));
    }
}

/// Checks what all bindings say.
fn whom_it_binds(spec: &Value, errors: &mut Errors) {
    if check::required(spec, "policyName", "spec", errors) {
        check::subdomain(text(spec, "policyName"), "spec.policyName", errors);
    }
    if has(spec, "paramRef") {
        param_ref(&spec["paramRef"], "spec.paramRef", errors);
    }
    if has(spec, "matchResources") {
        let path = "spec.matchResources";
        match_resources(&spec["matchResources"], path, errors);
    }
}

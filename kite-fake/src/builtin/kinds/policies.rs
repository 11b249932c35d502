//! Admission policies that change what is written: what they may say, and what their
//! bindings may.

use serde_json::{Value, json};

use super::network;
use crate::builtin::check;
use crate::members::{has, list, text};
use crate::names;
use crate::schema::{FieldError, Program, Validation};

type Errors = Vec<FieldError>;

/// What can be changed on its way: what is deleted has no body.
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
/// What rules may name, whatever comes of it.
const ALL_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
/// Most conditions of a policy.
const MOST_CONDITIONS: usize = 64;

/// The two ways to change something: the type, and the member that has the expression.
const PATCHES: [(&str, &str); 2] = [
    ("ApplyConfiguration", "applyConfiguration"),
    ("JSONPatch", "jsonPatch"),
];

pub(in crate::builtin) fn validate_mutating(policy: &Value, found: &mut Validation) {
    let spec = &policy["spec"];
    let errors = &mut found.errors;
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
        operations(constraints, path, errors);
    } else {
        errors.push(FieldError::required(path, ""));
    }
    conditions(spec, errors);
    variables(spec, errors);
    let mutations = list(spec, "mutations");
    if mutations.is_empty() {
        let why = "mutations must contain at least one item";
        errors.push(FieldError::required("spec.mutations", why));
    }
    for (i, one) in mutations.iter().enumerate() {
        mutation(one, &format!("spec.mutations[{i}]"), errors);
    }
    if check::required(spec, "reinvocationPolicy", "spec", errors) {
        let supported = &["IfNeeded", "Never"];
        check::one_of(spec, "reinvocationPolicy", supported, "spec", errors);
    }
}

pub(in crate::builtin) fn validate_mutating_binding(binding: &Value, found: &mut Validation) {
    let spec = &binding["spec"];
    let errors = &mut found.errors;
    if check::required(spec, "policyName", "spec", errors) {
        check::subdomain(text(spec, "policyName"), "spec.policyName", errors);
    }
    if has(spec, "paramRef") {
        param_ref(&spec["paramRef"], "spec.paramRef", errors);
    }
    if has(spec, "matchResources") {
        let path = "spec.matchResources";
        match_resources(&spec["matchResources"], path, errors);
        operations(&spec["matchResources"], path, errors);
    }
}

fn operations(of: &Value, path: &str, errors: &mut Errors) {
    let rules = list(of, "resourceRules").iter();
    for operation in rules.flat_map(|rule| list(rule, "operations")) {
        if !operation
            .as_str()
            .is_some_and(|it| OPERATIONS.contains(&it))
        {
            let field = format!("{path}.resourceRules.operations");
            errors.push(FieldError::not_supported(field, operation, OPERATIONS));
        }
    }
}

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

fn match_resources(of: &Value, path: &str, errors: &mut Errors) {
    if check::required(of, "matchPolicy", path, errors) {
        check::one_of(of, "matchPolicy", &["Equivalent", "Exact"], path, errors);
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
            rule(one, &format!("{path}.{member}[{i}]"), errors);
        }
    }
}

fn rule(rule: &Value, path: &str, errors: &mut Errors) {
    let given = list(rule, "resourceNames");
    for (i, name) in given.iter().enumerate() {
        let field = format!("{path}.resourceNames[{i}]");
        check::path_segment(name.as_str().unwrap_or_default(), &field, errors);
        if given.iter().take(i).any(|earlier| earlier == name) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
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
                "operations" if !ALL_OPERATIONS.contains(&word) => {
                    errors.push(FieldError::not_supported(field, one, ALL_OPERATIONS));
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

fn conditions(spec: &Value, errors: &mut Errors) {
    let all = list(spec, "matchConditions");
    if all.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many("spec.matchConditions", all.len(), 64));
    }
    for (i, condition) in all.iter().enumerate() {
        let path = format!("spec.matchConditions[{i}]");
        expression(condition, &path, Program::compile, errors);
        let name = text(condition, "name");
        if check::required(condition, "name", &path, errors) {
            check::qualified(name, &format!("{path}.name"), errors);
            if all
                .iter()
                .take(i)
                .any(|earlier| text(earlier, "name") == name)
            {
                errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
            }
        }
    }
}

fn variables(spec: &Value, errors: &mut Errors) {
    for (i, variable) in list(spec, "variables").iter().enumerate() {
        let path = format!("spec.variables[{i}]");
        let name = text(variable, "name");
        if check::required(variable, "name", &path, errors) {
            let mut letters = name.chars();
            let starts = letters
                .next()
                .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            if !starts || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
                let why = "name is not a valid CEL identifier";
                errors.push(FieldError::invalid(
                    format!("{path}.name"),
                    &json!(name),
                    why,
                ));
            }
        }
        expression(variable, &path, Program::compile, errors);
    }
}

/// An expression that is there and compiles.
fn expression(
    of: &Value,
    path: &str,
    compile: fn(&str) -> Result<Program, String>,
    errors: &mut Errors,
) {
    let field = format!("{path}.expression");
    let source = text(of, "expression").trim();
    if source.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if let Some(why) = compile(source).err() {
        let why = format!("compilation failed: {why}");
        errors.push(FieldError::invalid(field, &of["expression"], why));
    }
}

fn mutation(mutation: &Value, path: &str, errors: &mut Errors) {
    if !check::required(mutation, "patchType", path, errors) {
        return;
    }
    let kind = text(mutation, "patchType");
    if !PATCHES.iter().any(|(name, _)| *name == kind) {
        let supported = PATCHES.map(|(name, _)| name);
        check::one_of(mutation, "patchType", &supported, path, errors);
        return;
    }
    for (name, member) in PATCHES {
        let field = format!("{path}.{member}");
        match (name == kind, has(mutation, member)) {
            (true, true) => {
                expression(&mutation[member], &field, Program::compile_mutation, errors);
            }
            (true, false) => {
                let why = format!("must be specified when patchType is {kind}");
                errors.push(FieldError::required(field, &why));
            }
            (false, true) => {
                let why = format!("must not be specified when patchType is {kind}");
                let shown = json!(format!("{{{member}}}"));
                errors.push(FieldError::invalid(field, &shown, why));
            }
            (false, false) => {}
        }
    }
}

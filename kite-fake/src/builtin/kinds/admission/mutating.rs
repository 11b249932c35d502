//! Policies that change what is written.

use serde_json::{Value, json};

use super::expressions::{Expressions, mutation as compile};
use super::rules::match_resources;
use super::{Errors, FAILURE_POLICIES, REINVOCATION_POLICIES, param_kind, param_ref};
use crate::builtin::check;
use crate::members::{has, list, text};
use crate::schema::{FieldError, Validation};

/// What can be changed on its way: what is deleted has no body.
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

/// The two ways to change something: the type, and the member that has the expression.
const PATCHES: [(&str, &str); 2] = [
    ("ApplyConfiguration", "applyConfiguration"),
    ("JSONPatch", "jsonPatch"),
];

/// Checks a policy.
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
    let mut expressions = Expressions::of_policy(spec);
    expressions.conditions(spec, "spec.matchConditions", errors);
    expressions.variables(spec, errors);
    let mutations = list(spec, "mutations");
    if mutations.is_empty() {
        let why = "mutations must contain at least one item";
        errors.push(FieldError::required("spec.mutations", why));
    }
    for (i, one) in mutations.iter().enumerate() {
        mutation(one, &format!("spec.mutations[{i}]"), errors);
    }
    if check::required(spec, "reinvocationPolicy", "spec", errors) {
        let supported = REINVOCATION_POLICIES;
        check::one_of(spec, "reinvocationPolicy", supported, "spec", errors);
    }
}

/// Checks a binding.
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
                compile(&mutation[member], &field, errors);
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

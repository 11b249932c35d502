//! Policies that change what is written.

use serde_json::{Value, json};

use super::expressions::{Expressions, mutation as compile};
use super::{Errors, REINVOCATION_POLICIES, what_it_is_about, whom_it_binds};
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
    what_it_is_about(spec, errors);
    operations(&spec["matchConstraints"], "spec.matchConstraints", errors);
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
    whom_it_binds(spec, errors);
    operations(&spec["matchResources"], "spec.matchResources", errors);
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

//! Policies that refuse what is written.

use serde_json::{Value, json};

use super::expressions::Expressions;
use super::{Errors, what_it_is_about, whom_it_binds};
use crate::builtin::check;
use crate::members::{list, text};
use crate::schema::{FieldError, Validation, Wanted};

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const MOST_ANNOTATIONS: usize = 20;
/// Longest expression of an annotation, in bytes.
const LONGEST_ANNOTATION: usize = 5 * 1024;

/// Checks a policy.
pub(in crate::builtin) fn validate_validating(policy: &Value, found: &mut Validation) {
    let spec = &policy["spec"];
    let errors = &mut found.errors;
    what_it_is_about(spec, errors);
    let mut expressions = Expressions::of_policy(spec);
    expressions.conditions(spec, "spec.matchConditions", errors);
    expressions.variables(spec, errors);
    let validations = list(spec, "validations");
    let annotations = list(spec, "auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required("spec.validations", why));
        errors.push(FieldError::required("spec.auditAnnotations", why));
    }
    for (i, one) in validations.iter().enumerate() {
        validation(one, &expressions, &format!("spec.validations[{i}]"), errors);
    }
    let name = text(&policy["metadata"], "name");
    audit(annotations, name, &expressions, errors);
}

fn validation(one: &Value, expressions: &Expressions<'_>, path: &str, errors: &mut Errors) {
    expressions.expression(one, "expression", Wanted::Bool, path, errors);
    let told = text(one, "messageExpression");
    let field = format!("{path}.messageExpression");
    if !told.is_empty() && told.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid(field, &json!(told), why));
    } else if !told.is_empty() {
        expressions.source(told, Wanted::Text, &field, errors);
    }
    let message = text(one, "message");
    let wrong = if !message.is_empty() && message.trim().is_empty() {
        Some("message must be non-empty if specified")
    } else if message.trim().contains(['\n', '\r']) {
        Some("message must not contain line breaks")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        let field = format!("{path}.message");
        errors.push(FieldError::invalid(field, &json!(message), wrong));
    }
    check::one_of(one, "reason", REASONS, path, errors);
}

/// Checks what a policy writes into the audit log.
fn audit(all: &[Value], name: &str, expressions: &Expressions<'_>, errors: &mut Errors) {
    let path = "spec.auditAnnotations";
    if all.len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid(path, &json!(all), why));
    }
    for (i, one) in all.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let (key, field) = (text(one, "key"), format!("{path}.key"));
        check::qualified(&format!("{name}/{key}"), &field, errors);
        let source = text(one, "valueExpression");
        if source.trim().len() > LONGEST_ANNOTATION {
            errors.push(FieldError::required(
                format!("{path}.valueExpression"),
                &format!("must not exceed {LONGEST_ANNOTATION} bytes in length"),
            ));
        } else {
            let wanted = Wanted::TextOrNull;
            expressions.expression(one, "valueExpression", wanted, &path, errors);
        }
        if all
            .iter()
            .take(i)
            .any(|earlier| text(earlier, "key") == key)
        {
            errors.push(FieldError::duplicate(field, &json!(key)));
        }
    }
}

/// Checks a binding.
pub(in crate::builtin) fn validate_validating_binding(binding: &Value, found: &mut Validation) {
    let spec = &binding["spec"];
    let errors = &mut found.errors;
    whom_it_binds(spec, errors);
    let (path, actions) = ("spec.validationActions", list(spec, "validationActions"));
    for (i, action) in actions.iter().enumerate() {
        let field = format!("{path}[{i}]");
        if !action.as_str().is_some_and(|it| ACTIONS.contains(&it)) {
            errors.push(FieldError::not_supported(&field, action, ACTIONS));
        }
        if actions[..i].contains(action) {
            errors.push(FieldError::duplicate(field, action));
        }
    }
    let has_action = |wanted: &str| actions.iter().any(|it| it == wanted);
    if has_action("Deny") && has_action("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, &json!(actions), why));
    }
    if actions.is_empty() {
        let why = "at least one validation action is required";
        errors.push(FieldError::required(path, why));
    }
}

#[cfg(all(test, feature = "cel"))]
mod tests {
    use super::*;

    fn policy(more: &Value) -> Vec<String> {
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["deployments"], "scope": "*"}],
            },
            "validations": [{"expression": "object.spec.replicas <= 5"}],
        });
        for (member, value) in more.as_object().into_iter().flatten() {
            spec[member] = value.clone();
        }
        let mut found = Validation::default();
        let policy = json!({"metadata": {"name": "p"}, "spec": spec});
        validate_validating(&policy, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_policy_says_compiles() {
        for fine in [
            "object.spec.replicas <= 5 && request.operation == 'CREATE'",
            "!has(object.metadata.labels) || 'a' in object.metadata.labels",
            "request.userInfo.groups.exists(g, g.startsWith('system:')) || oldObject == null",
            "namespaceObject.metadata.labels['env'] == 'prod'",
            "authorizer.group('').resource('pods').namespace('a').check('get').allowed()",
            "object.?spec.replicas.orValue(1) > 0",
            "request.namespace.startsWith('a') && request.kind.kind == 'Deployment'",
            "has(namespaceObject.metadata.labels) && request.options == null",
        ] {
            let found = policy(&json!({"validations": [{"expression": fine}]}));
            assert_eq!(found, Vec::<String>::new(), "{fine}");
        }
        let one = |expression: &str| {
            let found = policy(&json!({"validations": [{"expression": expression}]}));
            assert_eq!(found.len(), 1, "{found:?}");
            found.into_iter().next().unwrap_or_default()
        };
        let begin = "spec.validations[0].expression: ";
        assert_eq!(
            one(" "),
            format!("{begin}Required value: expression is not specified")
        );
        assert_eq!(
            one("object.spec.replicas"),
            format!("{begin}Invalid value: \"object.spec.replicas\": must evaluate to bool")
        );
        assert_eq!(
            one("objects.spec == 1"),
            format!(
                "{begin}Invalid value: \"objects.spec == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'objects' (in container '')\n | objects.spec == 1\n | ^"
            )
        );
        // Parameters are there where a kind of them is named.
        assert!(one("params.max > 1").contains("undeclared reference to 'params'"));
        let found = policy(
            &json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "params.max > 1"}]}),
        );
        assert_eq!(found, Vec::<String>::new());
        assert!(one("request.nothing == 1").contains("undefined field 'nothing'"));
    }

    #[test]
    fn variables_know_those_before_them() {
        let variables = json!([{"name": "a", "expression": "object.spec"},
            {"name": "b", "expression": "variables.a.replicas + 1"}]);
        let found = policy(&json!({"variables": variables,
            "validations": [{"expression": "variables.b > 1"}]}));
        assert_eq!(found, Vec::<String>::new());
        let found = policy(
            &json!({"variables": [{"name": "in", "expression": "variables.b"},
            {"name": "b", "expression": "1"}]}),
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            found[0],
            "spec.variables[0].name: Invalid value: \"in\": name is not a valid CEL identifier"
        );
        assert!(found[1].contains("undefined field 'b'"), "{found:?}");
    }

    #[test]
    fn messages_are_texts_in_one_line() {
        let found = policy(
            &json!({"validations": [{"expression": "true", "message": "a\nb",
            "messageExpression": "1", "reason": "Other"}]}),
        );
        assert_eq!(
            found,
            [
                "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string",
                "spec.validations[0].message: Invalid value: \"a\\nb\": message must not contain line breaks",
                "spec.validations[0].reason: Unsupported value: \"Other\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
            ]
        );
        let found = policy(&json!({"validations": [], "auditAnnotations": [
            {"key": "a", "valueExpression": "object.x ? 'b' : 'c'"}, {"key": "a", "valueExpression": "1"}]}));
        assert_eq!(
            found,
            [
                "spec.auditAnnotations[1].valueExpression: Invalid value: \"1\": must evaluate to one of [string null_type]",
                "spec.auditAnnotations[1].key: Duplicate value: \"a\"",
            ]
        );
        assert_eq!(policy(&json!({"validations": []})).len(), 2);
    }

    #[test]
    fn a_binding_names_a_policy_and_what_follows() {
        let of = |actions: Value| {
            let binding = json!({"spec": {"policyName": "p", "validationActions": actions}});
            let mut found = Validation::default();
            validate_validating_binding(&binding, &mut found);
            found
                .errors
                .iter()
                .map(|it| it.field.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(json!(["Deny", "Audit"])), Vec::<String>::new());
        assert_eq!(of(json!([])), ["spec.validationActions"]);
        assert_eq!(of(json!(["Deny", "Warn"])), ["spec.validationActions"]);
        assert_eq!(of(json!(["Deny", "Deny"])), ["spec.validationActions[1]"]);
        assert_eq!(of(json!(["Stop"])), ["spec.validationActions[0]"]);
    }
}

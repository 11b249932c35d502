//! Configurations of webhooks.

use serde_json::{Value, json};

use super::expressions::Expressions;
use super::rules::{MATCH_POLICIES, rule};
use super::{Errors, FAILURE_POLICIES, REINVOCATION_POLICIES};
use crate::builtin::check;
use crate::builtin::kinds::network;
use crate::members::{has, list, number, text};
use crate::names;
use crate::schema::{FieldError, Validation, client_config};

const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
/// Versions of reviews that a server understands.
const VERSIONS: &[&str] = &["v1", "v1beta1"];

/// Checks a configuration of webhooks, of those that change something and of others.
pub(in crate::builtin) fn validate_webhooks(object: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let hooks = list(object, "webhooks");
    for (i, hook) in hooks.iter().enumerate() {
        let path = format!("webhooks[{i}]");
        webhook(hook, &path, errors);
        versions(hook, &format!("{path}.admissionReviewVersions"), errors);
        let name = text(hook, "name");
        let is_name_of = |earlier: &Value| text(earlier, "name") == name;
        if !name.is_empty() && hooks[..i].iter().any(is_name_of) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
        }
    }
}

fn webhook(hook: &Value, path: &str, errors: &mut Errors) {
    qualified_name(text(hook, "name"), &format!("{path}.name"), errors);
    for (i, one) in list(hook, "rules").iter().enumerate() {
        rule(one, &format!("{path}.rules[{i}]"), errors);
    }
    check::one_of(hook, "failurePolicy", FAILURE_POLICIES, path, errors);
    check::one_of(hook, "matchPolicy", MATCH_POLICIES, path, errors);
    if has(hook, "sideEffects") {
        check::one_of(hook, "sideEffects", SIDE_EFFECTS, path, errors);
    } else {
        let why = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
        errors.push(FieldError::required(format!("{path}.sideEffects"), &why));
    }
    if let Some(seconds) = number(hook, "timeoutSeconds")
        && !(1..=30).contains(&seconds)
    {
        let why = "the timeout value must be between 1 and 30 seconds";
        let field = format!("{path}.timeoutSeconds");
        errors.push(FieldError::invalid(field, &json!(seconds), why));
    }
    for member in ["namespaceSelector", "objectSelector"] {
        network::selector(&hook[member], &format!("{path}.{member}"), errors);
    }
    // Webhooks that change nothing have no such member.
    check::one_of(
        hook,
        "reinvocationPolicy",
        REINVOCATION_POLICIES,
        path,
        errors,
    );
    client_config(
        &hook["clientConfig"],
        &format!("{path}.clientConfig"),
        errors,
    );
    Expressions::of_webhook().conditions(hook, &format!("{path}.matchConditions"), errors);
}

/// A domain of three parts at least.
fn qualified_name(name: &str, field: &str, errors: &mut Errors) {
    let wrongs = names::subdomain(name);
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !wrongs.is_empty() {
        errors.push(FieldError::invalid(field, &json!(name), wrongs.join(",")));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(field, &json!(name), why));
    }
}

fn versions(hook: &Value, path: &str, errors: &mut Errors) {
    let all = list(hook, "admissionReviewVersions");
    if all.is_empty() {
        let why = format!("must specify one of {}", VERSIONS.join(", "));
        errors.push(FieldError::required(path, &why));
        return;
    }
    for (i, version) in all.iter().enumerate() {
        let field = format!("{path}[{i}]");
        if all[..i].contains(version) {
            errors.push(FieldError::invalid(field, version, "duplicate version"));
            continue;
        }
        let wrongs = names::label_1035(version.as_str().unwrap_or_default());
        check::invalid(&field, version, wrongs, errors);
    }
    let mut words = all.iter().filter_map(Value::as_str);
    if !words.any(|version| VERSIONS.contains(&version)) {
        let why = format!("must include at least one of {}", VERSIONS.join(", "));
        errors.push(FieldError::invalid(path, &json!(all), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(more: &Value) -> Vec<String> {
        let mut hook = json!({
            "name": "a.b.c",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://a.b/c"},
            "timeoutSeconds": 10,
        });
        for (member, value) in more.as_object().into_iter().flatten() {
            hook[member] = value.clone();
        }
        let mut found = Validation::default();
        validate_webhooks(&json!({"webhooks": [hook]}), &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_webhook_says_who_it_is_and_what_it_does() {
        assert_eq!(of(&json!({})), Vec::<String>::new());
        assert_eq!(
            of(
                &json!({"name": "a.b", "sideEffects": "Some", "timeoutSeconds": 31,
                "failurePolicy": "Stop", "admissionReviewVersions": ["v2", "v2", "1"]})
            ),
            [
                "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
                "webhooks[0].failurePolicy: Unsupported value: \"Stop\": supported values: \"Fail\", \"Ignore\"",
                "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
                "webhooks[0].admissionReviewVersions[2]: Invalid value: \"1\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\",\"v2\",\"1\"]: must include at least one of v1, v1beta1",
            ]
        );
        assert_eq!(
            of(&json!({"sideEffects": null, "admissionReviewVersions": [],
                "clientConfig": {"url": "http://a", "service": {"name": "a"}}})),
            [
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
                "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ]
        );
    }

    #[test]
    fn rules_name_requests() {
        assert_eq!(
            of(
                &json!({"rules": [{"operations": ["*", "CREATE"], "apiGroups": [],
                "apiVersions": ["v1"], "resources": ["pods", "*"]}]})
            ),
            [
                "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
                "webhooks[0].rules[0].apiGroups: Required value",
                "webhooks[0].rules[0].resources: Invalid value: [\"pods\",\"*\"]: if '*' is present, must not specify other resources without subresources",
            ]
        );
    }

    #[cfg(feature = "cel")]
    #[test]
    fn conditions_compile() {
        assert_eq!(
            of(
                &json!({"matchConditions": [{"name": "a", "expression": "request.name != 'x'"},
                {"name": "a", "expression": "variables.x"}]})
            ),
            [
                "webhooks[0].matchConditions[1].expression: Invalid value: \"variables.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.x\n | ^",
                "webhooks[0].matchConditions[1].name: Duplicate value: \"a\"",
            ]
        );
    }
}

//! Flow schemas: to which level a request belongs.

use serde_json::{Value, json};

use super::rules::rule;
use super::{Errors, fixed};
use crate::builtin::check;
use crate::members::{default, list, number, object_mut, text};
use crate::schema::{FieldError, Validation};

const MAX_PRECEDENCE: i64 = 10_000;

/// Schemas come in the middle unless they say otherwise.
pub(in crate::builtin) fn default_schema(schema: &mut Value) {
    default(object_mut(schema, "spec"), "matchingPrecedence", 1000);
}

/// Checks a schema. Two are the same in every cluster.
pub(in crate::builtin) fn validate_schema(schema: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let name = text(&schema["metadata"], "name");
    let spec = &schema["spec"];
    precedence(name, spec, errors);
    let method = &spec["distinguisherMethod"];
    let methods = &["ByNamespace", "ByUser"];
    if !method.is_null() && !methods.contains(&text(method, "type")) {
        errors.push(FieldError::not_supported(
            "spec.distinguisherMethod.type",
            &json!({"Type": text(method, "type")}),
            methods,
        ));
    }
    let level = text(&spec["priorityLevelConfiguration"], "name");
    let field = "spec.priorityLevelConfiguration.name";
    if level.is_empty() {
        let why = "must reference a priority level";
        errors.push(FieldError::required(field, why));
    } else {
        check::subdomain(level, field, errors);
    }
    for (i, one) in list(spec, "rules").iter().enumerate() {
        rule(one, &format!("spec.rules[{i}]"), errors);
    }
    if let Some(expected) = mandatory(name) {
        fixed(name, spec, &expected, "", errors);
    }
}

fn precedence(name: &str, spec: &Value, errors: &mut Errors) {
    let given = number(spec, "matchingPrecedence").unwrap_or(0);
    let mut refuse = |wrong: &str| {
        let field = "spec.matchingPrecedence";
        errors.push(FieldError::invalid(field, &json!(given), wrong));
    };
    if given <= 0 {
        refuse("must be a positive value");
    }
    if given > MAX_PRECEDENCE {
        refuse(&format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if given == 1 && name != "exempt" {
        refuse("only the schema named 'exempt' may have matchingPrecedence 1");
    }
}

/// What two schemas say in every cluster.
fn mandatory(name: &str) -> Option<Value> {
    let (precedence, groups, method): (i64, &[&str], Option<&str>) = match name {
        "exempt" => (1, &["system:masters"], None),
        "catch-all" => (
            MAX_PRECEDENCE,
            &["system:unauthenticated", "system:authenticated"],
            Some("ByUser"),
        ),
        _ => return None,
    };
    let subjects: Vec<Value> = groups
        .iter()
        .map(|group| json!({"kind": "Group", "group": {"name": group}}))
        .collect();
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": precedence,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                "clusterScope": true, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    });
    if let Some(method) = method {
        spec["distinguisherMethod"] = json!({"type": method});
    }
    Some(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(name: &str, spec: &Value) -> Vec<String> {
        let mut schema = json!({"metadata": {"name": name}, "spec": spec});
        default_schema(&mut schema);
        let mut found = Validation::default();
        validate_schema(&schema, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_schema_leads_to_a_level() {
        assert_eq!(
            wrongs("x", &json!({"priorityLevelConfiguration": {"name": "y"}})),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs(
                "x",
                &json!({"matchingPrecedence": 1, "distinguisherMethod": {"type": "ByAge"}})
            ),
            [
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
                "spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"ByAge\"}: supported values: \"ByNamespace\", \"ByUser\"",
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            ]
        );
        let level = json!({"name": "y"});
        assert_eq!(
            wrongs(
                "x",
                &json!({"matchingPrecedence": 0, "priorityLevelConfiguration": level})
            ),
            ["spec.matchingPrecedence: Invalid value: 0: must be a positive value"]
        );
        assert_eq!(
            wrongs(
                "x",
                &json!({"matchingPrecedence": 10_001, "priorityLevelConfiguration": level})
            ),
            ["spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"]
        );
    }

    #[test]
    fn two_schemas_are_the_same_everywhere() {
        for name in ["exempt", "catch-all"] {
            let spec = mandatory(name).unwrap_or_default();
            assert_eq!(wrongs(name, &spec), Vec::<String>::new());
        }
        let level = json!({"priorityLevelConfiguration": {"name": "y"}});
        assert_eq!(
            wrongs("catch-all", &level),
            [
                "spec: Invalid value: {\"matchingPrecedence\":1000,\"priorityLevelConfiguration\":{\"name\":\"y\"}}: spec of 'catch-all' must equal the fixed value"
            ]
        );
    }
}

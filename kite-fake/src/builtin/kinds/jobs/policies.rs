//! What Jobs say of Pods that fail, and of when they have done enough.

use serde_json::{Value, json};

use super::{Errors, indexes, is_indexed};
use crate::builtin::check;
use crate::field_error::CauseReason;
use crate::members::{has, list, number, text};
use crate::schema::FieldError;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_INDEXES: usize = 64 * 1024;

/// Checks both policies of a Job's spec at `path`.
pub(super) fn validate(spec: &Value, path: &str, errors: &mut Errors) {
    if has(spec, "podFailurePolicy") {
        let rules = list(&spec["podFailurePolicy"], "rules");
        let path = format!("{path}.podFailurePolicy.rules");
        at_most(rules.len(), MAX_RULES, &path, errors);
        for (place, rule) in rules.iter().enumerate() {
            failure_rule(spec, rule, &format!("{path}[{place}]"), errors);
        }
    }
    if has(spec, "successPolicy") {
        if is_indexed(spec) {
            success(spec, &format!("{path}.successPolicy.rules"), errors);
        } else {
            needs_indexes(spec, "successPolicy", path, errors);
        }
    }
}

/// A member that only indexed Jobs have.
pub(super) fn needs_indexes(spec: &Value, member: &str, path: &str, errors: &mut Errors) {
    if has(spec, member) {
        errors.push(FieldError::invalid(
            check::join(path, member),
            &spec[member],
            "requires indexed completion mode",
        ));
    }
}

fn at_most(count: usize, most: usize, path: &str, errors: &mut Errors) {
    if count > most {
        errors.push(FieldError::too_many(path, count, most as u64));
    }
}

/// A word of some that has to be there.
fn word(of: &Value, member: &str, supported: &[&str], path: &str, errors: &mut Errors) {
    if text(of, member).is_empty() {
        let quoted: Vec<String> = supported.iter().map(|it| format!("{it:?}")).collect();
        let valid = format!("valid values: [{}]", quoted.join(" "));
        errors.push(FieldError::required(check::join(path, member), &valid));
    } else {
        check::one_of(of, member, supported, path, errors);
    }
}

fn failure_rule(spec: &Value, rule: &Value, path: &str, errors: &mut Errors) {
    let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
    word(rule, "action", &actions, path, errors);
    if text(rule, "action") == "FailIndex" && !has(spec, "backoffLimitPerIndex") {
        errors.push(FieldError::invalid(
            format!("{path}.action"),
            &json!("FailIndex"),
            "requires the backoffLimitPerIndex to be set",
        ));
    }
    let codes = &rule["onExitCodes"];
    if has(rule, "onExitCodes") {
        exit_codes(spec, codes, &format!("{path}.onExitCodes"), errors);
    }
    let conditions = list(rule, "onPodConditions");
    let of_conditions = format!("{path}.onPodConditions");
    at_most(conditions.len(), MAX_RULES, &of_conditions, errors);
    for (place, pattern) in conditions.iter().enumerate() {
        let path = format!("{of_conditions}[{place}]");
        check::qualified(text(pattern, "type"), &format!("{path}.type"), errors);
        let states = ["False", "True", "Unknown"];
        word(pattern, "status", &states, &path, errors);
    }
    let wrong = match (has(rule, "onExitCodes"), conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, true) | (false, false) => return,
    };
    let message = format!("Invalid value: {wrong}");
    errors.push(FieldError::with(CauseReason::Invalid, path, message));
}

fn exit_codes(spec: &Value, codes: &Value, path: &str, errors: &mut Errors) {
    word(codes, "operator", &["In", "NotIn"], path, errors);
    if has(codes, "containerName") {
        let pod = &spec["template"]["spec"];
        let lists = ["containers", "initContainers"];
        let mut containers = lists.into_iter().flat_map(|member| list(pod, member));
        let name = text(codes, "containerName");
        if !containers.any(|it| text(it, "name") == name) {
            errors.push(FieldError::invalid(
                format!("{path}.containerName"),
                &json!(name),
                "must be one of the container or initContainer names in the pod template",
            ));
        }
    }
    let values = list(codes, "values");
    let path = format!("{path}.values");
    if values.is_empty() {
        let given = json!(values);
        errors.push(FieldError::invalid(
            &path,
            &given,
            "at least one value is required",
        ));
    }
    at_most(values.len(), MAX_EXIT_CODES, &path, errors);
    for (place, value) in values.iter().enumerate() {
        let field = format!("{path}[{place}]");
        if text(codes, "operator") == "In" && value.as_i64() == Some(0) {
            let why = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(&field, value, why));
        }
        if values[..place].contains(value) {
            errors.push(FieldError::duplicate(&field, value));
        }
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        errors.push(FieldError::invalid(
            &path,
            &json!(values),
            "must be ordered",
        ));
    }
}

/// Checks what is enough of an indexed Job.
fn success(spec: &Value, path: &str, errors: &mut Errors) {
    let rules = list(&spec["successPolicy"], "rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(path, why));
    }
    at_most(rules.len(), MAX_RULES, path, errors);
    // Without completions the Job is wrong already.
    let completions = number(spec, "completions").unwrap_or(0);
    for (place, rule) in rules.iter().enumerate() {
        success_rule(rule, completions, &format!("{path}[{place}]"), errors);
    }
}

fn success_rule(rule: &Value, completions: i64, path: &str, errors: &mut Errors) {
    let counted = number(rule, "succeededCount");
    let named = has(rule, "succeededIndexes").then(|| text(rule, "succeededIndexes"));
    if counted.is_none() && named.is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, why));
    }
    let mut total = 0;
    if let Some(named) = named {
        let field = format!("{path}.succeededIndexes");
        if named.len() > MAX_INDEXES {
            errors.push(FieldError::too_long(&field, MAX_INDEXES as u64));
        }
        match indexes::total(named, completions) {
            Ok(found) => total = found,
            Err(wrong) => errors.push(FieldError::invalid(
                field,
                &json!(named),
                format!("error parsing succeededIndexes: {wrong}"),
            )),
        }
    }
    check::not_negative(rule, "succeededCount", path, errors);
    let mut not_above = |most: i64, of: &str| {
        if let Some(counted) = counted.filter(|counted| *counted > most) {
            errors.push(FieldError::invalid(
                format!("{path}.succeededCount"),
                &json!(counted),
                format!("must be less than or equal to {most} (the number of {of})"),
            ));
        }
    };
    not_above(completions, "specified completions");
    if named.is_some() {
        not_above(total, "indexes in the specified succeededIndexes field");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(policies: &Value) -> Vec<String> {
        let mut spec = json!({"completionMode": "Indexed", "completions": 5,
            "template": {"spec": {"containers": [{"name": "c"}]}}});
        for (member, value) in policies.as_object().into_iter().flatten() {
            spec[member] = value.clone();
        }
        let mut errors = Vec::new();
        validate(&spec, "spec", &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_of_failure_name_codes_or_conditions() {
        let rule = |rule: Value| of(&json!({"podFailurePolicy": {"rules": [rule]}}));
        assert_eq!(
            rule(
                json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 42]}})
            ),
            Vec::<String>::new()
        );
        assert_eq!(
            rule(json!({"action": "FailIndex"})),
            [
                "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ]
        );
        assert_eq!(
            rule(
                json!({"onExitCodes": {"operator": "In", "values": [3, 0, 3],
                "containerName": "d"}})
            ),
            [
                "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"d\": must be one of the container or initContainer names in the pod template",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
            ]
        );
        assert_eq!(
            rule(json!({"action": "Ignore", "onPodConditions": [{"type": "a b"}]})).len(),
            2
        );
    }

    #[test]
    fn rules_of_success_name_indexes_that_there_are() {
        let rule = |rule: Value| of(&json!({"successPolicy": {"rules": [rule]}}));
        assert_eq!(rule(json!({"succeededCount": 2})), Vec::<String>::new());
        assert_eq!(
            rule(json!({})),
            [
                "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified"
            ]
        );
        assert_eq!(
            rule(json!({"succeededIndexes": "1,7", "succeededCount": 6})),
            [
                "spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"1,7\": error parsing succeededIndexes: too large index: \"7\"",
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)",
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 0 (the number of indexes in the specified succeededIndexes field)",
            ]
        );
    }
}

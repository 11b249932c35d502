//! Devices that Pods claim: classes of them, claims and their templates, and what
//! drivers have. Whether an expression compiles is not checked.

mod requests;
mod slices;
mod status;

use serde_json::{Value, json};

pub(in crate::builtin) use self::requests::{default_claim, default_template};
pub(in crate::builtin) use self::slices::{validate_new_slice, validate_slice_update};
pub(in crate::builtin) use self::status::validate_status;
use crate::builtin::check;
use crate::members::{has, list, text};
use crate::metadata;
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

/// Most requests, constraints, selectors, configurations and results.
const MOST: usize = 32;
/// Longest name of an attribute.
const LONGEST_NAME: usize = 32;
/// Longest name of a pool.
const LONGEST_POOL: usize = 253;
const LONGEST_EXPRESSION: usize = 10 * 1024;
const LONGEST_PARAMETERS: usize = 10 * 1024;

/// Checks a class of devices.
pub(in crate::builtin) fn validate_class(class: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &class["spec"];
    selectors(spec, "spec", errors);
    each(spec, "config", MOST, "spec", errors, configuration);
    let name = text(spec, "extendedResourceName");
    if has(spec, "extendedResourceName") && !check::is_extended(name) {
        errors.push(FieldError::invalid(
            "spec.extendedResourceName",
            &json!(name),
            "must be a valid extended resource name",
        ));
    }
}

/// Checks a new claim.
pub(in crate::builtin) fn validate_new_claim(claim: &Value, found: &mut Validation) {
    let devices = &claim["spec"]["devices"];
    requests::devices(devices, "spec.devices", &mut found.errors);
}

/// Checks a new template of claims.
pub(in crate::builtin) fn validate_new_template(template: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &template["spec"];
    metadata::labels(&spec["metadata"], "labels", "spec.metadata.labels", errors);
    requests::devices(&spec["spec"]["devices"], "spec.spec.devices", errors);
}

/// What is claimed stays.
pub(in crate::builtin) fn validate_spec_update(new: &Value, old: &Value, found: &mut Validation) {
    check::immutable(new, old, "spec", "", &mut found.errors);
}

/// Checks the elements of a list, unless there are too many.
fn each(
    of: &Value,
    member: &str,
    most: usize,
    path: &str,
    errors: &mut Errors,
    mut rule: impl FnMut(&Value, &str, &mut Errors),
) {
    let all = list(of, member);
    let path = format!("{path}.{member}");
    if all.len() > most {
        errors.push(FieldError::too_many(path, all.len(), most as u64));
        return;
    }
    for (i, one) in all.iter().enumerate() {
        rule(one, &format!("{path}[{i}]"), errors);
    }
}

/// The same for a list without repetitions; `key` says what of an element is not repeated.
fn each_once(
    (of, member, most): (&Value, &str, usize),
    key: fn(&Value) -> &Value,
    path: &str,
    errors: &mut Errors,
    rule: impl FnMut(&Value, &str, &mut Errors),
) {
    each(of, member, most, path, errors, rule);
    let all = list(of, member);
    for (i, one) in all.iter().enumerate().take(most) {
        if all.len() <= most && all[..i].iter().any(|earlier| key(earlier) == key(one)) {
            let field = format!("{path}.{member}[{i}]");
            errors.push(FieldError::duplicate(field, key(one)));
        }
    }
}

/// An element that is its own key.
fn itself(value: &Value) -> &Value {
    value
}

/// Checks the expressions that choose devices.
fn selectors(of: &Value, path: &str, errors: &mut Errors) {
    each(of, "selectors", MOST, path, errors, |one, path, errors| {
        let path = format!("{path}.cel");
        if !has(one, "cel") {
            errors.push(FieldError::required(path, ""));
        } else if text(&one["cel"], "expression").len() > LONGEST_EXPRESSION {
            let field = format!("{path}.expression");
            errors.push(FieldError::too_long(field, LONGEST_EXPRESSION as u64));
        }
    });
}

/// Checks what a driver is told, whose own words the parameters are.
fn configuration(config: &Value, path: &str, errors: &mut Errors) {
    let path = format!("{path}.opaque");
    if !has(config, "opaque") {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let opaque = &config["opaque"];
    check::driver(opaque, "driver", &path, errors);
    let field = format!("{path}.parameters");
    let parameters = &opaque["parameters"];
    if parameters.is_null() {
        errors.push(FieldError::required(field, ""));
    } else if parameters.to_string().len() > LONGEST_PARAMETERS {
        errors.push(FieldError::too_long(field, LONGEST_PARAMETERS as u64));
    } else if !parameters.is_object() {
        let why = "must be a valid JSON object";
        errors.push(FieldError::invalid(field, &json!("<value omitted>"), why));
    }
}

/// Checks the name of a pool of devices: domains between slashes.
fn pool(of: &Value, member: &str, path: &str, errors: &mut Errors) {
    let name = text(of, member);
    if !check::required(of, member, path, errors) {
        return;
    }
    let field = format!("{path}.{member}");
    if name.len() > LONGEST_POOL {
        errors.push(FieldError::too_long(&*field, LONGEST_POOL as u64));
    }
    for part in name.split('/') {
        check::subdomain(part, &field, errors);
    }
}

/// Checks a taint that a claim puts up with.
fn toleration(toleration: &Value, path: &str, errors: &mut Errors) {
    let key = text(toleration, "key");
    if !key.is_empty() {
        check::qualified(key, &format!("{path}.key"), errors);
    }
    let value = text(toleration, "value");
    let field = format!("{path}.value");
    match text(toleration, "operator") {
        "Exists" => {
            if !value.is_empty() {
                let why = "must be empty for operator `Exists`";
                errors.push(FieldError::invalid(field, &json!(value), why));
            }
        }
        "Equal" => {
            let wrongs = crate::names::label_value(value);
            check::invalid(&field, &json!(value), wrongs, errors);
        }
        "" => errors.push(FieldError::required(format!("{path}.operator"), "")),
        _ => check::one_of(toleration, "operator", &["Equal", "Exists"], path, errors),
    }
    if !text(toleration, "effect").is_empty() {
        let effects = &["NoExecute", "NoSchedule", "None"];
        check::one_of(toleration, "effect", effects, path, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(found: &Validation) -> Vec<String> {
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_class_chooses_devices_and_tells_their_drivers() {
        let of = |spec: Value| {
            let mut found = Validation::default();
            validate_class(&json!({"spec": spec}), &mut found);
            texts(&found)
        };
        assert_eq!(
            of(json!({
                "selectors": [{"cel": {"expression": "true"}}],
                "config": [{"opaque": {"driver": "GPU.example.com", "parameters": {"a": 1}}}],
                "extendedResourceName": "example.com/gpu",
            })),
            Vec::<String>::new()
        );
        assert_eq!(
            of(json!({
                "selectors": [{}, {"cel": {"expression": "x".repeat(10_241)}}],
                "config": [{}, {"opaque": {"driver": "a"}},
                    {"opaque": {"driver": "a", "parameters": 1}}],
                "extendedResourceName": "cpu",
            })),
            [
                "spec.selectors[0].cel: Required value",
                "spec.selectors[1].cel.expression: Too long: may not be more than 10240 bytes",
                "spec.config[0].opaque: Required value",
                "spec.config[1].opaque.parameters: Required value",
                "spec.config[2].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
                "spec.extendedResourceName: Invalid value: \"cpu\": must be a valid extended resource name",
            ]
        );
        let many: Vec<_> = (0..33).map(|_| json!({})).collect();
        assert_eq!(
            of(json!({"selectors": many})),
            ["spec.selectors: Too many: 33: must have at most 32 items"]
        );
    }

    #[test]
    fn what_is_claimed_stays() {
        let of = |name: &str| json!({"spec": {"devices": {"requests": [{"name": name}]}}});
        let mut found = Validation::default();
        validate_spec_update(&of("a"), &of("a"), &mut found);
        validate_spec_update(&of("b"), &of("a"), &mut found);
        assert_eq!(
            texts(&found),
            [
                "spec: Invalid value: {\"devices\":{\"requests\":[{\"name\":\"b\"}]}}: field is immutable"
            ]
        );
    }

    #[test]
    fn a_template_is_a_claim_with_labels() {
        let spec = json!({"metadata": {"labels": {"a": "/"}},
            "spec": {"devices": {"requests": [{"name": "a"}]}}});
        let mut found = Validation::default();
        validate_new_template(&json!({"spec": spec}), &mut found);
        assert_eq!(
            texts(&found),
            [
                "spec.metadata.labels: Invalid value: \"/\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
            ]
        );
    }
}

//! What is requested in a claim of devices.

use serde_json::{Value, json};

use super::{
    Errors, LONGEST_NAME, MOST, configuration, each, each_once, itself, selectors, toleration,
};
use crate::builtin::check;
use crate::members::{default, has, list, list_mut, number, object_mut, text};
use crate::schema::FieldError;

/// Most alternatives of a request.
const MOST_ALTERNATIVES: usize = 8;

/// A request is for one device unless it says otherwise.
pub(in crate::builtin) fn default_claim(claim: &mut Value) {
    if let Some(spec) = claim.get_mut("spec") {
        default_spec(spec);
    }
}

pub(in crate::builtin) fn default_template(template: &mut Value) {
    if let Some(spec) = template.pointer_mut("/spec/spec") {
        default_spec(spec);
    }
}

fn default_spec(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else {
        return;
    };
    for request in list_mut(devices, "requests") {
        if has(request, "exactly") {
            default_request(object_mut(request, "exactly"));
        }
        for alternative in list_mut(request, "firstAvailable") {
            default_request(alternative);
        }
    }
}

fn default_request(request: &mut Value) {
    default(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        default(request, "count", 1);
    }
    for toleration in list_mut(request, "tolerations") {
        default(toleration, "operator", "Equal");
    }
}

/// Checks what is claimed.
pub(super) fn devices(devices: &Value, path: &str, errors: &mut Errors) {
    let requests = (devices, "requests", MOST);
    each_once(requests, |it| &it["name"], path, errors, request);
    each(
        devices,
        "constraints",
        MOST,
        path,
        errors,
        |one, path, errors| {
            constraint(one, devices, path, errors);
        },
    );
    each(
        devices,
        "config",
        MOST,
        path,
        errors,
        |one, path, errors| {
            references(one, devices, path, errors);
            configuration(one, path, errors);
        },
    );
}

fn request(request: &Value, path: &str, errors: &mut Errors) {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    check::label(text(request, "name"), &format!("{path}.name"), errors);
    let alternatives = !list(request, "firstAvailable").is_empty();
    match (has(request, "exactly"), alternatives) {
        (false, false) => errors.push(FieldError::required(path, ONE)),
        (true, true) => errors.push(FieldError::invalid(
            path,
            &json!("null"),
            format!("{ONE}, but multiple fields are set"),
        )),
        (true, false) => {
            wanted(&request["exactly"], &format!("{path}.exactly"), errors);
        }
        (false, true) => each_once(
            (request, "firstAvailable", MOST_ALTERNATIVES),
            |it| &it["name"],
            path,
            errors,
            |one, path, errors| {
                check::label(text(one, "name"), &format!("{path}.name"), errors);
                wanted(one, path, errors);
            },
        ),
    }
}

/// Checks which devices are wanted, and how many.
fn wanted(request: &Value, path: &str, errors: &mut Errors) {
    if check::required(request, "deviceClassName", path, errors) {
        let class = text(request, "deviceClassName");
        check::subdomain(class, &format!("{path}.deviceClassName"), errors);
    }
    selectors(request, path, errors);
    let count = number(request, "count").unwrap_or(0);
    let mut refuse = |wrong: &str| {
        let field = format!("{path}.count");
        errors.push(FieldError::invalid(field, &json!(count), wrong));
    };
    match text(request, "allocationMode") {
        "All" => {
            if count != 0 {
                refuse("must not be specified when allocationMode is 'All'");
            }
        }
        "ExactCount" => {
            if count <= 0 {
                refuse("must be greater than zero");
            }
        }
        other => errors.push(FieldError::not_supported(
            format!("{path}.allocationMode"),
            &json!(other),
            &["All", "ExactCount"],
        )),
    }
    for (i, one) in list(request, "tolerations").iter().enumerate() {
        toleration(one, &format!("{path}.tolerations[{i}]"), errors);
    }
}

/// Checks what the devices of several requests have in common.
fn constraint(constraint: &Value, devices: &Value, path: &str, errors: &mut Errors) {
    references(constraint, devices, path, errors);
    let mut attributes = ["matchAttribute", "distinctAttribute"].iter();
    match attributes.find(|member| has(constraint, member)) {
        Some(member) => attribute(text(constraint, member), &format!("{path}.{member}"), errors),
        None => errors.push(FieldError::required(
            path,
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        )),
    }
}

pub(super) fn references(of: &Value, devices: &Value, path: &str, errors: &mut Errors) {
    let requests = (of, "requests", MOST);
    each_once(requests, itself, path, errors, |one, path, errors| {
        reference(one.as_str().unwrap_or_default(), devices, path, errors);
    });
}

/// Checks the name of a request, or of one of its alternatives: `request/alternative`.
pub(super) fn reference(name: &str, devices: &Value, path: &str, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() <= 2 {
        for part in &parts {
            check::label(part, path, errors);
        }
    }
    let of_name = |all: &'_ [Value], name: &str| all.iter().position(|it| it["name"] == name);
    let requests = list(devices, "requests");
    let known = match (of_name(requests, parts[0]), parts.as_slice()) {
        (Some(_), [_]) => true,
        (Some(place), [_, part]) => {
            of_name(list(&requests[place], "firstAvailable"), part).is_some()
        }
        _ => false,
    };
    if !known {
        let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        errors.push(FieldError::invalid(path, &json!(name), why));
    }
}

/// Checks the name of an attribute: a driver's domain, and an identifier.
fn attribute(name: &str, field: &str, errors: &mut Errors) {
    name_of(name, field, errors);
    if !name.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid(field, &json!(name), why));
    }
}

/// Checks the name of an attribute, which may be the driver's own: without a domain.
pub(super) fn name_of(name: &str, field: &str, errors: &mut Errors) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [id] => identifier(id, field, errors),
        [domain, id] => {
            let empty = |what: &str| {
                FieldError::invalid(field, &json!(""), format!("the {what} must not be empty"))
            };
            if domain.is_empty() {
                errors.push(empty("domain"));
            } else {
                check::driver(&json!({"": domain}), "", field, errors);
            }
            if id.is_empty() {
                errors.push(empty("name"));
            } else {
                identifier(id, field, errors);
            }
        }
        _ => {}
    }
}

fn identifier(id: &str, field: &str, errors: &mut Errors) {
    const WRONG: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
    if id.len() > LONGEST_NAME {
        errors.push(FieldError::too_long(field, LONGEST_NAME as u64));
    }
    let word = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let starts = id.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    if !word || !starts {
        errors.push(FieldError::invalid(field, &json!(id), WRONG));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(spec: &Value) -> Vec<String> {
        let mut claim = json!({"spec": {"devices": spec}});
        default_claim(&mut claim);
        let mut errors = Vec::new();
        devices(&claim["spec"]["devices"], "spec.devices", &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_claim_needs_but_a_class() {
        assert_eq!(
            wrongs(&json!({"requests": [
                {"name": "a", "exactly": {"deviceClassName": "gpu",
                    "tolerations": [{"key": "k", "value": "v"}]}},
                {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "gpu"}]},
            ],
            "constraints": [{"requests": ["a", "b/c"], "matchAttribute": "example.com/x"}]})),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_request_says_what_is_wanted() {
        let gpu = |more: Value| {
            let mut request = json!({"deviceClassName": "gpu"});
            for (member, value) in more.as_object().into_iter().flatten() {
                request[member] = value.clone();
            }
            request
        };
        assert_eq!(
            wrongs(&json!({"requests": [
                {"name": "a", "exactly": {"count": -1}},
                {"name": "a", "exactly": gpu(json!({"allocationMode": "All", "count": 2}))},
                {"name": "c", "exactly": gpu(json!({"allocationMode": "Some"})),
                    "firstAvailable": [{"name": "d"}]},
                {"name": "e", "exactly": gpu(json!({"allocationMode": "Some", "tolerations": [
                    {"operator": "Exists", "value": "v", "effect": "No"}, {"operator": "Is"}]}))},
            ]})),
            [
                "spec.devices.requests[0].exactly.deviceClassName: Required value",
                "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
                "spec.devices.requests[1].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
                "spec.devices.requests[2]: Invalid value: \"null\": exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
                "spec.devices.requests[3].exactly.allocationMode: Unsupported value: \"Some\": supported values: \"All\", \"ExactCount\"",
                "spec.devices.requests[3].exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`",
                "spec.devices.requests[3].exactly.tolerations[0].effect: Unsupported value: \"No\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
                "spec.devices.requests[3].exactly.tolerations[1].operator: Unsupported value: \"Is\": supported values: \"Equal\", \"Exists\"",
                "spec.devices.requests[1]: Duplicate value: \"a\"",
            ]
        );
    }

    #[test]
    fn constraints_are_of_requests_and_attributes() {
        const REFERENCE: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let requests = json!([{"name": "a", "exactly": {"deviceClassName": "gpu"}}]);
        assert_eq!(
            wrongs(&json!({"requests": requests, "constraints": [
                {"requests": ["b", "a/b", "a/b/c", "a", "a"], "matchAttribute": "x"},
                {"distinctAttribute": "/1"},
                {},
            ]})),
            [
                format!(
                    "spec.devices.constraints[0].requests[0]: Invalid value: \"b\": {REFERENCE}"
                ),
                format!(
                    "spec.devices.constraints[0].requests[1]: Invalid value: \"a/b\": {REFERENCE}"
                ),
                format!(
                    "spec.devices.constraints[0].requests[2]: Invalid value: \"a/b/c\": {REFERENCE}"
                ),
                "spec.devices.constraints[0].requests[4]: Duplicate value: \"a\"".to_owned(),
                "spec.devices.constraints[0].matchAttribute: Invalid value: \"x\": a fully qualified name must be a domain and a name separated by a slash".to_owned(),
                "spec.devices.constraints[1].distinctAttribute: Invalid value: \"\": the domain must not be empty".to_owned(),
                "spec.devices.constraints[1].distinctAttribute: Invalid value: \"1\": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')".to_owned(),
                "spec.devices.constraints[2]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set".to_owned(),
            ]
        );
    }
}

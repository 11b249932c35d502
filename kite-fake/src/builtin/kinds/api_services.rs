//! `APIService`: who serves a version of a group.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::builtin::check;
use crate::members::{default, flag, has, list, number, object_mut, text};
use crate::names::{self, NameRule};
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

pub(in crate::builtin) fn default_api_service(service: &mut Value) {
    let spec = object_mut(service, "spec");
    if has(spec, "service") {
        default(object_mut(spec, "service"), "port", 443);
    }
}

/// Checks which version of which group is served, and by whom.
pub(in crate::builtin) fn validate(object: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &object["spec"];
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    name(
        text(&object["metadata"], "name"),
        &format!("{version}.{group}"),
        errors,
    );
    if !group.is_empty() {
        check::subdomain(group, "spec.group", errors);
    } else if version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required("spec.group", why));
    }
    let wrongs = names::label_1035(version);
    check::invalid("spec.version", &json!(version), wrongs, errors);
    for (member, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let given = number(spec, member).unwrap_or(0);
        if !(1..=most).contains(&given) {
            errors.push(FieldError::invalid(
                format!("spec.{member}"),
                &json!(given),
                format!("must be positive and less than {most}"),
            ));
        }
    }
    backend(spec, errors);
}

/// The name says the version and the group.
fn name(given: &str, expected: &str, errors: &mut Errors) {
    // A wrong name has been told of before.
    let fine = !given.is_empty() && NameRule::PathSegment.check(given, false).is_empty();
    if fine && given != expected {
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(given),
            format!("must be `spec.version+\".\"+spec.group`: {expected:?}"),
        ));
    }
}

/// Another server is called by its Service, over a connection that is trusted or not.
fn backend(spec: &Value, errors: &mut Errors) {
    const PATH: &str = "spec.service";
    const SKIP: &str = "spec.insecureSkipTLSVerify";
    let bundle = text(spec, "caBundle");
    let skips = flag(spec, "insecureSkipTLSVerify");
    if !has(spec, "service") {
        if !bundle.is_empty() {
            let size = STANDARD.decode(bundle).map_or(bundle.len(), |it| it.len());
            errors.push(FieldError::invalid(
                "spec.caBundle",
                &json!(format!("{size} bytes")),
                "local APIServices may not have a caBundle",
            ));
        }
        if skips {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(SKIP, &json!(true), why));
        }
        return;
    }
    let service = &spec["service"];
    check::required(service, "namespace", PATH, errors);
    check::required(service, "name", PATH, errors);
    let port = number(service, "port").unwrap_or(0);
    if let Some(wrong) = names::port_number(port) {
        errors.push(FieldError::invalid(
            format!("{PATH}.port"),
            &json!(port),
            format!("port is not valid: {wrong}"),
        ));
    }
    if skips && !bundle.is_empty() {
        let why = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(SKIP, &json!(true), why));
    }
}

/// A condition holds, does not, or nobody knows.
pub(in crate::builtin) fn validate_status(new: &Value, _: &Value, found: &mut Validation) {
    const STATES: &[&str] = &["True", "False", "Unknown"];
    for (i, condition) in list(&new["status"], "conditions").iter().enumerate() {
        let state = text(condition, "status");
        if !STATES.contains(&state) {
            let field = format!("status.conditions[{i}].status");
            found
                .errors
                .push(FieldError::not_supported(field, &json!(state), STATES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(name: &str, spec: &Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": name}, "spec": spec});
        default_api_service(&mut object);
        let mut found = Validation::default();
        validate(&object, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    fn spec(more: &Value) -> Value {
        let mut spec = json!({"group": "a.b", "version": "v1", "groupPriorityMinimum": 1000,
            "versionPriority": 15});
        for (member, value) in more.as_object().into_iter().flatten() {
            spec[member] = value.clone();
        }
        spec
    }

    #[test]
    fn the_name_says_what_is_served() {
        assert_eq!(wrongs("v1.a.b", &spec(&json!({}))), Vec::<String>::new());
        assert_eq!(
            wrongs("v1.", &spec(&json!({"group": ""}))),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs("x", &json!({"version": "1"})),
            [
                "metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \"1.\"",
                "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
                "spec.version: Invalid value: \"1\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
            ]
        );
        assert_eq!(
            wrongs(
                "v1.a.b",
                &spec(&json!({"groupPriorityMinimum": 20_001, "versionPriority": 1001}))
            ),
            [
                "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            ]
        );
    }

    #[test]
    fn another_server_is_trusted_by_its_certificate_or_not_asked_for_one() {
        assert_eq!(
            wrongs(
                "v1.a.b",
                &spec(&json!({"caBundle": "aGk=", "insecureSkipTLSVerify": true}))
            ),
            [
                "spec.caBundle: Invalid value: \"2 bytes\": local APIServices may not have a caBundle",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ]
        );
        let service = json!({"namespace": "a", "name": "b"});
        assert_eq!(
            wrongs(
                "v1.a.b",
                &spec(&json!({"service": service, "caBundle": "aGk="}))
            ),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs(
                "v1.a.b",
                &spec(&json!({"service": {"port": 70_000}, "caBundle": "aGk=",
                    "insecureSkipTLSVerify": true}))
            ),
            [
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
            ]
        );
    }

    #[test]
    fn conditions_have_a_state() {
        let new = json!({"status": {"conditions": [{"status": "True"}, {"status": "Maybe"}]}});
        let mut found = Validation::default();
        validate_status(&new, &json!({}), &mut found);
        let texts: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "status.conditions[1].status: Unsupported value: \"Maybe\": supported values: \"True\", \"False\", \"Unknown\""
            ]
        );
    }
}

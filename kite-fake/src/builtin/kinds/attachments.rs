//! `VolumeAttachment`: which volume is to be at which Node.

use serde_json::{Value, json};

use crate::builtin::check;
use crate::field_error::CauseReason;
use crate::members::{has, members, number, text};
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

const MAX_METADATA: u64 = 256 * 1024;
const MAX_MESSAGE: usize = 1024;

/// Checks a new attachment.
pub(in crate::builtin) fn validate_new(object: &Value, found: &mut Validation) {
    validate(object, &mut found.errors);
    let spec = &object["spec"];
    check::driver(spec, "attacher", "spec", &mut found.errors);
    if has(&spec["source"], "persistentVolumeName") {
        check::subdomain(
            text(&spec["source"], "persistentVolumeName"),
            "spec.source.persistentVolumeName",
            &mut found.errors,
        );
    }
}

/// Checks a changed attachment: what is to be attached stays.
pub(in crate::builtin) fn validate_update(new: &Value, old: &Value, found: &mut Validation) {
    validate(new, &mut found.errors);
    if new["spec"] != old["spec"] {
        found.errors.push(FieldError::with(
            CauseReason::Invalid,
            "spec",
            format!(
                "Invalid value: {}: {}",
                written(&new["spec"]),
                check::IMMUTABLE
            ),
        ));
    }
}

/// A specification as the server tells of it, by the names that it uses itself.
fn written(spec: &Value) -> String {
    let source = &spec["source"];
    format!(
        "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
        json!(text(spec, "attacher")),
        source["persistentVolumeName"],
        source["inlineVolumeSpec"],
        json!(text(spec, "nodeName")),
    )
}

fn validate(object: &Value, errors: &mut Errors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    const SOURCE: &str = "spec.source";
    let spec = &object["spec"];
    check::required(spec, "attacher", "spec", errors);
    let source = &spec["source"];
    let named = has(source, "persistentVolumeName");
    match (named, has(source, "inlineVolumeSpec")) {
        (false, false) => errors.push(FieldError::required(SOURCE, ONE)),
        (true, true) => errors.push(FieldError::forbidden(SOURCE, ONE)),
        _ if named && text(source, "persistentVolumeName").is_empty() => {
            let why = "must specify non empty persistentVolumeName";
            let field = format!("{SOURCE}.persistentVolumeName");
            errors.push(FieldError::required(field, why));
        }
        _ => {}
    }
    check::subdomain(text(spec, "nodeName"), "spec.nodeName", errors);
    status(&object["status"], errors);
}

fn status(status: &Value, errors: &mut Errors) {
    let sizes = members(status, "attachmentMetadata")
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if sizes.sum::<usize>() as u64 > MAX_METADATA {
        let field = "status.attachmentMetadata";
        errors.push(FieldError::too_long(field, MAX_METADATA));
    }
    for member in ["attachError", "detachError"] {
        let error = &status[member];
        if text(error, "message").len() > MAX_MESSAGE {
            // The server names the other limit.
            let field = format!("status.{member}.message");
            errors.push(FieldError::too_long(field, MAX_METADATA));
        }
        if number(error, "errorCode").is_some_and(|code| code < 0) {
            errors.push(FieldError::invalid(
                format!("status.{member}.errorCode"),
                &error["errorCode"],
                "must be between 0 and 2147483647, inclusive",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(found: &Validation) -> Vec<String> {
        found.errors.iter().map(ToString::to_string).collect()
    }

    fn wrongs(spec: &Value) -> Vec<String> {
        let mut found = Validation::default();
        validate_new(&json!({"spec": spec}), &mut found);
        texts(&found)
    }

    fn fine() -> Value {
        json!({"attacher": "CSI.example.com", "nodeName": "n",
            "source": {"persistentVolumeName": "v"}})
    }

    #[test]
    fn one_volume_is_at_a_node() {
        const NAME: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        assert_eq!(wrongs(&fine()), Vec::<String>::new());
        assert_eq!(
            wrongs(&json!({"attacher": "a", "nodeName": "n", "source":
                {"persistentVolumeName": "v", "inlineVolumeSpec": {}}})),
            [
                "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
            ]
        );
        assert_eq!(
            wrongs(&json!({})),
            [
                "spec.attacher: Required value".to_owned(),
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName".to_owned(),
                format!("spec.nodeName: Invalid value: \"\": {NAME}"),
                "spec.attacher: Required value".to_owned(),
                format!("spec.attacher: Invalid value: \"\": {NAME}"),
            ]
        );
    }

    #[test]
    fn what_is_to_be_attached_stays() {
        let mut new = fine();
        new["nodeName"] = json!("m");
        let mut found = Validation::default();
        validate_update(&json!({"spec": new}), &json!({"spec": fine()}), &mut found);
        assert_eq!(
            texts(&found),
            [
                "spec: Invalid value: {\"Attacher\":\"CSI.example.com\",\"Source\":{\"PersistentVolumeName\":\"v\",\"InlineVolumeSpec\":null},\"NodeName\":\"m\"}: field is immutable"
            ]
        );
    }

    #[test]
    fn errors_are_short() {
        let status = json!({"attachError": {"message": "x".repeat(1025)},
            "detachError": {"errorCode": -1}});
        let mut found = Validation::default();
        let object = json!({"spec": fine(), "status": status});
        validate_update(&object, &object, &mut found);
        assert_eq!(
            texts(&found),
            [
                "status.attachError.message: Too long: may not be more than 262144 bytes",
                "status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ]
        );
    }
}

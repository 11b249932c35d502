//! Bodies: decoding, and whether their type fits the path.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Call, parse_text};
use crate::patch::kind_of;
use crate::protobuf::{self, DecodeError};
use crate::registry::Resource;
use crate::rest::media::{self, Encoding};
use crate::rest::strict::Outline;
use crate::rest::yaml;
use crate::status::{Cause, Status};

/// The body of a write as a value.
pub(crate) fn decode(call: &Call) -> Result<Value, Status> {
    // A Scale is a built-in kind, whatever is scaled.
    let is_scale = call.target.subresource.as_deref() == Some("scale");
    let custom = call.resource.is_custom() && !is_scale;
    let encoding = media::content_type(call.content_type.as_deref(), custom)?;
    let kind = &call.resource.kind;
    if encoding == Encoding::Protobuf {
        let version = call.resource.api_version();
        return protobuf::decode(&call.body, (&version, kind))
            .map_err(|error| not_decoded(kind, &call.body, &error));
    }
    let fail = |why: &str| {
        let shown = summary(&call.body);
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    };
    let value = parse_text(&call.body, encoding).map_err(|why| {
        fail(&match encoding {
            Encoding::Yaml => format!("error converting YAML to JSON: yaml: {why}"),
            Encoding::Json | Encoding::Protobuf => format!("{NOT_READ}{why}"),
        })
    })?;
    match is_typed(&value) {
        Err(why) => Err(fail(&format!("{NOT_READ}json: cannot unmarshal {why}"))),
        Ok(()) if value.is_null() => Ok(Value::Object(Map::new())),
        Ok(()) => Ok(value),
    }
}

/// How messages about a body begin whose kind could not be read.
pub(super) const NOT_READ: &str = "couldn't get version/kind; json parse error: ";

/// Whether a value may have a kind and an `apiVersion`.
fn is_typed(value: &Value) -> Result<(), String> {
    let Value::Object(members) = value else {
        return match value {
            Value::Null => Ok(()),
            other => Err(format!(
                "{} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                kind_of(other)
            )),
        };
    };
    for name in ["apiVersion", "kind"] {
        match members.get(name) {
            None | Some(Value::String(_) | Value::Null) => {}
            Some(other) => {
                let kind = kind_of(other);
                return Err(format!(
                    "{kind} into Go struct field .{name} of type string"
                ));
            }
        }
    }
    Ok(())
}

/// 400 for a body in protobuf that is no object.
fn not_decoded(kind: &str, body: &[u8], error: &DecodeError) -> Status {
    let why = &error.why;
    Status::bad_request(match &error.of {
        Some((version, given)) => {
            let version = version.rsplit('/').next().unwrap_or(version);
            format!("{given} in version \"{version}\" cannot be handled as a {kind}: {why}")
        }
        None => format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(body)
        ),
    })
}

/// The first bytes of a body, as messages show them.
fn summary(body: &[u8]) -> String {
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let (shown, rest) = body.split_at(body.len().min(30));
    let mut text = match shown.first() {
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        _ => shown.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }),
    };
    if !rest.is_empty() {
        text.push_str(" ...");
    }
    text
}

/// What the text of a body says beside its value.
pub(crate) fn outline(call: &Call, value: &Value) -> Outline {
    match media::content_type(call.content_type.as_deref(), call.resource.is_custom()) {
        Ok(Encoding::Json) => Outline::of(&call.body),
        Ok(Encoding::Yaml) => Outline {
            problems: yaml::duplicate(&call.body, value).into_iter().collect(),
            ..Outline::default()
        },
        _ => Outline::default(),
    }
}

/// Whether `kind` and `apiVersion` of a body fit the path.
pub(crate) fn check_type(call: &Call, body: &Value) -> Result<(), Status> {
    let resource = &call.resource;
    let kind = body["kind"].as_str().unwrap_or_default();
    let version = body["apiVersion"].as_str().unwrap_or_default();
    let expected = resource.api_version();
    if resource.is_custom() {
        return check_custom(call, body, kind, version);
    }
    let kind_given = if kind.is_empty() {
        &resource.kind
    } else {
        kind
    };
    let version_given = if version.is_empty() {
        &expected
    } else {
        version
    };
    if kind_given == resource.kind && version_given == expected {
        return Ok(());
    }
    let (package, package_version) = go_package(&expected);
    Err(Status::bad_request(if version_given == expected {
        format!(
            "{kind_given} in version \"{package_version}\" cannot be handled as a {}: converting ({package_version}.{kind_given}) to ({package}.{}): unknown conversion",
            resource.kind, resource.kind
        )
    } else {
        let (_, shown) = go_package(version_given);
        format!(
            "{kind_given} in version \"{shown}\" cannot be handled as a {}: no kind \"{kind_given}\" is registered for version \"{version_given}\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
            resource.kind
        )
    }))
}

fn check_custom(call: &Call, body: &Value, kind: &str, version: &str) -> Result<(), Status> {
    let resource = &call.resource;
    if kind.is_empty() {
        let text = String::from_utf8_lossy(&call.body);
        let start: String = text.chars().take(30).collect();
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{text}' ({start} ...)",
            resource.kind
        )));
    }
    let expected = resource.api_version();
    if version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if kind == resource.kind {
        return Ok(());
    }
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let why = format!("Invalid value: \"{kind}\": must be {}", resource.kind);
    Err(Status::invalid(
        &resource.group,
        kind,
        name,
        vec![Cause::new("FieldValueInvalid", why, "kind")],
    ))
}

/// Go package of a version's types, as conversion errors name it, and the version.
fn go_package(api: &str) -> (String, String) {
    let (group, version) = api.split_once('/').unwrap_or(("core", api));
    let package = group.split('.').next().unwrap_or(group);
    (package.to_owned(), version.to_owned())
}

/// The body with the `kind` and `apiVersion` of the path.
pub(crate) fn fill_type(resource: &Resource, mut body: Value) -> Value {
    if let Some(members) = body.as_object_mut() {
        members.insert("kind".into(), resource.kind.as_str().into());
        members.insert("apiVersion".into(), resource.api_version().into());
    }
    body
}

/// 400 if the body names no object, or another than the path.
pub(crate) fn check_name(call: &Call, body: &Value) -> Result<(), Status> {
    let url = call.name();
    match body["metadata"]["name"].as_str().unwrap_or_default() {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        ))),
        name if name != url => Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        ))),
        _ => Ok(()),
    }
}

//! Create.

use serde_json::{Map, Value, json};

use super::registry::Resource;
use super::{ApiServer, Call, Outcome, Produced, parse_text, rules};
use crate::clock::rfc3339;
use crate::rest::media::{self, Encoding};
use crate::rest::options::WriteOptions;
use crate::status::{Cause, Status};
use crate::store::{Key, Object, Stored};

/// Members of `metadata` that only the server sets.
const SYSTEM_ON_CREATE: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

impl ApiServer {
    /// POST to a collection.
    pub(crate) fn create(&mut self, call: &Call) -> Result<Outcome, Status> {
        let options = call.write_options("CreateOptions")?;
        let body = decode(call)?;
        check_type(call, &body)?;
        let body = fill_type(&call.resource, body);
        let decoded = rules::admit_body(&call.resource, body, &options)?;
        let object = self.create_object(call, decoded.value, &options)?;
        Ok(Outcome {
            body: Produced::Object(object),
            code: 201,
            warnings: decoded.warnings,
        })
    }

    /// Creates an object that has been decoded, pruned and defaulted. Also how
    /// an apply of a missing object ends.
    pub(crate) fn create_object(
        &mut self,
        call: &Call,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let resource = call.resource.clone();
        let namespace = call.namespace().to_owned();
        let metadata = metadata_mut(&mut object)?;
        match metadata.get("namespace").and_then(Value::as_str) {
            Some(other) if !other.is_empty() && resource.namespaced && other != namespace => {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            _ => {}
        }
        if resource.namespaced {
            metadata.insert("namespace".into(), namespace.as_str().into());
        } else {
            metadata.remove("namespace");
        }
        let given = text(metadata, "name").to_owned();
        self.admit_namespace(&resource, &namespace, &given)?;
        for field in SYSTEM_ON_CREATE {
            metadata.remove(*field);
        }
        if !text(metadata, "resourceVersion").is_empty() {
            return Err(Status::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        metadata.remove("resourceVersion");
        let prefix = text(metadata, "generateName").to_owned();
        let name = if given.is_empty() && !prefix.is_empty() {
            let base: String = prefix.chars().take(58).collect();
            format!("{base}{}", self.ids.suffix())
        } else {
            given
        };
        if name.is_empty() {
            return Err(Status::invalid(
                &resource.group,
                &resource.kind,
                "",
                vec![Cause::new(
                    "FieldValueRequired",
                    "Required value: name or generateName is required",
                    "metadata.name",
                )],
            ));
        }
        metadata.insert("name".into(), name.as_str().into());
        metadata.insert("uid".into(), self.ids.uid().into());
        metadata.insert("creationTimestamp".into(), rfc3339(call.now).into());
        if resource.is_custom() {
            metadata.insert("generation".into(), json!(1));
            if resource.has_status()
                && let Some(members) = object.as_object_mut()
            {
                members.remove("status");
            }
        }
        let key = Key::new(namespace, name.as_str());
        let collection = resource.collection();
        if let Some(existing) = self.store.get(&collection, &key) {
            let mut status = Status::already_exists(&resource.group, &resource.plural, &name);
            if !existing.value()["metadata"]["deletionTimestamp"].is_null() {
                status.message = format!("object is being deleted: {}", status.message);
            }
            return Err(status);
        }
        if options.dry_run {
            return Ok(Stored::transient(object, 0, resource.epoch));
        }
        Ok(self.commit(&resource, key, object))
    }
}

/// The body of a write as a value.
pub(crate) fn decode(call: &Call) -> Result<Value, Status> {
    let encoding = media::content_type(call.content_type.as_deref(), call.resource.is_custom())?;
    let kind = &call.resource.kind;
    let value = parse_text(&call.body, encoding).map_err(|why| {
        let shown = String::from_utf8_lossy(&call.body).chars().take(32).collect::<String>();
        let format = if encoding == Encoding::Json { "json" } else { "yaml" };
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {format} parse error: {why} ({shown})"
        ))
    })?;
    if value.is_object() {
        return Ok(value);
    }
    Err(Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: json: cannot unmarshal into an object"
    )))
}

/// Whether `kind` and `apiVersion` of a body fit the path.
pub(crate) fn check_type(call: &Call, body: &Value) -> Result<(), Status> {
    let resource = &call.resource;
    let kind = body["kind"].as_str().unwrap_or_default();
    let version = body["apiVersion"].as_str().unwrap_or_default();
    let expected = resource.api_version();
    if resource.is_custom() {
        if kind.is_empty() {
            let text = String::from_utf8_lossy(&call.body);
            let start: String = text.chars().take(24).collect();
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{text}' ({start} ...)",
                resource.kind
            )));
        }
        if !version.is_empty() && version != expected {
            return Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        if kind != resource.kind {
            let name = body["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Status::invalid(
                &resource.group,
                kind,
                name,
                vec![Cause::new(
                    "FieldValueInvalid",
                    format!("Invalid value: \"{kind}\": must be {}", resource.kind),
                    "kind",
                )],
            ));
        }
        return Ok(());
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
    let go_package = |api: &str| {
        let (group, version) = api.split_once('/').unwrap_or(("core", api));
        (
            group.split('.').next().unwrap_or(group).to_owned(),
            version.to_owned(),
        )
    };
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

/// The body with the `kind` and `apiVersion` of the path.
pub(crate) fn fill_type(resource: &Resource, mut body: Value) -> Value {
    if let Some(members) = body.as_object_mut() {
        members.insert("kind".into(), resource.kind.as_str().into());
        members.insert("apiVersion".into(), resource.api_version().into());
    }
    body
}

/// `metadata` of an object, made if it is not there.
pub(crate) fn metadata_mut(object: &mut Value) -> Result<&mut Map<String, Value>, Status> {
    object
        .as_object_mut()
        .map(|members| members.entry("metadata").or_insert_with(|| json!({})))
        .and_then(Value::as_object_mut)
        .ok_or_else(|| Status::bad_request("metadata must be an object"))
}

/// A string member, empty if it is not there.
pub(crate) fn text<'a>(members: &'a Map<String, Value>, field: &str) -> &'a str {
    members
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

//! Update and patch.

use serde_json::Value;

use super::create::{check_type, decode, fill_type, metadata_mut, text};
use super::{ApiServer, Call, Outcome, Produced, rules};
use crate::status::{Cause, Status};
use crate::store::{Object, Stored};

/// Members of `metadata` that a write cannot change.
const SYSTEM_ON_UPDATE: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

impl ApiServer {
    /// PUT of an object or a subresource.
    pub(crate) fn put(&mut self, call: &Call) -> Result<Outcome, Status> {
        let options = call.write_options("UpdateOptions")?;
        let body = decode(call)?;
        check_type(call, &body)?;
        let body = fill_type(&call.resource, body);
        check_name(call, &body)?;
        let decoded = rules::admit_body(&call.resource, body, &options)?;
        let live = self
            .store
            .get(&call.resource.collection(), &call.key())
            .ok_or_else(|| call.not_found())?
            .clone();
        let object = self.write(call, &live, decoded.value, options.dry_run)?;
        Ok(Outcome {
            body: Produced::Object(object),
            code: 200,
            warnings: decoded.warnings,
        })
    }

    /// PATCH of an object or a subresource.
    pub(crate) fn patch(&mut self, call: &Call) -> Result<Outcome, Status> {
        let options = call.write_options("PatchOptions")?;
        let live = self
            .store
            .get(&call.resource.collection(), &call.key())
            .ok_or_else(|| call.not_found())?
            .clone();
        let patch: Value = serde_json::from_slice(&call.body)
            .map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
        let mut new = Self::view(&call.resource, &live).value().clone();
        merge(&mut new, &patch);
        let decoded = rules::admit_body(&call.resource, new, &options)?;
        let object = self.write(call, &live, decoded.value, options.dry_run)?;
        Ok(Outcome {
            body: Produced::Object(object),
            code: 200,
            warnings: decoded.warnings,
        })
    }

    /// Stores a new state of an object, if it is one.
    pub(crate) fn write(
        &mut self,
        call: &Call,
        live: &Object,
        mut new: Value,
        dry_run: bool,
    ) -> Result<Object, Status> {
        let resource = &call.resource;
        let old = Self::view(resource, live);
        let metadata = metadata_mut(&mut new)?;
        let given = text(metadata, "resourceVersion").to_owned();
        if given.is_empty() || given == "0" {
            if resource.is_custom() && call.method == http::Method::PUT {
                return Err(Status::invalid(
                    &resource.group,
                    &resource.plural,
                    call.name(),
                    vec![Cause::new(
                        "FieldValueInvalid",
                        "Invalid value: 0: must be specified for an update",
                        "metadata.resourceVersion",
                    )],
                ));
            }
        } else if given != live.meta("resourceVersion") {
            return Err(Status::modified(
                &resource.group,
                &resource.plural,
                call.name(),
            ));
        }
        let old_metadata = &old.value()["metadata"];
        for field in SYSTEM_ON_UPDATE
            .iter()
            .chain(&["uid", "namespace", "resourceVersion"])
        {
            match old_metadata.get(*field) {
                Some(value) => metadata.insert((*field).into(), value.clone()),
                None => metadata.remove(*field),
            };
        }
        restrict(call, old.value(), &mut new);
        if new == *old.value() {
            return Ok(old);
        }
        let key = call.key();
        let deleting = !new["metadata"]["deletionTimestamp"].is_null();
        let held = new["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
        if dry_run || (deleting && !held) {
            if !dry_run {
                self.remove(resource, &key);
            }
            return Ok(Stored::transient(new, live.revision(), resource.epoch));
        }
        Ok(self.commit(resource, key, new))
    }
}

/// What a write may touch: `/status` only the status, the object everything
/// else; and what that does to `generation`.
fn restrict(call: &Call, old: &Value, new: &mut Value) {
    let resource = &call.resource;
    let status_write = call.target.subresource.as_deref() == Some("status");
    let Some(members) = new.as_object_mut() else {
        return;
    };
    if status_write {
        let status = members.remove("status");
        if let Value::Object(before) = old {
            members.clone_from(before);
        }
        match status {
            Some(status) => members.insert("status".into(), status),
            None => members.remove("status"),
        };
        return;
    }
    if resource.has_status() {
        match old.get("status") {
            Some(status) => members.insert("status".into(), status.clone()),
            None => members.remove("status"),
        };
    }
    if resource.is_custom() {
        let content = |v: &serde_json::Map<String, Value>| {
            let mut v = v.clone();
            v.remove("metadata");
            v
        };
        let changed = old
            .as_object()
            .is_none_or(|o| content(o) != content(members));
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(1) + i64::from(changed);
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("generation".into(), generation.into());
        }
    }
}

fn check_name(call: &Call, body: &Value) -> Result<(), Status> {
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

/// JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    if let Value::Object(target) = target {
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }
}

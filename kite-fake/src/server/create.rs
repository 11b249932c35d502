//! Create.

use serde_json::{Map, Value, json};

use super::rules::{self, Rules};
use super::{ApiServer, Call, Outcome, Produced, body, certificates, hooks, size};
use crate::clock::rfc3339;
use crate::metadata;
use crate::registry::Resource;
use crate::rest::options::WriteOptions;
use crate::status::{Cause, Status};
use crate::store::{Key, Object, Stored};

/// Members of `metadata` that only the server sets.
const SYSTEM: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "resourceVersion",
];

/// Longest prefix of a generated name.
const MAX_PREFIX: usize = 58;

impl ApiServer {
    /// POST to a collection.
    pub(crate) fn create(&mut self, call: &Call) -> Result<Outcome, Status> {
        let options = call.write_options("CreateOptions")?;
        let body = body::decode(call)?;
        let outline = body::outline(call, &body);
        body::check_type(call, &body)?;
        let body = body::fill_type(&call.resource, body);
        let decoded = rules::decode(&call.resource, body, &outline, &options, None)?;
        self.warnings.extend(decoded.warnings);
        check_namespace(call, &decoded.value)?;
        let mut object = decoded.value;
        if object["metadata"].is_null() {
            object["metadata"] = json!({});
        }
        if call.resource.namespaced {
            object["metadata"]["namespace"] = call.namespace().into();
        }
        // Nobody owns what only the server sets.
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            metadata_mut(&mut object)?.remove(field);
        }
        self.warnings
            .extend(metadata::dedup_owners(&mut object, false));
        let object = rules::track(call, &options, None, object);
        let object = self.create_object(call, object, &options)?;
        Ok(Outcome {
            body: Produced::Object(object),
            code: 201,
        })
    }

    /// Creates an object that has been decoded, defaulted and tracked. Also how
    /// an apply of a missing object ends.
    pub(crate) fn create_object(
        &mut self,
        call: &Call,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let resource = call.resource.clone();
        let namespace = call.namespace().to_owned();
        let given = text(metadata_mut(&mut object)?, "name").to_owned();
        self.admit_namespace(&resource, &namespace, &given)?;
        refuse_terminating(&resource, &given)?;
        // The server's own admission, then policies, then webhooks: each sees what the one
        // before has made of what was sent, before the server names and stamps it.
        self.mutate_admission(&resource, &mut object, None)?;
        self.mutate_by_policies(call, "CREATE", &mut object, None)?;
        let metadata = metadata_mut(&mut object)?;
        let given = text(metadata, "name").to_owned();
        // What is no number, and zero, is taken for none.
        let version = text(metadata, "resourceVersion").parse::<u64>();
        if !options.dry_run && version.is_ok_and(|version| version > 0) {
            return Err(Status::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        wipe(metadata, options);
        if resource.namespaced {
            metadata.insert("namespace".into(), namespace.as_str().into());
        } else {
            metadata.remove("namespace");
        }
        let hooked = self.has_hooks();
        if hooked {
            object = self.changed_new(call, object, &given, options)?;
        }
        let metadata = metadata_mut(&mut object)?;
        let prefix = text(metadata, "generateName").to_owned();
        let name = match text(metadata, "name") {
            "" if !prefix.is_empty() => {
                let base: String = prefix.chars().take(MAX_PREFIX).collect();
                format!("{base}{}", self.ids.suffix())
            }
            given => given.to_owned(),
        };
        if name.is_empty() {
            return Err(nameless(&resource));
        }
        metadata.insert("name".into(), name.as_str().into());
        metadata.insert("uid".into(), self.ids.uid().into());
        metadata.insert("creationTimestamp".into(), rfc3339(call.now).into());
        let rules = Rules::of(&resource);
        rules.prepare_create(&resource, &mut object);
        certificates::stamp(call, &mut object);
        let found = rules.validate_create(&resource, &object);
        if found.errors.is_empty() || resource.is_custom() {
            self.warnings.extend(found.warnings);
        }
        let held = found.held;
        rules::refuse(&resource, &name, found.errors)?;
        self.validate_admission(call, &object, None)?;
        // Whoever is asked sees what the Service will have.
        self.allocate(&resource, &name, &mut object, None)?;
        self.ask_policies(call, "CREATE", Some(&object), None)?;
        if hooked {
            let write = creation(call, &name, options);
            self.validate_by_hooks(&write, Some(&object))?;
        }
        self.ask_webhooks(call, &object, None)?;
        let form = if options.dry_run {
            None
        } else {
            self.form(call, &mut object, 0)?
        };
        let key = Key::new(namespace, name.as_str());
        let collection = resource.collection();
        self.charge_quota(&resource, &object, None, options.dry_run)?;
        if let Some(existing) = self.store.get(&collection, &key) {
            let taken = if prefix.is_empty() {
                Status::already_exists
            } else {
                Status::generated_name_exists
            };
            let mut status = taken(&resource.group, &resource.plural, &name);
            if existing.is_deleting() {
                status.message = format!("object is being deleted: {}", status.message);
            }
            return Err(status);
        }
        let object = if options.dry_run {
            Stored::transient(object, 0, resource.epoch)
        } else {
            let alone = !(hooked || self.has_mutations());
            size::check(call, &mut object, alone.then_some(0))?;
            let object = match form {
                Some(form) => self.commit_form(&resource, &key, form),
                None => self.commit(&resource, &key, object),
            };
            object.hold(held);
            object
        };
        Ok(object)
    }
}

impl ApiServer {
    /// A new object as webhooks leave it.
    fn changed_new(
        &mut self,
        call: &Call,
        object: Value,
        name: &str,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let write = creation(call, name, options);
        let changed = self.mutate_by_hooks(&write, Some(object))?;
        let mut object = changed.unwrap_or_default();
        self.warnings
            .extend(metadata::dedup_owners(&mut object, true));
        check_namespace(call, &object)?;
        wipe(metadata_mut(&mut object)?, options);
        Ok(object)
    }
}

fn nameless(resource: &Resource) -> Status {
    let cause = Cause::new(
        "FieldValueRequired",
        "Required value: name or generateName is required",
        "metadata.name",
    );
    Status::invalid(&resource.group, &resource.kind, "", vec![cause])
}

/// A create as webhooks are asked about it.
fn creation<'a>(call: &'a Call, name: &'a str, options: &WriteOptions) -> hooks::Write<'a> {
    hooks::Write {
        call,
        operation: "CREATE",
        name,
        options: hooks::Options::Write("CreateOptions"),
        dry_run: options.dry_run,
        old: None,
    }
}

/// Takes away what only the server sets.
fn wipe(metadata: &mut Map<String, Value>, options: &WriteOptions) {
    for field in SYSTEM {
        // What is not stored gets no version but the one that was sent.
        if !(options.dry_run && *field == "resourceVersion") {
            metadata.remove(*field);
        }
    }
}

/// 405 for new objects of a definition that is being deleted.
fn refuse_terminating(resource: &Resource, name: &str) -> Result<(), Status> {
    if !resource.terminating {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(Status::forbidden(
        &resource.group,
        &resource.plural,
        name,
        why,
    ))
}

/// 400 if the body names another namespace than the path.
pub(crate) fn check_namespace(call: &Call, body: &Value) -> Result<(), Status> {
    let given = body["metadata"]["namespace"].as_str().unwrap_or_default();
    if call.resource.namespaced && !given.is_empty() && given != call.namespace() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
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

//! Where the server meets schemas, field ownership and the rules of built-in
//! kinds: one place, so that handlers read alike for every kind.

use serde_json::{Value, json};

use super::scale;
use super::{ApiServer, Call};
use crate::builtin::{self, BuiltIn};
use crate::fields::{self, Context, Manager, Operation, Reset};
use crate::go;
use crate::go_json;
use crate::go_types::{self, TYPES};
use crate::metadata;
use crate::registry::Resource;
use crate::rest::options::{FieldValidation, WriteOptions};
use crate::rest::strict::Outline;
use crate::rest::yaml;
use crate::schema::{self, FieldError, Held, Validation, crd};
use crate::status::{Cause, Status};

/// What a body became.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
}

/// Which rules a resource follows.
pub(crate) enum Rules {
    BuiltIn(&'static BuiltIn),
    Custom,
    /// Definitions of custom resources.
    Definition,
    /// A built-in type that is only stored.
    Plain,
}

impl Rules {
    pub(crate) fn of(resource: &Resource) -> Self {
        if resource.is_custom() {
            return Self::Custom;
        }
        if resource.kind == "CustomResourceDefinition" {
            return Self::Definition;
        }
        builtin::kind(&resource.group, &resource.version, &resource.kind)
            .map_or(Self::Plain, Self::BuiltIn)
    }

    /// A PUT of a missing object creates it.
    pub(crate) fn creates_on_update(&self) -> bool {
        matches!(self, Self::BuiltIn(kind) if kind.creates_on_update())
    }

    /// A PUT may leave `resourceVersion` out.
    pub(crate) fn updates_unconditionally(&self) -> bool {
        match self {
            Self::BuiltIn(kind) => kind.updates_unconditionally(),
            Self::Custom | Self::Definition => false,
            Self::Plain => true,
        }
    }

    fn reset(&self, resource: &Resource, subresource: &str) -> Reset {
        match self {
            Self::BuiltIn(kind) => kind.reset(subresource),
            _ if subresource == "status" => Reset::Members(&["metadata", "spec"]),
            _ if resource.has_status() => Reset::Members(&["status"]),
            _ => Reset::Nothing,
        }
    }

    /// Sets what only the server sets on a new object.
    pub(crate) fn prepare_create(&self, resource: &Resource, object: &mut Value) {
        match self {
            Self::BuiltIn(kind) => kind.prepare_create(object),
            Self::Custom => {
                object["metadata"]["generation"] = json!(1);
                if resource.has_status()
                    && let Some(members) = object.as_object_mut()
                {
                    members.remove("status");
                }
            }
            Self::Definition => {
                object["metadata"]["generation"] = json!(1);
                object["status"] = crd::initial_status(object);
            }
            Self::Plain => {}
        }
    }

    /// Restores what the endpoint does not change, and counts `generation`.
    pub(crate) fn prepare_update(
        &self,
        resource: &Resource,
        new: &mut Value,
        old: &Value,
        subresource: &str,
    ) {
        match self {
            Self::BuiltIn(kind) => kind.prepare_update(new, old, subresource),
            Self::Definition => {
                restrict(resource, new, old, subresource);
                if subresource.is_empty() {
                    crd::record_storage_version(new);
                }
            }
            _ => restrict(resource, new, old, subresource),
        }
    }

    pub(crate) fn validate_create(&self, resource: &Resource, object: &Value) -> Validation {
        let mut found = match self {
            Self::BuiltIn(kind) => return kind.validate_create(object),
            Self::Custom => {
                let mut found = schema::validate(&resource.schema, object, None);
                scale::check(resource, object, true, &mut found.errors);
                found
            }
            Self::Definition => defined(crd::validate(object, None), object),
            Self::Plain => Validation::default(),
        };
        let names = metadata::validate_custom(object, resource.namespaced);
        found.errors.splice(0..0, names);
        found
    }

    /// Checks a changed object, of whose state before `held` is known.
    pub(crate) fn validate_update(
        &self,
        resource: &Resource,
        new: &Value,
        old: &Value,
        held: Held,
        subresource: &str,
    ) -> Validation {
        let mut found = match self {
            Self::BuiltIn(kind) => return kind.validate_update(new, old, subresource),
            Self::Custom => {
                let mut found = schema::validate_after(&resource.schema, new, Some(old), held);
                if subresource == "status" {
                    found.errors.iter_mut().for_each(name_from_status);
                }
                let spec = subresource != "status";
                scale::check(resource, new, spec, &mut found.errors);
                found
            }
            Self::Definition if subresource.is_empty() => {
                defined(crd::validate(new, Some(old)), new)
            }
            Self::Definition | Self::Plain => Validation::default(),
        };
        let names = metadata::validate_custom_update(new, old, resource.namespaced);
        found.errors.splice(0..0, names);
        found
    }
}

/// On `/status` the schema of the status is checked by itself, so that texts
/// name fields from there.
fn name_from_status(error: &mut FieldError) {
    if let Some(short) = error.field.strip_prefix("status.") {
        let (long, short) = (
            format!("{} in body", error.field),
            format!("{short} in body"),
        );
        error.message = error.message.replace(&long, &short);
    }
}

/// The shape of definitions; what they mean is checked elsewhere.
fn definition() -> Option<&'static BuiltIn> {
    builtin::kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

/// What was found of a definition; one that is accepted may still cause warnings.
fn defined(errors: Vec<FieldError>, crd: &Value) -> Validation {
    let warnings = if errors.is_empty() {
        crd::warnings(crd)
    } else {
        Vec::new()
    };
    Validation {
        errors,
        warnings,
        ..Validation::default()
    }
}

/// What a write to a custom resource may touch: `/status` only the status, the
/// object everything else; and what that does to `generation`.
fn restrict(resource: &Resource, new: &mut Value, old: &Value, subresource: &str) {
    let (Some(members), Some(before)) = (new.as_object_mut(), old.as_object()) else {
        return;
    };
    if subresource == "status" {
        let status = members.remove("status");
        let managed = members
            .get("metadata")
            .and_then(|m| m.get("managedFields"))
            .cloned();
        members.clone_from(before);
        match status {
            Some(status) => members.insert("status".into(), status),
            None => members.remove("status"),
        };
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            match managed {
                Some(entries) => metadata.insert("managedFields".into(), entries),
                None => metadata.remove("managedFields"),
            };
        }
        return;
    }
    if resource.has_status() {
        match before.get("status") {
            Some(status) => members.insert("status".into(), status.clone()),
            None => members.remove("status"),
        };
    }
    let changed = members.len() != before.len()
        || members
            .iter()
            .any(|(name, value)| name != "metadata" && before.get(name) != Some(value));
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        let generation = &old["metadata"]["generation"];
        match generation.as_i64() {
            Some(n) => metadata.insert("generation".into(), json!(n + i64::from(changed))),
            None => metadata.remove("generation"),
        };
    }
}

/// Reads an object in another version than the one it was stored in, or under
/// another edition of the schema.
pub(crate) fn convert(resource: &Resource, mut value: Value) -> Value {
    if let Rules::BuiltIn(kind) = Rules::of(resource) {
        kind.convert(&mut value);
    }
    if let Some(members) = value.as_object_mut() {
        members.insert("apiVersion".into(), resource.api_version().into());
    }
    if resource.is_custom() {
        schema::prune(&resource.schema, &mut value);
        schema::apply_defaults(&resource.schema, &mut value);
    }
    value
}

/// Brings what a policy made of an object into the form of the kind: defaults, and nothing
/// that the kind does not know.
///
/// # Errors
/// What does not fit the kind.
pub(crate) fn settled(resource: &Resource, mut value: Value) -> Result<Value, String> {
    match Rules::of(resource) {
        Rules::BuiltIn(kind) => {
            let unknown = schema::prune(&resource.schema, &mut value);
            if let Some(first) = unknown.first() {
                return Err(format!("strict decoding error: unknown field \"{first}\""));
            }
            kind.decode(&mut value)?;
        }
        Rules::Custom => {
            builtin::normalize_metadata(&mut value)?;
            schema::prune(&resource.schema, &mut value);
            schema::apply_defaults(&resource.schema, &mut value);
        }
        Rules::Definition | Rules::Plain => {}
    }
    Ok(value)
}

/// Brings what a client sent into the form of the kind: prunes, defaults, and
/// tells of what was dropped. `patch` gives the text of a patch for errors,
/// where the value came from one.
pub(crate) fn decode(
    resource: &Resource,
    mut value: Value,
    outline: &Outline,
    options: &WriteOptions,
    patch: Option<&dyn Fn() -> String>,
) -> Result<Decoded, Status> {
    let rules = Rules::of(resource);
    if resource.is_custom() {
        go::make_whole(&mut value);
    }
    let unknown = match rules {
        Rules::Plain | Rules::Definition => Vec::new(),
        _ => schema::prune(&resource.schema, &mut value),
    };
    let problems = outline.all_problems(unknown, !resource.is_custom());
    let cannot = |why: &str| {
        let why = go_json::as_sent(why, &outline.text);
        Status::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {why}",
            resource.kind, resource.version, resource.kind
        ))
    };
    let refused = |why: &str, text: &dyn Fn() -> String| {
        let message = format!("Invalid value: {}: {why}", json!(text()));
        let cause = Cause::new("FieldValueInvalid", message, "patch");
        Status::invalid("", "", "", vec![cause])
    };
    if options.validation == FieldValidation::Strict && !problems.is_empty() {
        let list = format!("strict decoding error: {}", problems.join(", "));
        return Err(match patch {
            None => cannot(&list),
            Some(text) => refused(&list, text),
        });
    }
    if !matches!(rules, Rules::BuiltIn(_)) && value.is_object() {
        builtin::normalize_metadata(&mut value).map_err(|why| cannot(&why))?;
    }
    match rules {
        Rules::BuiltIn(kind) => kind.decode(&mut value).map_err(|why| match patch {
            None => cannot(&why),
            Some(text) if outline.is_map => refused(&go::restoring(&why), text),
            Some(text) => refused(&why, text),
        })?,
        Rules::Custom => schema::apply_defaults(&resource.schema, &mut value),
        Rules::Definition => {
            fitting_schemas(&value).map_err(|why| cannot(&why))?;
            go::make_whole(&mut value);
            if let Some(kind) = definition() {
                kind.decode(&mut value).map_err(|why| cannot(&why))?;
            }
            crd::set_defaults(&mut value);
        }
        Rules::Plain => {}
    }
    let warnings = if options.validation == FieldValidation::Ignore {
        Vec::new()
    } else {
        problems.iter().flat_map(|p| yaml::warnings(p)).collect()
    };
    Ok(Decoded { value, warnings })
}

/// Whether the schemas of a definition are of the types that Go has for them.
fn fitting_schemas(crd: &Value) -> Result<(), String> {
    const PLACE: [&str; 4] = ["spec", "versions", "schema", "openAPIV3Schema"];
    let Some(at) = TYPES.find("apiextensions.v1.JSONSchemaProps") else {
        return Ok(());
    };
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .map(|version| &version["schema"]["openAPIV3Schema"])
        .filter(|schema| !schema.is_null())
        .try_for_each(|schema| go_types::check(at, schema, &PLACE))
}

/// Who writes, as `managedFields` names it.
pub(crate) fn manager(call: &Call, options: &WriteOptions, operation: Operation) -> Manager {
    Manager {
        name: options.manager.clone(),
        operation,
        api_version: call.resource.api_version(),
        subresource: call.target.subresource.clone().unwrap_or_default(),
    }
}

/// Runs `work` with what field ownership needs to know.
pub(crate) fn with_context<T>(
    call: &Call,
    manager: &Manager,
    work: impl FnOnce(&Context<'_>) -> T,
) -> T {
    const NOTHING: &Value = &Value::Null;
    let rules = Rules::of(&call.resource);
    // What is there of a type before anybody sets anything.
    let none = match rules {
        Rules::Definition => json!({"spec": {"names": {}}}),
        _ => json!({}),
    };
    let empty = match &rules {
        Rules::BuiltIn(kind) if kind.empty() != NOTHING => kind.empty(),
        Rules::Definition => definition().map_or(&none, BuiltIn::empty),
        _ => &none,
    };
    work(&Context {
        schema: &call.resource.schema,
        versions: match &rules {
            Rules::BuiltIn(kind) => kind.versions(),
            _ => call.resource.versions.as_deref(),
        },
        manager,
        reset: rules.reset(&call.resource, &manager.subresource),
        empty,
        now: call.now,
    })
}

/// Books a create, an update or a patch.
pub(crate) fn track(
    call: &Call,
    options: &WriteOptions,
    live: Option<&Value>,
    new: Value,
) -> Value {
    let manager = manager(call, options, Operation::Update);
    let mut new = new;
    if let (Rules::BuiltIn(kind), Some(live)) = (Rules::of(&call.resource), live) {
        // Nobody owns what the subresource does not change.
        let subresource = call.target.subresource.as_deref().unwrap_or_default();
        kind.keep_to(&mut new, live, subresource);
    }
    with_context(call, &manager, |context| fields::update(context, live, new))
}

/// Books everything that differs from `empty` as created now.
pub(crate) fn track_from(call: &Call, options: &WriteOptions, empty: &Value, new: Value) -> Value {
    let manager = manager(call, options, Operation::Update);
    let context = Context {
        schema: &call.resource.schema,
        versions: None,
        manager: &manager,
        reset: Reset::Nothing,
        empty,
        now: call.now,
    };
    fields::update(&context, None, new)
}

/// 422 about an object, if there is something to tell.
pub(crate) fn refuse(
    resource: &Resource,
    name: &str,
    errors: Vec<FieldError>,
) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let causes = errors
        .into_iter()
        .map(|e| Cause::new(e.reason.as_str(), e.message, e.field))
        .collect();
    Err(Status::invalid(
        &resource.group,
        &resource.kind,
        name,
        causes,
    ))
}

impl ApiServer {
    /// Sets what must be unique in the cluster.
    pub(crate) fn allocate(
        &self,
        resource: &Resource,
        name: &str,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Rules::BuiltIn(kind) = Rules::of(resource) else {
            return Ok(());
        };
        let mut taken = self.allocations.lock();
        if resource.plural == "services" {
            taken.follow(&self.store);
        }
        match kind.allocate(new, old, &*taken) {
            Ok(()) => Ok(()),
            Err(errors) => refuse(resource, name, errors),
        }
    }
}

//! Managers that used other versions of a resource: what they own is seen through the
//! schema of their version, and of a built-in kind in the form that the version has.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::compare::Difference;
use super::managed::Entries;
use super::set::FieldSet;
use super::{Context, Manager, prune, typed};
use crate::schema::Schema;

/// The versions of a resource.
#[derive(Debug, Clone)]
pub struct Versions(Form);

#[derive(Debug, Clone)]
enum Form {
    /// Those of a custom resource by `apiVersion`: objects have one form in all of them.
    Custom(BTreeMap<String, Arc<Schema>>),
    /// Those of a built-in kind, which are looked up when somebody used another one.
    BuiltIn {
        kind: &'static str,
        schema: fn(&str, &str) -> Option<&'static Arc<Schema>>,
        convert: fn(&Value, &str) -> Value,
    },
}

impl FromIterator<(String, Arc<Schema>)> for Versions {
    fn from_iter<T: IntoIterator<Item = (String, Arc<Schema>)>>(schemas: T) -> Self {
        Self(Form::Custom(schemas.into_iter().collect()))
    }
}

impl Versions {
    /// Those of a built-in kind: `schema` finds that of the kind in a version, and `convert`
    /// brings an object into a version.
    pub(crate) const fn built_in(
        kind: &'static str,
        schema: fn(&str, &str) -> Option<&'static Arc<Schema>>,
        convert: fn(&Value, &str) -> Value,
    ) -> Self {
        Self(Form::BuiltIn {
            kind,
            schema,
            convert,
        })
    }

    /// The schema of a version, named by its `apiVersion`.
    pub fn schema(&self, version: &str) -> Option<&Arc<Schema>> {
        match &self.0 {
            Form::Custom(schemas) => schemas.get(version),
            Form::BuiltIn { kind, schema, .. } => schema(kind, version),
        }
    }

    /// Whether objects have one form in all versions, so that only schemas can change.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.0, Form::Custom(_))
    }

    fn convert(&self, state: &Value, version: &str) -> Option<Value> {
        match &self.0 {
            Form::Custom(_) => None,
            Form::BuiltIn { convert, .. } => Some(convert(state, version)),
        }
    }
}

/// A state in the version of a manager.
///
/// # Errors
/// It has fields that the version does not declare.
fn seen<'a>(
    context: &Context<'_>,
    schema: &Schema,
    version: &str,
    state: &'a Value,
) -> Result<Cow<'a, Value>, String> {
    if let Some(there) = context.versions.and_then(|all| all.convert(state, version)) {
        return Ok(Cow::Owned(there));
    }
    typed::check(schema, state)?;
    Ok(Cow::Borrowed(state))
}

/// What two states differ in, for each version that a manager used.
#[derive(Debug)]
pub(super) struct Differences {
    /// In the version of the request.
    pub(super) own: Difference,
    others: BTreeMap<String, Difference>,
}

impl Differences {
    /// Compares two states for all managers of `entries`.
    ///
    /// # Errors
    /// A state has fields that the version of a manager does not declare.
    pub(super) fn between(
        context: &Context<'_>,
        old: &Value,
        new: &Value,
        entries: &Entries,
    ) -> Result<Self, String> {
        let compared = |schema: &Schema, old: &Value, new: &Value| {
            let mut difference = Difference::between(schema, old, new);
            difference.strip(context.reset);
            difference
        };
        let mut others = BTreeMap::new();
        for entry in &entries.0 {
            let version = &entry.manager.api_version;
            if others.contains_key(version) {
                continue;
            }
            let Some(schema) = other(context, version)? else {
                continue;
            };
            let there = |which: &str, state| {
                seen(context, schema, version, state)
                    .map_err(|why| format!("failed to convert {which} object: {why}"))
            };
            let (old, new) = (there("old", old)?, there("new", new)?);
            others.insert(version.clone(), compared(schema, &old, &new));
        }
        Ok(Self {
            own: compared(context.schema, old, new),
            others,
        })
    }

    /// The difference in the version that a manager used.
    pub(super) fn seen_by(&self, manager: &Manager) -> &Difference {
        self.others.get(&manager.api_version).unwrap_or(&self.own)
    }
}

/// The schema of a version, if it is another than the request's.
fn other<'a>(context: &Context<'a>, version: &str) -> Result<Option<&'a Schema>, String> {
    match context.versions {
        Some(all) if version != context.manager.api_version => match all.schema(version) {
            Some(schema) => Ok(Some(schema)),
            None => Err(format!(
                "request to convert CR to an invalid group/version: {version}"
            )),
        },
        _ => Ok(None),
    }
}

/// Removes what a manager applied last and nobody has any more, in the version through which
/// it applied.
///
/// # Errors
/// The state has fields that this version does not declare.
pub(super) fn prune(
    context: &Context<'_>,
    manager: &Manager,
    state: &mut Value,
    last: &FieldSet,
    owned: &FieldSet,
) -> Result<(), String> {
    let version = &manager.api_version;
    let Some(schema) = other(context, version)? else {
        prune::prune(Some(context.schema), state, last, owned);
        return Ok(());
    };
    let there = seen(context, schema, version, state)
        .map_err(|why| format!("failed to convert merged object to last applied version: {why}"))?;
    let Cow::Owned(mut there) = there else {
        prune::prune(Some(schema), state, last, owned);
        return Ok(());
    };
    prune::prune(Some(schema), &mut there, last, owned);
    let back = |all: &Versions| all.convert(&there, &context.manager.api_version);
    if let Some(back) = context.versions.and_then(back) {
        *state = back;
    }
    Ok(())
}

/// Follows changes of the schema: who owned parts of what is one field by now
/// owns that field.
///
/// # Errors
/// A manager used a version that the resource no longer has.
pub(super) fn settle(context: &Context<'_>, entries: &mut Entries) -> Result<(), String> {
    let Some(versions) = context.versions else {
        return Ok(());
    };
    if !versions.is_plain() {
        // Built-in kinds do not change, but a version may be gone.
        let own = &context.manager.api_version;
        entries.0.retain(|entry| {
            let version = &entry.manager.api_version;
            version == own || versions.schema(version).is_some()
        });
        return Ok(());
    }
    for entry in &mut entries.0 {
        let schema = other(context, &entry.manager.api_version)?.unwrap_or(context.schema);
        entry.fields.settle(Some(schema));
    }
    Ok(())
}

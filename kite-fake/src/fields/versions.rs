//! Managers that used other versions of a custom resource: what they own is seen
//! through the schema of their version.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::compare::Difference;
use super::managed::Entries;
use super::{Context, Manager, typed};
use crate::schema::Schema;

/// The schemas of a custom resource, by `apiVersion`.
pub type Versions = BTreeMap<String, Arc<Schema>>;

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
        let compared = |schema: &Schema| {
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
            for (which, state) in [("old", old), ("new", new)] {
                typed::check(schema, state)
                    .map_err(|why| format!("failed to convert {which} object: {why}"))?;
            }
            others.insert(version.clone(), compared(schema));
        }
        Ok(Self {
            own: compared(context.schema),
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
        Some(all) if version != context.manager.api_version => match all.get(version) {
            Some(schema) => Ok(Some(schema)),
            None => Err(format!(
                "request to convert CR to an invalid group/version: {version}"
            )),
        },
        _ => Ok(None),
    }
}

/// The schema through which a manager applied last.
///
/// # Errors
/// The state has fields that this version does not declare.
pub(super) fn last_applied<'a>(
    context: &Context<'a>,
    manager: &Manager,
    state: &Value,
) -> Result<&'a Schema, String> {
    let Some(schema) = other(context, &manager.api_version)? else {
        return Ok(context.schema);
    };
    typed::check(schema, state)
        .map_err(|why| format!("failed to convert merged object to last applied version: {why}"))?;
    Ok(schema)
}

/// Follows changes of the schema: who owned parts of what is one field by now
/// owns that field.
///
/// # Errors
/// A manager used a version that the resource no longer has.
pub(super) fn settle(context: &Context<'_>, entries: &mut Entries) -> Result<(), String> {
    if context.versions.is_none() {
        return Ok(());
    }
    for entry in &mut entries.0 {
        let schema = other(context, &entry.manager.api_version)?.unwrap_or(context.schema);
        entry.fields.settle(Some(schema));
    }
    Ok(())
}

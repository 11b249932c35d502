//! Who owns which field: server-side apply and `metadata.managedFields`.
//!
//! Two entry points, both pure: [`apply`] merges an applied configuration into
//! the live object, and [`update`] keeps the books of creates, updates and the
//! other patches. Both work over [`Schema`], which says how lists and maps are
//! keyed.
//!
//! ```text
//! config ──► check against schema ──► merge into live ──► drop what the manager
//!            (typed errors, 500)                          no longer mentions
//!                                                              │
//! managedFields ◄── take fields over ◄── conflicts? (409) ◄── compare with live
//! ```
//!
//! A call's order in a request: decode and default the object, call [`update`]
//! or [`apply`], then defaults (again after an apply), preparation, validation
//! and allocation; so what the server fills in later is nobody's. If in the end
//! nothing but times in `managedFields` differs from what is stored, nothing is
//! written: see [`same_but_for_times`].

mod compare;
#[cfg(feature = "cel")]
mod configure;
mod conflict;
mod last_applied;
mod managed;
mod merge;
mod noop;
mod prune;
mod set;
mod tape;
mod typed;
mod versions;

use jiff::Timestamp;
use serde_json::Value;

use crate::schema::Schema;

pub use crate::path_element::PathElement;
#[cfg(feature = "cel")]
pub(crate) use configure::configured;
pub use conflict::{Conflict, Conflicts};
pub use managed::{BEFORE_FIRST_APPLY, same_but_for_times};
pub use noop::{Named, is_unchanged};
pub use set::FieldSet;
pub use versions::Versions;

use managed::{Entries, Entry};

/// What a manager did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, update, or another patch.
    Update,
}

impl Operation {
    /// The word in `managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who changes an object, and by which way: the identity of an entry in `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Manager {
    /// `fieldManager`, or the first part of the user agent.
    pub name: String,
    /// What it does.
    pub operation: Operation,
    /// The version through which it does so, such as `v1` or `apps/v1`.
    pub api_version: String,
    /// `status`, `scale`; empty for the object itself.
    pub subresource: String,
}

/// Fields that an endpoint does not change, so that nobody owns them by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reset {
    /// Everything can be changed.
    #[default]
    Nothing,
    /// These top-level members are left as they are, such as `status`.
    Members(&'static [&'static str]),
    /// Only these top-level members can be changed.
    AllBut(&'static [&'static str]),
    /// These top-level members are left as they are, and so is one member of another.
    Parts(&'static [&'static str], [&'static str; 2]),
}

impl Reset {
    /// Whether a top-level member cannot be changed by the endpoint.
    pub fn covers(self, member: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Members(members) | Self::Parts(members, _) => members.contains(&member),
            Self::AllBut(members) => !members.contains(&member),
        }
    }

    /// Takes out of a set what the endpoint does not change.
    fn strip(self, fields: &mut FieldSet) {
        fields.retain_members(|member| !self.covers(member));
        if let Self::Parts(_, [outer, inner]) = self {
            fields.remove_within(outer, inner);
        }
    }
}

/// What a change is made with.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The schema of the kind, with `metadata`.
    pub schema: &'a Schema,
    /// The versions of a resource that has several of its own; `None` where all
    /// managers are seen through [`Self::schema`].
    pub versions: Option<&'a Versions>,
    /// Who makes the change.
    pub manager: &'a Manager,
    /// What the endpoint does not change.
    pub reset: Reset,
    /// What a new object of the kind is before anybody sets anything: `{}` for
    /// custom resources; members that are always there for built-in types.
    pub empty: &'a Value,
    /// The time for the manager's entry; whole seconds are written.
    pub now: Timestamp,
}

/// What an apply comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// The object has the applied values already and the manager owns them.
    Unchanged,
    /// The new object, with `managedFields`; not yet defaulted or prepared.
    Changed(Value),
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// 409: others own fields that would change.
    #[error("{}", .0.message())]
    Conflict(Conflicts),
    /// 400: the configuration must not have this.
    #[error("{0}")]
    BadRequest(String),
    /// 500 without a reason: the configuration, or what is stored, contradicts the schema.
    #[error("{0}")]
    Typed(String),
}

/// Merges an applied configuration into the live object, or into an empty one
/// where there is none, and takes ownership of all that it sets. Fields that the
/// manager applied before and now leaves out are removed unless others own them.
///
/// Preconditions in the configuration (`uid`, `resourceVersion`) are the caller's.
///
/// # Errors
/// See [`ApplyError`].
pub fn apply(
    context: &Context<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Applied, ApplyError> {
    if managed::of(config).is_some_and(|list| !list.is_null()) {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    // The entries stay in the merged object until they are replaced at the end:
    // nobody owns them, so that they take no part in what follows.
    let base = live.unwrap_or(context.empty);
    let mut entries = Entries::decode(managed::of(base)).unwrap_or_default();
    let misfit = live.and_then(|live| fits(context, live).err());
    if let Some(errors) = misfit.as_ref().filter(|_| entries.0.is_empty()) {
        return Err(ApplyError::Typed(format!(
            "failed to create manager for existing fields: failed to convert new object ({}) to smd typed: {errors}",
            describe(base)
        )));
    }
    typed::check(context.schema, config).map_err(|errors| {
        ApplyError::Typed(format!(
            "failed to create typed patch object ({}): {errors}",
            describe(config)
        ))
    })?;
    if let Some(errors) = misfit {
        return Err(ApplyError::Typed(format!(
            "failed to create typed live object ({}): {errors}",
            describe(base)
        )));
    }
    let first = entries.clone();
    versions::settle(context, &mut entries).map_err(ApplyError::Typed)?;
    if entries.0.is_empty() && live.is_some() {
        entries = untracked(context, base);
    }

    let mut fields = typed::fields_of(Some(context.schema), config);
    context.reset.strip(&mut fields);
    let mut merged = merge::merge(Some(context.schema), Some(base), config);
    let mine = entries.take(context.manager);
    if let Some(mine) = &mine {
        let mut owned = fields.clone();
        // What names the object is the configuration's in any case.
        owned.union_with(&typed::fields_of(Some(context.schema), &identity(config)));
        for entry in &entries.0 {
            owned.union_with(&entry.fields);
        }
        versions::prune(context, &mine.manager, &mut merged, &mine.fields, &owned)
            .map_err(ApplyError::Typed)?;
    }

    let differences = versions::Differences::between(context, base, &merged, &entries)
        .map_err(ApplyError::Typed)?;
    let mut conflicts: Vec<(Manager, FieldSet)> = Vec::new();
    for entry in &mut entries.0 {
        let difference = differences.seen_by(&entry.manager);
        let taken = entry.fields.intersection(&difference.taken);
        if !taken.is_empty() {
            entry.fields.subtract(&taken);
            conflicts.push((entry.manager.clone(), taken));
        }
        entry.fields.subtract(&difference.removed);
    }
    if !force && !conflicts.is_empty() {
        // What kubectl applied from the client it may take over.
        let yielded = last_applied::yielded(context, base);
        for (_, fields) in &mut conflicts {
            fields.subtract(&yielded);
        }
        conflicts.retain(|(_, fields)| !fields.is_empty());
    }
    if !force && !conflicts.is_empty() {
        conflicts.sort_by(|a, b| a.0.cmp(&b.0));
        let mut all = Conflicts::default();
        for (manager, fields) in &conflicts {
            all.add(manager, fields);
        }
        return Err(ApplyError::Conflict(all));
    }

    managed::strip(&mut fields);
    last_applied::refresh(context, config, &mut merged);
    let unchanged = merged == *base;
    let time = if unchanged {
        mine.and_then(|mine| mine.time)
    } else {
        Some(managed::write_time(context.now))
    };
    entries.0.push(Entry {
        manager: context.manager.clone(),
        time,
        fields,
    });
    if live.is_some() && unchanged && entries.clone().encode() == first.encode() {
        return Ok(Applied::Unchanged);
    }
    managed::put(&mut merged, entries);
    Ok(Applied::Changed(merged))
}

/// Keeps the books of a create (`live` is `None`), an update or a patch: who
/// changes a field owns it. `new` is complete and defaulted; it may carry
/// `managedFields` of its own, as clients send back what they read, or an empty
/// list to drop all ownership.
pub fn update(context: &Context<'_>, live: Option<&Value>, mut new: Value) -> Value {
    let sent = managed::remove(&mut new);
    let stored = live.and_then(managed::of);
    // On a subresource, what the client sends does not count.
    let on_object = context.manager.subresource.is_empty();
    let mut entries = if on_object && managed::is_reset(sent.as_ref()) {
        Entries::default()
    } else {
        Entries::decode(sent.as_ref())
            .filter(|sent| on_object && !sent.0.is_empty())
            .or_else(|| Entries::decode(stored))
            .unwrap_or_default()
    };
    if entries.0.is_empty() && live.is_some() {
        // Not tracked so far: the first apply begins.
        return new;
    }
    let old = live.unwrap_or(context.empty);
    // Where the books cannot be kept, there are none.
    if fits(context, old)
        .and_then(|()| fits(context, &new))
        .and_then(|()| versions::settle(context, &mut entries))
        .and_then(|()| record(context, &mut entries, old, &new))
        .is_ok()
    {
        managed::put(&mut new, entries);
    }
    new
}

/// Whether a state fits the schema, so that one can tell what is a field of it. Only a
/// custom resource's may not: its definition can change.
///
/// # Errors
/// What does not fit.
fn fits(context: &Context<'_>, state: &Value) -> Result<(), String> {
    match context.versions {
        Some(versions) if versions.is_plain() => typed::check_state(context.schema, state),
        _ => Ok(()),
    }
}

/// Books the difference of two states to the manager.
///
/// # Errors
/// The states cannot be seen in the version of another manager.
fn record(
    context: &Context<'_>,
    entries: &mut Entries,
    old: &Value,
    new: &Value,
) -> Result<(), String> {
    let differences = versions::Differences::between(context, old, new, entries)?;
    for entry in &mut entries.0 {
        let difference = differences.seen_by(&entry.manager);
        entry.fields.subtract(&difference.taken);
        entry.fields.subtract(&difference.removed);
    }
    let mut fields = differences.own.taken;
    managed::strip(&mut fields);
    if fields.is_empty() {
        return Ok(());
    }
    if let Some(mine) = entries.take(context.manager) {
        fields.union_with(&mine.fields);
    }
    entries.0.push(Entry {
        manager: context.manager.clone(),
        time: Some(managed::write_time(context.now)),
        fields,
    });
    entries.0.retain(|entry| !entry.fields.is_empty());
    entries.bound();
    Ok(())
}

/// The entries of an object that nobody tracked: all it has was there before.
fn untracked(context: &Context<'_>, live: &Value) -> Entries {
    let manager = Manager {
        name: BEFORE_FIRST_APPLY.to_owned(),
        operation: Operation::Update,
        ..context.manager.clone()
    };
    let mut entries = Entries::default();
    let context = Context {
        manager: &manager,
        ..*context
    };
    // Nobody of another version is among them.
    let _ = record(&context, &mut entries, context.empty, live);
    entries
}

/// `namespace/name; group/version, Kind=kind`, as typed errors name an object.
fn describe(object: &Value) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = text("/apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!(
        "{}/{}; {slash}{version}, Kind={}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/kind")
    )
}

/// What names the object: `apiVersion`, `kind` and `metadata.name`.
fn identity(config: &Value) -> Value {
    let name = config.pointer("/metadata/name").cloned();
    serde_json::json!({"apiVersion": "", "kind": "", "metadata": {"name": name}})
}

#[cfg(test)]
mod tests;

//! `metadata.managedFields`: reading, writing and bounding the entries.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::set::FieldSet;
use super::{Manager, Operation};

/// Who owns what an untracked object had when it was first applied to.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who owns what the oldest updaters had, once there are too many.
const ANCIENT: &str = "ancient-changes";

/// Most entries of updaters; the oldest beyond are merged into one.
const MAX_UPDATERS: usize = 10;

/// Members of `metadata` that nobody owns: the server's, and what names the object.
const UNOWNED_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: Manager,
    /// RFC 3339, whole seconds; absent while the manager changed no value.
    pub(super) time: Option<String>,
    pub(super) fields: FieldSet,
}

impl Entry {
    /// Whether this is the entry of a manager. An applier has one whatever version it uses.
    pub(super) fn is_of(&self, manager: &Manager) -> bool {
        let mine = &self.manager;
        mine.operation == manager.operation
            && mine.name == manager.name
            && mine.subresource == manager.subresource
            && (mine.operation == Operation::Apply || mine.api_version == manager.api_version)
    }
}

/// All entries of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Entries(pub(super) Vec<Entry>);

impl Entries {
    /// Reads `managedFields`; `None` if an entry is malformed.
    pub(super) fn decode(list: Option<&Value>) -> Option<Self> {
        let mut entries = Self::default();
        let list = match list {
            None | Some(Value::Null) => return Some(entries),
            Some(list) => list.as_array()?,
        };
        for entry in list {
            let text = |name: &str| entry.get(name).and_then(Value::as_str);
            if text("fieldsType") != Some("FieldsV1") {
                return None;
            }
            if text("apiVersion").is_none_or(str::is_empty) {
                return None;
            }
            let operation = match text("operation")? {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            let manager = Manager {
                name: text("manager").unwrap_or_default().to_owned(),
                operation,
                api_version: text("apiVersion").unwrap_or_default().to_owned(),
                subresource: text("subresource").unwrap_or_default().to_owned(),
            };
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::decode(fields)?,
            };
            entries.0.retain(|known| !known.is_of(&manager));
            entries.0.push(Entry {
                manager,
                time: text("time").map(str::to_owned),
                fields,
            });
        }
        Some(entries)
    }

    /// Writes `managedFields` in the server's order: appliers first, then by time,
    /// a missing one first.
    pub(super) fn encode(mut self) -> Vec<Value> {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|a, b| {
            let key = |entry: &Entry| (entry.manager.operation, entry.time.clone());
            key(a).cmp(&key(b)).then_with(|| {
                let key =
                    |m: &Manager| (m.name.clone(), m.api_version.clone(), m.subresource.clone());
                key(&a.manager).cmp(&key(&b.manager))
            })
        });
        self.0.into_iter().map(encode_entry).collect()
    }

    /// Takes the entry of a manager out.
    pub(super) fn take(&mut self, manager: &Manager) -> Option<Entry> {
        let place = self.0.iter().position(|entry| entry.is_of(manager))?;
        Some(self.0.swap_remove(place))
    }

    /// Merges the oldest updaters of one version into one entry when there are too many.
    pub(super) fn bound(&mut self) {
        let is_updater = |entry: &&Entry| entry.manager.operation == Operation::Update;
        if self.0.iter().filter(is_updater).count() <= MAX_UPDATERS {
            return;
        }
        let (mut updaters, rest): (Vec<Entry>, Vec<Entry>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|entry| is_updater(&entry));
        updaters.sort_by(|a, b| (&a.time, &a.manager).cmp(&(&b.time, &b.manager)));
        let mut left = updaters.len();
        let mut ancient: BTreeMap<String, Entry> = BTreeMap::new();
        let mut kept = Vec::new();
        for entry in updaters {
            if left <= MAX_UPDATERS {
                kept.push(entry);
                continue;
            }
            match ancient.get_mut(&entry.manager.api_version) {
                Some(bucket) => {
                    ANCIENT.clone_into(&mut bucket.manager.name);
                    bucket.manager.subresource.clear();
                    bucket.fields.union_with(&entry.fields);
                    bucket.time = entry.time;
                    left -= 1;
                }
                None => {
                    ancient.insert(entry.manager.api_version.clone(), entry);
                }
            }
        }
        self.0 = rest;
        self.0.extend(ancient.into_values());
        self.0.extend(kept);
    }
}

fn encode_entry(entry: Entry) -> Value {
    let mut members = Map::new();
    if !entry.manager.name.is_empty() {
        members.insert("manager".to_owned(), Value::from(entry.manager.name));
    }
    members.insert(
        "operation".to_owned(),
        Value::from(entry.manager.operation.as_str()),
    );
    members.insert(
        "apiVersion".to_owned(),
        Value::from(entry.manager.api_version),
    );
    if let Some(time) = entry.time {
        members.insert("time".to_owned(), Value::from(time));
    }
    members.insert("fieldsType".to_owned(), json!("FieldsV1"));
    members.insert("fieldsV1".to_owned(), entry.fields.encode());
    if !entry.manager.subresource.is_empty() {
        members.insert(
            "subresource".to_owned(),
            Value::from(entry.manager.subresource),
        );
    }
    Value::Object(members)
}

/// A time as entries hold it.
pub(super) fn write_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Drops the fields that nobody owns.
pub(super) fn strip(fields: &mut FieldSet) {
    use crate::path_element::PathElement::Field;
    let mut unowned = FieldSet::default();
    for name in ["apiVersion", "kind", "metadata"] {
        unowned.insert(Field(name.to_owned()));
    }
    let metadata = unowned.below_mut(Field("metadata".to_owned()));
    for name in UNOWNED_METADATA {
        metadata.insert(Field(name.to_owned()));
    }
    fields.subtract(&unowned);
}

/// Whether a member of `metadata` is nobody's.
pub(super) fn is_unowned_metadata(name: &str) -> bool {
    UNOWNED_METADATA.contains(&name)
}

/// The object's `managedFields`.
pub(super) fn of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Sets or removes the object's `managedFields`.
pub(super) fn put(object: &mut Value, entries: Entries) {
    let list = entries.encode();
    let Value::Object(members) = object else {
        return;
    };
    let metadata = members
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        if list.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), Value::from(list));
        }
    }
}

/// Takes `managedFields` out of the object.
pub(super) fn remove(object: &mut Value) -> Option<Value> {
    object
        .get_mut("metadata")?
        .as_object_mut()?
        .remove("managedFields")
}

/// A request for dropping all ownership: an empty list, or one empty entry.
pub(super) fn is_reset(list: Option<&Value>) -> bool {
    match list.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Whether two states of an object differ in nothing but the times in
/// `managedFields` and the `resourceVersion`: then nothing has to be written.
pub fn same_but_for_times(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return old == new;
    };
    members_same(old, new, |name, old, new| {
        name == "metadata"
            && match (old.as_object(), new.as_object()) {
                (Some(old), Some(new)) => members_same(old, new, |name, old, new| match name {
                    "resourceVersion" => true,
                    "managedFields" => entries_same(old, new),
                    _ => false,
                }),
                _ => false,
            }
    })
}

/// Whether two objects have the same members, `tolerated` ones aside.
fn members_same(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    tolerated: impl Fn(&str, &Value, &Value) -> bool,
) -> bool {
    let absent = Value::Null;
    old.iter().all(|(name, before)| match new.get(name) {
        Some(after) => before == after || tolerated(name, before, after),
        None => name == "resourceVersion" && tolerated(name, before, &absent),
    }) && new
        .keys()
        .all(|name| old.contains_key(name) || name == "resourceVersion")
}

fn entries_same(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else {
        return false;
    };
    // Another time may have moved an entry: compare as sets of entries without times.
    old.len() == new.len()
        && old.iter().all(|before| {
            new.iter()
                .any(|after| match (before.as_object(), after.as_object()) {
                    (Some(before), Some(after)) => {
                        let rest = |members: &Map<String, Value>| {
                            members.len() - usize::from(members.contains_key("time"))
                        };
                        rest(before) == rest(after)
                            && before.iter().all(|(name, value)| {
                                name == "time" || after.get(name) == Some(value)
                            })
                    }
                    _ => false,
                })
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn updater(i: usize) -> Value {
        json!({"manager": format!("m{i:02}"), "operation": "Update", "apiVersion": "v1",
            "time": format!("2024-01-01T00:00:{i:02}Z"), "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:k{i}"): {}}}})
    }

    #[test]
    fn the_oldest_updaters_become_ancient() {
        let list: Vec<Value> = (0..13).map(updater).collect();
        let mut entries = Entries::decode(Some(&json!(list))).unwrap();
        entries.bound();
        let list = entries.encode();
        assert_eq!(list.len(), 10);
        assert_eq!(list[0]["manager"], "ancient-changes");
        assert_eq!(
            list[0]["fieldsV1"]["f:data"],
            json!({"f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}})
        );
        assert_eq!(list[0]["time"], "2024-01-01T00:00:03Z");
    }

    #[test]
    fn malformed_entries_are_noticed() {
        for list in [
            json!([{"manager": "m", "operation": "Eat", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
            json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"}]),
            json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1"}]),
            json!([{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1"}]),
            json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
            json!("x"),
        ] {
            assert_eq!(Entries::decode(Some(&list)), None, "{list}");
        }
    }

    #[test]
    fn times_and_versions_do_not_count() {
        let object = |version: &str, time: &str, value: &str| {
            json!({"metadata": {"resourceVersion": version, "managedFields":
                [{"manager": "m", "time": time}]}, "data": {"k": value}})
        };
        let old = object("1", "t1", "v");
        assert!(same_but_for_times(&old, &object("2", "t2", "v")));
        assert!(!same_but_for_times(&old, &object("1", "t1", "w")));
        let mut bare = object("1", "t1", "v");
        bare["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        assert!(same_but_for_times(&old, &bare));
        bare["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert!(!same_but_for_times(&old, &bare));
    }
}

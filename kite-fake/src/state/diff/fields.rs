//! What differs between two values.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde_json::Value;

/// Longest text that is shown of a value, in characters.
const SHOWN: usize = 160;

/// Members by which the elements of a list are told apart, in the order in which
/// they are tried: all elements of both lists must have one, and only once.
const KEYS: &[&str] = &["name", "type", "uid", "key", "ip", "manager"];

/// One field that differs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FieldChange {
    /// Where: `spec.ports[0].port`, `status.conditions[type=Ready].status`,
    /// `metadata.labels["app.kubernetes.io/name"]`.
    pub path: String,
    /// The value before; `None` if the field was not there.
    pub before: Option<Value>,
    /// The value after; `None` if the field is gone.
    pub after: Option<Value>,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        write_value(f, self.before.as_ref())?;
        f.write_str(" → ")?;
        write_value(f, self.after.as_ref())
    }
}

fn write_value(f: &mut fmt::Formatter<'_>, value: Option<&Value>) -> fmt::Result {
    let Some(value) = value else {
        return f.write_str("(none)");
    };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => write!(f, "{}…", &text[..end]),
        None => f.write_str(&text),
    }
}

/// The fields that differ between two values, in the order of their paths.
pub(super) fn between(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    compare("", Some(before), Some(after), &mut changes);
    changes
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, out: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for (name, value) in old {
                compare(&member(path, name), Some(value), new.get(name), out);
            }
            for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                compare(&member(path, name), None, Some(value), out);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => lists(path, old, new, out),
        _ => out.push(FieldChange {
            path: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

fn member(path: &str, name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-$".contains(c);
    match (path.is_empty(), !name.is_empty() && name.chars().all(plain)) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name:?}]"),
    }
}

fn lists(path: &str, old: &[Value], new: &[Value], out: &mut Vec<FieldChange>) {
    let known = out.len();
    for key in KEYS {
        if let (Some(old), Some(new)) = (by_key(old, key), by_key(new, key)) {
            for (name, value) in &old {
                let path = format!("{path}[{key}={name}]");
                compare(&path, Some(value), new.get(name).copied(), out);
            }
            for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                compare(&format!("{path}[{key}={name}]"), None, Some(value), out);
            }
            if out.len() == known {
                // Only the order differs.
                break;
            }
            return;
        }
    }
    let mut at = String::new();
    for index in 0..old.len().max(new.len()) {
        at.clear();
        let _ = write!(at, "{path}[{index}]");
        compare(&at, old.get(index), new.get(index), out);
    }
}

/// The elements by a member, if every one has it as a text and no two the same.
fn by_key<'a>(list: &'a [Value], key: &str) -> Option<BTreeMap<&'a str, &'a Value>> {
    let mut found = BTreeMap::new();
    for value in list {
        if found.insert(value.get(key)?.as_str()?, value).is_some() {
            return None;
        }
    }
    Some(found)
}

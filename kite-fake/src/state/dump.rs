//! A state as text.

use std::fmt::Write as _;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use super::{Snapshot, View};

/// Members that come first, in this order; `status` comes last.
const FIRST: &[&str] = &["apiVersion", "kind", "metadata"];
const LAST: &str = "status";

/// An object with its members in the order in which people write them.
struct Ordered<'a>(&'a Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(members) = self.0.as_object() else {
            return self.0.serialize(serializer);
        };
        let first = FIRST.iter().filter_map(|name| members.get_key_value(*name));
        let rest = members
            .iter()
            .filter(|(name, _)| !FIRST.contains(&name.as_str()) && *name != LAST);
        let mut map = serializer.serialize_map(Some(members.len()))?;
        for (name, value) in first.chain(rest).chain(members.get_key_value(LAST)) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The objects of a state as YAML documents.
pub(super) fn text(snapshot: &Snapshot, view: &View) -> String {
    let mut out = String::new();
    for (id, value) in view.of(snapshot) {
        let _ = writeln!(out, "---\n# {id}");
        match crate::yaml::text(&Ordered(&value)) {
            Ok(yaml) => out.push_str(&yaml),
            // JSON is YAML.
            Err(_) => {
                let _ = write!(out, "{value}");
            }
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

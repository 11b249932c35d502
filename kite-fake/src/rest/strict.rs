//! What a JSON text says that a parsed value no longer shows: members given
//! twice, and the order of members.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Paths of a document in the order in which they stand there.
#[derive(Debug, Default)]
pub struct Outline {
    /// Paths of members that occur more than once in their object.
    pub duplicates: Vec<String>,
    /// There is no document: unknown members are told in alphabetical order, and
    /// wrong types in the words of another decoder (strategic merge patches).
    pub is_map: bool,
    /// Further problems of the text, as the strict decoder words them.
    pub problems: Vec<String>,
    /// Where members stand in the document.
    pub order: HashMap<String, usize>,
}

impl Outline {
    /// Reads a JSON text; what does not parse has no outline.
    pub fn of(text: &[u8]) -> Self {
        let mut outline = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(text);
        let seed = Walk {
            outline: &mut outline,
            at: String::new(),
        };
        if seed.deserialize(&mut reader).is_err() {
            return Self::default();
        }
        outline
    }

    /// Reads the operations of a JSON patch: what is strange about them is no
    /// part of the patched object.
    pub fn of_operations(text: &[u8]) -> Self {
        let duplicates = Self::of(text).duplicates;
        let unknown = crate::patch::unknown_members(text);
        let told = |what: &str, fields: Vec<String>| {
            let told = |field: String| format!("json patch {what} field \"{field}\"");
            fields.into_iter().map(told).collect::<Vec<_>>()
        };
        let mut problems = told("unknown", unknown);
        problems.extend(told("duplicate", duplicates));
        Self {
            problems,
            ..Self::default()
        }
    }

    /// Sorts paths by where they stand in the document.
    pub fn sort(&self, paths: &mut [String]) {
        if self.is_map {
            paths.sort();
            return;
        }
        paths.sort_by_key(|p| self.order.get(p).copied().unwrap_or(usize::MAX));
    }
}

struct Walk<'a> {
    outline: &'a mut Outline,
    at: String,
}

impl Walk<'_> {
    fn below(&self, name: &str) -> String {
        if self.at.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.at)
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let mut i = 0;
        loop {
            let at = format!("{}[{i}]", self.at);
            let seed = Walk {
                outline: &mut *self.outline,
                at,
            };
            if elements.next_element_seed(seed)?.is_none() {
                return Ok(());
            }
            i += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let at = self.below(&name);
            let next = self.outline.order.len();
            self.outline.order.entry(at.clone()).or_insert(next);
            if !seen.insert(name) && !self.outline.duplicates.contains(&at) {
                self.outline.duplicates.push(at.clone());
            }
            members.next_value_seed(Walk {
                outline: &mut *self.outline,
                at,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_problems_of_their_own() {
        let outline = Outline::of_operations(br#"[{"op": "test", "op": "add", "why": 1}]"#);
        assert!(outline.duplicates.is_empty());
        assert_eq!(
            outline.problems,
            [
                "json patch unknown field \"[0].why\"",
                "json patch duplicate field \"[0].op\""
            ]
        );
    }

    #[test]
    fn duplicates_and_order_are_found() {
        let outline =
            Outline::of(br#"{"b": {"x": 1, "x": 2}, "a": [{"c": 1, "c": 1}], "b": null}"#);
        assert_eq!(outline.duplicates, ["b.x", "a[0].c", "b"]);
        let mut paths = vec!["a".to_owned(), "b".to_owned()];
        outline.sort(&mut paths);
        assert_eq!(paths, ["b", "a"]);
    }
}

//! What a JSON text says that a parsed value no longer shows: members given
//! twice, and the order of members.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// What the text of a document says beside its value.
#[derive(Debug, Default)]
pub struct Outline {
    /// Paths of members that occur more than once in their object.
    pub duplicates: Vec<String>,
    /// There is no document: unknown members are told in alphabetical order, and
    /// wrong types in the words of another decoder (strategic merge patches).
    pub is_map: bool,
    /// Further problems of the text, as the strict decoder words them.
    pub problems: Vec<String>,
    /// The document, for whoever has to know where members stand in it: hardly
    /// anybody, and it costs more than reading the document.
    pub text: Bytes,
}

impl Outline {
    /// Reads a JSON text; what does not parse has no outline.
    pub fn of(text: &Bytes) -> Self {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let duplicates = match IsPlain.deserialize(&mut reader) {
            Ok(true) => Vec::new(),
            Ok(false) => {
                let duplicates = Places::of(text).duplicates.into_iter();
                duplicates.map(|(path, _)| path).collect()
            }
            Err(_) => return Self::default(),
        };
        Self {
            duplicates,
            text: text.clone(),
            ..Self::default()
        }
    }

    /// Reads the operations of a JSON patch: what is strange about them is no
    /// part of the patched object.
    pub fn of_operations(text: &Bytes) -> Self {
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

    /// All problems as the strict decoder tells them: those of the text, members that
    /// occur twice, and `unknown` ones. What is decoded into Go's types (`is_typed`) is
    /// told in the order of the document.
    pub fn all_problems(&self, mut unknown: Vec<String>, is_typed: bool) -> Vec<String> {
        let mut problems = self.problems.clone();
        let duplicate = |path: &String| format!("duplicate field \"{path}\"");
        let not_known = |path: &String| format!("unknown field \"{path}\"");
        if is_typed && !self.is_map && self.duplicates.len() + unknown.len() > 1 {
            let places = Places::of(&self.text);
            let order = |path: &String| places.order.get(path).copied().unwrap_or(usize::MAX);
            let twice = places.duplicates.iter();
            let mut all: Vec<(usize, String)> = twice
                .map(|(path, at)| (*at, duplicate(path)))
                .chain(unknown.iter().map(|path| (order(path), not_known(path))))
                .collect();
            all.sort_by_key(|(at, _)| *at);
            problems.extend(all.into_iter().map(|(_, text)| text));
            return problems;
        }
        if is_typed {
            unknown.sort();
        }
        problems.extend(self.duplicates.iter().map(duplicate));
        problems.extend(unknown.iter().map(not_known));
        problems
    }
}

/// Whether no object of the document has a member twice. Needs no memory but for
/// the names of the objects that are open.
struct IsPlain;

impl<'de> DeserializeSeed<'de> for IsPlain {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IsPlain {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<bool, A::Error> {
        let mut plain = true;
        while let Some(element) = elements.next_element_seed(Self)? {
            plain &= element;
        }
        Ok(plain)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        /// Fewer names are compared one by one.
        const FEW: usize = 16;
        let (mut few, mut many) = (Vec::<Cow<'de, str>>::new(), HashSet::new());
        let mut plain = true;
        while let Some(Name(name)) = members.next_key()? {
            if few.len() < FEW {
                plain &= !few.contains(&name);
                few.push(name);
            } else {
                plain &= !few.contains(&name) && many.insert(name);
            }
            plain &= members.next_value_seed(Self)?;
        }
        Ok(plain)
    }
}

/// The name of a member, borrowed from the document where that is possible.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Where the members of a document stand, and which stand there twice.
#[derive(Default)]
struct Places {
    /// How many members there are.
    count: usize,
    /// With the place of the second one.
    duplicates: Vec<(String, usize)>,
    order: HashMap<String, usize>,
}

impl Places {
    fn of(text: &[u8]) -> Self {
        let mut places = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(text);
        let seed = Walk {
            outline: &mut places,
            at: String::new(),
        };
        if seed.deserialize(&mut reader).is_err() {
            return Self::default();
        }
        places
    }
}

struct Walk<'a> {
    outline: &'a mut Places,
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
            let place = self.outline.count;
            self.outline.count += 1;
            self.outline.order.entry(at.clone()).or_insert(place);
            let is_known = |walk: &Self| walk.outline.duplicates.iter().any(|it| it.0 == at);
            if !seen.insert(name) && !is_known(&self) {
                self.outline.duplicates.push((at.clone(), place));
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
        let outline = Outline::of_operations(&Bytes::from_static(
            br#"[{"op": "test", "op": "add", "why": 1}]"#,
        ));
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
        let outline = Outline::of(&Bytes::from_static(
            br#"{"b": {"x": 1, "x": 2}, "a": [{"c": 1, "c": 1}], "b": null}"#,
        ));
        assert_eq!(outline.duplicates, ["b.x", "a[0].c", "b"]);
        let unknown = || vec!["a".to_owned(), "b".to_owned()];
        let told = [
            "unknown field \"b\"",
            "duplicate field \"b.x\"",
            "unknown field \"a\"",
            "duplicate field \"a[0].c\"",
            "duplicate field \"b\"",
        ];
        assert_eq!(outline.all_problems(unknown(), true), told);
        let apart = [told[1], told[3], told[4], told[2], told[0]];
        assert_eq!(outline.all_problems(unknown(), false), apart);
    }
}

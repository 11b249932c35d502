//! JSON as it was written: which names an object has twice, of which readers keep the last
//! without a word. Whoever wrote both meant one of them, and nobody knows which.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::problem::MOST_TOLD;

/// A place that is there more than once, and how often.
pub type Repeated = (String, usize);

/// Reads all of `text`, and what is in it more than once.
pub fn read(text: &[u8]) -> serde_json::Result<(Value, Vec<Repeated>)> {
    let mut repeated = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let seed = Read {
        place: &Place::Root,
        repeated: &mut repeated,
    };
    let value = seed.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, repeated))
}

/// Where a value stands. Written down only where that is told.
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(outer, name) => write!(f, "{outer}.{name}"),
            Self::Item(outer, n) => write!(f, "{outer}[{n}]"),
        }
    }
}

struct Read<'a> {
    place: &'a Place<'a>,
    repeated: &'a mut Vec<Repeated>,
}

impl Read<'_> {
    fn note(&mut self, name: &str) {
        let place = Place::Field(self.place, name).to_string();
        if let Some((_, times)) = self.repeated.iter_mut().find(|(it, _)| *it == place) {
            *times += 1;
        } else if self.repeated.len() <= MOST_TOLD {
            // Of more nothing is told.
            self.repeated.push((place, 2));
        }
    }
}

impl<'de> DeserializeSeed<'de> for Read<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Read<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        loop {
            let seed = Read {
                place: &Place::Item(self.place, read.len()),
                repeated: &mut *self.repeated,
            };
            match items.next_element_seed(seed)? {
                Some(item) => read.push(item),
                None => return Ok(read.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if read.contains_key(&name) {
                self.note(&name);
            }
            let seed = Read {
                place: &Place::Field(self.place, &name),
                repeated: &mut *self.repeated,
            };
            let value = fields.next_value_seed(seed)?;
            read.insert(name, value);
        }
        Ok(read.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn everything_is_read_as_by_serde_json() {
        for text in [
            "null",
            "true",
            "\"a\\u00e9\"",
            "-1",
            "18446744073709551615",
            "1e400",
            "-0.5",
            "[1, [], {\"a\": {\"b\": null}}]",
            "{\"a\": 1} x",
            "{\"a\": }",
            "[1,",
            "",
        ] {
            let plain = serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
            let ours = read(text.as_bytes());
            let ours = ours.map(|(value, _)| value).map_err(|it| it.to_string());
            assert_eq!(ours, plain, "{text}");
        }
        // Whoever nests without end fills no stack.
        assert!(read("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn what_is_there_twice_is_told_by_its_place() {
        let text = r#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": {"d": 1, "d": 1, "d": 2}, "e": 1}"#;
        let (value, repeated) = read(text.as_bytes()).unwrap();
        assert_eq!(value["a"]["d"], 2);
        let told = [("b[0].c", 2), ("a", 2), ("a.d", 3)];
        assert_eq!(
            repeated,
            told.map(|(place, times)| (place.to_owned(), times))
        );
        let many: Vec<_> = (0..1_000)
            .map(|n| format!("\"x{n}\": 1, \"x{n}\": 1"))
            .collect();
        let (_, repeated) = read(format!("{{{}}}", many.join(", ")).as_bytes()).unwrap();
        assert_eq!(repeated.len(), MOST_TOLD + 1);
    }
}

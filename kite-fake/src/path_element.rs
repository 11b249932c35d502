//! One step of a path to a field, and how `fieldsV1` writes it.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

use crate::go;

/// One step from a value to a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathElement {
    /// A member of an object: `f:name`.
    Field(String),
    /// The element of a keyed list with these keys, in order of their names: `k:{"name":"a"}`.
    Key(Vec<(String, Value)>),
    /// An element of a set: `v:"x"`.
    Value(Value),
    /// An element by its place: `i:0`. Nothing produces these; old entries may hold them.
    Index(u64),
}

impl PathElement {
    /// The member name in `fieldsV1`.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let object: Map<String, Value> = keys.iter().cloned().collect();
                format!("k:{}", Value::Object(object))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(place) => format!("i:{place}"),
        }
    }

    /// Reads a member name of `fieldsV1`; `None` if it is none.
    pub fn decode(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => match serde_json::from_str(rest).ok()? {
                Value::Object(keys) => {
                    let mut keys: Vec<(String, Value)> = keys.into_iter().collect();
                    keys.sort_by(|a, b| a.0.cmp(&b.0));
                    Some(Self::Key(keys))
                }
                _ => None,
            },
            "v" => serde_json::from_str(rest).ok().map(Self::Value),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// The order of fields, then keys, values and places, as conflicts are listed.
impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => a
                .iter()
                .zip(b)
                .map(|(a, b)| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1)))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A total order of JSON values that agrees with equality.
fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(x), Value::Number(y)) if x != y => {
            let (x, y) = (x.as_f64().unwrap_or(0.0), y.as_f64().unwrap_or(0.0));
            x.total_cmp(&y)
                .then_with(|| a.to_string().cmp(&b.to_string()))
        }
        _ if rank(a) == rank(b) => {
            if a == b {
                Ordering::Equal
            } else {
                a.to_string().cmp(&b.to_string())
            }
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// As conflicts and typed errors write it: `.name`, `[name="a"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scalar = |value: &Value| match value {
            Value::String(text) => go::quote(text),
            other => other.to_string(),
        };
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|(name, value)| format!("{name}={}", scalar(value)))
                    .collect();
                write!(f, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", scalar(value)),
            Self::Index(place) => write!(f, "[{place}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::any_json;

    #[test]
    fn elements_are_written_and_read() {
        for (text, path) in [
            ("f:a.b/c", ".a.b/c"),
            (
                r#"k:{"port":80,"protocol":"TCP"}"#,
                r#"[port=80,protocol="TCP"]"#,
            ),
            (r#"v:"x""#, r#"[="x"]"#),
            ("v:3", "[=3]"),
            ("i:0", "[0]"),
        ] {
            let element = PathElement::decode(text).unwrap();
            assert_eq!(element.encode(), text);
            assert_eq!(element.to_string(), path);
        }
        for text in ["", ".", "x:1", "k:[]", "k:{", "i:-1", "v:"] {
            assert_eq!(PathElement::decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_order_agrees_with_equality(a in any_json(), b in any_json()) {
            prop_assert_eq!(compare(&a, &b).is_eq(), a == b);
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        }

        #[test]
        fn reading_never_panics(text in ".*") {
            let _ = PathElement::decode(&text);
        }
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        assert_eq!(compare(&json!(2), &json!(10)), Ordering::Less);
    }
}

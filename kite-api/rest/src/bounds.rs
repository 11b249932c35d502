//! [`Bounds`]: how long a text or a list of a body may be, said once for who checks it and
//! for the OpenAPI document.

use serde_json::{Map, Value, json};

/// Fewest and most characters of a text, or items of a list.
///
/// ```
/// use kite_rest::Bounds;
///
/// const TITLE: Bounds = Bounds::between(1, 80);
/// assert!(TITLE.hold("Emma".len()) && !TITLE.hold(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Fewest.
    pub least: usize,
    /// Most, if that is bounded here.
    pub most: Option<usize>,
}

impl Bounds {
    /// That there is something.
    pub const SOME: Self = Self {
        least: 1,
        most: None,
    };

    /// From `least` to `most`.
    pub const fn between(least: usize, most: usize) -> Self {
        Self {
            least,
            most: Some(most),
        }
    }

    /// Whether anything of this length is within.
    pub fn hold(self, length: usize) -> bool {
        length >= self.least && self.most.is_none_or(|most| length <= most)
    }

    /// Says so in the schema of the field.
    pub(super) fn describe(self, schema: &mut Map<String, Value>) {
        let is_list = schema.get("type").is_some_and(|it| it == "array");
        let [least, most] = if is_list {
            ["minItems", "maxItems"]
        } else {
            ["minLength", "maxLength"]
        };
        schema.insert(least.to_owned(), json!(self.least));
        if let Some(number) = self.most {
            schema.insert(most.to_owned(), json!(number));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn described(bounds: Bounds, kind: &str) -> Value {
        let mut schema = json!({ "type": kind });
        bounds.describe(schema.as_object_mut().unwrap());
        schema
    }

    #[test]
    fn what_is_said_is_what_is_held() {
        let some = Bounds::between(2, 3);
        let within: Vec<_> = (0..6).filter(|it| some.hold(*it)).collect();
        assert_eq!(within, [2, 3]);
        assert_eq!(
            described(some, "string"),
            json!({"type": "string", "minLength": 2, "maxLength": 3})
        );
        assert!(!Bounds::SOME.hold(0) && Bounds::SOME.hold(usize::MAX));
        assert_eq!(
            described(Bounds::SOME, "array"),
            json!({"type": "array", "minItems": 1})
        );
    }
}

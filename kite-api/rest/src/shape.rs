//! [`Shape`]: what a JSON Schema says of a value, as far as the schemas of this API go: the
//! type, which of several words, the bounds of numbers and lengths, and the same of what is
//! inside. Patterns and what rules say stay with the API server, whose schemas they are.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::civil::Date;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::problem::MOST_TOLD;

/// What is wrong with a value, or with one inside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, such as `quota.cpu` or `sshPublicKeys[0]`.
    pub place: String,
    /// What is there; nothing where it is missing.
    pub value: Option<Value>,
    /// What it is.
    pub kind: FaultKind,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// There is nothing; what to write, in the words after "write".
    Missing(String),
    /// It is of another type or none of the words, in the words after "write".
    Other(String),
    /// A longer text than this many characters.
    Long(u64),
    /// No field of this name; those that there are.
    Unknown(String),
    /// What is wrong and what to write instead, in whole.
    Told(String),
}

impl FaultKind {
    /// What is wrong and what to write instead.
    pub fn message(&self) -> String {
        match self {
            Self::Missing(expected) => format!("is missing: write {expected}"),
            Self::Other(expected) => format!("write {expected}"),
            Self::Long(most) => format!("is longer than {most} characters: write less"),
            Self::Unknown(known) => format!("is not a field there: write one of {known}"),
            Self::Told(message) => message.clone(),
        }
    }
}

/// What is wrong inside of a value that is to be a `T`.
pub fn faults_by_schema<T: JsonSchema>(value: &Value, place: &str) -> Vec<Fault> {
    let schema = schema_of::<T>();
    Shape::new(&schema, &schema).faults(value, place)
}

/// The schema of a type, with what it refers to.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    schema.to_value()
}

/// A schema, and the document in which its references are.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    document: &'a Value,
    schema: &'a Value,
    is_nullable: bool,
    /// Whether objects name what is changed of them only: null takes a field away, and
    /// none has to be there.
    merges: bool,
}

impl<'a> Shape<'a> {
    /// The shape that `schema` describes.
    pub fn new(document: &'a Value, schema: &'a Value) -> Self {
        let shape = Self {
            document,
            schema,
            is_nullable: false,
            merges: false,
        };
        shape.resolved()
    }

    /// The same of an edit.
    #[must_use]
    pub fn merging(self) -> Self {
        Self {
            merges: true,
            ..self
        }
    }

    fn with(self, schema: &'a Value) -> Self {
        let shape = Self {
            schema,
            is_nullable: false,
            ..self
        };
        shape.resolved()
    }

    /// What a reference refers to; of what may be null, what it is otherwise.
    fn resolved(self) -> Self {
        let schema = self.schema;
        let is_nullable = self.is_nullable || allows_null(schema);
        let to = |schema| Self {
            schema,
            is_nullable,
            ..self
        };
        if let Some(pointer) = schema["$ref"].as_str() {
            let found = self.document.pointer(pointer.trim_start_matches('#'));
            return to(found.unwrap_or(&Value::Null)).resolved();
        }
        let of = ["anyOf", "allOf"].map(|name| schema[name].as_array());
        let mut of = of.into_iter().flatten().flatten();
        let inner = of.find(|it| it["type"] != "null");
        inner.map_or(to(schema), |inner| to(inner).resolved())
    }

    /// What is wrong with `value`, which stands at `place`.
    pub fn faults(self, value: &Value, place: &str) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.visit(value, place, &mut faults);
        faults
    }

    fn visit(self, value: &Value, place: &str, faults: &mut Vec<Fault>) {
        if value.is_null() && self.is_nullable || faults.len() > MOST_TOLD {
            return;
        }
        if let Some(kind) = self.fault(value) {
            faults.push(Fault {
                place: place.to_owned(),
                value: Some(value.clone()),
                kind,
            });
            return;
        }
        match value {
            Value::Object(fields) => self.visit_fields(fields, place, faults),
            Value::Array(items) => {
                let inner = self.with(&self.schema["items"]);
                for (n, item) in items.iter().enumerate() {
                    inner.visit(item, &format!("{place}[{n}]"), faults);
                }
            }
            _ => {}
        }
    }

    fn visit_fields(self, fields: &Map<String, Value>, place: &str, faults: &mut Vec<Fault>) {
        let known = self.schema["properties"].as_object();
        let others = Some(&self.schema["additionalProperties"]).filter(|it| it.is_object());
        for (name, value) in fields {
            let place = format!("{place}.{name}");
            let schema = known.and_then(|known| known.get(name)).or(others);
            match (schema, known) {
                (Some(_), _) if self.merges && value.is_null() => {}
                (Some(schema), _) => self.with(schema).visit(value, &place, faults),
                (None, Some(_)) if faults.len() > MOST_TOLD => return,
                (None, Some(known)) => faults.push(Fault {
                    place,
                    value: Some(value.clone()),
                    kind: FaultKind::Unknown(names(known)),
                }),
                (None, None) => {}
            }
        }
        let required = self.schema["required"].as_array().into_iter().flatten();
        let required = required.filter_map(Value::as_str);
        for name in required.filter(|name| !self.merges && !fields.contains_key(*name)) {
            let inner = self.with(&self.schema["properties"][name]);
            faults.push(Fault {
                place: format!("{place}.{name}"),
                value: None,
                kind: FaultKind::Missing(inner.expected()),
            });
        }
    }

    /// What is wrong with the value itself.
    fn fault(self, value: &Value) -> Option<FaultKind> {
        let other = || Some(FaultKind::Other(self.expected()));
        let words = self.words();
        if !words.is_empty() {
            let is_one = value.as_str().is_some_and(|it| words.contains(&it));
            return if is_one { None } else { other() };
        }
        if !self.is_of_type(value) {
            return other();
        }
        match value {
            Value::Number(_) if !self.is_within(value) => other(),
            Value::String(text) => {
                let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
                let is_long = self.most().is_some_and(|most| length > most);
                match self.schema["format"].as_str() {
                    Some(LINE) if is_long || text.chars().any(char::is_control) => other(),
                    Some(CURSOR) if URL_SAFE_NO_PAD.decode(text).is_err() => other(),
                    Some(DAY) if day(text).is_none() => other(),
                    _ => self.most().filter(|_| is_long).map(FaultKind::Long),
                }
            }
            _ => None,
        }
    }

    fn is_of_type(self, value: &Value) -> bool {
        let is = |name: &Value| match name.as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            Some("null") => value.is_null(),
            _ => true,
        };
        match &self.schema["type"] {
            Value::Array(types) => types.iter().any(is),
            one => is(one),
        }
    }

    fn is_within(self, value: &Value) -> bool {
        let [least, most] = ["minimum", "maximum"].map(|name| self.schema[name].as_f64());
        let number = value.as_f64().unwrap_or_default();
        least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most)
    }

    /// Most characters of a text.
    fn most(self) -> Option<u64> {
        self.schema["maxLength"].as_u64()
    }

    /// The type of what is no null.
    pub fn type_name(self) -> &'a str {
        let types = match &self.schema["type"] {
            Value::Array(types) => types.iter().find(|it| *it != "null"),
            one => Some(one),
        };
        types.and_then(Value::as_str).unwrap_or_default()
    }

    /// The words of which it is one.
    pub(crate) fn words(self) -> Vec<&'a str> {
        let listed = self.schema["enum"].as_array().into_iter().flatten();
        let described = self.schema["oneOf"].as_array().into_iter().flatten();
        let described = described.filter_map(|it| it.get("const"));
        let words = listed.chain(described).filter_map(Value::as_str);
        words.collect()
    }

    /// What to write, in the words after "write".
    fn expected(self) -> String {
        let words = self.words();
        if !words.is_empty() {
            return format!("one of {}", words.join(", "));
        }
        match self.type_name() {
            "boolean" => "true or false".to_owned(),
            "integer" => match [&self.schema["minimum"], &self.schema["maximum"]] {
                [least, most] if least.is_number() && most.is_number() => {
                    format!("a whole number from {least} to {most}")
                }
                _ => "a whole number such as 2".to_owned(),
            },
            "array" => match self.with(&self.schema["items"]).type_name() {
                "object" => "a list of objects such as [{\"name\": \"one\"}]".to_owned(),
                _ => "a list of texts such as [\"one\", \"two\"]".to_owned(),
            },
            "object" => self.schema["properties"].as_object().map_or_else(
                || "an object such as {\"name\": \"value\"}".to_owned(),
                |known| format!("an object with {}", names(known)),
            ),
            _ => match (self.schema["format"].as_str(), self.most()) {
                (Some(CURSOR), _) => "what the page before gave as next".to_owned(),
                (Some(DAY), _) => "a day such as 2026-01-31".to_owned(),
                (Some(LINE), Some(most)) => format!("one line of at most {most} characters"),
                _ => "a text in quotes".to_owned(),
            },
        }
    }
}

/// Format of a text in one line: some of them are printed in somebody's terminal.
pub const LINE: &str = "single-line";
/// Format of where a page of a list begins.
pub const CURSOR: &str = "base64url";
/// Format of a [`day`].
pub const DAY: &str = "date";

/// A day as RFC 3339 spells it.
pub fn day(text: &str) -> Option<Date> {
    let day = Date::strptime("%Y-%m-%d", text).ok()?;
    // Not a year of another length, nor a sign.
    (day.to_string() == text && text.len() == 10).then_some(day)
}

fn allows_null(schema: &Value) -> bool {
    let is_null = |it: &Value| it["type"] == "null";
    let of_type = schema["type"].as_array();
    of_type.is_some_and(|types| types.iter().any(|it| it == "null"))
        || schema["anyOf"]
            .as_array()
            .is_some_and(|it| it.iter().any(is_null))
}

fn names(known: &Map<String, Value>) -> String {
    let known: Vec<_> = known.keys().map(String::as_str).collect();
    known.join(", ")
}

/// Words of a schema that [`Shape`] does not look at, so that what they say would be let
/// pass; but for `left_to_others`. For tests of an application's schemas.
pub fn not_understood(schema: &Value, left_to_others: &[&str]) -> Vec<String> {
    const UNDERSTOOD: [&str; 17] = [
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxLength",
        "maximum",
        "minimum",
        "oneOf",
        "properties",
        "required",
        "type",
    ];
    // Numbers have bounds beside these.
    const FORMATS: [&str; 5] = ["uint16", "uint32", LINE, CURSOR, DAY];
    let Some(fields) = schema.as_object() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, inner) in fields {
        if !UNDERSTOOD.contains(&name.as_str()) && !left_to_others.contains(&name.as_str()) {
            found.push(name.clone());
        }
        match (name.as_str(), inner) {
            ("format", format) if !FORMATS.iter().any(|it| format == it) => {
                found.push(format!("format {format}"));
            }
            ("properties", Value::Object(fields)) => {
                let inner = fields.values();
                found.extend(inner.flat_map(|it| not_understood(it, left_to_others)));
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                found.extend(all.iter().flat_map(|it| not_understood(it, left_to_others)));
            }
            ("items" | "additionalProperties", inner) => {
                found.extend(not_understood(inner, left_to_others));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;

//! Whether JSON fits a type, in the words of Go's decoder: for what a schema cannot
//! describe, such as schemas themselves.

use serde_json::Value;

use super::{Field, Form, Kind, Message, Shape, TYPES};

/// Checks a value against the message at place `at`, which stands at `path` of what is
/// decoded (`["spec", "versions"]`).
///
/// # Errors
/// `json: cannot unmarshal string into Go struct field …`.
pub(crate) fn check(at: usize, value: &Value, path: &[&'static str]) -> Result<(), String> {
    let mut place = Place {
        of: "",
        path: path.to_vec(),
    };
    place.message(at, value)
}

/// Where the decoder is: the innermost struct, and the fields that lead there.
struct Place {
    of: &'static str,
    path: Vec<&'static str>,
}

impl Place {
    fn message(&mut self, at: usize, value: &Value) -> Result<(), String> {
        let message = TYPES.message(at);
        // What decodes itself begins anew, and says nothing of where it is.
        let anew = |value: &Value| {
            let schema = message.fields.iter().find_map(|field| match field.kind {
                Kind::Message(inner) => Some(inner),
                _ => None,
            });
            schema.map_or(Ok(()), |schema| check(schema, value, &[]))
        };
        match (message.form, value) {
            (Form::Object, Value::Object(members)) => {
                let outer = std::mem::replace(&mut self.of, short(message));
                for (name, value) in members {
                    let Some(field) = message.by_name(&TYPES, name) else {
                        continue;
                    };
                    self.path.push(field.name);
                    self.field(field, value)?;
                    self.path.pop();
                }
                self.of = outer;
                Ok(())
            }
            (Form::Object, other) => Err(self.mismatch(other, &type_of(Kind::Message(at)))),
            (Form::SchemaOrBool, Value::Bool(_)) | (Form::List, _) => Ok(()),
            (
                Form::SchemaOrBool | Form::SchemaOrSchemas | Form::SchemaOrNames,
                Value::Object(_),
            ) => anew(value),
            (Form::SchemaOrBool, _) => Err("boolean or JSON schema expected".to_owned()),
            (Form::SchemaOrSchemas, Value::Array(schemas)) => schemas.iter().try_for_each(anew),
            (Form::SchemaOrNames, Value::Array(names)) => {
                match names.iter().find(|it| !it.is_string()) {
                    Some(wrong) => Err(Self::new().mismatch(wrong, "string")),
                    None => Ok(()),
                }
            }
            (Form::SchemaOrSchemas | Form::SchemaOrNames, _) => Ok(()),
        }
    }

    fn new() -> Self {
        Self {
            of: "",
            path: Vec::new(),
        }
    }

    fn field(&mut self, field: &Field, value: &Value) -> Result<(), String> {
        let one = type_of(field.kind);
        match (field.shape, value) {
            (_, Value::Null) => Ok(()),
            (Shape::Value | Shape::Pointer, value) => self.one(field.kind, value),
            (Shape::List, Value::Array(elements)) => elements
                .iter()
                .filter(|element| !element.is_null())
                .try_for_each(|element| self.one(field.kind, element)),
            (Shape::Map, Value::Object(members)) => members
                .values()
                .filter(|member| !member.is_null())
                .try_for_each(|member| self.one(field.kind, member)),
            (Shape::List, other) => Err(self.mismatch(other, &format!("[]{one}"))),
            (Shape::Map, other) => Err(self.mismatch(other, &format!("map[string]{one}"))),
        }
    }

    fn one(&mut self, kind: Kind, value: &Value) -> Result<(), String> {
        let fits = match kind {
            Kind::Message(at) => return self.message(at, value),
            Kind::String | Kind::Bytes => value.is_string(),
            Kind::Bool => value.is_boolean(),
            Kind::Float64 => value.is_number(),
            Kind::Int64 => value.is_i64(),
            Kind::Int32 => value.as_i64().is_some_and(|it| i32::try_from(it).is_ok()),
            // Each has words of its own for what it is not.
            Kind::Time
            | Kind::MicroTime
            | Kind::Quantity
            | Kind::IntOrString
            | Kind::Raw
            | Kind::Any => true,
        };
        if fits {
            return Ok(());
        }
        Err(self.mismatch(value, &type_of(kind)))
    }

    fn mismatch(&self, value: &Value, expected: &str) -> String {
        let got = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if matches!(expected, "int32" | "int64") => {
                format!("number {number}")
            }
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        if self.path.is_empty() {
            return format!("json: cannot unmarshal {got} into Go value of type {expected}");
        }
        format!(
            "json: cannot unmarshal {got} into Go struct field {}.{} of type {expected}",
            self.of,
            self.path.join(".")
        )
    }
}

/// `JSONSchemaProps` of `apiextensions.v1.JSONSchemaProps`.
fn short(message: &Message) -> &'static str {
    message.name.rsplit('.').next().unwrap_or(message.name)
}

/// A type as errors name it.
fn type_of(kind: Kind) -> String {
    match kind {
        Kind::String => "string",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Bool => "bool",
        Kind::Float64 => "float64",
        Kind::Bytes => "[]uint8",
        Kind::Time => "v1.Time",
        Kind::MicroTime => "v1.MicroTime",
        Kind::Quantity => "resource.Quantity",
        Kind::IntOrString => "intstr.IntOrString",
        Kind::Raw => "v1.JSON",
        Kind::Any => "interface {}",
        Kind::Message(at) => {
            let name = TYPES.message(at).name;
            let own = name.split_once('.').map_or(name, |(_, own)| own);
            return own.to_owned();
        }
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(schema: &Value) -> Option<String> {
        let at = TYPES.find("apiextensions.v1.JSONSchemaProps");
        at.and_then(|at| {
            check(
                at,
                schema,
                &["spec", "versions", "schema", "openAPIV3Schema"],
            )
            .err()
        })
    }

    #[test]
    fn what_does_not_fit_is_told_as_go_does() {
        let place = "Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema";
        for (schema, words) in [
            (
                json!({"maxLength": "5"}),
                format!("json: cannot unmarshal string into {place}.maxLength of type int64"),
            ),
            (
                json!({"properties": {"a": {"maxItems": 5.0}}}),
                format!("json: cannot unmarshal number 5.0 into {place}.properties.maxItems of type int64"),
            ),
            (
                json!({"type": ["string"]}),
                format!("json: cannot unmarshal array into {place}.type of type string"),
            ),
            (
                json!({"required": "a"}),
                format!("json: cannot unmarshal string into {place}.required of type []string"),
            ),
            (
                json!({"not": {"additionalProperties": {"title": 1}}}),
                "json: cannot unmarshal number into Go struct field JSONSchemaProps.title of type string".to_owned(),
            ),
            (
                json!({"additionalProperties": "yes"}),
                "boolean or JSON schema expected".to_owned(),
            ),
        ] {
            assert_eq!(told(&schema), Some(words), "{schema}");
        }
        let fine = json!({"type": "object", "additionalProperties": true, "items": [{}], "default": {"a": [1]},
            "maximum": 1, "dependencies": {"a": ["b"], "c": {}}, "enum": [null], "unknown": 1, "format": null});
        assert_eq!(told(&fine), None);
    }
}

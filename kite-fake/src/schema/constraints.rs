//! Types and limits of values, with the API server's words.

use std::sync::Arc;

use serde_json::{Number, Value};

use crate::go;

use super::correlate;
use super::formats;
use super::model::{Constraints, Kind, Schema};
use super::path::Path;
use crate::field_error::{CauseReason, FieldError};

/// Walks an object and collects what is wrong.
pub(super) struct Checker {
    errors: Vec<FieldError>,
}

impl Checker {
    /// All errors of `new`, without those of values equal to the ones in `old`.
    pub(super) fn check(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut checker = Self { errors: Vec::new() };
        checker.node(schema, new, old, &Path::Root);
        checker.errors
    }

    fn node(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, at: &Path<'_>) {
        let before = self.errors.len();
        if value.is_null() && schema.nullable {
            return;
        }
        self.type_of(schema, value, at);
        self.alternatives(&schema.constraints, value, old, at);
        let limits = &schema.constraints;
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::String(text) => self.string(limits, text, at),
            Value::Number(number) => self.number(schema, number, at),
            Value::Array(elements) => self.array(schema, elements, old, at),
            Value::Object(members) => self.object(schema, members, old, at),
        }
        if !limits.enumeration.is_empty() && !limits.enumeration.contains(value) {
            let supported: Vec<String> = limits
                .enumeration
                .iter()
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                .collect();
            let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
            self.errors
                .push(FieldError::not_supported(at.or_nil(), value, &supported));
        }
        if self.errors.len() > before && old == Some(value) {
            self.errors.truncate(before);
        }
    }

    fn type_of(&mut self, schema: &Schema, value: &Value, at: &Path<'_>) {
        let (fits, wanted) = match schema.kind {
            Kind::Any => return,
            Kind::Object => (value.is_object(), "object"),
            Kind::Array => (value.is_array(), "array"),
            Kind::String => (value.is_string(), "string"),
            Kind::Integer => (is_whole(value), "integer"),
            Kind::Number => (value.is_number(), "number"),
            Kind::Boolean => (value.is_boolean(), "boolean"),
            Kind::IntOrString => (value.is_string() || is_whole(value), "integer,string"),
        };
        if !fits {
            let found = Value::from(type_name(value));
            let detail = format!("{at} in body must be of type {wanted}: {found}");
            self.errors
                .push(FieldError::type_invalid(at.or_nil(), &found, detail));
        }
    }

    fn string(&mut self, limits: &Constraints, text: &str, at: &Path<'_>) {
        let value = || Value::from(text);
        if let Some(max) = limits.max_length.filter(|max| longer_than(text, *max)) {
            self.errors.push(FieldError::too_long(at.or_nil(), max));
        }
        if let Some(min) = limits
            .min_length
            .filter(|min| !longer_than(text, min.saturating_sub(1)) && *min > 0)
        {
            self.invalid(
                at,
                &value(),
                format!("{at} in body should be at least {min} chars long"),
            );
        }
        if let Some(pattern) = limits
            .pattern
            .as_ref()
            .filter(|pattern| !pattern.matches(text))
        {
            self.invalid(
                at,
                &value(),
                format!("{at} in body should match '{}'", pattern.source()),
            );
        }
        if let Some(format) = limits
            .format
            .as_deref()
            .filter(|format| !formats::fits(format, text))
        {
            let detail = format!("{at} in body must be of type {format}: {}", go::quote(text));
            self.errors
                .push(FieldError::type_invalid(at.or_nil(), &value(), detail));
        }
    }

    fn number(&mut self, schema: &Schema, number: &Number, at: &Path<'_>) {
        let limits = &schema.constraints;
        let shown = || Value::Number(number.clone());
        if !in_range(schema, number) {
            let wanted = match (schema.kind, limits.format.as_deref()) {
                (Kind::Integer, Some(format)) => format!("integer with format {format}"),
                (Kind::Integer, None) => "integer (default format)".to_owned(),
                (_, Some(format)) => format!("number with format {format}"),
                (_, None) => "number (default format)".to_owned(),
            };
            self.unlocated(format!("Checked value must be of type {wanted} in {at}"));
        }
        let Some(float) = number.as_f64() else { return };
        if let Some(factor) = limits.multiple_of {
            let ratio = float / factor;
            if !ratio.is_finite() || ratio.fract() != 0.0 {
                self.invalid(
                    at,
                    &shown(),
                    format!("{at} in body should be a multiple of {}", go::float(factor)),
                );
            }
        }
        if let Some(max) = limits.maximum
            && (float > max.value || max.exclusive && float >= max.value)
        {
            let words = if max.exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            self.invalid(
                at,
                &shown(),
                format!("{at} in body should be {words} {}", go::float(max.value)),
            );
        }
        if let Some(min) = limits.minimum
            && (float < min.value || min.exclusive && float <= min.value)
        {
            let words = if min.exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            self.invalid(
                at,
                &shown(),
                format!("{at} in body should be {words} {}", go::float(min.value)),
            );
        }
    }

    fn array(&mut self, schema: &Schema, elements: &[Value], old: Option<&Value>, at: &Path<'_>) {
        let limits = &schema.constraints;
        let count = elements.len();
        if let Some(items) = &schema.items {
            for (i, element) in elements.iter().enumerate() {
                let before = correlate::element(&schema.list_type, items, element, old);
                self.node(items, element, before, &at.element(i));
            }
        }
        if let Some(min) = limits.min_items.filter(|min| (count as u64) < *min) {
            self.invalid(
                at,
                &count.into(),
                format!("{at} in body should have at least {min} items"),
            );
        }
        if let Some(max) = limits.max_items.filter(|max| count as u64 > *max) {
            self.errors
                .push(FieldError::too_many(at.or_nil(), count, max));
        }
        if limits.unique_items
            && elements
                .iter()
                .enumerate()
                .any(|(i, e)| elements[..i].contains(e))
        {
            self.errors.push(FieldError::with(
                CauseReason::Duplicate,
                at.or_nil(),
                format!("Duplicate value: {at} in body shouldn't contain duplicates"),
            ));
        }
    }

    fn object(
        &mut self,
        schema: &Schema,
        members: &serde_json::Map<String, Value>,
        old: Option<&Value>,
        at: &Path<'_>,
    ) {
        let limits = &schema.constraints;
        let count = members.len();
        if let Some(min) = limits.min_properties.filter(|min| (count as u64) < *min) {
            self.invalid(
                at,
                &count.into(),
                format!("{at} in body should have at least {min} properties"),
            );
        }
        if let Some(max) = limits.max_properties.filter(|max| count as u64 > *max) {
            self.errors
                .push(FieldError::too_many(at.or_nil(), count, max));
        }
        for name in limits
            .required
            .iter()
            .filter(|name| !members.contains_key(*name))
        {
            self.errors
                .push(FieldError::required(at.member(name).to_string(), ""));
        }
        for (name, member) in members {
            if let Some(inner) = schema.member(name) {
                self.node(
                    inner,
                    member,
                    correlate::member(old, name),
                    &at.member(name),
                );
            }
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`.
    fn alternatives(
        &mut self,
        limits: &Constraints,
        value: &Value,
        old: Option<&Value>,
        at: &Path<'_>,
    ) {
        if !limits.any_of.is_empty() {
            let (valid, best) = attempt(&limits.any_of, value, old, at);
            if valid == 0 {
                self.unlocated(format!(
                    "\"{at}\" must validate at least one schema (anyOf)"
                ));
                self.errors.extend(best);
            }
        }
        if !limits.one_of.is_empty() {
            let (valid, best) = attempt(&limits.one_of, value, old, at);
            if valid != 1 {
                let found = if valid == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                self.unlocated(format!(
                    "\"{at}\" must validate one and only one schema (oneOf). {found}"
                ));
                self.errors.extend(best);
            }
        }
        if !limits.all_of.is_empty() {
            let mut valid = 0;
            for inner in &limits.all_of {
                let errors = branch(inner, value, old, at);
                valid += usize::from(errors.is_empty());
                self.errors.extend(errors);
            }
            if valid < limits.all_of.len() {
                let tail = if valid == 0 { ". None validated" } else { "" };
                self.unlocated(format!(
                    "\"{at}\" must validate all the schemas (allOf){tail}"
                ));
            }
        }
        if let Some(inner) = &limits.not
            && branch(inner, value, old, at).is_empty()
        {
            self.unlocated(format!("\"{at}\" must not validate the schema (not)"));
        }
    }

    fn invalid(&mut self, at: &Path<'_>, value: &Value, detail: String) {
        self.errors
            .push(FieldError::invalid(at.or_nil(), value, detail));
    }

    /// An error that the API server reports without a field.
    fn unlocated(&mut self, detail: String) {
        self.errors
            .push(FieldError::invalid("<nil>", &Value::from(""), detail));
    }
}

/// How many of the schemas hold, and if none does, the errors of the nearest one.
fn attempt(
    schemas: &[Arc<Schema>],
    value: &Value,
    old: Option<&Value>,
    at: &Path<'_>,
) -> (usize, Vec<FieldError>) {
    let mut valid = 0;
    let mut best: Option<Vec<FieldError>> = None;
    for schema in schemas {
        let errors = branch(schema, value, old, at);
        if errors.is_empty() {
            valid += 1;
        } else if best.as_ref().is_none_or(|best| errors.len() < best.len()) {
            best = Some(errors);
        }
    }
    (
        valid,
        if valid == 0 {
            best.unwrap_or_default()
        } else {
            Vec::new()
        },
    )
}

fn branch(schema: &Schema, value: &Value, old: Option<&Value>, at: &Path<'_>) -> Vec<FieldError> {
    let mut checker = Checker { errors: Vec::new() };
    checker.node(schema, value, old, at);
    checker.errors
}

/// Counts characters no further than needed.
fn longer_than(text: &str, max: u64) -> bool {
    text.len() as u64 > max && text.chars().count() as u64 > max
}

fn is_whole(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            !number.is_f64() || number.as_f64().is_some_and(|f| f.fract() == 0.0)
        }
        _ => false,
    }
}

/// The name that a type error gives to what it found.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_whole(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a number fits its type and format.
fn in_range(schema: &Schema, number: &Number) -> bool {
    let format = schema.constraints.format.as_deref();
    match schema.kind {
        Kind::Integer => {
            is_whole(&Value::Number(number.clone()))
                && match format {
                    Some("int32") => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
                    Some("uint32") => number.as_i64().is_some_and(|n| u32::try_from(n).is_ok()),
                    Some("uint64") => number.as_u64().is_some(),
                    _ => number.as_i64().is_some(),
                }
        }
        Kind::Number if format == Some("float") => number
            .as_f64()
            .is_some_and(|f| f.abs() <= f64::from(f32::MAX)),
        _ => true,
    }
}

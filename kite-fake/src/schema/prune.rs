//! Dropping the members that a schema does not know.

use serde_json::{Number, Value};

use super::model::{Kind, Schema};
use super::path::Path;

/// Removes unknown members, and returns their paths (`spec.list[0].name`) in
/// alphabetical order, as warnings and strict errors name them.
///
/// Whole numbers written as fractions (`1.0`) become whole on the way.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(schema, value, &Path::Root, &mut unknown);
    unknown.sort();
    unknown
}

fn walk(schema: &Schema, value: &mut Value, at: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let keep =
                schema.preserve_unknown || schema.kind == Kind::Any && schema.properties.is_empty();
            members.retain(|name, _| {
                let known = keep || schema.member(name).is_some();
                if !known {
                    unknown.push(at.member(name).to_string());
                }
                known
            });
            for (name, member) in members {
                if let Some(inner) = schema.member(name) {
                    walk(inner, member, &at.member(name), unknown);
                }
            }
        }
        Value::Array(elements) => {
            let Some(inner) = &schema.items else { return };
            for (i, element) in elements.iter_mut().enumerate() {
                walk(inner, element, &at.element(i), unknown);
            }
        }
        Value::Number(number) => make_whole(number),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Turns `1.0` into `1`, as the API server's decoder does.
fn make_whole(number: &mut Number) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(float) = number
        .as_f64()
        .filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() < EXACT)
    {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
        let whole = float as i64;
        *number = whole.into();
    }
}

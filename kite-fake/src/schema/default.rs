//! Filling in what a schema says about absent members.

use serde_json::Value;

use super::model::Schema;

/// Sets the defaults of absent members, also below those just set. A `null`
/// counts as absent unless the member is nullable.
pub fn apply_defaults(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, inner) in &schema.properties {
                if let Some(default) = &inner.default
                    && members
                        .get(name)
                        .is_none_or(|v| v.is_null() && !inner.nullable)
                {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, member) in members {
                let Some(inner) = schema.member(name) else {
                    continue;
                };
                if member.is_null()
                    && !inner.nullable
                    && let Some(default) = &inner.default
                {
                    *member = default.clone();
                }
                apply_defaults(inner, member);
            }
        }
        Value::Array(elements) => {
            let Some(inner) = &schema.items else { return };
            for element in elements {
                if element.is_null()
                    && !inner.nullable
                    && let Some(default) = &inner.default
                {
                    *element = default.clone();
                }
                apply_defaults(inner, element);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

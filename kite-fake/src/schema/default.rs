//! Filling in what a schema says about absent members.

use serde_json::Value;

use super::model::Schema;

/// Sets the defaults of absent members, also below those just set. A `null`
/// that the schema does not allow counts as absent: it is replaced by the
/// default, or dropped if there is none.
pub fn apply_defaults(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, inner) in &schema.properties {
                if let Some(default) = &inner.default
                    && members
                        .get(name)
                        .is_none_or(|member| refused_null(inner, member))
                {
                    members.insert(name.clone(), default.clone());
                }
            }
            members.retain(|name, member| {
                let Some(inner) = schema.member(name) else {
                    return true;
                };
                if refused_null(inner, member) {
                    let Some(default) = &inner.default else {
                        return false;
                    };
                    *member = default.clone();
                }
                apply_defaults(inner, member);
                true
            });
        }
        Value::Array(elements) => {
            let Some(inner) = &schema.items else { return };
            for element in elements {
                if refused_null(inner, element)
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

fn refused_null(schema: &Schema, value: &Value) -> bool {
    value.is_null() && !schema.nullable
}

//! Removing what an applier no longer mentions.

use serde_json::Value;

use super::set::FieldSet;
use super::typed::{Shape, element_of, is_named, items, member, shape};
use crate::path_element::PathElement;
use crate::schema::Schema;

/// Removes from `value` what is in `last`, the fields that the applier had, but
/// not in `owned`, the fields that anybody has now.
pub(super) fn prune(schema: Option<&Schema>, value: &mut Value, last: &FieldSet, owned: &FieldSet) {
    let nothing = FieldSet::default();
    match (shape(schema, Some(value)), value) {
        (Shape::Map(schema), Value::Object(members)) => {
            for element in last.elements() {
                let PathElement::Field(name) = element else {
                    continue;
                };
                // An object that the schema names counts as owned if any part of it is.
                let named = is_named(schema, name);
                let held =
                    |set: &FieldSet| set.has(element) || (named && set.below(element).is_some());
                if held(last) && !held(owned) {
                    members.remove(name);
                } else if let (Some(part), Some(last)) =
                    (members.get_mut(name), last.below(element))
                {
                    let owned = owned.below(element).unwrap_or(&nothing);
                    prune(member(schema, name), part, last, owned);
                }
            }
        }
        (kinds @ (Shape::Set | Shape::Keyed(..)), Value::Array(elements)) => {
            let inner = match kinds {
                Shape::Keyed(_, schema) => items(schema),
                _ => None,
            };
            elements.retain_mut(|part| {
                let Ok(element) = element_of(kinds, part) else {
                    return true;
                };
                if last.has(&element) && !owned.has(&element) {
                    return false;
                }
                if let Some(last) = last.below(&element) {
                    let owned = owned.below(&element).unwrap_or(&nothing);
                    prune(inner, part, last, owned);
                }
                true
            });
        }
        _ => {}
    }
}

//! Checking an object against its schema.

use serde_json::Value;

use super::cel::evaluate;
use super::constraints::Checker;
use super::embedded;
use super::lists;
use super::model::Schema;
use crate::field_error::{CauseReason, FieldError};
use crate::held::Held;

/// What [`validate`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validation {
    /// What makes the object invalid.
    pub errors: Vec<FieldError>,
    /// `Warning` header texts: rules that fail, but on a value that did not change.
    pub warnings: Vec<String>,
    /// What is known of the rules of the value from now on.
    pub held: Held,
}

/// Checks `new`, whose previous state is `old`: types and limits, unique list
/// elements, embedded objects, CEL rules. What was invalid before and did not
/// change is tolerated (ratcheting).
pub fn validate(schema: &Schema, new: &Value, old: Option<&Value>) -> Validation {
    validate_after(schema, new, old, Held::Unknown)
}

/// The same, where `held` is known of the previous state under this very schema.
pub(crate) fn validate_after(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    held: Held,
) -> Validation {
    let mut found = Validation {
        errors: Checker::check(schema, new, old),
        ..Validation::default()
    };
    for check in [embedded::check, lists::duplicates] {
        let errors = check(schema, new);
        // What was so before is tolerated.
        if !errors.is_empty() && old.is_none_or(|old| check(schema, old).is_empty()) {
            found.errors.extend(errors);
        }
    }
    if schema.has_rules_below {
        if found.errors.iter().any(is_blocking) {
            found.errors.push(FieldError::with(
                CauseReason::Invalid,
                "<nil>",
                "Invalid value: null: some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ));
        } else {
            evaluate(schema, new, old, held, &mut found);
        }
    }
    found
}

/// After such an error rules could not rely on the types they were compiled for.
fn is_blocking(error: &FieldError) -> bool {
    match error.reason {
        CauseReason::NotSupported
        | CauseReason::Required
        | CauseReason::TooLong
        | CauseReason::TooMany
        | CauseReason::TypeInvalid => true,
        CauseReason::NotFound
        | CauseReason::Duplicate
        | CauseReason::Invalid
        | CauseReason::Forbidden
        | CauseReason::Internal => false,
    }
}

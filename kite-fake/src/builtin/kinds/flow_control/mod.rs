//! Priority and fairness: which requests wait for which others.

mod levels;
mod rules;
mod schemas;

use serde_json::{Value, json};

pub(in crate::builtin) use self::levels::{default_level, validate_level};
pub(in crate::builtin) use self::schemas::{default_schema, validate_schema};
use crate::members::{list, text};
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

/// Each condition is there once, and says what it is of.
pub(in crate::builtin) fn validate_status(new: &Value, _: &Value, found: &mut Validation) {
    let all = list(&new["status"], "conditions");
    for (i, condition) in all.iter().enumerate() {
        let field = format!("status.conditions[{i}].type");
        let kind = text(condition, "type");
        if all[..i].iter().any(|earlier| text(earlier, "type") == kind) {
            found
                .errors
                .push(FieldError::duplicate(&*field, &json!(kind)));
        }
        if kind.is_empty() {
            found
                .errors
                .push(FieldError::required(field, "must not be empty"));
        }
    }
}

/// A specification that is the same in every cluster.
fn fixed(name: &str, spec: &Value, expected: &Value, but: &str, errors: &mut Errors) {
    if spec != expected {
        let wrong = format!("spec of '{name}'{but} must equal the fixed value");
        errors.push(FieldError::invalid("spec", spec, wrong));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_there_once() {
        let new = json!({"status": {"conditions": [{"type": "a"}, {"type": "a"}, {}]}});
        let mut found = Validation::default();
        validate_status(&new, &json!({}), &mut found);
        let texts: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "status.conditions[1].type: Duplicate value: \"a\"",
                "status.conditions[2].type: Required value: must not be empty",
            ]
        );
    }
}

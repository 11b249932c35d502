//! What stands for the language of rules where the feature `cel` is off: no expression
//! compiles, so that a definition with rules is refused.

use std::collections::BTreeMap;

use serde_json::Value;

use super::declared::{Declared, Wanted};
use super::model::Schema;
use super::path::Path;
use super::rule::{Reviewed, Rule};
use super::validate::Validation;
use crate::field_error::{CauseReason, FieldError};
use crate::held::Held;

/// Why nothing compiles.
const ABSENT: &str = "this kite-fake was built without its feature `cel`, which rules in CEL need";

/// A compiled expression: there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program {}

/// What programs read.
pub(crate) type Reads = BTreeMap<String, Part>;

/// What is read of a member.
#[derive(Debug, Clone)]
pub(crate) enum Part {}

impl Part {
    pub(super) fn and(&mut self, _: Self) {
        match *self {}
    }
}

impl Program {
    pub(crate) fn compile(_: &str) -> Result<Self, String> {
        Err(ABSENT.to_owned())
    }

    pub(crate) fn compile_mutation(_: &str) -> Result<Self, String> {
        Err(ABSENT.to_owned())
    }

    pub(crate) fn uses(self, _: &str) -> bool {
        match self {}
    }

    pub(crate) fn reads_of(self, _: &[&str]) -> Option<Reads> {
        match self {}
    }
}

/// Expressions of policies and webhooks are stored as they are: whatever they are about
/// is refused when it is written.
#[allow(
    clippy::unnecessary_wraps,
    reason = "the same signature as with the language"
)]
pub(crate) fn review_expression(_: &str, _: &Declared<'_>, _: Wanted) -> Result<(), String> {
    Ok(())
}

/// Refuses every value of a schema that has rules: nobody knows whether they hold.
pub(super) fn evaluate(_: &Schema, _: &Value, _: Option<&Value>, _: Held, found: &mut Validation) {
    found.errors.push(absent());
}

/// The same for a default.
pub(super) fn check_default(schema: &Schema, _: &Value, _: Option<&Value>) -> Vec<FieldError> {
    schema.has_rules_below.then(absent).into_iter().collect()
}

fn absent() -> FieldError {
    FieldError::with(CauseReason::Invalid, Path::Root.or_nil(), ABSENT.to_owned())
}

/// What is said of a rule when its schema is stored.
pub(super) fn review(_: &Rule, _: &Schema) -> Reviewed {
    Reviewed {
        rule: Err(format!("compilation failed: {ABSENT}")),
        message: Ok(()),
        cost: 0,
        message_cost: None,
        most: 1,
    }
}

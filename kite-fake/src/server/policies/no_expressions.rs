//! What stands for expressions where the feature `cel` is off: whatever a policy is about
//! is refused, since nobody knows whether the policy allows it.

use serde_json::Value;

use super::{Verdict, Write};
use crate::store::Store;

impl Write<'_> {
    pub(super) fn evaluate(&self, _: &Store, _: &Value, _: &Value) -> Vec<Verdict> {
        vec![Verdict {
            message: self.unknown("admission policies"),
            reason: String::new(),
        }]
    }

    pub(super) fn meets(&self, _: &Store, _: &Value, _: &Value) -> Result<bool, String> {
        Err(self.unknown("admission policies"))
    }

    pub(super) fn mutated(
        &self,
        _: &Store,
        _: &Value,
        _: &Value,
        _: &Value,
    ) -> Result<Value, String> {
        Err(self.unknown("admission policies"))
    }

    pub(in crate::server) fn conditions(&self, _: &Store, _: &[Value]) -> Result<bool, String> {
        Err(self.unknown("match conditions"))
    }

    fn unknown(&self, what: &str) -> String {
        format!(
            "this kite-fake was built without its feature `cel`, which {what} need: whether {} \
             may be written is not known",
            self.name()
        )
    }
}

//! What stands for expressions where the feature `cel` is off: whatever a policy is about
//! is refused, since nobody knows whether the policy allows it.

use serde_json::Value;

use super::{Verdict, Write};
use crate::store::Store;

impl Write<'_> {
    pub(super) fn evaluate(&self, _: &Store, _: &Value, _: &Value) -> Vec<Verdict> {
        vec![Verdict {
            message: format!(
                "this kite-fake was built without its feature `cel`, which admission policies \
                 need: whether {} may be written is not known",
                self.name()
            ),
            reason: String::new(),
        }]
    }
}

//! [`Amount`]: what is asked of a quota, and what is left of it.

use kite_rest::FieldError;
use serde_json::Value;

/// Bytes of a mebibyte.
const MIB: u64 = 1 << 20;

/// What something new or grown asks of one of the amounts that quotas count.
pub(crate) struct Amount {
    /// Of the request's body.
    pub(crate) field: &'static str,
    pub(crate) what: &'static str,
    pub(crate) grows: bool,
    pub(crate) asked: u64,
    /// As it was asked for; absent where that follows from something else.
    pub(crate) value: Option<Value>,
    /// By what else the owner has of it.
    pub(crate) used: u64,
    pub(crate) limit: u64,
    pub(crate) limit_text: String,
    pub(crate) is_bytes: bool,
}

impl Amount {
    /// Whether it is more than is left.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.grows && self.used.saturating_add(self.asked) > self.limit
    }

    /// The quota, for people.
    pub(crate) fn quota(&self) -> String {
        let (limit, used) = (&self.limit_text, self.used);
        if self.is_bytes {
            format!("quota {limit}")
        } else {
            format!("quota {limit}, {used} used by others of your VMs")
        }
    }

    /// What is told of the field.
    pub(crate) fn into_error(self) -> FieldError {
        let left = self.limit.saturating_sub(self.used);
        let left = match (left, self.is_bytes) {
            (0, _) => "nothing".to_owned(),
            (left, false) => format!("at most {left}"),
            (left, true) if left.is_multiple_of(1024 * MIB) => {
                format!("at most {}Gi", left / (1024 * MIB))
            }
            // Never more than there is.
            (left, true) => format!("at most {}Mi", left / MIB),
        };
        FieldError {
            field: self.field.to_owned(),
            value: self.value,
            message: format!(
                "is more {} than is left of the quota: {left} of {}",
                self.what, self.limit_text
            ),
        }
    }
}

//! What is wrong with one field, and how the API server writes it down.

use std::fmt;

use serde_json::{Value, json};

use crate::go;

/// Why a field is refused: `details.causes[].reason` of a `Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CauseReason {
    /// The named object does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// The value is there already.
    Duplicate,
    /// The value does not fit.
    Invalid,
    /// The value is of a wrong type.
    TypeInvalid,
    /// The value is none of those allowed.
    NotSupported,
    /// The field may not be set.
    Forbidden,
    /// The string is too long.
    TooLong,
    /// The list or object has too many elements.
    TooMany,
    /// The server failed while it was checking.
    Internal,
}

impl CauseReason {
    /// The word that the `Status` carries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
        }
    }
}

/// One problem of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// What kind of problem.
    pub reason: CauseReason,
    /// Where: `spec.list[0].name`, or `<nil>` for the object as a whole.
    pub field: String,
    /// What: the cause's message, beginning with the kind of problem (`Invalid value: 0: …`).
    pub message: String,
}

impl FieldError {
    /// A value that does not fit; `value` is quoted as the API server quotes it.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl fmt::Display) -> Self {
        Self::with(
            CauseReason::Invalid,
            field,
            format!("Invalid value: {}: {detail}", quote(value)),
        )
    }

    /// A value of a wrong type.
    pub fn type_invalid(
        field: impl Into<String>,
        value: &Value,
        detail: impl fmt::Display,
    ) -> Self {
        Self::with(
            CauseReason::TypeInvalid,
            field,
            format!("Invalid value: {}: {detail}", quote(value)),
        )
    }

    /// A missing value; `detail` may be empty.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self::with(CauseReason::Required, field, message)
    }

    /// A value that occurs twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::with(
            CauseReason::Duplicate,
            field,
            format!("Duplicate value: {}", quote(value)),
        )
    }

    /// A value outside an enumeration; `supported` in the order in which it is named.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| quote(&json!(s))).collect();
        let tail = if list.is_empty() {
            String::new()
        } else {
            format!(": supported values: {}", list.join(", "))
        };
        Self::with(
            CauseReason::NotSupported,
            field,
            format!("Unsupported value: {}{tail}", quote(value)),
        )
    }

    /// A field that may not be set, or not so.
    pub fn forbidden(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::with(
            CauseReason::Forbidden,
            field,
            format!("Forbidden: {detail}"),
        )
    }

    /// A string above `max` bytes.
    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::with(
            CauseReason::TooLong,
            field,
            format!("Too long: may not be more than {max} {unit}"),
        )
    }

    /// A list or object with `actual` elements instead of at most `max`.
    pub fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::with(
            CauseReason::TooMany,
            field,
            format!("Too many: {actual}: must have at most {max} {unit}"),
        )
    }

    /// A problem with its message as it stands.
    pub fn with(reason: CauseReason, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason,
            field: field.into(),
            message: message.into(),
        }
    }

    /// The entry of `details.causes`.
    pub fn to_cause(&self) -> Value {
        json!({"reason": self.reason.as_str(), "message": self.message, "field": self.field})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// The errors as one text: alone, or in brackets; repetitions left out.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// A value as an error quotes it: strings as in Go's `%q`, the rest as JSON.
pub(super) fn quote(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        Value::Number(number) if number.is_f64() => go::float(number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

//! The three patch formats besides server-side apply, as pure functions over JSON.
//!
//! | Function | Format | Media type |
//! |---|---|---|
//! | [`json_patch`] | RFC 6902 | `application/json-patch+json` |
//! | [`merge_patch`] | RFC 7386 | `application/merge-patch+json` |
//! | [`strategic_merge_patch`] | strategic merge patch of Kubernetes | `application/strategic-merge-patch+json` |
//!
//! Each takes the document as the client sees it and the body of the request,
//! and returns the new document. Bodies are bounded: [`MAX_PATCH_BYTES`],
//! [`MAX_OPERATIONS`], the nesting that `serde_json` allows (128; for what comes of
//! a JSON patch, [`MAX_NESTING`]), and what a patch may copy ([`MAX_COPIED_BYTES`]).

mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub(crate) use json::unknown_members;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::go_json;

/// Largest body of a patch, in bytes; the limit that an API server has for any request.
pub const MAX_PATCH_BYTES: usize = 3 * 1024 * 1024;

/// Most operations in one JSON patch.
pub const MAX_OPERATIONS: usize = 10_000;

/// Deepest nesting that a patch may give a document; what `serde_json` allows a body.
pub const MAX_NESTING: usize = 126;

/// Most bytes, as JSON, that the `copy` operations of one patch may add.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Why a patch was not applied; the message is what the `Status` says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// 400: the body is no patch.
    #[error("{0}")]
    BadRequest(String),
    /// 413: the body or the number of its operations is too large.
    #[error("{0}")]
    TooLarge(String),
    /// 422 with empty details: the patch does not fit the document.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable,
    /// 500 without a reason: the patch contradicts the schema's merge keys.
    #[error("{0}")]
    Internal(String),
}

/// Reads a body. `expected` names the shape in the error, in the words of Go's decoder.
fn decode<T: DeserializeOwned>(
    body: &[u8],
    shape_fits: impl Fn(&Value) -> bool,
    expected: &str,
) -> Result<T, PatchError> {
    if body.len() > MAX_PATCH_BYTES {
        return Err(PatchError::TooLarge(format!(
            "Request entity too large: limit is {MAX_PATCH_BYTES}"
        )));
    }
    let value = go_json::read(body)
        .map_err(|error| PatchError::BadRequest(format!("error decoding patch: {error}")))?;
    if !shape_fits(&value) {
        return Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type {expected}",
            kind_of(&value)
        )));
    }
    serde_json::from_value(value)
        .map_err(|error| PatchError::BadRequest(format!("error decoding patch: {error}")))
}

/// The kind of a JSON value as Go's decoder names it.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

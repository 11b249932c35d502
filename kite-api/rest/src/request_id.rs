//! The id of a request, by which an answer, the log and the audit log know it.

use http::{HeaderMap, HeaderName};

/// Header with the request's id, on requests and answers.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request, once it has one.
pub fn request_id(headers: &HeaderMap) -> String {
    let id = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok());
    id.unwrap_or("-").to_owned()
}

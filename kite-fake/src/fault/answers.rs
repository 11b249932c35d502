//! The answers that are given in place of the server's.

use bytes::Bytes;
use http::{HeaderValue, Response, header};

use super::call::Call;
use crate::server::status_response;
use crate::status::{Details, Status};

/// 409 for a write that came too late.
pub(super) fn conflict(call: &Call) -> Response<Bytes> {
    status_response(&Status::modified(&call.group, &call.plural, &call.name))
}

/// 429 as API Priority and Fairness words it: text, not a `Status`
/// (`k8s.io/apiserver/pkg/server/filters`).
pub(super) fn too_many_requests() -> Response<Bytes> {
    let text = "Too many requests, please try again later.\n";
    let mut response = Response::new(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// 500 with what etcd says while it has no leader.
pub(super) fn server_error() -> Response<Bytes> {
    status_response(&Status::internal("etcdserver: leader changed"))
}

/// 504 of a request whose time ran out.
pub(super) fn timeout() -> Response<Bytes> {
    let message =
        "Timeout: request did not complete within requested timeout - context deadline exceeded";
    status_response(&Status::new(504, "Timeout", message).with_details(Details::default()))
}

/// 406 for a watch whose events cannot be told apart.
pub(super) fn not_streamable() -> Response<Bytes> {
    let message = "faults are injected into watches in JSON: accept application/json beside application/vnd.kubernetes.protobuf";
    status_response(&Status::new(406, "NotAcceptable", message))
}

/// The ERROR event of a watch whose history was compacted.
pub(super) fn expired_event() -> Bytes {
    let status = Status::expired("The resourceVersion for the provided watch is too old.");
    format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status.to_json()).into()
}

/// A connection that is reset.
pub(super) fn reset() -> super::BoxError {
    std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "connection reset by peer",
    )
    .into()
}

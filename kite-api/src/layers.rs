//! What surrounds every request: an id, a log span, a time limit, security
//! headers, and an answer even for a panic.

use std::any::Any;

use axum::{
    body::Body,
    extract::{
        MatchedPath, OriginalUri, RawPathParams, Request, State, rejection::RawPathParamsRejection,
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, header};
use kite_rest::{Problem, ProblemKind, request_id::REQUEST_ID};
use tracing::Instrument as _;
use uuid::Uuid;

use crate::state::ApiState;

/// No script, style or frame but Kite's own files. xterm.js, which would write
/// style elements, is given constructed style sheets instead; the two hashes are
/// of what it writes past them, an empty one and the mark of what has the focus.
/// Images may be written out in their address: so come the pictures and pointers
/// of a VM's screen.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' \
     'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' \
     'sha256-tpW2NXyj4kMgf9Gg4wn1Qg3aAOKDqSlFOXgCF2LDUIk='; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

/// Gives the request an id and a span, logs and counts the answer.
pub(crate) async fn trace(
    State(state): State<ApiState>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request
        .headers()
        .get(&REQUEST_ID)
        .filter(|id| is_sane_id(id))
        .cloned()
        .or_else(|| HeaderValue::from_str(&Uuid::new_v4().to_string()).ok())
        .unwrap_or_else(|| HeaderValue::from_static("-"));
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("-", MatchedPath::as_str)
        .to_owned();
    let span = tracing::info_span!(
        "request",
        id = id.to_str().unwrap_or("-"),
        method = %request.method(),
        route = route.as_str(),
        user = tracing::field::Empty,
    );
    let start = tokio::time::Instant::now();
    let method = request.method().clone();
    async move {
        let mut response = next.run(request).await;
        let status = response.status();
        let took = start.elapsed();
        state.metrics().answered(&method, &route, status, took);
        let milliseconds = took.as_millis();
        if status.is_server_error() {
            tracing::warn!(status = status.as_u16(), milliseconds, "answered");
        } else {
            tracing::debug!(status = status.as_u16(), milliseconds, "answered");
        }
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }
    .instrument(span)
    .await
}

/// An id from outside goes into logs: short and plain, or not at all.
fn is_sane_id(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=64).contains(&bytes.len())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Adds the headers that tell browsers to be careful.
pub(crate) async fn secure(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("permissions-policy"),
            "camera=(), microphone=(), geolocation=()",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Answers of the API are one person's and of one moment.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if state.settings().secure_cookies {
        headers.insert(
            header::STRICT_TRANSPORT_SECURITY,
            HeaderValue::from_static("max-age=31536000"),
        );
    }
    response
}

/// Ends a request that takes too long, reading its body included.
pub(crate) async fn limit_time(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    let limit = state.settings().request_timeout;
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            ProblemKind::Unavailable,
            "the request took too long and was given up; it may have been carried out: look \
             before you repeat it",
        )
        .retry_after(std::time::Duration::from_secs(2))
        .into_response(),
    }
}

/// Refuses what needs the caches until they were filled once.
pub(crate) async fn wait_for_sync(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    if state.is_synced() {
        return next.run(request).await;
    }
    Problem::new(
        ProblemKind::NotReady,
        "the API is starting: try again in a moment",
    )
    .retry_after(std::time::Duration::from_secs(1))
    .into_response()
}

/// Answers in place of a handler that panicked.
#[allow(clippy::needless_pass_by_value, reason = "the layer hands it over")]
pub(crate) fn answer_panic(panic: Box<dyn Any + Send + 'static>) -> Response<Body> {
    let what = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text");
    tracing::error!(what, "a handler panicked");
    Problem::new(
        ProblemKind::Internal,
        "a fault of Kite itself: the operator finds it in the log under this request's id",
    )
    .into_response()
}

/// Refuses a path with a name in it that is no text, before anything else looks at it.
pub(crate) async fn require_text(
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    if let Err(RawPathParamsRejection::InvalidUtf8InPathParam(_)) = params {
        return Problem::new(
            ProblemKind::Malformed,
            "the path has percent-encoded bytes that are no UTF-8: write names in UTF-8",
        )
        .into_response();
    }
    next.run(request).await
}

/// Gives axum's own plain-text refusals the shape of all others.
pub(crate) async fn reshape(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    let is_plain = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_none_or(|value| value.as_bytes().starts_with(b"text/plain"));
    if !(status.is_client_error() && is_plain) {
        return response;
    }
    let kind = match status.as_u16() {
        404 => ProblemKind::NotFound,
        405 => ProblemKind::MethodNotAllowed,
        413 => ProblemKind::TooLarge,
        415 => ProblemKind::UnsupportedMediaType,
        _ => ProblemKind::Malformed,
    };
    let text = axum::body::to_bytes(response.into_body(), 4096)
        .await
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let detail = if text.is_empty() {
        kind.title()
    } else {
        &*text
    };
    Problem::new(kind, detail).into_response()
}

/// The answer at a path at which there is nothing.
pub(crate) async fn not_found(OriginalUri(uri): OriginalUri) -> Problem {
    Problem::new(
        ProblemKind::NotFound,
        format!("there is nothing at {}", uri.path()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_from_outside_must_be_plain() {
        for (id, sane) in [
            ("3f6c-1", true),
            ("", false),
            ("a b", false),
            ("a\"b", false),
        ] {
            assert_eq!(is_sane_id(&HeaderValue::from_static(id)), sane, "{id:?}");
        }
        let long = "x".repeat(65);
        assert!(HeaderValue::from_str(&long).is_ok_and(|long| !is_sane_id(&long)));
    }
}

//! Errors as RFC 9457 problem details: one shape for every refusal, with the
//! fields to mend and how.

mod cluster;

use std::{fmt, time::Duration};

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Most errors of one request that are told.
pub(crate) const MOST_TOLD: usize = 50;

/// What kind of problem it is. Clients match on its `type`, people read its
/// title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The request is not HTTP or JSON that makes sense.
    Malformed,
    /// Nobody is signed in, or the session has ended.
    Unauthenticated,
    /// Username and password, the bootstrap token or the invite do not fit.
    WrongCredentials,
    /// The password is right, and a code of the second factor is missing or wrong.
    SecondFactorRequired,
    /// A sign-in at a provider came to nothing.
    SignInFailed,
    /// The account may not do this.
    Forbidden,
    /// Whoever has the session has to prove again who they are.
    ProofRequired,
    /// The account needs a second factor and has none.
    SecondFactorMissing,
    /// The account is suspended.
    Suspended,
    /// The request comes from another web site.
    CrossOrigin,
    /// The platform does not let people sign up.
    SignUpClosed,
    /// The user's quota does not allow it.
    QuotaExceeded,
    /// There is no such thing.
    NotFound,
    /// The path exists but not with this method.
    MethodNotAllowed,
    /// Somebody else was first with a name of which there can be one.
    Taken,
    /// The object changed, is being deleted, or is not in a state for this.
    Conflict,
    /// It was edited since the request's `If-Match` was right.
    ChangedMeanwhile,
    /// The bootstrap token has been used.
    BootstrapClosed,
    /// The invite was used, has expired, or is not good any more.
    InviteOver,
    /// The body is too large.
    TooLarge,
    /// The body is not `application/json`.
    UnsupportedMediaType,
    /// Fields of the body are wrong.
    Invalid,
    /// The request's `Idempotency-Key` stands for another request.
    IdempotencyKeyReused,
    /// Too many attempts: wait.
    TooManyRequests,
    /// A fault of the server itself.
    Internal,
    /// Something is not ready yet; the same request will do later.
    NotReady,
    /// The cluster or this server cannot answer now.
    Unavailable,
}

impl ProblemKind {
    /// Every kind, for the documentation and its test.
    pub const ALL: [Self; 27] = [
        Self::Malformed,
        Self::Unauthenticated,
        Self::WrongCredentials,
        Self::SecondFactorRequired,
        Self::SignInFailed,
        Self::Forbidden,
        Self::ProofRequired,
        Self::SecondFactorMissing,
        Self::Suspended,
        Self::CrossOrigin,
        Self::SignUpClosed,
        Self::QuotaExceeded,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Taken,
        Self::Conflict,
        Self::ChangedMeanwhile,
        Self::BootstrapClosed,
        Self::InviteOver,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Invalid,
        Self::IdempotencyKeyReused,
        Self::TooManyRequests,
        Self::Internal,
        Self::NotReady,
        Self::Unavailable,
    ];

    /// Last part of the problem's type URI, title and status.
    fn facts(self) -> (&'static str, &'static str, StatusCode) {
        match self {
            Self::Malformed => ("malformed", "Malformed request", StatusCode::BAD_REQUEST),
            Self::Unauthenticated => ("unauthenticated", "Sign in first", StatusCode::UNAUTHORIZED),
            Self::WrongCredentials => (
                "wrong-credentials",
                "Wrong credentials",
                StatusCode::UNAUTHORIZED,
            ),
            Self::SecondFactorRequired => (
                "second-factor-required",
                "A code is needed",
                StatusCode::UNAUTHORIZED,
            ),
            Self::SignInFailed => (
                "sign-in-failed",
                "Sign-in at the provider failed",
                StatusCode::BAD_REQUEST,
            ),
            Self::Forbidden => ("forbidden", "Not allowed", StatusCode::FORBIDDEN),
            Self::ProofRequired => (
                "proof-required",
                "Show that it is you",
                StatusCode::FORBIDDEN,
            ),
            Self::SecondFactorMissing => (
                "second-factor-missing",
                "Set up a second factor first",
                StatusCode::FORBIDDEN,
            ),
            Self::Suspended => ("suspended", "Account suspended", StatusCode::FORBIDDEN),
            Self::CrossOrigin => (
                "cross-origin",
                "Request from another site",
                StatusCode::FORBIDDEN,
            ),
            Self::SignUpClosed => ("sign-up-closed", "Sign-up is closed", StatusCode::FORBIDDEN),
            Self::QuotaExceeded => ("quota-exceeded", "Quota exceeded", StatusCode::FORBIDDEN),
            Self::NotFound => ("not-found", "Not found", StatusCode::NOT_FOUND),
            Self::MethodNotAllowed => (
                "method-not-allowed",
                "Method not allowed",
                StatusCode::METHOD_NOT_ALLOWED,
            ),
            Self::Taken => ("taken", "Already taken", StatusCode::CONFLICT),
            Self::Conflict => ("conflict", "Conflict", StatusCode::CONFLICT),
            Self::ChangedMeanwhile => (
                "changed-meanwhile",
                "Changed meanwhile",
                StatusCode::PRECONDITION_FAILED,
            ),
            Self::BootstrapClosed => (
                "bootstrap-closed",
                "Bootstrap is closed",
                StatusCode::CONFLICT,
            ),
            Self::InviteOver => ("invite-over", "Invite is over", StatusCode::CONFLICT),
            Self::TooLarge => ("too-large", "Body too large", StatusCode::PAYLOAD_TOO_LARGE),
            Self::UnsupportedMediaType => (
                "unsupported-media-type",
                "Unsupported media type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ),
            Self::Invalid => ("invalid", "Invalid input", StatusCode::UNPROCESSABLE_ENTITY),
            Self::IdempotencyKeyReused => (
                "idempotency-key-reused",
                "Idempotency-Key used before",
                StatusCode::UNPROCESSABLE_ENTITY,
            ),
            Self::TooManyRequests => (
                "too-many-requests",
                "Too many attempts",
                StatusCode::TOO_MANY_REQUESTS,
            ),
            Self::Internal => (
                "internal",
                "Internal error",
                StatusCode::INTERNAL_SERVER_ERROR,
            ),
            Self::NotReady => (
                "not-ready",
                "Not ready yet",
                StatusCode::SERVICE_UNAVAILABLE,
            ),
            Self::Unavailable => (
                "unavailable",
                "Temporarily unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
            ),
        }
    }

    /// The HTTP status with which it is answered.
    pub fn status(self) -> StatusCode {
        self.facts().2
    }

    /// The last part of its type.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// The problem's type, a URI that never changes.
    pub fn type_uri(self) -> String {
        format!("urn:kite:problem:{}", self.name())
    }

    /// A short summary, the same for every problem of the kind.
    pub fn title(self) -> &'static str {
        self.facts().1
    }

    /// Whether the same request may do later, so that the answer may say when
    /// (`Retry-After`).
    pub fn may_pass(self) -> bool {
        matches!(
            self,
            Self::Conflict | Self::TooManyRequests | Self::NotReady | Self::Unavailable
        )
    }
}

/// A field that is wrong, and the remedy.
#[derive(Clone, Debug, Serialize, JsonSchema, PartialEq)]
pub struct FieldError {
    /// The field's name in the request's body, the parameter's in its query, or the header's.
    pub field: String,
    /// What was given; absent where nothing was, and for secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// An answer that says why a request was refused (RFC 9457).
///
/// ```
/// use kite_rest::{Problem, ProblemKind};
///
/// let problem = Problem::field(ProblemKind::Conflict, "name", "web", "is taken: choose another");
/// assert_eq!(problem.kind().status(), 409);
/// assert_eq!(problem.errors()[0].field, "name");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    errors: Vec<FieldError>,
    retry_after: Option<Duration>,
    cookies: Vec<HeaderValue>,
}

/// The body as it travels.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody {
    /// Which kind of problem it is. What one means never changes; later versions may have
    /// more.
    #[schemars(extend("enum" = ProblemKind::ALL.map(ProblemKind::type_uri)))]
    r#type: String,
    /// The kind in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What happened and what to do, for people.
    detail: String,
    /// The fields that need another value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

impl Problem {
    /// A problem of `kind`; `detail` tells a person what happened and what to do.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: None,
            cookies: Vec::new(),
        }
    }

    /// A problem with one field.
    pub fn field(kind: ProblemKind, field: &str, value: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(kind, format!("{field}: {message}")).with_error(FieldError {
            field: field.to_owned(),
            value: Some(Value::from(value)),
            message,
        })
    }

    /// Whether what was asked for was refused. Of a fault nobody knows what came of it; and
    /// a client that sends a request twice hears the refusal of the second, though the first
    /// may have been done.
    pub fn is_refusal(&self) -> bool {
        self.kind.status().is_client_error()
    }

    /// Fields of the body or of the query are wrong. Of very many the first are told:
    /// a small request must not have a huge answer.
    pub fn invalid(mut errors: Vec<FieldError>) -> Self {
        let count = errors.len();
        errors.truncate(MOST_TOLD);
        // What is about the whole has no field.
        let (of_all, of_fields): (Vec<_>, Vec<_>) =
            errors.iter().partition(|error| error.field.is_empty());
        let fields = match of_fields.as_slice() {
            [] => None,
            [only] => Some(format!("{}: {}", only.field, only.message)),
            several => Some(format!(
                "{} fields need another value: {}",
                several.len(),
                several
                    .iter()
                    .map(|error| error.field.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        };
        let of_all = of_all.into_iter().map(|error| error.message.clone());
        let rest =
            (count > MOST_TOLD).then(|| format!("and more: these are the first {MOST_TOLD}"));
        let detail = fields.into_iter().chain(of_all).chain(rest);
        let detail = detail.collect::<Vec<_>>();
        let detail = detail.join("; ");
        Self {
            errors,
            ..Self::new(ProblemKind::Invalid, detail)
        }
    }

    /// Nothing of this name.
    pub fn not_found(what: &str, name: &str) -> Self {
        Self::new(
            ProblemKind::NotFound,
            format!("there is no {what} named {name:?}"),
        )
    }

    /// The kind.
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// What a person is told.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The fields that are wrong.
    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }

    /// Adds a field.
    #[must_use]
    pub fn with_error(mut self, error: FieldError) -> Self {
        self.errors.push(error);
        self
    }

    /// Says when to try again (`Retry-After`, whole seconds, rounded up), of a problem
    /// that [may pass](ProblemKind::may_pass).
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        debug_assert!(self.kind.may_pass(), "{:?} does not pass", self.kind);
        self.retry_after = Some(after);
        self
    }

    /// Sets or takes away cookies.
    #[must_use]
    pub fn with_cookies(mut self, cookies: Vec<HeaderValue>) -> Self {
        self.cookies = cookies;
        self
    }

    /// This problem, and what `other` says beside it.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.detail = format!("{}; {}", self.detail, other.detail);
        self.errors.extend(other.errors);
        self
    }

    /// Gives each field error the value that the request had for it.
    #[must_use]
    pub fn with_values(mut self, value_of: impl Fn(&str) -> Option<Value>) -> Self {
        for error in &mut self.errors {
            if error.value.is_none() {
                error.value = value_of(&error.field);
            }
        }
        self
    }
}

impl Problem {
    fn body(self) -> ProblemBody {
        ProblemBody {
            r#type: self.kind.type_uri(),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: self.detail,
            errors: self.errors,
        }
    }

    /// The body as JSON, for where it is part of something else.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self.clone().body()).unwrap_or_default()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.title(), self.detail)
    }
}

impl std::error::Error for Problem {}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let status = self.kind.status();
        let retry_after = self.retry_after;
        let kind = self.kind;
        let cookies = std::mem::take(&mut self.cookies);
        let mut response = (status, Json(self.body())).into_response();
        response.extensions_mut().insert(kind);
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"kite\""),
            );
        }
        for cookie in cookies {
            headers.append(header::SET_COOKIE, cookie);
        }
        if let Some(after) = retry_after {
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kind_has_a_type_of_its_own() {
        let types: HashSet<_> = ProblemKind::ALL
            .iter()
            .map(|kind| kind.type_uri())
            .collect();
        assert_eq!(types.len(), ProblemKind::ALL.len());
    }

    #[test]
    fn every_kind_is_documented_with_its_status() {
        let docs = include_str!("../../../docs/api.md");
        for kind in ProblemKind::ALL {
            let cells = format!("| {} | `{}` |", kind.status().as_u16(), kind.facts().0);
            assert!(docs.contains(&cells), "{cells}");
        }
    }

    #[test]
    fn retry_after_is_rounded_up_to_whole_seconds() {
        let response = Problem::new(ProblemKind::TooManyRequests, "wait")
            .retry_after(Duration::from_millis(1_001))
            .into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "application/problem+json"
        );
    }
}

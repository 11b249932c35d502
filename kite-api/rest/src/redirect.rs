//! [`Redirect`]: an answer that leads a browser elsewhere.

use aide::{
    OperationOutput,
    generate::GenContext,
    openapi::{self, Operation, StatusCode as DocumentedStatus},
};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::{
    headers::response_header,
    problem::{Problem, ProblemKind},
};

/// A redirect that is followed once (302).
///
/// ```
/// use axum::response::IntoResponse as _;
/// use kite_rest::Redirect;
///
/// let response = Redirect::at("/sign-in").into_response();
/// assert_eq!(response.status(), 302);
/// ```
#[derive(Debug)]
#[must_use = "it is what a handler answers with"]
pub struct Redirect {
    location: String,
    cookies: Vec<HeaderValue>,
}

impl Redirect {
    /// Leads to `location`.
    pub fn at(location: &str) -> Self {
        Self {
            location: location.to_owned(),
            cookies: Vec::new(),
        }
    }

    /// Sets cookies.
    pub fn cookies(mut self, cookies: impl IntoIterator<Item = HeaderValue>) -> Self {
        self.cookies.extend(cookies);
        self
    }
}

impl IntoResponse for Redirect {
    fn into_response(self) -> Response {
        let Ok(location) = HeaderValue::from_str(&self.location) else {
            let detail = "the address that the browser is sent to is none";
            return Problem::new(ProblemKind::Internal, detail).into_response();
        };
        let mut response = StatusCode::FOUND.into_response();
        response.headers_mut().insert(header::LOCATION, location);
        for cookie in self.cookies {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }
}

impl OperationOutput for Redirect {
    type Inner = ();

    fn inferred_responses(
        ctx: &mut GenContext,
        _: &mut Operation,
    ) -> Vec<(Option<DocumentedStatus>, openapi::Response)> {
        let mut response = openapi::Response {
            description: "The browser goes on elsewhere".to_owned(),
            ..openapi::Response::default()
        };
        let location = response_header(ctx, "Where it goes on");
        response.headers.insert("Location".to_owned(), location);
        vec![(Some(DocumentedStatus::Code(302)), response)]
    }
}

//! [`Answer`]: what a handler answers with, and how the OpenAPI document
//! describes it.

use aide::{
    OperationOutput,
    generate::GenContext,
    openapi::{self, Operation, StatusCode as DocumentedStatus},
};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    headers::{Common, may_have, response_header},
    held,
    openapi::json_response,
    problem::{Problem, ProblemKind},
};

/// Header of an answer that repeats an earlier one.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A JSON body with the status `STATUS`.
///
/// ```
/// use axum::response::IntoResponse as _;
/// use kite_rest::Created;
///
/// let answer = Created::new("a book").with_location("/books/1").with_etag("\"uid.1\"");
/// let response = answer.into_response();
/// assert_eq!(response.status(), 201);
/// assert_eq!(response.headers()["location"], "/books/1");
/// ```
#[derive(Debug)]
#[must_use = "it is what a handler answers with"]
pub struct Answer<T, const STATUS: u16 = 200> {
    body: T,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Something was created.
pub type Created<T> = Answer<T, 201>;
/// Something will come about; this is what is known now.
pub type Accepted<T> = Answer<T, 202>;

impl<T, const STATUS: u16> Answer<T, STATUS> {
    /// Answers with `body`, and with no header of its own.
    pub fn new(body: T) -> Self {
        Self {
            body,
            headers: Vec::new(),
        }
    }

    /// The same answer with a body of another type.
    pub fn map<U>(self, body: impl FnOnce(T) -> U) -> Answer<U, STATUS> {
        Answer {
            body: body(self.body),
            headers: self.headers,
        }
    }

    /// Adds a header. One whose value cannot stand in a header is left out.
    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Where what was created is to be found.
    pub fn with_location(self, path: &str) -> Self {
        self.with(header::LOCATION, path)
    }

    /// What `If-Match` must say to edit this.
    pub fn with_etag(self, tag: &str) -> Self {
        self.with(header::ETAG, tag)
    }

    /// Says whether an earlier request had done it already.
    pub fn replayed(self, replayed: bool) -> Self {
        if replayed {
            self.with(REPLAYED, "true")
        } else {
            self
        }
    }

    /// Sets cookies.
    pub fn cookies(mut self, cookies: impl IntoIterator<Item = HeaderValue>) -> Self {
        let cookies = cookies.into_iter();
        self.headers
            .extend(cookies.map(|cookie| (header::SET_COOKIE, cookie)));
        self
    }
}

impl<T: Serialize, const STATUS: u16> IntoResponse for Answer<T, STATUS> {
    fn into_response(self) -> Response {
        let mut response = match serde_json::to_vec(&self.body) {
            Ok(body) => held::response(body),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written");
                let detail = "the answer could not be written: the operator finds the cause in \
                              the log";
                return Problem::new(ProblemKind::Internal, detail).into_response();
            }
        };
        // What it was made of is not needed any more.
        drop(self.body);
        *response.status_mut() = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK);
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}

impl<T: JsonSchema, const STATUS: u16> OperationOutput for Answer<T, STATUS> {
    type Inner = T;

    fn operation_response(ctx: &mut GenContext, _: &mut Operation) -> Option<openapi::Response> {
        let description = match STATUS {
            201 => "Created",
            202 => "Accepted: it will come about",
            _ => "Done",
        };
        let mut response = json_response::<T>(ctx, description);
        // Bodies that say by what they are edited say so in the header, too.
        if has_property::<T>(ctx, "etag") {
            may_have(&mut response, Common::ETag);
        }
        if STATUS == 201 {
            let location = response_header(ctx, "Where it is to be found");
            response.headers.insert("Location".to_owned(), location);
        }
        Some(response)
    }

    fn inferred_responses(
        ctx: &mut GenContext,
        operation: &mut Operation,
    ) -> Vec<(Option<DocumentedStatus>, openapi::Response)> {
        Self::operation_response(ctx, operation)
            .map(|response| (Some(DocumentedStatus::Code(STATUS)), response))
            .into_iter()
            .collect()
    }
}

/// Whether objects of type `T` have a property.
fn has_property<T: JsonSchema>(ctx: &mut GenContext, name: &str) -> bool {
    let schema = ctx.schema.subschema_for::<T>();
    let definition = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|it| it.rsplit('/').next())
        .and_then(|it| ctx.schema.definitions().get(it));
    let schema = definition.unwrap_or(schema.as_value());
    schema
        .pointer("/properties")
        .is_some_and(|all| all.get(name).is_some())
}

/// It is done and there is nothing to say (204).
#[derive(Debug, Default)]
pub struct Done {
    cookies: Vec<HeaderValue>,
}

impl Done {
    /// Sets cookies.
    pub fn cookies(cookies: impl IntoIterator<Item = HeaderValue>) -> Self {
        Self {
            cookies: cookies.into_iter().collect(),
        }
    }
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        let mut response = StatusCode::NO_CONTENT.into_response();
        for cookie in self.cookies {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }
}

impl OperationOutput for Done {
    type Inner = ();

    fn inferred_responses(
        _: &mut GenContext,
        _: &mut Operation,
    ) -> Vec<(Option<DocumentedStatus>, openapi::Response)> {
        let response = openapi::Response {
            description: "Done".to_owned(),
            ..openapi::Response::default()
        };
        vec![(Some(DocumentedStatus::Code(204)), response)]
    }
}

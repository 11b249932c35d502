//! Recordings of terminals, from where the gateways keep them.

use std::io;

use aide::{
    OperationOutput,
    generate::GenContext,
    openapi::{self, MediaType, Operation, StatusCode},
};
use async_trait::async_trait;
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream::BoxStream;
use http::header;
use indexmap::IndexMap;
use kite_rest::openapi::schema_object;

/// What a recording is: lines of JSON, asciicast v2.
const MEDIA_TYPE: &str = "application/x-asciicast";

/// Where recordings are read from.
#[async_trait]
pub trait Recordings: Send + Sync + 'static {
    /// Reads the recording of this name, which is made of letters, digits, `-`, `_`
    /// and `.`; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// When that cannot be said now.
    async fn read(&self, name: &str) -> io::Result<Option<Recorded>>;

    /// The names of all that are there whose name is not before `from`, in the order of
    /// bytes, with how many bytes each has; in any order. Names begin with the time at
    /// which a recording was begun, such as `20260131T235959Z`.
    fn names(&self, from: &str) -> BoxStream<'_, io::Result<(String, u64)>>;
}

/// A recording that is being read.
pub struct Recorded {
    /// How many bytes it has.
    pub length: u64,
    /// The bytes.
    pub bytes: BoxStream<'static, io::Result<Bytes>>,
}

/// Whether this can be the name of a recording, and leads to nothing else.
pub(crate) fn is_plain(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let stem = name.strip_suffix(".cast").unwrap_or_default();
    !stem.is_empty() && !stem.starts_with('.') && stem.bytes().all(is_plain)
}

/// A recording as an answer.
pub(crate) struct Cast(pub(crate) Recorded);

impl IntoResponse for Cast {
    fn into_response(self) -> Response {
        let Recorded { length, bytes } = self.0;
        let headers = [
            (header::CONTENT_TYPE, MEDIA_TYPE.to_owned()),
            (header::CONTENT_LENGTH, length.to_string()),
        ];
        (headers, Body::from_stream(bytes)).into_response()
    }
}

impl OperationOutput for Cast {
    type Inner = String;

    fn operation_response(ctx: &mut GenContext, _: &mut Operation) -> Option<openapi::Response> {
        let content = MediaType {
            schema: Some(schema_object(ctx.schema.subschema_for::<String>())),
            ..MediaType::default()
        };
        Some(openapi::Response {
            description: "The recording, as asciicast v2".to_owned(),
            content: IndexMap::from_iter([(MEDIA_TYPE.to_owned(), content)]),
            ..openapi::Response::default()
        })
    }

    fn inferred_responses(
        ctx: &mut GenContext,
        operation: &mut Operation,
    ) -> Vec<(Option<StatusCode>, openapi::Response)> {
        Self::operation_response(ctx, operation)
            .map(|response| (Some(StatusCode::Code(200)), response))
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn names_lead_nowhere_else() {
        assert!(is_plain(
            "20260101T000000Z_kite-user-ann_web_ann-web_0a.cast"
        ));
        for name in [
            "",
            ".cast",
            "..cast",
            "../a.cast",
            "a/b.cast",
            "a\\b.cast",
            "a%2fb.cast",
            "a\0.cast",
            "a.cast.part",
            "a.txt",
        ] {
            assert!(!is_plain(name), "{name}");
        }
    }
}

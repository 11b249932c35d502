//! Headers that the answers of many operations have: described once, among the
//! document's components, and referred to.

use aide::openapi::{
    Components, Header, HeaderStyle, ParameterSchemaOrContent, ReferenceOr, Response,
};
use indexmap::IndexMap;
use schemars::{Schema, json_schema};

use super::schema_object;
use crate::web::written;

/// A header of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Common {
    /// By what an edit says what it is based on.
    ETag,
    /// That an earlier request had done it.
    IdempotencyReplayed,
    /// When to try again.
    RetryAfter,
    /// How far the write has got.
    KiteWritten,
}

impl Common {
    const ALL: [Self; 4] = [
        Self::ETag,
        Self::IdempotencyReplayed,
        Self::RetryAfter,
        Self::KiteWritten,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ETag => "ETag",
            Self::IdempotencyReplayed => "Idempotency-Replayed",
            Self::RetryAfter => "Retry-After",
            Self::KiteWritten => written::COMPONENT,
        }
    }

    fn header(self) -> Header {
        let (description, schema) = match self {
            Self::ETag => (
                "What an edit sends as `If-Match` to count only if nobody else edited since: the \
                 body's `etag`.",
                json_schema!({ "type": "string", "pattern": "^\"[^\"]*\"$" }),
            ),
            Self::IdempotencyReplayed => (
                "There if an earlier request with the same `Idempotency-Key` had done it.",
                json_schema!({ "type": "string", "const": "true" }),
            ),
            Self::RetryAfter => (
                "After how many seconds the same request may do.",
                json_schema!({ "type": "integer", "minimum": 1 }),
            ),
            Self::KiteWritten => (
                "How far this answer's write has got. A request that brings it along (the latest \
                 one is enough) is answered by a replica that has seen as much. What it says is \
                 for Kite alone to read.",
                json_schema!({ "type": "string", "pattern": written::PATTERN }),
            ),
        };
        header(description, schema)
    }
}

/// Says of a response that it may have a header.
pub(crate) fn may_have(response: &mut Response, header: Common) {
    let name = header.name();
    let reference = ReferenceOr::ref_(&format!("#/components/headers/{name}"));
    response.headers.insert(name.to_owned(), reference);
}

/// Puts what the document says of them among the parts to which responses refer.
pub(super) fn add_components(components: &mut Components) {
    let all = Common::ALL.map(|it| (it.name().to_owned(), ReferenceOr::Item(it.header())));
    components.headers.extend(all);
}

/// A header that an answer may lack.
pub(super) fn header(description: &str, schema: Schema) -> Header {
    Header {
        description: Some(description.to_owned()),
        style: HeaderStyle::Simple,
        required: false,
        deprecated: None,
        format: ParameterSchemaOrContent::Schema(schema_object(schema)),
        example: None,
        examples: IndexMap::default(),
        extensions: IndexMap::default(),
    }
}

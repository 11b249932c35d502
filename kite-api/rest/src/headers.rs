//! Headers that the answers of many operations have: described once, among the
//! document's components, and referred to.

use aide::{
    generate::GenContext,
    openapi::{
        Components, Header, HeaderStyle, Parameter, ParameterData, ParameterSchemaOrContent,
        ReferenceOr, Response, SchemaObject,
    },
};
use indexmap::IndexMap;
use schemars::{Schema, json_schema};

/// What the OpenAPI document calls the header that says how far a write has got, of answers
/// and of requests.
pub(crate) const WRITTEN: &str = "Kite-Written";
/// What it looks like: kinds, and the version of each.
const WRITTEN_PATTERN: &str = r"^[a-z]+\.[0-9]+(_[a-z]+\.[0-9]+)*$";
/// What the OpenAPI document calls the header of a creation that may be repeated.
pub(crate) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// A header of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Common {
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
            Self::KiteWritten => WRITTEN,
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
                json_schema!({ "type": "string", "pattern": WRITTEN_PATTERN }),
            ),
        };
        header(description, schema)
    }
}

/// Says of a response that it may have a header.
pub fn may_have(response: &mut Response, header: Common) {
    let name = header.name();
    let reference = ReferenceOr::ref_(&format!("#/components/headers/{name}"));
    response.headers.insert(name.to_owned(), reference);
}

/// Puts what the document says of them among the parts to which responses and requests
/// refer.
pub(crate) fn add_components(components: &mut Components) {
    let all = Common::ALL.map(|it| (it.name().to_owned(), ReferenceOr::Item(it.header())));
    components.headers.extend(all);
    let brought = request_header(
        WRITTEN,
        "What an answer to a write had in this header: what was written then is seen by \
         whichever replica answers. Browsers bring it by a cookie.",
        json_schema!({ "type": "string", "pattern": WRITTEN_PATTERN }),
    );
    components
        .parameters
        .insert(WRITTEN.to_owned(), ReferenceOr::Item(brought));
}

/// [`WRITTEN`] as operations refer to it.
pub(crate) fn written_reference() -> ReferenceOr<Parameter> {
    ReferenceOr::ref_(&format!("#/components/parameters/{WRITTEN}"))
}

/// A header that an answer may lack.
pub(crate) fn header(description: &str, schema: Schema) -> Header {
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

/// A header of a response, always a text.
pub fn response_header(ctx: &mut GenContext, description: &str) -> ReferenceOr<Header> {
    let text = ctx.schema.subschema_for::<String>();
    ReferenceOr::Item(header(description, text))
}

/// A header that a request may have.
pub fn request_header(name: &str, description: &str, schema: Schema) -> Parameter {
    let parameter_data = ParameterData {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        required: false,
        deprecated: None,
        format: ParameterSchemaOrContent::Schema(schema_object(schema)),
        example: None,
        examples: IndexMap::default(),
        explode: None,
        extensions: IndexMap::default(),
    };
    Parameter::Header {
        parameter_data,
        style: HeaderStyle::Simple,
    }
}

/// A schema where the document wants one.
pub fn schema_object(json_schema: Schema) -> SchemaObject {
    SchemaObject {
        json_schema,
        external_docs: None,
        example: None,
    }
}

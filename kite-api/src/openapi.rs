//! The OpenAPI 3.1 document: made from the handlers' own types, so that it says
//! what they take and answer.
//!
//! Types add what they stand for ([`crate::web::Sent`] the body and what is
//! wrong with bodies, [`crate::auth::Caller`] the ways to sign in and 401, …);
//! what an operation refuses beside is said where it is routed ([`about`]).

pub(crate) mod examples;
mod headers;

use aide::{
    OperationInput, OperationOutput,
    generate::GenContext,
    openapi::{
        Components, Header, HeaderStyle, Info, License, MediaType, OpenApi, Operation, Parameter,
        ParameterData, ParameterSchemaOrContent, PathItem, ReferenceOr, Response, Responses,
        SchemaObject, SecurityScheme, Server, StatusCode, Tag,
    },
    transform::{TransformOperation, TransformPathItem},
};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use self::headers::header;
pub(crate) use self::headers::{Common, may_have};
use crate::{
    auth::cookie::Role,
    problem::{Problem, ProblemBody, ProblemKind},
    proof,
    web::{once, written},
};

/// What every operation may answer: a query that it does not take, a fault, and that the
/// API or the cluster cannot answer now.
const ALWAYS: [ProblemKind; 4] = [
    ProblemKind::Invalid,
    ProblemKind::Internal,
    ProblemKind::NotReady,
    ProblemKind::Unavailable,
];

/// Groups of operations, with what they are for.
const TAGS: [(&str, &str); 7] = [
    ("auth", "Signing up, in and out"),
    ("me", "One's own account"),
    ("vms", "Virtual machines"),
    ("catalogue", "What VMs can be made from: images and offers"),
    ("events", "News as they happen"),
    ("admin", "For administrators"),
    ("platform", "What everybody may know"),
];

/// What the document says of operations that ask for a fresh proof: when they do.
const PROOF: &str = "x-kite-proof";

/// Names and explains an operation, and lists what it refuses beside what its
/// types say.
pub(crate) fn about(
    tag: &'static str,
    id: &'static str,
    summary: &'static str,
    refused: &'static [ProblemKind],
) -> impl FnOnce(TransformOperation<'_>) -> TransformOperation<'_> {
    move |operation| {
        let mut operation = operation.id(id).tag(tag).summary(summary);
        aide::generate::in_context(|ctx| {
            refuses(ctx, operation.inner_mut(), &ALWAYS);
            if let Some(when) = proof::of_operation(id).described() {
                refuses(ctx, operation.inner_mut(), &[ProblemKind::ProofRequired]);
                let extensions = &mut operation.inner_mut().extensions;
                extensions.insert(PROOF.to_owned(), when);
            }
            refuses(ctx, operation.inner_mut(), refused);
            let mut parameters = operation.inner_mut().parameters.iter();
            let is_in_path = |it| matches!(it, &ReferenceOr::Item(Parameter::Path { .. }));
            if parameters.any(is_in_path) {
                refuses(ctx, operation.inner_mut(), &[ProblemKind::Malformed]);
            }
        });
        operation
    }
}

/// Notes that an operation may answer with these problems.
pub(crate) fn refuses(ctx: &mut GenContext, operation: &mut Operation, kinds: &[ProblemKind]) {
    for kind in kinds {
        let responses = operation.responses.get_or_insert_with(Responses::default);
        let line = format!("`{}`: {}", kind.name(), kind.title());
        let status = StatusCode::Code(kind.status().as_u16());
        if let Some(ReferenceOr::Item(response)) = responses.responses.get_mut(&status) {
            if !response.description.contains(&line) {
                response.description.push('\n');
                response.description.push_str(&line);
            }
            may_pass(response, *kind);
        } else {
            let mut response = problem_response(ctx, line);
            may_pass(&mut response, *kind);
            let response = ReferenceOr::Item(response);
            responses.responses.insert(status, response);
        }
    }
}

/// Says of a response that it may tell when to try again, where that can help.
fn may_pass(response: &mut Response, kind: ProblemKind) {
    if kind.may_pass() {
        may_have(response, Common::RetryAfter);
    }
}

fn problem_response(ctx: &mut GenContext, description: String) -> Response {
    let content = MediaType {
        schema: Some(schema_object(ctx.schema.subschema_for::<ProblemBody>())),
        ..MediaType::default()
    };
    Response {
        description,
        content: IndexMap::from_iter([("application/problem+json".to_owned(), content)]),
        ..Response::default()
    }
}

/// A schema where the document wants one.
pub(crate) fn schema_object(json_schema: Schema) -> SchemaObject {
    SchemaObject {
        json_schema,
        external_docs: None,
        example: None,
    }
}

/// A JSON response of type `T`.
pub(crate) fn json_response<T: JsonSchema>(ctx: &mut GenContext, description: &str) -> Response {
    let content = MediaType {
        schema: Some(schema_object(ctx.schema.subschema_for::<T>())),
        ..MediaType::default()
    };
    Response {
        description: description.to_owned(),
        content: IndexMap::from_iter([("application/json".to_owned(), content)]),
        ..Response::default()
    }
}

/// A header of a response, always a text.
pub(crate) fn response_header(ctx: &mut GenContext, description: &str) -> ReferenceOr<Header> {
    let text = ctx.schema.subschema_for::<String>();
    ReferenceOr::Item(header(description, text))
}

/// A header that a request may have.
pub(crate) fn request_header(name: &str, description: &str, schema: Schema) -> Parameter {
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

/// Says of operations what goes for many: which headers bring along what was written,
/// and which tell of it or of an answer that repeats an earlier one.
pub(crate) fn describe(mut path: TransformPathItem<'_>) -> TransformPathItem<'_> {
    let PathItem {
        get,
        put,
        post,
        delete,
        patch,
        ..
    } = path.inner_mut();
    let writing = [put, post, delete, patch].map(|it| (it, true));
    for (operation, writes) in writing.into_iter().chain([(get, false)]) {
        let Some(operation) = operation else {
            continue;
        };
        aide::generate::in_context(|ctx| refuses(ctx, operation, &[ProblemKind::Malformed]));
        let repeats = once::is_taken_by(operation);
        operation.parameters.push(written::reference());
        let responses = operation.responses.iter_mut();
        for (status, response) in responses.flat_map(|it| &mut it.responses) {
            if let (StatusCode::Code(200..300), ReferenceOr::Item(response)) = (status, response) {
                if writes {
                    may_have(response, Common::KiteWritten);
                }
                if repeats {
                    may_have(response, Common::IdempotencyReplayed);
                }
            }
        }
    }
    path
}

impl OperationInput for Problem {}

/// Which problems an operation answers with stands in its `about`.
impl OperationOutput for Problem {
    type Inner = ProblemBody;
}

/// To be called before operations are routed: schemas are to be named and kept
/// in one place of the document.
pub(crate) fn prepare() {
    aide::generate::reset_context();
    aide::generate::extract_schemas(true);
    aide::generate::infer_responses(true);
}

/// The document before the operations are added.
pub(crate) fn begin() -> OpenApi {
    let mut components = Components {
        security_schemes: IndexMap::from_iter([
            (BEARER.to_owned(), ReferenceOr::Item(bearer())),
            (
                COOKIE.to_owned(),
                ReferenceOr::Item(cookie(
                    Role::Access.name(false),
                    "The cookie that signing in with `\"cookie\": true` sets without TLS.",
                )),
            ),
            (
                TLS_COOKIE.to_owned(),
                ReferenceOr::Item(cookie(
                    Role::Access.name(true),
                    "The same where the server is behind TLS (`--secure-cookies`).",
                )),
            ),
        ]),
        ..Components::default()
    };
    headers::add_components(&mut components);
    written::add_components(&mut components);
    OpenApi {
        info: Info {
            title: "Kite".to_owned(),
            summary: Some("Self-service virtual machines on Kubernetes".to_owned()),
            description: Some(
                "Writes are desired state; `status` says what was seen. Every refusal is a \
                 problem document (RFC 9457) that names fields, values and remedies."
                    .to_owned(),
            ),
            license: Some(License {
                name: "Apache-2.0".to_owned(),
                identifier: Some("Apache-2.0".to_owned()),
                ..License::default()
            }),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Info::default()
        },
        servers: vec![Server {
            url: "/".to_owned(),
            ..Server::default()
        }],
        tags: TAGS
            .map(|(name, description)| Tag {
                name: name.to_owned(),
                description: Some(description.to_owned()),
                ..Tag::default()
            })
            .into(),
        components: Some(components),
        ..OpenApi::default()
    }
}

/// Name of the way to sign in with a header.
const BEARER: &str = "bearer";
/// Names of the ways to sign in with a cookie.
const COOKIE: &str = "cookie";
const TLS_COOKIE: &str = "tlsCookie";

fn bearer() -> SecurityScheme {
    SecurityScheme::Http {
        scheme: "bearer".to_owned(),
        bearer_format: None,
        description: Some("The token that signing in gives.".to_owned()),
        extensions: IndexMap::default(),
    }
}

fn cookie(name: &str, description: &str) -> SecurityScheme {
    SecurityScheme::ApiKey {
        location: aide::openapi::ApiKeyLocation::Cookie,
        name: name.to_owned(),
        description: Some(description.to_owned()),
        extensions: IndexMap::default(),
    }
}

/// Notes that an operation is for those who are signed in.
pub(crate) fn signed_in(ctx: &mut GenContext, operation: &mut Operation) {
    operation.security = [BEARER, COOKIE, TLS_COOKIE]
        .map(|name| IndexMap::from_iter([(name.to_owned(), Vec::new())]))
        .into();
    refuses(
        ctx,
        operation,
        &[
            ProblemKind::Unauthenticated,
            ProblemKind::Forbidden,
            ProblemKind::SecondFactorMissing,
            ProblemKind::CrossOrigin,
            // Answers that are not read hold memory, and one account may hold so much.
            ProblemKind::TooManyRequests,
        ],
    );
}

/// The finished document as JSON: sorted where order means nothing, without
/// schemas that nothing refers to (those of paths and queries, which are
/// parameters by now).
pub(crate) fn finish(api: &OpenApi) -> Value {
    let mut document = serde_json::to_value(api).unwrap_or_default();
    forget_kubernetes(&mut document);
    loop {
        let text = document.to_string();
        let Some(schemas) = document
            .pointer_mut("/components/schemas")
            .and_then(Value::as_object_mut)
        else {
            break;
        };
        let before = schemas.len();
        schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
        if schemas.len() == before {
            break;
        }
    }
    document
}

/// Takes out what only an API server of Kubernetes understands.
fn forget_kubernetes(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.starts_with("x-kubernetes"));
            fields.values_mut().for_each(forget_kubernetes);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_kubernetes),
        _ => {}
    }
}

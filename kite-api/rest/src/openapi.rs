//! The OpenAPI 3.1 document: made from the handlers' own types, so that it says
//! what they take and answer.
//!
//! Types add what they stand for ([`crate::Sent`] the body and what is wrong with bodies,
//! [`crate::IfMatch`] its header, …); what an operation refuses beside is said where it is
//! routed ([`about`]).

use std::mem;

use aide::{
    OperationInput, OperationOutput,
    generate::GenContext,
    openapi::{
        Components, MediaType, OpenApi, Operation, Parameter, PathItem, ReferenceOr, Response,
        Responses, StatusCode,
    },
    transform::{TransformOperation, TransformPathItem},
};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::{Map, Value};

pub use crate::headers::{request_header, response_header, schema_object};
use crate::{
    headers::{self, Common, may_have},
    problem::{Problem, ProblemBody, ProblemKind},
};

/// Where every path of a document begins, whatever the router is nested below.
pub(crate) const BASE: &str = "/api/v1/";

/// What every operation may answer: a query that it does not take, a fault, and that the
/// API or the cluster cannot answer now.
const ALWAYS: [ProblemKind; 4] = [
    ProblemKind::Invalid,
    ProblemKind::Internal,
    ProblemKind::NotReady,
    ProblemKind::Unavailable,
];

/// Names and explains an operation, and lists what it refuses beside what its
/// types say.
pub fn about(
    tag: &'static str,
    id: &'static str,
    summary: &'static str,
    refused: &'static [ProblemKind],
) -> impl FnOnce(TransformOperation<'_>) -> TransformOperation<'_> {
    move |operation| {
        let mut operation = operation.id(id).tag(tag).summary(summary);
        aide::generate::in_context(|ctx| {
            refuses(ctx, operation.inner_mut(), &ALWAYS);
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
pub fn refuses(ctx: &mut GenContext, operation: &mut Operation, kinds: &[ProblemKind]) {
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

/// A JSON response of type `T`.
pub fn json_response<T: JsonSchema>(ctx: &mut GenContext, description: &str) -> Response {
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

/// Says of operations what goes for many: which headers bring along what was written,
/// and which tell of it or of an answer that repeats an earlier one.
pub fn describe(mut path: TransformPathItem<'_>) -> TransformPathItem<'_> {
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
        let repeats = takes_header(operation, headers::IDEMPOTENCY_KEY);
        operation.parameters.push(headers::written_reference());
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

/// Whether an operation takes a header, as its handler says.
fn takes_header(operation: &Operation, name: &str) -> bool {
    let is_it = |parameter: &ReferenceOr<Parameter>| match parameter {
        ReferenceOr::Item(Parameter::Header { parameter_data, .. }) => parameter_data.name == name,
        _ => false,
    };
    operation.parameters.iter().any(is_it)
}

impl OperationInput for Problem {}

/// Which problems an operation answers with stands in its `about`.
impl OperationOutput for Problem {
    type Inner = ProblemBody;
}

/// To be called before operations are routed: schemas are to be named and kept
/// in one place of the document.
pub fn prepare() {
    aide::generate::reset_context();
    aide::generate::extract_schemas(true);
    aide::generate::infer_responses(true);
}

/// Puts into the document what the operations of this crate refer to.
pub fn add_components(components: &mut Components) {
    headers::add_components(components);
}

/// The finished document as JSON: sorted where order means nothing, without
/// schemas that nothing refers to (those of paths and queries, which are
/// parameters by now).
pub fn finish(api: &OpenApi) -> Value {
    let mut document = serde_json::to_value(api).unwrap_or_default();
    forget_kubernetes(&mut document);
    let schemas = document.pointer_mut("/components/schemas");
    if let Some(mut all) = schemas.and_then(Value::as_object_mut).map(mem::take) {
        let mut needed = Vec::new();
        references(&document, &mut needed);
        let mut kept = Map::new();
        while let Some(name) = needed.pop() {
            if let Some(schema) = all.remove(&name) {
                references(&schema, &mut needed);
                kept.insert(name, schema);
            }
        }
        document["components"]["schemas"] = Value::Object(kept);
    }
    document
}

/// The names of the schemas that something refers to.
fn references(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|it| references(it, names)),
        Value::Array(items) => items.iter().for_each(|it| references(it, names)),
        Value::String(text) => {
            names.extend(
                text.strip_prefix("#/components/schemas/")
                    .map(str::to_owned),
            );
        }
        _ => {}
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn what_nothing_leads_to_is_not_in_the_document() {
        let to = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        let text = json!({
            "openapi": "3.1.0",
            "info": { "title": "a", "version": "1" },
            "paths": { "/a": { "get": { "responses": {
                "200": { "description": "", "content": { "application/json": { "schema": to("A") } } }
            } } } },
            "components": { "schemas": {
                "A": { "items": to("B") },
                "B": { "type": "string", "x-kubernetes-int-or-string": true },
                "C": { "items": to("D") },
                "D": { "items": to("C") },
            } },
        })
        .to_string();
        let api: OpenApi = serde_json::from_str(&text).unwrap();
        let schemas = json!({ "A": { "items": to("B") }, "B": { "type": "string" } });
        assert_eq!(finish(&api)["components"]["schemas"], schemas);
    }
}

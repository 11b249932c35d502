//! What stands in a request's query, against what its operation documents: a parameter
//! that it does not have, one that is there twice, and a value that cannot be are told
//! together, before the handler is asked.
//!
//! The OpenAPI document has the parameters of all the extractors of an operation, so that
//! none of them has to know what the others take. By it is known, too, which operations
//! look at `If-Match`: the others must not act where it is there (RFC 9110 §13.1.1).

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{Method, header};
use serde_json::Value;
use url::form_urlencoded;

use crate::{
    form::is_secret,
    openapi::BASE,
    problem::{FieldError, Problem, ProblemKind},
    shape::Shape,
};

/// Most parameters that are looked at.
const MOST_READ: usize = 64;
/// Most characters of a name or a value that are repeated.
const REPEATED: usize = 200;

/// What the operations take, by path and method.
#[derive(Debug)]
pub struct Queries {
    document: Value,
    operations: HashMap<String, HashMap<Method, Parameters>>,
}

/// The parameters of an operation.
#[derive(Debug)]
struct Parameters {
    /// With the schema of each, in the order of the document.
    known: Vec<(String, Value)>,
    /// Whether others are passed over.
    is_led_to: bool,
    /// Whether it looks at `If-Match`.
    is_conditional: bool,
}

impl Queries {
    /// What the operations of an OpenAPI document take. To those that are `led_to` browsers
    /// come from other sites, which add parameters of their own.
    pub fn of(document: &Value, led_to: &[&str]) -> Self {
        let paths = document["paths"].as_object().into_iter().flatten();
        let operations = paths.map(|(path, methods)| {
            let methods = methods.as_object().into_iter().flatten();
            let methods = methods.filter_map(|(method, operation)| {
                let method = method.to_uppercase().parse().ok()?;
                Some((method, Parameters::of(operation, led_to)))
            });
            (path.clone(), methods.collect())
        });
        Self {
            operations: operations.collect(),
            document: document.clone(),
        }
    }

    fn find(&self, path: &str, method: &Method) -> Option<&Parameters> {
        let at = path.rfind(BASE)?;
        let method = match method {
            &Method::HEAD => &Method::GET,
            method => method,
        };
        self.operations.get(&path[at..])?.get(method)
    }

    /// What is wrong with a query of the operation at `path`; nothing of paths that none has.
    pub fn faults(&self, path: &str, method: &Method, query: &str) -> Vec<FieldError> {
        self.find(path, method)
            .map_or_else(Vec::new, |parameters| self.errors(parameters, query))
    }

    fn errors(&self, parameters: &Parameters, query: &str) -> Vec<FieldError> {
        let mut given: Vec<(String, Vec<String>)> = Vec::new();
        // No operation has as many, so that what is left out changes nothing but how much
        // is told, and none of this takes long.
        for (name, value) in form_urlencoded::parse(query.as_bytes()).take(MOST_READ) {
            match given.iter_mut().find(|(it, _)| *it == name) {
                Some((_, values)) => values.push(value.into_owned()),
                None => given.push((name.into_owned(), vec![value.into_owned()])),
            }
        }
        let errors = given.iter().filter_map(|(name, values)| {
            let message = self.wrong(parameters, name, values)?;
            let value = match values.as_slice() {
                [one] => Value::from(shortened(one)),
                several => several.iter().map(|it| shortened(it)).collect(),
            };
            // What a provider gave is for this server alone.
            let is_hidden = is_secret(name) || ["state", "ticket"].contains(&&**name);
            Some(FieldError {
                field: shortened(name),
                value: Some(value).filter(|_| !is_hidden),
                message,
            })
        });
        errors.collect()
    }

    fn wrong(&self, parameters: &Parameters, name: &str, values: &[String]) -> Option<String> {
        let Some((_, schema)) = parameters.known.iter().find(|(it, _)| it == name) else {
            return (!parameters.is_led_to).then(|| parameters.unknown());
        };
        let [value] = values else {
            let times = values.len();
            return Some(format!("is there {times} times: write it once"));
        };
        let shape = Shape::new(&self.document, schema);
        let faults = shape.faults(&read(value, shape.type_name()), name);
        faults.first().map(|fault| fault.kind.message())
    }
}

impl Parameters {
    fn of(operation: &Value, led_to: &[&str]) -> Self {
        let parameters = || operation["parameters"].as_array().into_iter().flatten();
        let known = parameters().filter(|it| it["in"] == "query").map(|it| {
            let name = it["name"].as_str().unwrap_or_default();
            (name.to_owned(), it["schema"].clone())
        });
        let id = operation["operationId"].as_str().unwrap_or_default();
        Self {
            known: known.collect(),
            is_led_to: led_to.contains(&id),
            is_conditional: parameters().any(|it| it["name"] == "If-Match"),
        }
    }

    /// Refuses a condition that nobody looks at.
    fn refuse_condition(&self, request: &Request) -> Result<(), Problem> {
        let is_looked_at = self.is_conditional || request.method().is_safe();
        let mut given = request.headers().get_all(header::IF_MATCH).iter();
        if is_looked_at || given.all(|tag| tag == "*") {
            return Ok(());
        }
        Err(Problem::new(
            ProblemKind::ChangedMeanwhile,
            "what this request is about has no ETag that could be meant by If-Match: leave it out",
        ))
    }

    fn unknown(&self) -> String {
        if self.known.is_empty() {
            return "is not a parameter of this request, which has none: leave it out".to_owned();
        }
        let known: Vec<_> = self.known.iter().map(|(name, _)| name.as_str()).collect();
        let known = known.join(", ");
        format!("is not a parameter of this request: write one of {known}")
    }
}

/// A value of a query as JSON has it: what is none of the type stays a text.
fn read(text: &str, type_name: &str) -> Value {
    let value = match type_name {
        "boolean" => text.parse().ok().map(Value::Bool),
        // No `+`, which Rust takes.
        "integer" if !text.starts_with('+') => text.parse::<i64>().ok().map(Value::from),
        _ => None,
    };
    value.unwrap_or_else(|| Value::from(text))
}

/// As much of what was given as is repeated.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(REPEATED).collect()
}

/// Refuses a request whose query its operation does not take.
pub async fn check(State(queries): State<Arc<Queries>>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let parameters = path.and_then(|path| queries.find(path.as_str(), request.method()));
    if let Some(parameters) = parameters {
        let query = request.uri().query();
        let errors = query.map_or_else(Vec::new, |query| queries.errors(parameters, query));
        if !errors.is_empty() {
            return Problem::invalid(errors).into_response();
        }
        if let Err(refused) = parameters.refuse_condition(&request) {
            return refused.into_response();
        }
    }
    next.run(request).await
}

//! The OpenAPI document, as JSON and as a page to read: no script, no file from
//! elsewhere.

use std::sync::Arc;

use axum::{Router, http::header, response::Html, routing::get};
use maud::{DOCTYPE, Markup, html};
use serde_json::{Map, Value};

use crate::state::ApiState;

/// Where the document and the page are.
pub(crate) fn routes(document: &Value) -> Router<ApiState> {
    let json: Arc<str> = document.to_string().into();
    let page: Arc<str> = page(document).into_string().into();
    Router::new()
        .route(
            "/api/v1/openapi.json",
            get(async move || {
                let kind = [(header::CONTENT_TYPE, "application/json")];
                (kind, json.to_string())
            }),
        )
        .route(
            "/api/v1/reference",
            get(async move || Html(page.to_string())),
        )
        .route("/api/v1/reference.css", get(style))
}

async fn style() -> ([(header::HeaderName, &'static str); 1], &'static str) {
    let kind = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    (kind, include_str!("reference.css"))
}

fn page(document: &Value) -> Markup {
    let tags = list(document, "/tags");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Kite: HTTP API" }
                link rel="stylesheet" href="/api/v1/reference.css";
            }
            body {
                header {
                    h1 { "Kite: HTTP API" }
                    p { (text(document, "/info/description")) }
                    p { "Also as an " a href="/api/v1/openapi.json" { "OpenAPI 3.1 document" } "." }
                    nav aria-label="Operations" {
                        @for tag in tags {
                            div {
                                h2 { (text(tag, "/description")) }
                                ul {
                                    @for (method, path, operation) in tagged(document, tag) {
                                        li {
                                            a href={ "#" (text(operation, "/operationId")) } {
                                                code { (method) " " (short(path)) }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                main {
                    @for tag in tags {
                        @for (method, path, operation) in tagged(document, tag) {
                            (section(document, &method, path, operation))
                        }
                    }
                }
            }
        }
    }
}

fn section(document: &Value, method: &str, path: &str, operation: &Value) -> Markup {
    let body = operation.pointer("/requestBody/content/application~1json/schema");
    let parameters = list(operation, "/parameters");
    html! {
        section id=(text(operation, "/operationId")) {
            h3 { code { (method) " " (path) } }
            p { (text(operation, "/summary")) }
            @if !parameters.is_empty() {
                table {
                    caption { "Parameters" }
                    (head("Name", "In"))
                    @for it in parameters.iter().map(|it| resolve(document, it)) {
                        tr {
                            td { code { (text(it, "/name")) } }
                            td { (text(it, "/in")) @if is(it, "/required") { ", required" } }
                            td { (text(it, "/description")) }
                        }
                    }
                }
            }
            @if let Some(body) = body.map(|body| resolve(document, body)) {
                table {
                    caption { "Body" }
                    (head("Field", "Type"))
                    @for (name, field) in object(body, "/properties") {
                        tr {
                            td { code { (name) } }
                            td {
                                (kind(field))
                                @if list(body, "/required").contains(&Value::from(name.as_str())) {
                                    ", required"
                                }
                            }
                            td { (text(field, "/description")) }
                        }
                    }
                }
            }
            table {
                caption { "Answers" }
                (head("Status", "Body"))
                @for (status, response) in object(operation, "/responses") {
                    tr {
                        td { code { (status) } }
                        td { (answer(response)) }
                        td {
                            @for line in text(response, "/description").lines() {
                                (line) br;
                            }
                        }
                    }
                }
            }
        }
    }
}

fn head(first: &str, second: &str) -> Markup {
    html! {
        tr {
            th scope="col" { (first) }
            th scope="col" { (second) }
            th scope="col" { "Meaning" }
        }
    }
}

/// The operations with a tag, in the order of the document.
fn tagged<'a>(document: &'a Value, tag: &Value) -> Vec<(String, &'a str, &'a Value)> {
    let paths = object(document, "/paths");
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, it)| (method.to_uppercase(), path.as_str(), it))
    });
    operations
        .filter(|(_, _, it)| list(it, "/tags").first() == tag.get("name"))
        .collect()
}

fn short(path: &str) -> &str {
    path.strip_prefix("/api/v1").unwrap_or(path)
}

/// What a schema is called, or which type it has.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return name.rsplit('/').next().unwrap_or(name).to_owned();
    }
    for several in ["/anyOf", "/oneOf"] {
        let kinds: Vec<_> = list(schema, several).iter().map(kind).collect();
        if !kinds.is_empty() {
            return kinds.join(" or ");
        }
    }
    match schema.get("type") {
        Some(Value::String(one)) if one == "array" => {
            format!(
                "list of {}",
                schema.get("items").map(kind).unwrap_or_default()
            )
        }
        Some(Value::String(one)) => one.clone(),
        Some(Value::Array(several)) => {
            let several: Vec<_> = several.iter().filter_map(Value::as_str).collect();
            several.join(" or ")
        }
        _ => match list(schema, "/enum") {
            [] => "any".to_owned(),
            values => values
                .iter()
                .map(Value::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        },
    }
}

fn answer(response: &Value) -> String {
    let content = object(response, "/content").next();
    content
        .and_then(|(_, content)| content.get("schema"))
        .map(kind)
        .unwrap_or_default()
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    reference
        .and_then(|reference| document.pointer(reference.trim_start_matches('#')))
        .unwrap_or(schema)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn is(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool) == Some(true)
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn object<'a>(
    value: &'a Value,
    pointer: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    let object = value.pointer(pointer).and_then(Value::as_object);
    object.into_iter().flat_map(Map::iter)
}

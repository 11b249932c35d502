//! `OpenAPI` v3: the document of one group and version.

use serde_json::{Map, Value, json};

use super::definitions::{self, collect, rewrite};
use super::paths::{self, Operation};
use super::{Definitions, Source, TITLE, VERSION};
use crate::registry::Registry;

/// The document of a group and version; `None` if it is not served.
pub(super) fn document(
    registry: &Registry,
    source: Source,
    group: &str,
    version: &str,
) -> Option<Value> {
    let mut paths = Map::new();
    for resource in registry.group(group).filter(|r| r.version == version) {
        let name = definitions::name(resource, source);
        for (path, operations) in paths::of(resource) {
            let mut item: Map<String, Value> = operations
                .iter()
                .map(|operation| {
                    (
                        operation.method.to_owned(),
                        render(operation, name.as_deref()),
                    )
                })
                .collect();
            let parameters: Vec<Value> = paths::path_parameters(&path)
                .iter()
                .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
                .collect();
            if !parameters.is_empty() {
                item.insert("parameters".to_owned(), Value::Array(parameters));
            }
            paths.insert(path, Value::Object(item));
        }
    }
    if paths.is_empty() {
        return None;
    }
    let mut definitions = Definitions::new();
    collect(registry, source, group, version, &mut definitions);
    let schemas: Map<String, Value> = definitions
        .iter()
        .map(|(name, schema)| (name.clone(), rewrite(schema, node)))
        .collect();
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// A reference with something beside it becomes an `allOf` of one.
fn node(mut members: Map<String, Value>) -> Map<String, Value> {
    strip(&mut members);
    if let Some(Value::String(reference)) = members.get("$ref") {
        let target = reference.replacen("#/$defs/", "#/components/schemas/", 1);
        if members.len() == 1 {
            members.insert("$ref".to_owned(), target.into());
        } else {
            members.remove("$ref");
            members.insert("allOf".to_owned(), json!([{ "$ref": target }]));
        }
    }
    members
}

/// Removes what JSON schema has and `OpenAPI` has not.
pub(super) fn strip(members: &mut Map<String, Value>) {
    members.remove("$schema");
    if members
        .get("title")
        .and_then(Value::as_str)
        .is_some_and(|title| title.starts_with("io.k8s."))
    {
        members.remove("title");
    }
}

fn render(operation: &Operation, definition: Option<&str>) -> Value {
    let mut members = paths::common(operation);
    let parameters: Vec<Value> = operation
        .parameters
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": paths::parameter_type(name)}}))
        .collect();
    if !parameters.is_empty() {
        members.insert("parameters".to_owned(), Value::Array(parameters));
    }
    if !operation.consumes.is_empty() {
        let content: Map<String, Value> = operation
            .consumes
            .iter()
            .map(|media| ((*media).to_owned(), json!({"schema": {"type": "object"}})))
            .collect();
        members.insert("requestBody".to_owned(), json!({ "content": content }));
    }
    let schema = match definition.filter(|_| !operation.list && operation.method == "get") {
        Some(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
        None => json!({"type": "object"}),
    };
    let response =
        json!({"description": "OK", "content": {"application/json": {"schema": schema}}});
    members.insert("responses".to_owned(), json!({ "200": response }));
    Value::Object(members)
}

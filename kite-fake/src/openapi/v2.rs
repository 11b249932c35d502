//! `OpenAPI` v2: everything in one document.

use serde_json::{Map, Value, json};

use super::definitions::{collect, rewrite};
use super::paths::{self, Operation};
use super::v3::strip;
use super::{Definitions, Source, TITLE, VERSION};
use crate::discovery::{groups, versions};
use crate::registry::Registry;

/// The document of all that is served.
pub(super) fn document(registry: &Registry, source: Source) -> Value {
    let mut all = Definitions::new();
    for group in std::iter::once(String::new()).chain(groups(registry)) {
        for version in versions(registry, &group) {
            collect(registry, source, &group, &version, &mut all);
        }
    }
    let definitions: Map<String, Value> = all
        .iter()
        .map(|(name, schema)| (name.clone(), rewrite(schema, node)))
        .collect();
    let mut paths = Map::new();
    for (path, operations) in registry.iter().flat_map(|resource| paths::of(resource)) {
        let mut item: Map<String, Value> = operations
            .iter()
            .map(|operation| (operation.method.to_owned(), render(operation)))
            .collect();
        let parameters: Vec<Value> = paths::path_parameters(&path)
            .iter()
            .map(|name| json!({"name": name, "in": "path", "required": true, "type": "string"}))
            .collect();
        if !parameters.is_empty() {
            item.insert("parameters".to_owned(), Value::Array(parameters));
        }
        paths.insert(path, Value::Object(item));
    }
    json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "definitions": definitions,
    })
}

/// What v2 cannot say is left out, so that clients refuse nothing that the server takes.
fn node(mut members: Map<String, Value>) -> Map<String, Value> {
    strip(&mut members);
    if let Some(Value::String(reference)) = members.get("$ref") {
        let target = reference.replacen("#/$defs/", "#/definitions/", 1);
        members.insert("$ref".to_owned(), target.into());
        return members;
    }
    let is =
        |members: &Map<String, Value>, name: &str| members.get(name) == Some(&Value::Bool(true));
    for name in ["anyOf", "oneOf", "not", "allOf", "default"] {
        members.remove(name);
    }
    if is(&members, "nullable") || is(&members, "x-kubernetes-int-or-string") {
        for name in [
            "type",
            "format",
            "items",
            "properties",
            "additionalProperties",
            "enum",
            "required",
        ] {
            members.remove(name);
        }
    }
    if is(&members, "x-kubernetes-preserve-unknown-fields") {
        for name in ["items", "properties", "required"] {
            members.remove(name);
        }
    }
    members.remove("nullable");
    members
}

fn render(operation: &Operation) -> Value {
    let mut members = paths::common(operation);
    let mut parameters: Vec<Value> = operation
        .parameters
        .iter()
        .map(|name| json!({"name": name, "in": "query", "type": paths::parameter_type(name), "uniqueItems": true}))
        .collect();
    if !operation.consumes.is_empty() {
        parameters.push(json!({"name": "body", "in": "body", "schema": {"type": "object"}}));
        members.insert("consumes".to_owned(), json!(operation.consumes));
    }
    members.insert(
        "produces".to_owned(),
        json!(["application/json", "application/yaml"]),
    );
    members.insert("parameters".to_owned(), Value::Array(parameters));
    members.insert(
        "responses".to_owned(),
        json!({"200": {"description": "OK"}}),
    );
    Value::Object(members)
}

//! The definitions of kinds, in a form of which both versions are made.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde_json::{Map, Value, json};

use super::{Definitions, Source};
use crate::registry::{Origin, Registry, Resource};
use crate::schema::object_meta_json;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers \
    should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer \
    this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// The name of the definition of a resource's kind: `com.example.v1.Kind`.
pub(super) fn name(resource: &Resource, source: Source) -> Option<String> {
    match resource.origin {
        Origin::Custom => Some(custom_name(resource)),
        Origin::BuiltIn | Origin::Virtual => {
            source(&resource.group, &resource.version, &resource.kind).map(|(name, _)| name)
        }
    }
}

fn custom_name(resource: &Resource) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').rev().collect();
    parts.extend([resource.version.as_str(), resource.kind.as_str()]);
    parts.join(".")
}

/// The definitions of the kinds of one group and version, with all they refer to.
pub(super) fn collect(
    registry: &Registry,
    source: Source,
    group: &str,
    version: &str,
    into: &mut Definitions,
) {
    for resource in registry.group(group).filter(|r| r.version == version) {
        let Some((name, mut root)) = root_of(resource, source) else {
            continue;
        };
        if let Some(Value::Object(definitions)) =
            root.as_object_mut().and_then(|r| r.remove("$defs"))
        {
            into.extend(definitions);
        }
        root["x-kubernetes-group-version-kind"] = kinds(resource, &resource.kind);
        if resource.verbs.contains(&"list") {
            into.insert(list_name(resource, &name), list(resource, &name));
        }
        into.insert(name, root);
    }
    for (name, json) in [
        (OBJECT_META, object_meta_json()),
        (LIST_META, schemars::schema_for!(ListMeta).to_value()),
    ] {
        let mut json = json;
        if let Some(Value::Object(definitions)) =
            json.as_object_mut().and_then(|r| r.remove("$defs"))
        {
            into.extend(definitions);
        }
        into.entry(name.to_owned()).or_insert(json);
    }
}

fn root_of(resource: &Resource, source: Source) -> Option<(String, Value)> {
    match resource.origin {
        Origin::Custom => Some((custom_name(resource), custom(resource))),
        Origin::BuiltIn | Origin::Virtual => {
            source(&resource.group, &resource.version, &resource.kind)
        }
    }
}

fn kinds(resource: &Resource, kind: &str) -> Value {
    json!([{"group": resource.group, "kind": kind, "version": resource.version}])
}

fn reference(name: &str, description: &str) -> Value {
    json!({"description": description, "$ref": format!("#/$defs/{name}")})
}

fn list_name(resource: &Resource, name: &str) -> String {
    name.strip_suffix(resource.kind.as_str()).map_or_else(
        || format!("{name}List"),
        |prefix| format!("{prefix}{}", resource.list_kind),
    )
}

fn list(resource: &Resource, item: &str) -> Value {
    json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "kind": {"description": KIND, "type": "string"},
            "metadata": reference(LIST_META, LIST_METADATA),
            "items": {
                "description": format!("List of {}. More info: \
                    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", resource.plural),
                "type": "array",
                "items": {"$ref": format!("#/$defs/{item}")},
            },
        },
        "x-kubernetes-group-version-kind": kinds(resource, &resource.list_kind),
    })
}

/// A definition's schema with what every object has.
fn custom(resource: &Resource) -> Value {
    let mut schema = resource
        .definition
        .as_deref()
        .and_then(|version| version.pointer("/schema/openAPIV3Schema"))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    schema.insert("type".to_owned(), "object".into());
    let mut properties = match schema.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    properties.insert(
        "apiVersion".to_owned(),
        json!({"description": API_VERSION, "type": "string"}),
    );
    properties.insert(
        "kind".to_owned(),
        json!({"description": KIND, "type": "string"}),
    );
    properties.insert("metadata".to_owned(), reference(OBJECT_META, METADATA));
    schema.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(schema)
}

/// Rewrites a schema node by node, from the outside in; names of members are
/// never mistaken for keywords.
pub(super) fn rewrite(node: &Value, change: fn(Map<String, Value>) -> Map<String, Value>) -> Value {
    let Value::Object(members) = node else {
        return node.clone();
    };
    let mut members = change(members.clone());
    for (keyword, value) in &mut members {
        match (keyword.as_str(), &*value) {
            ("properties", Value::Object(properties)) => {
                *value = properties
                    .iter()
                    .map(|(name, inner)| (name.clone(), rewrite(inner, change)))
                    .collect();
            }
            ("items" | "additionalProperties" | "not", Value::Object(_)) => {
                *value = rewrite(value, change);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                *value = schemas.iter().map(|inner| rewrite(inner, change)).collect();
            }
            _ => {}
        }
    }
    Value::Object(members)
}

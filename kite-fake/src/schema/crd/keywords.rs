//! The words that a definition's schema may use, and how they go together.

use serde_json::{Map, Value};

use super::rules;
use crate::field_error::FieldError;

/// Schemas nested deeper than this were refused before.
const MAX_DEPTH: usize = 64;

/// Where a node stands.
#[derive(Clone, Copy, Default)]
struct Place {
    root: bool,
    /// Within `metadata`, `kind` or `apiVersion` of a whole object.
    meta: bool,
    /// Why a default may not be set, if it may not.
    no_default: Option<&'static str>,
    depth: usize,
}

/// Checks each node of the schema of a version.
pub(super) fn check(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let place = Place {
        root: true,
        ..Place::default()
    };
    node(schema, at, place, errors);
}

fn node(schema: &Value, at: &str, place: Place, errors: &mut Vec<FieldError>) {
    let Value::Object(members) = schema else {
        return;
    };
    if place.depth > MAX_DEPTH {
        return;
    }
    words(members, at, place, errors);
    extensions(members, at, errors);
    for (i, rule) in members
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        rules::shape(
            rule,
            schema,
            &format!("{at}.x-kubernetes-validations[{i}]"),
            errors,
        );
    }
    let root = place.root;
    let below = Place {
        root: false,
        depth: place.depth + 1,
        ..place
    };
    for (name, inner) in members
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let mut place = below;
        let whole = place_is_whole(members, root);
        if whole && ["metadata", "kind", "apiVersion"].contains(&name.as_str()) {
            place.meta = true;
        }
        if root {
            place.no_default = match name.as_str() {
                "metadata" => Some("must not be set in top-level metadata"),
                "kind" => Some("must not be set in top-level kind"),
                "apiVersion" => Some("must not be set in top-level apiVersion"),
                _ => place.no_default,
            };
        }
        node(inner, &format!("{at}.properties[{name}]"), place, errors);
    }
    if let Some(inner) = members.get("additionalProperties") {
        let mut place = below;
        if place.meta {
            place.no_default =
                Some("must not be set inside additionalProperties applying to object metadata");
        }
        node(inner, &format!("{at}.additionalProperties"), place, errors);
    }
    for name in ["items", "not"] {
        if let Some(inner) = members.get(name) {
            node(inner, &format!("{at}.{name}"), below, errors);
        }
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (i, inner) in members
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            node(inner, &format!("{at}.{name}[{i}]"), below, errors);
        }
    }
}

/// Whether the node describes a whole object.
fn place_is_whole(members: &Map<String, Value>, root: bool) -> bool {
    root || members.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
}

fn words(members: &Map<String, Value>, at: &str, place: Place, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let field = |name: &str| format!("{at}.{name}");
    let kind = members
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(
            field("type"),
            &kind.into(),
            &TYPES,
        ));
    }
    if let Some(reason) = place.no_default
        && members.get("default").is_some_and(|v| !v.is_null())
    {
        errors.push(FieldError::forbidden(field("default"), reason));
    }
    for name in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if members.get(name).is_some_and(|v| !v.is_null() && v != "") {
            errors.push(FieldError::forbidden(
                field(name),
                format!("{name} is not supported"),
            ));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(field("type"), detail));
    }
    if members.get("items").is_some_and(Value::is_array) {
        errors.push(FieldError::forbidden(
            field("items"),
            "items must be a schema object and not an array",
        ));
    }
    if members.get("uniqueItems") == Some(&Value::Bool(true)) {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(field("uniqueItems"), detail));
    }
    if place.meta && members.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden(
            field("x-kubernetes-embedded-resource"),
            "must not be used inside of resource meta",
        ));
    }
    let named = members
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|p| !p.is_empty());
    if named
        && members
            .get("additionalProperties")
            .is_some_and(|v| !v.is_null() && v != &Value::Bool(true))
    {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(field("additionalProperties"), detail));
    }
    if members.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let name = field("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(
            name,
            &false.into(),
            "must be true or undefined",
        ));
    }
}

fn extensions(members: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("{at}.{name}");
    let kind = members
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let (map_type, list_type) = (
        text("x-kubernetes-map-type"),
        text("x-kubernetes-list-type"),
    );
    for (extension, given, wanted) in [
        ("x-kubernetes-map-type", map_type, "object"),
        ("x-kubernetes-list-type", list_type, "array"),
    ] {
        if given.is_some() && kind != wanted {
            let detail = format!("must be {wanted} if {extension} is specified");
            errors.push(if kind.is_empty() {
                FieldError::required(field("type"), &detail)
            } else {
                FieldError::invalid(field("type"), &kind.into(), detail)
            });
        }
    }
    if let Some(other) = map_type.filter(|t| !["atomic", "granular"].contains(t)) {
        errors.push(FieldError::not_supported(
            field("x-kubernetes-map-type"),
            &other.into(),
            &["atomic", "granular"],
        ));
    }
    if let Some(other) = list_type.filter(|t| !["atomic", "set", "map"].contains(t)) {
        let known = ["atomic", "set", "map"];
        errors.push(FieldError::not_supported(
            field("x-kubernetes-list-type"),
            &other.into(),
            &known,
        ));
    }
    let keys = members
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(field("x-kubernetes-list-type"), detail),
            Some(other) => {
                FieldError::invalid(field("x-kubernetes-list-type"), &other.into(), detail)
            }
        });
    }
    let items = members.get("items").filter(|items| items.is_object());
    match list_type {
        Some("set") if kind == "array" => {
            if let Some(items) = items {
                set(items, at, errors);
            }
        }
        Some("map") => keyed(members, keys, items, at, errors),
        _ => {}
    }
    if let (Some(list_type @ ("set" | "map")), Some(items)) = (list_type, items)
        && items["nullable"] == true
    {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(field("items.nullable"), detail));
    }
}

/// Elements of a set are compared whole.
fn set(items: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let atomic = |name: &str| items[name] == "atomic";
    match items["type"].as_str() {
        Some("array")
            if items.get("x-kubernetes-list-type").is_some()
                && !atomic("x-kubernetes-list-type") =>
        {
            let field = format!("{at}.items.x-kubernetes-list-type");
            errors.push(FieldError::invalid(
                field,
                &items["x-kubernetes-list-type"],
                detail,
            ));
        }
        Some("object") if !atomic("x-kubernetes-map-type") => {
            let field = format!("{at}.items.x-kubernetes-map-type");
            // The API server quotes the list type here.
            let shown = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
            errors.push(FieldError::invalid(field, shown, detail));
        }
        _ => {}
    }
}

/// Elements of a map are told apart by keys that each of them has.
fn keyed(
    members: &Map<String, Value>,
    keys: &[Value],
    items: Option<&Value>,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    let keys_at = format!("{at}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(
            keys_at.clone(),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let Some(items) = items else {
        if !members.contains_key("items") {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(format!("{at}.items"), detail));
        }
        return;
    };
    if items["type"] != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        let kind = items["type"].as_str().unwrap_or_default();
        errors.push(FieldError::invalid(
            format!("{at}.items.type"),
            &kind.into(),
            detail,
        ));
        return;
    }
    let all = Value::from(keys.to_vec());
    for (i, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let field = format!("{at}.items.properties[{name}]");
        if let Some(property) = items["properties"].get(name) {
            if matches!(property["type"].as_str(), Some("array" | "object")) {
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(
                    format!("{field}.type"),
                    &items["type"],
                    detail,
                ));
            }
            let required = items["required"]
                .as_array()
                .is_some_and(|r| r.contains(key));
            if !required && property["default"].is_null() {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                              required property";
                errors.push(FieldError::required(format!("{field}.default"), detail));
            }
            if property["nullable"] == true {
                let detail =
                    "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                errors.push(FieldError::forbidden(format!("{field}.nullable"), detail));
            }
        } else {
            errors.push(FieldError::invalid(
                keys_at.clone(),
                &all,
                "entries must all be names of item properties",
            ));
        }
        if keys[..i].contains(key) {
            errors.push(FieldError::invalid(
                keys_at.clone(),
                &all,
                "must not contain duplicate entries",
            ));
        }
    }
}

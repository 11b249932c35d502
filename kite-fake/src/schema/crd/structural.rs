//! The rules that make a schema structural, so that it can prune and default.

use serde_json::{Map, Value};

use super::super::error::FieldError;
use super::super::pattern::Pattern;

/// Schemas nested deeper than this are refused.
const MAX_DEPTH: usize = 64;

/// Where a schema stands within another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Property,
    Items,
    /// Below `allOf`, `anyOf`, `oneOf` or `not`: limits only.
    Limits,
}

/// Checks the schema of a version.
pub(super) fn check(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if schema["nullable"] == true {
        errors.push(FieldError::forbidden(
            format!("{at}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    if schema["x-kubernetes-int-or-string"] == true {
        errors.push(FieldError::forbidden(
            format!("{at}.x-kubernetes-int-or-string"),
            "must be false at the root",
        ));
    }
    node(schema, at, Place::Root, 0, errors);
    metadata(&schema["properties"]["metadata"], at, errors);
}

/// A definition may limit only the names in `metadata`.
fn metadata(metadata: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let known = ["name", "generateName"];
    for name in metadata["properties"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
    {
        if !known.contains(&name.as_str()) {
            let field = format!("{at}.properties[metadata].properties[{name}]");
            errors.push(FieldError::forbidden(
                field,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
}

fn node(schema: &Value, at: &str, place: Place, depth: usize, errors: &mut Vec<FieldError>) {
    let Value::Object(members) = schema else {
        return;
    };
    if depth > MAX_DEPTH {
        errors.push(FieldError::forbidden(
            at,
            format!("schemas may nest at most {MAX_DEPTH} levels"),
        ));
        return;
    }
    kind(members, at, place, errors);
    keywords(members, at, errors);
    lists(members, at, errors);
    if place == Place::Limits {
        limits_only(members, at, errors);
    }
    if let Some(Value::Object(properties)) = members.get("properties") {
        let below = if place == Place::Limits {
            place
        } else {
            Place::Property
        };
        for (name, inner) in properties {
            node(
                inner,
                &format!("{at}.properties[{name}]"),
                below,
                depth + 1,
                errors,
            );
        }
    }
    if let Some(inner) = members.get("additionalProperties") {
        node(
            inner,
            &format!("{at}.additionalProperties"),
            Place::Property,
            depth + 1,
            errors,
        );
    }
    if let Some(inner) = members.get("items") {
        let below = if place == Place::Limits {
            place
        } else {
            Place::Items
        };
        node(inner, &format!("{at}.items"), below, depth + 1, errors);
    }
    let int_or_string = members.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    for name in ["allOf", "anyOf", "oneOf"] {
        for (i, inner) in members
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            // The usual spelling of int-or-string repeats the two types.
            if int_or_string
                && inner.as_object().is_some_and(|m| {
                    m.len() == 1 && (m.contains_key("type") || m.contains_key("anyOf"))
                })
            {
                continue;
            }
            node(
                inner,
                &format!("{at}.{name}[{i}]"),
                Place::Limits,
                depth + 1,
                errors,
            );
        }
    }
    if let Some(inner) = members.get("not") {
        node(
            inner,
            &format!("{at}.not"),
            Place::Limits,
            depth + 1,
            errors,
        );
    }
}

fn kind(members: &Map<String, Value>, at: &str, place: Place, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let is = |name: &str| members.get(name) == Some(&Value::Bool(true));
    let field = format!("{at}.type");
    match members
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
    {
        "" => {
            let free =
                is("x-kubernetes-int-or-string") || is("x-kubernetes-preserve-unknown-fields");
            let detail = match place {
                Place::Root => "must not be empty at the root",
                Place::Property if !free => "must not be empty for specified object fields",
                Place::Items if !free => "must not be empty for specified array items",
                Place::Property | Place::Items | Place::Limits => return,
            };
            errors.push(FieldError::required(field, detail));
        }
        "null" => {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(FieldError::forbidden(field, detail));
        }
        other if !TYPES.contains(&other) => {
            errors.push(FieldError::not_supported(field, &other.into(), &TYPES));
        }
        other => {
            if place == Place::Root && other != "object" {
                errors.push(FieldError::invalid(
                    field,
                    &other.into(),
                    "must be object at the root",
                ));
            } else if is("x-kubernetes-embedded-resource") && other != "object" {
                errors.push(FieldError::invalid(
                    field,
                    &other.into(),
                    "must be object if x-kubernetes-embedded-resource is true",
                ));
            } else if is("x-kubernetes-int-or-string") {
                errors.push(FieldError::invalid(
                    field,
                    &other.into(),
                    "must be empty if x-kubernetes-int-or-string is true",
                ));
            } else if other == "array" && !members.get("items").is_some_and(Value::is_object) {
                let detail = "must be specified";
                errors.push(FieldError::required(format!("{at}.items"), detail));
            }
        }
    }
}

/// Words of JSON schema that a structural schema cannot have.
fn keywords(members: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    for name in [
        "$ref",
        "definitions",
        "dependencies",
        "patternProperties",
        "id",
        "additionalItems",
    ] {
        if members.get(name).is_some_and(|v| !v.is_null() && v != "") {
            let detail = format!("{name} is not supported");
            errors.push(FieldError::forbidden(format!("{at}.{name}"), detail));
        }
    }
    if members.get("uniqueItems") == Some(&Value::Bool(true)) {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{at}.uniqueItems"), detail));
    }
    if members.get("additionalProperties") == Some(&Value::Bool(false)) {
        let detail = "additionalProperties cannot be set to false";
        errors.push(FieldError::forbidden(
            format!("{at}.additionalProperties"),
            detail,
        ));
    }
    if members.contains_key("additionalProperties")
        && members
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|p| !p.is_empty())
    {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(
            format!("{at}.additionalProperties"),
            detail,
        ));
    }
    if let Some(pattern) = members.get("pattern").and_then(Value::as_str)
        && let Err(problem) = Pattern::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {problem}");
        errors.push(FieldError::invalid(
            format!("{at}.pattern"),
            &pattern.into(),
            detail,
        ));
    }
    if members.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{at}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(
            field,
            &false.into(),
            "must be true or undefined",
        ));
    }
    if members.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
        && members.get("x-kubernetes-preserve-unknown-fields") != Some(&Value::Bool(true))
        && members
            .get("properties")
            .and_then(Value::as_object)
            .is_none_or(Map::is_empty)
    {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{at}.properties"), detail));
    }
}

fn lists(members: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    let kind = members
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let keys = members
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let keys_at = format!("{at}.x-kubernetes-list-map-keys");
    let list_type = members
        .get("x-kubernetes-list-type")
        .and_then(Value::as_str);
    if let Some(list_type) = list_type {
        if kind != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            errors.push(FieldError::invalid(
                format!("{at}.type"),
                &kind.into(),
                detail,
            ));
        }
        if !["atomic", "map", "set"].contains(&list_type) {
            let field = format!("{at}.x-kubernetes-list-type");
            errors.push(FieldError::not_supported(
                field,
                &list_type.into(),
                &["atomic", "map", "set"],
            ));
        }
    }
    if list_type == Some("map") {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(keys_at.clone(), detail));
        }
        let items = members.get("items").unwrap_or(&Value::Null);
        if items["type"] != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(
                format!("{at}.items.type"),
                &items["type"],
                detail,
            ));
        }
        for (i, key) in keys.iter().enumerate() {
            let name = key.as_str().unwrap_or_default();
            let property = &items["properties"][name];
            let field = format!("{at}.items.properties[{name}]");
            if property.is_null() {
                let detail =
                    format!("entries must all be names of item properties, but {name:?} is none");
                errors.push(FieldError::invalid(format!("{keys_at}[{i}]"), key, detail));
            } else if matches!(property["type"].as_str(), Some("array" | "object")) {
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(
                    format!("{field}.type"),
                    &property["type"],
                    detail,
                ));
            } else if property["default"].is_null()
                && !items["required"]
                    .as_array()
                    .is_some_and(|r| r.contains(key))
            {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                              required property";
                errors.push(FieldError::required(format!("{field}.default"), detail));
            }
            if keys[..i].contains(key) {
                errors.push(FieldError::duplicate(format!("{keys_at}[{i}]"), key));
            }
        }
    } else if !keys.is_empty() {
        let field = format!("{at}.x-kubernetes-list-type");
        let found = list_type.map_or(Value::Null, Value::from);
        errors.push(FieldError::invalid(
            field,
            &found,
            "must be map if x-kubernetes-list-map-keys is non-empty",
        ));
    }
    if let Some(map_type) = members.get("x-kubernetes-map-type").and_then(Value::as_str) {
        if kind != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            errors.push(FieldError::invalid(
                format!("{at}.type"),
                &kind.into(),
                detail,
            ));
        }
        if !["atomic", "granular"].contains(&map_type) {
            let field = format!("{at}.x-kubernetes-map-type");
            errors.push(FieldError::not_supported(
                field,
                &map_type.into(),
                &["atomic", "granular"],
            ));
        }
    }
}

/// Below `allOf` and its like a schema may limit values, but not describe them.
fn limits_only(members: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    for name in [
        "type",
        "additionalProperties",
        "default",
        "nullable",
        "title",
        "description",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    ] {
        if members
            .get(name)
            .is_some_and(|v| !v.is_null() && v != "" && v != &Value::Bool(false))
        {
            errors.push(FieldError::forbidden(
                format!("{at}.{name}"),
                "must be empty to be structural",
            ));
        }
    }
}

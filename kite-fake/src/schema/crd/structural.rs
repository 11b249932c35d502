//! The rules that make a schema structural, so that it can prune and default.

use serde_json::{Map, Value};

use super::super::pattern::Pattern;
use crate::field_error::FieldError;

/// Schemas nested deeper than this are refused.
const MAX_DEPTH: usize = 64;

/// Where a schema stands within another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Property,
    Items,
}

type Node = Map<String, Value>;

/// Checks that the schema of a version is structural.
pub(super) fn check(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let Value::Object(members) = schema {
        node(members, at, Place::Root, 0, errors);
        complete(members, members, at, at, errors);
    }
}

fn is(members: &Node, name: &str) -> bool {
    members.get(name) == Some(&Value::Bool(true))
}

fn kind(members: &Node) -> &str {
    members
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn objects<'a>(members: &'a Node, name: &str) -> impl Iterator<Item = (usize, &'a Node)> {
    let list = members
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    list.enumerate()
        .filter_map(|(i, value)| Some((i, value.as_object()?)))
}

fn node(members: &Node, at: &str, place: Place, depth: usize, errors: &mut Vec<FieldError>) {
    if depth > MAX_DEPTH {
        errors.push(FieldError::forbidden(
            at,
            format!("schemas may nest at most {MAX_DEPTH} levels"),
        ));
        return;
    }
    if kind(members) == "array" && !members.get("items").is_some_and(Value::is_object) {
        errors.push(FieldError::required(
            format!("{at}.items"),
            "must be specified",
        ));
    }
    if let Some(Value::Object(inner)) = members.get("items") {
        node(
            inner,
            &format!("{at}.items"),
            Place::Items,
            depth + 1,
            errors,
        );
    }
    for (name, inner) in members
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Value::Object(inner) = inner {
            node(
                inner,
                &format!("{at}.properties[{name}]"),
                Place::Property,
                depth + 1,
                errors,
            );
        }
    }
    if let Some(additional) = members.get("additionalProperties") {
        let field = format!("{at}.additionalProperties");
        if place == Place::Root {
            errors.push(FieldError::forbidden(
                field.clone(),
                "must not be used at the root",
            ));
        }
        if let Value::Object(inner) = additional {
            node(inner, &field, Place::Property, depth + 1, errors);
        }
    }
    extensions(members, at, errors);
    own_type(members, at, place, errors);
    let usual = int_or_string_spelling(members);
    limits(
        members,
        at,
        usual == Some("anyOf"),
        usual == Some("allOf"),
        depth,
        errors,
    );
    metadata(members, at, place, errors);
}

fn extensions(members: &Node, at: &str, errors: &mut Vec<FieldError>) {
    if !is(members, "x-kubernetes-int-or-string") {
        return;
    }
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if is(members, name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(
                format!("{at}.{name}"),
                &true.into(),
                detail,
            ));
        }
    }
}

fn own_type(members: &Node, at: &str, place: Place, errors: &mut Vec<FieldError>) {
    let field = format!("{at}.type");
    let found = kind(members);
    let embedded = is(members, "x-kubernetes-embedded-resource");
    if embedded && found != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if found.is_empty() {
            FieldError::required(field.clone(), detail)
        } else {
            FieldError::invalid(field.clone(), &found.into(), detail)
        });
    } else if found.is_empty()
        && !is(members, "x-kubernetes-int-or-string")
        && !is(members, "x-kubernetes-preserve-unknown-fields")
    {
        let detail = match place {
            Place::Root => "must not be empty at the root",
            Place::Property => "must not be empty for specified object fields",
            Place::Items => "must not be empty for specified array items",
        };
        errors.push(FieldError::required(field.clone(), detail));
    }
    if embedded && members.contains_key("additionalProperties") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(
            format!("{at}.additionalProperties"),
            detail,
        ));
    }
    if place == Place::Root && !found.is_empty() && found != "object" {
        errors.push(FieldError::invalid(
            field,
            &found.into(),
            "must be object at the root",
        ));
    }
    if embedded
        && !is(members, "x-kubernetes-preserve-unknown-fields")
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

/// `apiVersion`, `kind` and `metadata` of whole objects are what they always are.
fn metadata(members: &Node, at: &str, place: Place, errors: &mut Vec<FieldError>) {
    if place != Place::Root && !is(members, "x-kubernetes-embedded-resource") {
        return;
    }
    let Some(Value::Object(properties)) = members.get("properties") else {
        return;
    };
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        if let Some(Value::Object(inner)) = properties.get(name)
            && kind(inner) != wanted
        {
            let detail = format!("must be {wanted}");
            errors.push(FieldError::invalid(
                format!("{at}.properties[{name}].type"),
                &kind(inner).into(),
                detail,
            ));
        }
    }
    let Some(Value::Object(metadata)) = properties.get("metadata") else {
        return;
    };
    let named = metadata.get("properties").and_then(Value::as_object);
    let only_names = named.is_none_or(|p| {
        p.keys()
            .all(|name| name == "name" || name == "generateName")
    });
    let only_known = metadata.iter().all(|(name, value)| {
        ["type", "properties", "default"].contains(&name.as_str())
            || value.is_null()
            || value == &Value::Bool(false)
    });
    if place == Place::Root && (!only_names || !only_known) {
        errors.push(FieldError::forbidden(
            format!("{at}.properties[metadata]"),
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
}

/// The two usual ways to spell "an integer or a string", which repeat types.
fn int_or_string_spelling(members: &Node) -> Option<&'static str> {
    let pair = |node: &Node| {
        let types: Vec<&str> = objects(node, "anyOf")
            .filter(|(_, m)| m.len() == 1)
            .map(|(_, m)| kind(m))
            .collect();
        types == ["integer", "string"]
    };
    if pair(members) {
        Some("anyOf")
    } else if objects(members, "allOf")
        .next()
        .is_some_and(|(_, first)| pair(first))
    {
        Some("allOf")
    } else {
        None
    }
}

/// The limits of a node: its alternatives may limit values, but not describe them.
fn limits(
    members: &Node,
    at: &str,
    skip_any_of: bool,
    skip_first_all_of: bool,
    depth: usize,
    errors: &mut Vec<FieldError>,
) {
    if depth > MAX_DEPTH {
        return;
    }
    for name in ["anyOf", "allOf", "oneOf"] {
        if name == "anyOf" && skip_any_of {
            continue;
        }
        for (i, inner) in objects(members, name) {
            let skip = name == "allOf" && i == 0 && skip_first_all_of;
            nested(inner, &format!("{at}.{name}[{i}]"), skip, depth + 1, errors);
        }
    }
    if let Some(Value::Object(inner)) = members.get("not") {
        nested(inner, &format!("{at}.not"), false, depth + 1, errors);
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
}

fn nested(members: &Node, at: &str, skip_any_of: bool, depth: usize, errors: &mut Vec<FieldError>) {
    limits(members, at, skip_any_of, false, depth, errors);
    if let Some(Value::Object(inner)) = members.get("items") {
        nested(inner, &format!("{at}.items"), false, depth + 1, errors);
    }
    for (name, inner) in members
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Value::Object(inner) = inner {
            nested(
                inner,
                &format!("{at}.properties[{name}]"),
                false,
                depth + 1,
                errors,
            );
        }
        if name == "metadata" {
            let field = format!("{at}.properties[metadata]");
            errors.push(FieldError::forbidden(
                field,
                "must not be specified in a nested context",
            ));
        }
    }
    for (name, state) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        let there = members.get(name).is_some_and(|value| match (state, value) {
            (_, Value::Null) | ("false", Value::Bool(false)) => false,
            ("empty", Value::String(text)) => !text.is_empty(),
            ("empty", Value::Array(list)) => !list.is_empty(),
            _ => true,
        });
        if there {
            let detail = format!("must be {state} to be structural");
            errors.push(FieldError::forbidden(format!("{at}.{name}"), detail));
        }
    }
}

/// Whatever the alternatives speak of must be described outside of them.
fn complete(
    limits: &Node,
    described: &Node,
    limits_at: &str,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    for name in ["allOf", "anyOf", "oneOf"] {
        for (i, inner) in objects(limits, name) {
            alternative(
                inner,
                described,
                &format!("{limits_at}.{name}[{i}]"),
                at,
                errors,
            );
        }
    }
    if let Some(Value::Object(inner)) = limits.get("not") {
        alternative(inner, described, &format!("{limits_at}.not"), at, errors);
    }
    if !std::ptr::eq(limits, described) {
        return;
    }
    if let Some(Value::Object(inner)) = described.get("items") {
        let at = format!("{at}.items");
        complete(inner, inner, &at, &at, errors);
    }
    for (name, inner) in described
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Value::Object(inner) = inner {
            let at = format!("{at}.properties[{name}]");
            complete(inner, inner, &at, &at, errors);
        }
    }
    if let Some(Value::Object(inner)) = described.get("additionalProperties") {
        let at = format!("{at}.additionalProperties");
        complete(inner, inner, &at, &at, errors);
    }
}

fn alternative(
    limits: &Node,
    described: &Node,
    limits_at: &str,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    complete(limits, described, limits_at, at, errors);
    let missing = |field: String, because: &str| {
        FieldError::required(field, &format!("because it is defined in {because}"))
    };
    if let Some(Value::Object(inner)) = limits.get("items") {
        let because = format!("{limits_at}.items");
        match described.get("items") {
            Some(Value::Object(outer)) => {
                alternative(inner, outer, &because, &format!("{at}.items"), errors);
            }
            _ => errors.push(missing(format!("{at}.items"), &because)),
        }
    }
    for (name, inner) in limits
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let because = format!("{limits_at}.properties[{name}]");
        let field = format!("{at}.properties[{name}]");
        let outer = described
            .get("properties")
            .and_then(|p| p.get(name))
            .and_then(Value::as_object);
        match (inner, outer) {
            (Value::Object(inner), Some(outer)) => {
                alternative(inner, outer, &because, &field, errors);
            }
            (_, Some(_)) => {}
            (_, None) => errors.push(missing(field, &because)),
        }
    }
}

//! Defaults and CEL rules of a schema that is otherwise sound.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::cel::{self, Wanted};
use super::super::constraints::Checker;
use super::super::error::{CauseReason, FieldError};
use super::super::model::{Kind, ListType, MapType, Schema};
use super::super::prune::prune;
use super::super::validate::{Validation, validate};
use super::super::{embedded, lists};

/// Checks that defaults fit and, if they do, that rules compile.
pub(super) fn check(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match Schema::for_custom_resource(schema) {
        Ok(mut parsed) => {
            parsed
                .properties
                .insert("metadata".to_owned(), readable_metadata());
            let before = errors.len();
            walk(&parsed, schema, at, &mut |schema, _, at| {
                default(schema, at, errors);
            });
            if errors.len() == before {
                rules(&parsed, schema, at, None, errors);
            }
        }
        Err(error) => errors.push(FieldError::invalid(at, &Value::from(""), error)),
    }
}

/// The part of `metadata` that rules can read.
fn readable_metadata() -> Arc<Schema> {
    let text = || {
        Arc::new(Schema {
            kind: Kind::String,
            ..Schema::default()
        })
    };
    let properties = ["name", "generateName"]
        .map(|name| (name.to_owned(), text()))
        .into();
    Arc::new(Schema {
        kind: Kind::Object,
        properties,
        ..Schema::default()
    })
}

/// Visits each node that the definition itself wrote.
fn walk(schema: &Schema, source: &Value, at: &str, visit: &mut dyn FnMut(&Schema, &Value, &str)) {
    visit(schema, source, at);
    for (inner, below, at) in children(schema, source, at) {
        walk(inner, below, &at, visit);
    }
}

fn children<'a>(
    schema: &'a Schema,
    source: &'a Value,
    at: &str,
) -> Vec<(&'a Schema, &'a Value, String)> {
    let mut found = Vec::new();
    for (name, inner) in &schema.properties {
        let below = &source["properties"][name];
        if below.is_object() {
            found.push((&**inner, below, format!("{at}.properties[{name}]")));
        }
    }
    if let Some(inner) = &schema.items {
        found.push((inner, &source["items"], format!("{at}.items")));
    }
    if let Some(inner) = &schema.additional {
        found.push((
            inner,
            &source["additionalProperties"],
            format!("{at}.additionalProperties"),
        ));
    }
    found
}

fn default(schema: &Schema, at: &str, errors: &mut Vec<FieldError>) {
    let Some(default) = &schema.default else {
        return;
    };
    let at = format!("{at}.default");
    let mut pruned = default.clone();
    if !prune(schema, &mut pruned).is_empty() {
        errors.push(FieldError::invalid(
            at.clone(),
            default,
            "must not have unknown fields",
        ));
    }
    let mut found = Checker::check(schema, default, None);
    embedded::check(schema, default, &mut found);
    found.extend(lists::duplicates(schema, default));
    if found.is_empty() {
        let Validation { errors, .. } = validate(schema, default, None);
        found = errors;
    }
    for error in found {
        let field = match error.field.as_str() {
            "<nil>" => at.clone(),
            below if below.starts_with('[') => format!("{at}{below}"),
            below => format!("{at}.{below}"),
        };
        errors.push(FieldError { field, ..error });
    }
}

/// `severed` is the first node above whose parts have no previous value to compare with.
fn rules(
    schema: &Schema,
    source: &Value,
    at: &str,
    severed: Option<&str>,
    errors: &mut Vec<FieldError>,
) {
    for (i, rule) in schema.rules.iter().enumerate() {
        let raw = &source["x-kubernetes-validations"][i];
        one_rule(
            schema,
            rule,
            raw,
            &format!("{at}.x-kubernetes-validations[{i}]"),
            severed,
            errors,
        );
    }
    let severs = match schema.kind {
        Kind::Array => !matches!(schema.list_type, ListType::Map(_)),
        _ => schema.map_type == MapType::Atomic,
    };
    let severed = severed.or(severs.then_some(at));
    for (inner, below, at) in children(schema, source, at) {
        rules(inner, below, &at, severed, errors);
    }
}

fn one_rule(
    schema: &Schema,
    rule: &cel::Rule,
    raw: &Value,
    at: &str,
    severed: Option<&str>,
    errors: &mut Vec<FieldError>,
) {
    let compiled = |program: &Result<cel::Program, String>, wanted| match program {
        Err(error) => Err(format!("compilation failed: {error}")),
        Ok(program) => cel::check(program, schema, rule.optional_old_self, wanted),
    };
    let refused = |field: &str, problem: String| {
        let message = format!("Invalid value: {}: {problem}", internal(raw));
        FieldError::with(CauseReason::Invalid, format!("{at}.{field}"), message)
    };
    if let Err(problem) = compiled(&rule.program, Wanted::Bool) {
        let prefix = if problem.starts_with("must") {
            "cel expression "
        } else {
            ""
        };
        errors.push(refused("rule", format!("{prefix}{problem}")));
    }
    if let Some(program) = &rule.message_program
        && let Err(problem) = compiled(program, Wanted::Text)
    {
        errors.push(refused(
            "messageExpression",
            format!("messageExpression {problem}"),
        ));
    }
    if rule.is_transition() {
        if let Some(severed) = severed {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {severed}"
            );
            errors.push(FieldError::invalid(
                format!("{at}.rule"),
                &rule.rule.as_str().into(),
                detail,
            ));
        }
    } else if let Some(flag) = raw.get("optionalOldSelf").filter(|flag| flag.is_boolean()) {
        let detail = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(
            format!("{at}.optionalOldSelf"),
            flag,
            detail,
        ));
    }
}

/// A rule in the form in which the API server keeps and quotes it.
fn internal(raw: &Value) -> Value {
    let text = |name: &str| raw[name].as_str().unwrap_or_default();
    json!({
        "Rule": text("rule"),
        "Message": text("message"),
        "MessageExpression": text("messageExpression"),
        "Reason": raw["reason"],
        "FieldPath": text("fieldPath"),
        "OptionalOldSelf": raw["optionalOldSelf"],
    })
}

/// Checks what can be said of a rule without compiling it.
pub(super) fn shape(raw: &Value, siblings: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    let text = |name: &str| raw[name].as_str().unwrap_or_default();
    let broken = |text: &str| text.contains(['\n', '\r']);
    let (rule, message) = (text("rule").trim(), text("message").trim());
    if rule.is_empty() {
        errors.push(FieldError::required(
            format!("{at}.rule"),
            "rule is not specified",
        ));
    } else if message.is_empty() && !text("message").is_empty() {
        errors.push(FieldError::invalid(
            format!("{at}.message"),
            &raw["message"],
            "must be non-empty if specified",
        ));
    } else if broken(message) {
        errors.push(FieldError::invalid(
            format!("{at}.message"),
            &raw["message"],
            "must not contain line breaks",
        ));
    } else if broken(rule) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(format!("{at}.message"), detail));
    }
    if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(
            format!("{at}.messageExpression"),
            detail,
        ));
    }
    if let Some(reason) = raw["reason"].as_str().filter(|r| !REASONS.contains(r)) {
        errors.push(FieldError::not_supported(
            format!("{at}.reason"),
            &reason.into(),
            &REASONS,
        ));
    }
    let path = text("fieldPath");
    let field = format!("{at}.fieldPath");
    if !path.is_empty() {
        if path.trim().is_empty() {
            errors.push(FieldError::invalid(
                field.clone(),
                &path.into(),
                "must be non-empty if specified",
            ));
        }
        if broken(path) {
            errors.push(FieldError::invalid(
                field.clone(),
                &path.into(),
                "must not contain line breaks",
            ));
        }
        if !resolves(siblings, path.trim()) {
            errors.push(FieldError::invalid(
                field,
                &path.into(),
                "must be a valid path",
            ));
        }
    }
}

/// Whether a path like `.a.b` or `.a['b.c']` names a member of the schema.
pub(super) fn resolves(schema: &Value, path: &str) -> bool {
    find(schema, path).is_some()
}

/// The schema of the member that a path names.
pub(super) fn find<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let (name, rest) = if let Some(quoted) = path.strip_prefix("['") {
        quoted.split_once("']")?
    } else {
        let dotted = path.strip_prefix('.')?;
        dotted.split_at(dotted.find(['.', '[']).unwrap_or(dotted.len()))
    };
    let inner = schema["properties"].get(name).or_else(|| {
        schema
            .get("additionalProperties")
            .filter(|inner| inner.is_object())
    })?;
    if rest.is_empty() {
        Some(inner)
    } else {
        find(inner, rest)
    }
}

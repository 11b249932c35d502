//! Defaults and CEL rules of a schema that is otherwise sound.

use std::sync::Arc;

use serde_json::Value;

use super::super::cel;
use super::super::error::{CauseReason, FieldError};
use super::super::model::{Kind, Schema};
use super::super::prune::prune;
use super::super::validate::validate;

/// Checks that defaults fit and rules compile.
pub(super) fn check(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match Schema::for_custom_resource(schema) {
        Ok(mut parsed) => {
            parsed
                .properties
                .insert("metadata".to_owned(), readable_metadata());
            node(&parsed, schema, at, errors);
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

fn node(schema: &Schema, source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    default(schema, at, errors);
    for (i, rule) in schema.rules.iter().enumerate() {
        let raw = &source["x-kubernetes-validations"][i];
        one_rule(
            schema,
            rule,
            raw,
            &format!("{at}.x-kubernetes-validations[{i}]"),
            errors,
        );
    }
    for (name, inner) in &schema.properties {
        let below = &source["properties"][name];
        if below.is_object() {
            node(inner, below, &format!("{at}.properties[{name}]"), errors);
        }
    }
    if let Some(inner) = &schema.items {
        node(inner, &source["items"], &format!("{at}.items"), errors);
    }
    if let Some(inner) = &schema.additional {
        node(
            inner,
            &source["additionalProperties"],
            &format!("{at}.additionalProperties"),
            errors,
        );
    }
}

fn default(schema: &Schema, at: &str, errors: &mut Vec<FieldError>) {
    let Some(default) = &schema.default else {
        return;
    };
    let at = format!("{at}.default");
    let mut pruned = default.clone();
    let unknown = prune(schema, &mut pruned);
    if !unknown.is_empty() {
        let detail = format!("must not have unknown fields: {}", unknown.join(", "));
        errors.push(FieldError::invalid(at.clone(), default, detail));
    }
    for error in validate(schema, default, None).errors {
        let field = match error.field.as_str() {
            "<nil>" => at.clone(),
            below if below.starts_with('[') => format!("{at}{below}"),
            below => format!("{at}.{below}"),
        };
        errors.push(FieldError { field, ..error });
    }
}

fn one_rule(
    schema: &Schema,
    rule: &cel::Rule,
    raw: &Value,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    if rule.rule.trim().is_empty() {
        errors.push(FieldError::required(
            format!("{at}.rule"),
            "rule is not specified",
        ));
        return;
    }
    let compiled = |program: &Result<cel::Program, String>| match program {
        Err(error) => Err(error.clone()),
        Ok(program) => cel::check(program, schema, rule.optional_old_self),
    };
    if let Err(problem) = compiled(&rule.program) {
        let message =
            format!("Invalid value: {raw}: compilation failed: ERROR: <input>:1:1: {problem}");
        errors.push(FieldError::with(
            CauseReason::Invalid,
            format!("{at}.rule"),
            message,
        ));
    }
    if let Some(program) = &rule.message_program
        && let Err(problem) = compiled(program)
    {
        let message =
            format!("Invalid value: {raw}: messageExpression compilation failed: {problem}");
        errors.push(FieldError::with(
            CauseReason::Invalid,
            format!("{at}.messageExpression"),
            message,
        ));
    }
    if let Some(message) = &rule.message {
        if message.contains('\n') {
            let detail = "message must not contain line breaks";
            errors.push(FieldError::invalid(
                format!("{at}.message"),
                &message.as_str().into(),
                detail,
            ));
        }
    } else if rule.rule.contains('\n') && rule.message_expression.is_none() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(format!("{at}.message"), detail));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|r| !REASONS.contains(r)) {
        errors.push(FieldError::not_supported(
            format!("{at}.reason"),
            &reason.into(),
            &REASONS,
        ));
    }
    if let Some(path) = &rule.field_path
        && !resolves(schema, path)
    {
        let detail = "fieldPath must be a valid path to a field of the schema";
        errors.push(FieldError::invalid(
            format!("{at}.fieldPath"),
            &path.as_str().into(),
            detail,
        ));
    }
}

/// Whether a path like `.a.b` or `.a['b.c']` names a member of the schema.
fn resolves(schema: &Schema, path: &str) -> bool {
    let (name, rest) = if let Some(quoted) = path.strip_prefix("['") {
        match quoted.split_once("']") {
            Some(parts) => parts,
            None => return false,
        }
    } else if let Some(dotted) = path.strip_prefix('.') {
        dotted.split_at(dotted.find(['.', '[']).unwrap_or(dotted.len()))
    } else {
        return false;
    };
    schema
        .member(name)
        .is_some_and(|inner| rest.is_empty() || resolves(inner, rest))
}

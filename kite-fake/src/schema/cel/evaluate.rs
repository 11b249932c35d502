//! Evaluating the rules of an object, node by node.

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::super::correlate;
use super::super::error::{CauseReason, FieldError, quote};
use super::super::model::{Kind, Schema};
use super::super::path;
use super::super::validate::Validation;
use super::Rule;
use super::value::{optional, to_cel};

/// Evaluates all rules below `schema`. A rule that fails on a value that did
/// not change becomes a warning, unless it is a transition rule.
pub(in super::super) fn evaluate(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    found: &mut Validation,
) {
    walk(schema, new, old, "", found);
}

fn walk(schema: &Schema, new: &Value, old: Option<&Value>, at: &str, found: &mut Validation) {
    if !schema.has_rules_below || new.is_null() {
        return;
    }
    if !schema.rules.is_empty() {
        own_rules(schema, new, old, at, found);
    }
    match new {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(inner) = schema.member(name) {
                    walk(
                        inner,
                        member,
                        correlate::member(old, name),
                        &path::member(at, name),
                        found,
                    );
                }
            }
        }
        Value::Array(elements) => {
            let Some(inner) = &schema.items else { return };
            for (i, element) in elements.iter().enumerate() {
                let before = correlate::element(&schema.list_type, inner, element, old);
                walk(inner, element, before, &path::element(at, i), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Evaluates the rules of one node.
fn own_rules(schema: &Schema, new: &Value, old: Option<&Value>, at: &str, found: &mut Validation) {
    let this = to_cel(Some(schema), new);
    let before = old
        .filter(|v| !v.is_null())
        .map(|v| to_cel(Some(schema), v));
    let unchanged = old == Some(new);
    for rule in &schema.rules {
        let transition = rule.is_transition();
        if transition && before.is_none() && !rule.optional_old_self {
            continue;
        }
        let mut variables = vec![("self", this.clone())];
        if rule.optional_old_self {
            variables.push(("oldSelf", optional(before.clone())));
        } else if let Some(before) = &before {
            variables.push(("oldSelf", before.clone()));
        }
        if let Some(error) = failure(schema, rule, &variables, new, at) {
            if unchanged && !transition {
                found.warnings.push(error.to_string());
            } else {
                found.errors.push(error);
            }
        }
    }
}

/// The error of one rule, if it fails.
fn failure(
    schema: &Schema,
    rule: &Rule,
    variables: &[(&str, Cel)],
    value: &Value,
    at: &str,
) -> Option<FieldError> {
    let program = match &rule.program {
        Ok(program) => program,
        Err(error) => {
            let detail = format!("rule compile error: {error}");
            return Some(FieldError::invalid(
                path::of(at),
                &type_name(schema).into(),
                detail,
            ));
        }
    };
    match program.run(variables) {
        Ok(Cel::Bool(true)) => None,
        Ok(Cel::Bool(false)) => Some(refusal(rule, variables, value, at)),
        Ok(_) => {
            let detail = format!("no such overload evaluating rule: {}", rule_text(rule));
            Some(FieldError::invalid(
                path::of(at),
                &type_name(schema).into(),
                detail,
            ))
        }
        Err(error) => {
            let detail = if error.starts_with("no such overload") {
                format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    rule_text(rule)
                )
            } else {
                format!("{error} evaluating rule: {}", rule_text(rule))
            };
            Some(FieldError::invalid(
                path::of(at),
                &type_name(schema).into(),
                detail,
            ))
        }
    }
}

/// The error of a rule that says no.
fn refusal(rule: &Rule, variables: &[(&str, Cel)], value: &Value, at: &str) -> FieldError {
    let field = match &rule.field_path {
        Some(below) => path::of(&format!("{at}{below}"))
            .trim_start_matches('.')
            .to_owned(),
        None => path::of(at),
    };
    let detail = computed_message(rule, variables)
        .or_else(|| rule.message.clone())
        .unwrap_or_else(|| format!("failed rule: {}", rule.rule.trim()));
    // Objects and lists are not quoted: their text could be of any size.
    let shown = match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        scalar => format!("{}: ", quote(scalar)),
    };
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(field, detail),
        Some("FieldValueRequired") => FieldError::required(field, &detail),
        Some("FieldValueDuplicate") => {
            let shown = shown.trim_end_matches(": ");
            let message = if shown.is_empty() {
                "Duplicate value".to_owned()
            } else {
                format!("Duplicate value: {shown}")
            };
            FieldError::with(CauseReason::Duplicate, field, message)
        }
        _ => FieldError::with(
            CauseReason::Invalid,
            field,
            format!("Invalid value: {shown}{detail}"),
        ),
    }
}

/// What the message expression gives, if it is fit to be shown.
fn computed_message(rule: &Rule, variables: &[(&str, Cel)]) -> Option<String> {
    let program = rule.message_program.as_ref()?.as_ref().ok()?;
    match program.run(variables) {
        Ok(Cel::String(text)) if !text.trim().is_empty() && !text.contains('\n') => {
            Some(text.trim().to_owned())
        }
        _ => None,
    }
}

fn rule_text(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(rule.rule.trim())
}

/// The type's name, which stands for the value where a rule cannot be evaluated.
fn type_name(schema: &Schema) -> &'static str {
    match schema.kind {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::IntOrString | Kind::Any => "",
    }
}

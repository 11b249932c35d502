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

/// Longer messages are not shown, in bytes.
const MAX_MESSAGE: usize = 5120;

/// Evaluates all rules below `schema`. A rule that fails on a value that did
/// not change becomes a warning, unless it is a transition rule.
pub(in super::super) fn evaluate(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    found: &mut Validation,
) {
    let mut walker = Walker {
        ratcheting: old.is_some(),
        found,
    };
    walker.node(schema, new, old, None, "");
}

/// The errors of a default under the rules of its node and those below: it is
/// not tolerated for being there already.
pub(in super::super) fn check_default(
    schema: &Schema,
    default: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let mut found = Validation::default();
    if schema.has_rules_below {
        let mut walker = Walker {
            ratcheting: false,
            found: &mut found,
        };
        walker.node(schema, default, old, None, "");
    }
    found.errors
}

/// A value and the one before.
type Change<'v> = Option<(&'v Value, &'v Value)>;

struct Walker<'a> {
    /// What did not change is tolerated.
    ratcheting: bool,
    found: &'a mut Validation,
}

impl Walker<'_> {
    /// `above` is the nearest value above that has a previous one, and that one.
    fn node<'v>(
        &mut self,
        schema: &Schema,
        new: &'v Value,
        old: Option<&'v Value>,
        above: Change<'v>,
        at: &str,
    ) {
        if !schema.has_rules_below || new.is_null() {
            return;
        }
        let change = match old {
            Some(old) if self.ratcheting => Some((new, old)),
            _ => above,
        };
        if !schema.rules.is_empty() {
            own_rules(schema, new, old, change, at, self.found);
        }
        match new {
            Value::Object(members) => {
                for (name, member) in members {
                    // What is no field of its own is the value of a map.
                    let (inner, below) = match schema.properties.get(name) {
                        Some(inner) => (inner, path::member(at, name)),
                        None => match &schema.additional {
                            Some(inner) => (inner, format!("{at}[{name}]")),
                            None => continue,
                        },
                    };
                    // The type of the object itself is not seen to stay.
                    let type_of = at.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
                    let change = change.filter(|_| !type_of);
                    self.node(inner, member, correlate::member(old, name), change, &below);
                }
            }
            Value::Array(elements) => {
                let Some(inner) = &schema.items else { return };
                for (i, element) in elements.iter().enumerate() {
                    let before = correlate::element(&schema.list_type, inner, element, old);
                    self.node(inner, element, before, change, &path::element(at, i));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Evaluates the rules of one node.
fn own_rules(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    change: Change<'_>,
    at: &str,
    found: &mut Validation,
) {
    let this = to_cel(Some(schema), new);
    let before = old
        .filter(|v| !v.is_null())
        .map(|v| to_cel(Some(schema), v));
    for rule in &schema.rules {
        let transition = rule.is_transition();
        if transition && before.is_none() && !rule.optional_old_self {
            continue;
        }
        let mut plain = vec![("self", this.clone())];
        plain.extend(before.iter().map(|before| ("oldSelf", before.clone())));
        let variables = if rule.optional_old_self {
            vec![
                ("self", this.clone()),
                ("oldSelf", optional(before.clone())),
            ]
        } else {
            plain.clone()
        };
        // A message sees the previous value as it is, even where the rule does not.
        match failure(schema, rule, &variables, &plain, new, at) {
            Some(Failure::Said(error))
                if !transition && change.is_some_and(|(new, old)| new == old) =>
            {
                found.warnings.push(error.to_string());
            }
            Some(Failure::Said(error) | Failure::Broken(error)) => found.errors.push(error),
            None => {}
        }
    }
}

/// Why a rule did not hold.
enum Failure {
    /// It says no.
    Said(FieldError),
    /// It cannot be evaluated.
    Broken(FieldError),
}

/// The error of one rule, if it fails.
fn failure(
    schema: &Schema,
    rule: &Rule,
    variables: &[(&str, Cel)],
    for_message: &[(&str, Cel)],
    value: &Value,
    at: &str,
) -> Option<Failure> {
    let broken = |detail: String| {
        let shown = Value::from(type_name(schema));
        Some(Failure::Broken(FieldError::invalid(
            path::of(at),
            &shown,
            detail,
        )))
    };
    let program = match &rule.program {
        Ok(program) => program,
        Err(error) => return broken(format!("rule compile error: {error}")),
    };
    match program.run(variables) {
        Ok(Cel::Bool(true)) => None,
        Ok(Cel::Bool(false)) => Some(Failure::Said(refusal(rule, for_message, value, at))),
        Ok(_) => broken(format!(
            "no such overload evaluating rule: {}",
            rule_text(rule)
        )),
        Err(error) if error.starts_with("no such overload") => broken(format!(
            "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {}",
            rule_text(rule)
        )),
        Err(error) if error.starts_with("operation cancelled: actual cost limit exceeded") => {
            broken(format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                rule_text(rule)
            ))
        }
        Err(error) => broken(format!("{error} evaluating rule: {}", rule_text(rule))),
    }
}

/// The error of a rule that says no.
fn refusal(rule: &Rule, variables: &[(&str, Cel)], value: &Value, at: &str) -> FieldError {
    let field = match &rule.field_path {
        Some(below) => path::member(at, below),
        None => path::of(at),
    };
    let detail = computed_message(rule, variables)
        .or_else(|| rule.message.as_deref().map(|m| m.trim().to_owned()))
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
    let Ok(Cel::String(text)) = program.run(variables) else {
        return None;
    };
    let text = text.trim();
    let fit = !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE;
    fit.then(|| text.to_owned())
}

fn rule_text(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(&rule.rule).trim()
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

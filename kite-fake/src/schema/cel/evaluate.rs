//! Evaluating the rules of an object, node by node.

use std::collections::BTreeSet;

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::super::correlate;
use super::super::model::{Kind, Schema};
use super::super::path::Path;
use super::super::rule::READABLE_METADATA;
use super::super::rule::Rule;
use super::super::validate::Validation;
use super::program::Part;
use super::value::{escape, node_to_cel, optional};
use crate::field_error::{CauseReason, FieldError, quote};
use crate::held::Held;

/// Longer messages are not shown, in bytes.
const MAX_MESSAGE: usize = 5120;

/// Evaluates all rules below `schema`. A rule that fails on a value that did
/// not change becomes a warning, unless it is a transition rule. What is known
/// of the previous state by `held` is not asked again.
pub(in super::super) fn evaluate(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    held: Held,
    found: &mut Validation,
) {
    let mut walker = Walker {
        ratcheting: old.is_some(),
        held,
        repeated: true,
        found,
    };
    walker.node(schema, new, old, None, &Path::Root);
    let next = if walker.repeated {
        Held::Repeated
    } else {
        Held::Alone
    };
    if found.errors.is_empty() && found.warnings.is_empty() {
        found.held = next;
    }
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
            held: Held::Unknown,
            repeated: false,
            found: &mut found,
        };
        walker.node(schema, default, old, None, &Path::Root);
    }
    found.errors
}

/// A value and the one before.
type Change<'v> = Option<(&'v Value, &'v Value)>;

struct Walker<'a> {
    /// What did not change is tolerated.
    ratcheting: bool,
    /// What is known of the rules of the previous state.
    held: Held,
    /// All transition rules so far have seen the same value twice.
    repeated: bool,
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
        at: &Path<'_>,
    ) {
        if !schema.has_rules_below || new.is_null() {
            return;
        }
        let change = match old {
            Some(old) if self.ratcheting => Some((new, old)),
            _ => above,
        };
        let same = old == Some(new);
        let known = if schema.has_transitions_below {
            Held::Repeated
        } else {
            Held::Alone
        };
        if same && self.held >= known {
            return;
        }
        if !schema.rules.is_empty() {
            self.own_rules(schema, new, old, change, at);
        }
        match new {
            Value::Object(members) => {
                for (name, member) in members {
                    // What is no field of its own is the value of a map.
                    let (inner, below) = match schema.properties.get(name) {
                        Some(inner) => (inner, at.member(name)),
                        None => match &schema.additional {
                            Some(inner) => (inner, at.entry(name)),
                            None => continue,
                        },
                    };
                    // The type of the object itself is not seen to stay.
                    let type_of = at.is_root() && matches!(name.as_str(), "apiVersion" | "kind");
                    let change = change.filter(|_| !type_of);
                    self.node(inner, member, correlate::member(old, name), change, &below);
                }
            }
            Value::Array(elements) => {
                let Some(inner) = &schema.items else { return };
                for (i, element) in elements.iter().enumerate() {
                    let before = correlate::element(&schema.list_type, inner, element, old);
                    self.node(inner, element, before, change, &at.element(i));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Evaluates the rules of one node.
    fn own_rules(
        &mut self,
        schema: &Schema,
        new: &Value,
        old: Option<&Value>,
        change: Change<'_>,
        at: &Path<'_>,
    ) {
        let is_asked = |rule: &&Rule| {
            let known = if rule.is_transition() {
                Held::Repeated
            } else {
                Held::Alone
            };
            self.held < known || !is_same(rule, new, old, at)
        };
        let asked: Vec<&Rule> = schema.rules.iter().filter(is_asked).collect();
        if asked.is_empty() {
            return;
        }
        // Of a large object most rules see little.
        let wanted = asked.iter().try_fold(BTreeSet::new(), |mut all, rule| {
            all.extend(rule.reads.as_ref()?.keys().map(String::as_str));
            Some(all)
        });
        let seen = |value| node_to_cel(schema, value, at.is_root(), wanted.as_ref());
        let this = seen(new);
        let before = old.filter(|v| !v.is_null()).map(seen);
        for rule in asked {
            let transition = rule.is_transition();
            if transition {
                self.repeated &= is_same(rule, new, old, at);
            }
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
                    self.found.warnings.push(error.to_string());
                }
                Some(Failure::Said(error) | Failure::Broken(error)) => {
                    self.found.errors.push(error);
                }
                None => {}
            }
        }
    }
}

/// Whether all that a rule looks at is as it was before.
fn is_same(rule: &Rule, new: &Value, old: Option<&Value>, at: &Path<'_>) -> bool {
    let (Some(reads), Some(old)) = (&rule.reads, old) else {
        return old == Some(new);
    };
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return old == new;
    };
    all_same(new, old, |name, new, old| match reads.get(&escape(name)) {
        None => true,
        Some(_) if name == "metadata" && at.is_root() => {
            let (new, old) = (
                new.and_then(Value::as_object),
                old.and_then(Value::as_object),
            );
            let mut names = READABLE_METADATA.properties.keys();
            names.all(|name| new.and_then(|it| it.get(name)) == old.and_then(|it| it.get(name)))
        }
        Some(Part::All) => new == old,
        Some(Part::Only(some)) => match (new, old) {
            (Some(Value::Object(new)), Some(Value::Object(old))) => {
                all_same(new, old, |name, new, old| {
                    // Where names are data, they are read as they are.
                    !(some.contains(name) || some.contains(&escape(name))) || new == old
                })
            }
            _ => new == old,
        },
    })
}

type Members = serde_json::Map<String, Value>;

/// Whether each member is the same, absent ones included, as `same` says.
fn all_same(
    new: &Members,
    old: &Members,
    same: impl Fn(&str, Option<&Value>, Option<&Value>) -> bool,
) -> bool {
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let mut names = new.keys().chain(gone);
    names.all(|name| same(name, new.get(name), old.get(name)))
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
    at: &Path<'_>,
) -> Option<Failure> {
    let broken = |detail: String| {
        let shown = Value::from(type_name(schema));
        Some(Failure::Broken(FieldError::invalid(
            at.or_nil(),
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
fn refusal(rule: &Rule, variables: &[(&str, Cel)], value: &Value, at: &Path<'_>) -> FieldError {
    let field = match &rule.field_path {
        Some(below) => at.member(below).to_string(),
        None => at.or_nil(),
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

//! Defaults and CEL rules of a schema that is otherwise sound.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::cel::{self, Wanted};
use super::super::constraints::Checker;
use super::super::error::{CauseReason, FieldError};
use super::super::field_path;
use super::super::model::{Kind, ListType, Schema};
use super::super::prune::prune;
use super::super::{embedded, lists};

/// Checks that defaults fit; gives the schema as rules see it.
pub(super) fn defaults(schema: &Value, at: &str, errors: &mut Vec<FieldError>) -> Option<Schema> {
    match Schema::for_custom_resource(schema) {
        Ok(mut parsed) => {
            parsed
                .properties
                .insert("metadata".to_owned(), readable_metadata());
            each_default(&parsed, schema, at, errors);
            Some(parsed)
        }
        Err(error) => {
            errors.push(FieldError::invalid(at, &Value::from(""), error));
            None
        }
    }
}

/// Checks that rules compile and do not cost too much, wherever the schema of
/// their node is sound: `errors` has what was found wrong with it.
pub(super) fn check(
    parsed: &Schema,
    schema: &Value,
    at: &str,
    unchanged: bool,
    errors: &mut Vec<FieldError>,
) {
    let unsound: Vec<String> = errors.iter().map(|error| error.field.clone()).collect();
    let mut rules = Rules {
        unsound: &unsound,
        unchanged,
        errors,
    };
    rules.node(parsed, schema, at, None);
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

/// Checks the default of each node that the definition itself wrote; those of
/// a map's values are not looked at.
fn each_default(schema: &Schema, source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    default(schema, at, errors);
    for (inner, below, at) in children(schema, source, at) {
        if !at.ends_with(".additionalProperties") {
            each_default(inner, below, &at, errors);
        }
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
    found.extend(embedded::check(schema, default));
    found.extend(lists::duplicates(schema, default));
    // A default is held to the rules as a value that stays and as one that is new.
    for old in [Some(default), None] {
        if found.is_empty() {
            found = cel::check_default(schema, default, old);
        }
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

/// Checks the rules of all nodes.
struct Rules<'a> {
    /// Fields of which something is wrong.
    unsound: &'a [String],
    unchanged: bool,
    errors: &'a mut Vec<FieldError>,
}

impl Rules<'_> {
    /// `severed` is the first node above whose parts have no previous value to compare with.
    fn node(&mut self, schema: &Schema, source: &Value, at: &str, severed: Option<&str>) {
        let sound = !self.unsound.iter().any(|field| {
            field
                .strip_prefix(at)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        });
        if sound {
            for (i, rule) in schema.rules.iter().enumerate() {
                let raw = &source["x-kubernetes-validations"][i];
                let at = format!("{at}.x-kubernetes-validations[{i}]");
                one_rule(schema, rule, raw, &at, severed, self.errors);
            }
        }
        // Only lists with keys tell which element was which before.
        let severs = schema.kind == Kind::Array && !matches!(schema.list_type, ListType::Map(_));
        let severed = severed.or(severs.then_some(at));
        for (inner, below, at) in children(schema, source, at) {
            self.node(inner, below, &at, severed);
        }
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
            "message must be non-empty if specified",
        ));
    } else if broken(message) {
        errors.push(FieldError::invalid(
            format!("{at}.message"),
            &raw["message"],
            "message must not contain line breaks",
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
                "fieldPath must be non-empty if specified",
            ));
        }
        if broken(path) {
            errors.push(FieldError::invalid(
                field.clone(),
                &path.into(),
                "fieldPath must not contain line breaks",
            ));
        }
        if field_path::resolve(siblings, path, true).is_err() {
            errors.push(FieldError::invalid(
                field,
                &path.into(),
                "fieldPath must be a valid path",
            ));
        }
    }
}

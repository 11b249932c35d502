//! Defaults and CEL rules of a schema that is otherwise sound.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::cel;
use super::super::constraints::Checker;
use super::super::field_path;
use super::super::model::{Kind, ListType, Schema};
use super::super::prune::prune;
use super::super::rule::{READABLE_METADATA, Rule};
use super::super::{embedded, lists};
use crate::field_error::{CauseReason, FieldError};

/// The highest cost of one rule.
const RULE_LIMIT: u64 = 10_000_000;
/// The highest cost of all rules of a schema.
const TOTAL_LIMIT: u64 = 100_000_000;
/// So many rules are named where all of them cost too much together.
const MOST_EXPENSIVE: usize = 4;

/// Checks that defaults fit; gives the schema as rules see it.
pub(super) fn defaults(schema: &Value, at: &str, errors: &mut Vec<FieldError>) -> Option<Schema> {
    match Schema::for_custom_resource(schema) {
        Ok(mut parsed) => {
            parsed
                .properties
                .insert("metadata".to_owned(), Arc::new(READABLE_METADATA.clone()));
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
        total: 0,
        expensive: Vec::new(),
        errors,
    };
    let root = Place {
        at: at.to_owned(),
        severed: None,
        times: Some(1),
    };
    rules.node(parsed, schema, &root);
    rules.sum(at);
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
    /// The costs were accepted once.
    unchanged: bool,
    /// The cost of all rules.
    total: u64,
    /// The rules that cost most.
    expensive: Vec<(u64, String)>,
    errors: &'a mut Vec<FieldError>,
}

/// Where a node stands.
struct Place {
    at: String,
    /// The first node above whose parts have no previous value to compare with.
    severed: Option<String>,
    /// How many values of the node there can be in an object, if that is bounded.
    times: Option<u64>,
}

impl Rules<'_> {
    fn node(&mut self, schema: &Schema, source: &Value, place: &Place) {
        let sound = !self.unsound.iter().any(|field| {
            field
                .strip_prefix(&place.at)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        });
        if sound {
            for (i, rule) in schema.rules.iter().enumerate() {
                let raw = &source["x-kubernetes-validations"][i];
                self.rule(schema, rule, raw, place, i);
            }
        }
        // Only lists with keys tell which element was which before.
        let severs = schema.kind == Kind::Array && !matches!(schema.list_type, ListType::Map(_));
        let severed = place
            .severed
            .clone()
            .or_else(|| severs.then(|| place.at.clone()));
        let each = match schema.kind {
            Kind::Array => schema.constraints.max_items,
            Kind::Object if schema.additional.is_some() => schema.constraints.max_properties,
            Kind::Object => Some(1),
            _ => None,
        };
        let times = place
            .times
            .zip(each)
            .map(|(times, each)| times.saturating_mul(each));
        for (inner, below, at) in children(schema, source, &place.at) {
            let place = Place {
                at,
                severed: severed.clone(),
                times,
            };
            self.node(inner, below, &place);
        }
    }

    fn rule(&mut self, schema: &Schema, rule: &Rule, raw: &Value, place: &Place, i: usize) {
        let at = format!("{}.x-kubernetes-validations[{i}]", place.at);
        let found = cel::review(rule, schema);
        let cost = found.cost.saturating_mul(place.times.unwrap_or(found.most));
        self.charge("estimated rule cost", cost, format!("{at}.rule"));
        let refused = |field: &str, problem: String| {
            let message = format!("Invalid value: {}: {problem}", internal(raw));
            FieldError::with(CauseReason::Invalid, format!("{at}.{field}"), message)
        };
        if let Err(problem) = found.rule {
            self.errors.push(refused("rule", problem));
        }
        if let Err(problem) = found.message {
            self.errors.push(refused("messageExpression", problem));
        }
        if let Some(cost) = found.message_cost {
            let field = format!("{at}.messageExpression");
            self.charge("estimated messageExpression cost", cost, field);
        }
        if rule.is_transition() {
            if let Some(severed) = &place.severed {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {severed}"
                );
                self.errors.push(FieldError::invalid(
                    format!("{at}.rule"),
                    &rule.rule.as_str().into(),
                    detail,
                ));
            }
        } else if rule.program.is_ok()
            && let Some(flag) = raw.get("optionalOldSelf").filter(|flag| flag.is_boolean())
        {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(
                format!("{at}.optionalOldSelf"),
                flag,
                detail,
            ));
        }
    }

    /// Adds a cost, and refuses one above the limit of a single expression.
    fn charge(&mut self, what: &str, cost: u64, field: String) {
        if cost > RULE_LIMIT && !self.unchanged {
            let detail = exceeds(what, cost, RULE_LIMIT);
            self.errors
                .push(FieldError::forbidden(field.clone(), detail));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.expensive.push((cost, field));
            self.expensive.sort_by_key(|(cost, _)| Reverse(*cost));
            self.expensive.truncate(MOST_EXPENSIVE);
        }
    }

    /// Refuses a schema whose rules cost too much together.
    fn sum(&mut self, at: &str) {
        if self.total <= TOTAL_LIMIT {
            return;
        }
        for (_, field) in &self.expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors
                .push(FieldError::forbidden(field.clone(), detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.push(FieldError::forbidden(
            at,
            exceeds(what, self.total, TOTAL_LIMIT),
        ));
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a factor for people")]
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
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

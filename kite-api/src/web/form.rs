//! [`Form`]: a JSON body read field by field, so that one answer names
//! everything that is wrong with it.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
};
use http::header;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::ClusterError,
    crd::{AccessLevel, PowerState, Quota, SignUp, SshLogin, TokenScope},
    quantity::Bytes,
};
use kube::core::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::problem::{FieldError, Problem, ProblemKind};

/// Most bytes of a body.
pub const BODY_LIMIT: usize = 256 * 1024;

/// The fields of a JSON object that are still to be read.
#[derive(Debug)]
pub struct Form {
    fields: Map<String, Value>,
    known: Vec<Known>,
    errors: Vec<FieldError>,
}

/// A field that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) use_: Use,
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
}

/// What a request may do with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Required,
    /// May be absent or null.
    Optional,
    /// May be absent.
    Changed,
    /// May not be mentioned.
    Fixed,
}

/// What an edit does to an optional field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The field was not mentioned.
    Keep,
    /// The field was null.
    Clear,
    /// The field has a value.
    Set(T),
}

/// A value that a field can have.
pub trait Field: Sized + JsonSchema {
    /// What to write, in the words after "write".
    const EXPECTED: &'static str;

    /// The value, if it is of this type.
    fn parse(value: &Value) -> Option<Self>;
}

impl Form {
    /// Reads `fields`.
    pub fn new(fields: Map<String, Value>) -> Self {
        Self {
            fields,
            known: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// A field that must be there. `None` only if an error was noted.
    pub fn required<T: Field>(&mut self, name: &'static str) -> Option<T> {
        let value = match self.read(name, Use::Required) {
            Change::Set(value) => Some(value),
            Change::Keep | Change::Clear => None,
        };
        if value.is_none() && !self.blamed(name) {
            self.missing::<T>(name);
        }
        value
    }

    /// Notes that a field would have to be there.
    pub fn missing<T: Field>(&mut self, name: &str) {
        self.error(name, format!("is missing: write {}", T::EXPECTED));
    }

    /// A field that may be absent or null.
    pub fn optional<T: Field>(&mut self, name: &'static str) -> Option<T> {
        match self.change(name) {
            Change::Set(value) => Some(value),
            Change::Keep | Change::Clear => None,
        }
    }

    /// What a field says if it can be read, without noting anything: for checks
    /// that shall not wait until the other fields are right.
    pub fn peek<T: Field>(&self, name: &str) -> Option<T> {
        self.fields.get(name).and_then(T::parse)
    }

    /// A field of an edit that null removes.
    pub fn change<T: Field>(&mut self, name: &'static str) -> Change<T> {
        self.read(name, Use::Optional)
    }

    fn read<T: Field>(&mut self, name: &'static str, use_: Use) -> Change<T> {
        self.known.push(Known {
            name,
            use_,
            schema: |generator| generator.subschema_for::<T>(),
        });
        match self.fields.get(name) {
            None => Change::Keep,
            Some(Value::Null) => Change::Clear,
            Some(value) => {
                if let Some(value) = T::parse(value) {
                    Change::Set(value)
                } else {
                    self.error(name, format!("write {}", T::EXPECTED));
                    Change::Keep
                }
            }
        }
    }

    /// A field of an edit that cannot be removed.
    pub fn changed<T: Field>(&mut self, name: &'static str) -> Option<T> {
        match self.read(name, Use::Changed) {
            Change::Set(value) => Some(value),
            Change::Keep => None,
            Change::Clear => {
                self.error(
                    name,
                    format!("cannot be removed: write {} or leave it out", T::EXPECTED),
                );
                None
            }
        }
    }

    /// A field that an edit may not mention, with the reason.
    pub fn fixed(&mut self, name: &'static str, why: &str) {
        self.known.push(Known {
            name,
            use_: Use::Fixed,
            schema: |generator| generator.subschema_for::<Value>(),
        });
        if self.fields.contains_key(name) {
            self.error(name, why);
        }
    }

    /// Notes that a field is wrong.
    pub fn error(&mut self, name: &str, message: impl Into<String>) {
        self.errors.push(FieldError {
            field: name.to_owned(),
            value: self.value_of(name),
            message: message.into(),
        });
    }

    /// Refuses the body if anything in it was wrong, and fields that nobody
    /// asked for: a misspelt field would otherwise be ignored in silence.
    pub fn finish(&mut self) -> Result<(), Problem> {
        let unknown: Vec<String> = self
            .fields
            .keys()
            .filter(|name| !self.known.iter().any(|known| known.name == name.as_str()))
            .cloned()
            .collect();
        for name in unknown {
            let known: Vec<_> = self.known.iter().map(|known| known.name).collect();
            let known = known.join(", ");
            self.errors.push(FieldError {
                field: name,
                value: None,
                message: format!("is not a field of this request, which has: {known}"),
            });
        }
        if self.errors.is_empty() {
            Ok(())
        } else {
            Err(Problem::invalid(std::mem::take(&mut self.errors)))
        }
    }

    /// Refuses the body if anything in it was wrong, and gives what was read of
    /// it otherwise.
    pub(crate) fn finish_with<B>(&mut self, input: Option<B>) -> Result<B, Problem> {
        self.finish()?;
        input.ok_or_else(|| Problem::invalid(Vec::new()))
    }

    /// The fields in one text that is the same for the same request, without
    /// those that hold secrets.
    pub(crate) fn public_fields(&self) -> String {
        let fields: Map<String, Value> = self
            .fields
            .iter()
            .filter(|(name, _)| !is_secret(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Value::Object(fields).to_string()
    }

    /// The fields that were asked for, in order.
    pub(crate) fn known(&self) -> &[Known] {
        &self.known
    }

    /// The API server's refusal, with the values of this form.
    pub fn blame(&self, error: ClusterError) -> Problem {
        Problem::from(error).with_values(|field| self.value_of(field))
    }

    fn blamed(&self, name: &str) -> bool {
        self.errors.iter().any(|error| error.field == name)
    }

    /// What was given for a field such as `cpu` or `sshPublicKeys[1]`; never a
    /// secret.
    fn value_of(&self, name: &str) -> Option<Value> {
        if is_secret(name) {
            return None;
        }
        let (name, index) = match name.split_once('[') {
            Some((name, rest)) => (name, rest.trim_end_matches(']').parse::<usize>().ok()),
            None => (name, None),
        };
        let value = self.fields.get(name)?;
        match index {
            Some(index) => value.get(index).cloned(),
            None => Some(value.clone()),
        }
    }
}

/// Whether a field of this name holds what must not be repeated. Into that of a
/// certificate its key may have got by mistake.
fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    ["password", "token", "invite", "certificate", "privatekey"]
        .iter()
        .any(|word| name.contains(word))
}

/// Reads a request's body as a JSON object.
pub(crate) async fn object_of(request: Request) -> Result<Map<String, Value>, Problem> {
    require_json(&request)?;
    let body = read(request.into_body()).await?;
    let value: Value = serde_json::from_slice(&body).map_err(|error| {
        Problem::new(
            ProblemKind::Malformed,
            format!("the body is not JSON: {error}"),
        )
    })?;
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(Problem::new(
            ProblemKind::Malformed,
            "the body must be a JSON object such as {\"name\": \"web\"}",
        )),
    }
}

/// A JSON body cannot be sent by another site's form, which is one more wall
/// against forged requests.
fn require_json(request: &Request) -> Result<(), Problem> {
    let content_type = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json")
        || essence.eq_ignore_ascii_case("application/merge-patch+json")
    {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::UnsupportedMediaType,
        "send JSON with the header Content-Type: application/json",
    ))
}

async fn read(body: Body) -> Result<bytes::Bytes, Problem> {
    to_bytes(body, BODY_LIMIT).await.map_err(|error| {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(current) = cause {
            if current.is::<http_body_util::LengthLimitError>() {
                return Problem::new(
                    ProblemKind::TooLarge,
                    format!("the body has more than {BODY_LIMIT} bytes: send less"),
                );
            }
            cause = current.source();
        }
        Problem::new(
            ProblemKind::Malformed,
            "the body ended before it was complete",
        )
    })
}

impl Field for String {
    const EXPECTED: &'static str = "a text in quotes";

    fn parse(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl Field for bool {
    const EXPECTED: &'static str = "true or false";

    fn parse(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Field for u32 {
    const EXPECTED: &'static str = "a whole number such as 2";

    fn parse(value: &Value) -> Option<Self> {
        value.as_u64().and_then(|number| number.try_into().ok())
    }
}

impl Field for Bytes {
    const EXPECTED: &'static str = "a size with its unit, such as 512Mi or 20Gi";

    fn parse(value: &Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

impl Field for Vec<String> {
    const EXPECTED: &'static str = "a list of texts such as [\"ssh-ed25519 AAAA…\"]";

    fn parse(value: &Value) -> Option<Self> {
        value
            .as_array()?
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect()
    }
}

impl Field for Vec<TokenScope> {
    const EXPECTED: &'static str = "a list of vms:read, vms:power, vms:write, account:read, \
                                    account:write, admin:read, admin";

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

impl Field for Time {
    const EXPECTED: &'static str = "a time such as 2026-12-31T18:00:00Z";

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

impl Field for Duration {
    const EXPECTED: &'static str = "a span such as 90m or 72h";

    fn parse(value: &Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

impl Field for PowerState {
    const EXPECTED: &'static str = "On or Off";

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

impl Field for SshLogin {
    const EXPECTED: &'static str = "KeyOrPassword or KeyAndPassword";

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

impl Field for AccessLevel {
    const EXPECTED: &'static str = "ReadOnly, User, Manager or Admin";

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

impl Field for SignUp {
    const EXPECTED: &'static str = "Open, Invite or Closed";

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

impl Field for Vec<Map<String, Value>> {
    const EXPECTED: &'static str = "a list of objects such as [{\"name\": \"one\"}]";

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

impl Field for Map<String, Value> {
    const EXPECTED: &'static str = "an object with the fields to change";

    fn parse(value: &Value) -> Option<Self> {
        value.as_object().cloned()
    }
}

impl Field for Quota {
    const EXPECTED: &'static str =
        "an object such as {\"vms\": 5, \"cpu\": 8, \"memory\": \"16Gi\", \"disk\": \"200Gi\"}";

    fn parse(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn form(value: Value) -> Form {
        Form::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn one_answer_names_every_wrong_field() {
        let mut form = form(json!({"cpu": "two", "memory": "lots", "kpu": 1}));
        assert_eq!(form.required::<u32>("cpu"), None);
        assert_eq!(form.required::<Bytes>("memory"), None);
        assert_eq!(form.required::<String>("name"), None);
        let problem = form.finish().unwrap_err();
        let errors: Vec<_> = problem
            .errors()
            .iter()
            .map(|error| {
                (
                    error.field.as_str(),
                    error.value.clone(),
                    error.message.as_str(),
                )
            })
            .collect();
        assert_eq!(
            errors,
            [
                ("cpu", Some(json!("two")), "write a whole number such as 2"),
                (
                    "memory",
                    Some(json!("lots")),
                    "write a size with its unit, such as 512Mi or 20Gi"
                ),
                ("name", None, "is missing: write a text in quotes"),
                (
                    "kpu",
                    None,
                    "is not a field of this request, which has: cpu, memory, name"
                ),
            ]
        );
    }

    #[test]
    fn secrets_are_never_repeated() {
        let mut form = form(json!({"sshPassword": ["secret"], "token": 5}));
        form.optional::<String>("sshPassword");
        form.optional::<String>("token");
        let problem = form.finish().unwrap_err();
        assert!(problem.errors().iter().all(|error| error.value.is_none()));
    }

    #[test]
    fn an_edit_tells_keep_clear_and_set_apart() {
        let mut form = form(json!({"a": null, "b": "x"}));
        assert_eq!(form.change::<String>("a"), Change::Clear);
        assert_eq!(form.change::<String>("b"), Change::Set("x".to_owned()));
        assert_eq!(form.change::<String>("c"), Change::Keep);
        assert!(form.finish().is_ok());
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for value in [json!(-1), json!(1.5), json!(4_294_967_296_u64), json!("2")] {
            assert_eq!(u32::parse(&value), None, "{value}");
        }
    }
}

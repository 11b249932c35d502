//! [`Form`]: a JSON body read field by field, so that one answer names
//! everything that is wrong with it.

use axum::extract::Request;
use http::header;
use kite_core::cluster::ClusterError;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::{
    body::{self, Bodies},
    budget::AnyShare,
    field::Field,
    json::{self, Repeated},
    place::{base, before, is_within, without},
    problem::{FieldError, Problem, ProblemKind},
    shape::{Fault, FaultKind},
    vocabulary::Vocabulary,
};

/// The fields of a JSON object that are still to be read.
#[derive(Debug)]
pub struct Form {
    fields: Map<String, Value>,
    known: Vec<Known>,
    errors: Vec<FieldError>,
    vocabulary: Vocabulary,
    /// What the fields hold of the memory for bodies.
    share: Option<AnyShare>,
}

/// A field that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub name: &'static str,
    pub use_: Use,
    pub schema: fn(&mut SchemaGenerator) -> Schema,
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

impl<T> Change<T> {
    /// What is set, as something else.
    pub fn map<U>(self, to: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(to(value)),
        }
    }

    /// The same change, of what is borrowed.
    pub const fn as_ref(&self) -> Change<&T> {
        match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(value),
        }
    }

    /// What is set; none where the field is kept or cleared.
    pub fn set(self) -> Option<T> {
        match self {
            Self::Keep | Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }
}

impl Form {
    /// Reads `fields`.
    pub fn new(fields: Map<String, Value>) -> Self {
        Self {
            fields,
            known: Vec::new(),
            errors: Vec::new(),
            vocabulary: Vocabulary::default(),
            share: None,
        }
    }

    /// The same, with an application's words for its fields.
    #[must_use]
    pub fn speaking(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = vocabulary;
        self
    }

    /// Notes what the body has more than once.
    pub(crate) fn repeated(&mut self, repeated: Vec<Repeated>) {
        for (place, times) in repeated {
            self.error(&place, format!("is there {times} times: write it once"));
        }
    }

    /// A field that must be there. `None` only if an error was noted.
    pub fn required<T: Field>(&mut self, name: &'static str) -> Option<T> {
        let value = match self.read(name, Use::Required) {
            Change::Set(value) => Some(value),
            Change::Keep | Change::Clear => None,
        };
        if value.is_none() {
            self.missing::<T>(name);
        }
        value
    }

    /// Notes that a field would have to be there, unless it is and was blamed.
    pub fn missing<T: Field>(&mut self, name: &str) {
        let is_blamed = |error: &FieldError| base(&error.field) == name;
        if self.errors.iter().any(is_blamed) {
            return;
        }
        self.error(name, format!("is missing: write {}", T::expected()));
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

    /// The same to note in it what the API server says, where what counts of that is
    /// decided afterwards.
    #[must_use]
    pub fn to_try(&self) -> Self {
        Self {
            fields: self.fields.clone(),
            known: self.known.clone(),
            errors: self.errors.clone(),
            vocabulary: self.vocabulary,
            share: None,
        }
    }

    /// Whether the body has the field, if only as null.
    pub fn names(&self, name: &str) -> bool {
        self.fields.contains_key(name)
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
        if let Some(tidied) = self.fields.get(name).and_then(T::tidied) {
            self.fields.insert(name.to_owned(), tidied);
        }
        let value = match self.fields.get(name) {
            None => return Change::Keep,
            Some(Value::Null) => return Change::Clear,
            Some(value) => value,
        };
        let faults = match value {
            Value::Array(_) | Value::Object(_) => T::faults(value, name),
            _ => Vec::new(),
        };
        match T::parse(value) {
            Some(value) if faults.is_empty() => return Change::Set(value),
            // Nothing inside of it, or not what it is itself.
            _ if faults.iter().all(|fault| fault.place == name) => {
                self.error(name, format!("write {}", T::expected()));
            }
            _ => {
                let vocabulary = self.vocabulary;
                let blamed = faults.into_iter().map(|it| blamed_inside(it, vocabulary));
                self.errors.extend(blamed);
            }
        }
        Change::Keep
    }

    /// A field of an edit that cannot be removed.
    pub fn changed<T: Field>(&mut self, name: &'static str) -> Option<T> {
        match self.read(name, Use::Changed) {
            Change::Set(value) => Some(value),
            Change::Keep => None,
            Change::Clear => {
                self.error(
                    name,
                    format!("cannot be removed: write {} or leave it out", T::expected()),
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

    /// Notes what somebody else says of the body, with the values that it has.
    /// Whether that was news.
    pub fn note(&mut self, errors: impl IntoIterator<Item = FieldError>) -> bool {
        let mut news = Vec::new();
        for mut error in errors {
            error.value = error.value.or_else(|| self.value_of(&error.field));
            // What was found wrong with a field before says more.
            let is_told = |told: &FieldError| is_within(&error.field, &told.field);
            let is_told = self.errors.iter().any(is_told);
            if !is_told && !self.errors.contains(&error) && !news.contains(&error) {
                news.push(error);
            }
        }
        let is_news = !news.is_empty();
        self.errors.extend(news);
        is_news
    }

    /// Whether [`Form::finish`] would refuse the body.
    pub fn is_faulty(&self) -> bool {
        !self.errors.is_empty() || self.unknown().next().is_some()
    }

    /// The fields that were asked for and of which nothing bad is known, and of objects
    /// what is right inside of them.
    pub fn sound(&self) -> Map<String, Value> {
        let known = self.known.iter().filter(|known| known.use_ != Use::Fixed);
        let sound = known.filter_map(|known| {
            let value = self.fields.get(known.name)?.clone();
            let value = without(value, known.name, self.wrong())?;
            Some((known.name.to_owned(), value))
        });
        sound.collect()
    }

    /// The same error, told of [`Form::sound`]: at the place that it has in the body.
    pub fn of_sound(&self, error: &FieldError) -> FieldError {
        FieldError {
            field: before(&error.field, self.wrong()),
            ..error.clone()
        }
    }

    fn wrong(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().map(|error| error.field.as_str())
    }

    /// Whether something inside of a field is known to be wrong.
    pub fn is_wrong_inside(&self, place: &str) -> bool {
        self.wrong().any(|wrong| is_within(wrong, place))
    }

    fn unknown(&self) -> impl Iterator<Item = &String> {
        let is_known = |name: &str| self.known.iter().any(|known| known.name == name);
        self.fields.keys().filter(move |name| !is_known(name))
    }

    /// Refuses the body if anything in it was wrong, and fields that nobody
    /// asked for: a misspelt field would otherwise be ignored in silence.
    ///
    /// # Errors
    /// A problem that names each field that is wrong or unknown.
    pub fn finish(&mut self) -> Result<(), Problem> {
        let unknown: Vec<String> = self.unknown().cloned().collect();
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
    ///
    /// # Errors
    /// A problem that names each field that is wrong or unknown.
    pub fn finish_with<B>(&mut self, input: Option<B>) -> Result<B, Problem> {
        self.finish()?;
        input.ok_or_else(|| Problem::invalid(Vec::new()))
    }

    /// The fields in one text that is the same for the same request, without
    /// those that hold secrets.
    pub fn public_fields(&self) -> String {
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

    /// The API server's refusal, in the words for its fields.
    pub(crate) fn problem(&self, error: ClusterError) -> Problem {
        Problem::of(error, self.vocabulary)
    }

    /// The API server's refusal, with the values of this form.
    pub fn blame(&self, error: ClusterError) -> Problem {
        self.problem(error)
            .with_values(|field| self.value_of(field))
    }

    /// What was given for a field such as `cpu`, `sshPublicKeys[1]` or
    /// `exposure.gateway.name`; never a secret.
    pub fn value_of(&self, name: &str) -> Option<Value> {
        if is_secret(name) {
            return None;
        }
        let base = base(name);
        let inner = name[base.len()..].replace(['[', '.'], "/").replace(']', "");
        let value = self.fields.get(base)?.pointer(&inner)?;
        (!holds_secret(value)).then(|| value.clone())
    }
}

/// What is told of a fault inside of a field.
fn blamed_inside(fault: Fault, vocabulary: Vocabulary) -> FieldError {
    let value = fault
        .value
        .filter(|value| !is_secret(&fault.place) && !holds_secret(value));
    let better = match fault.kind {
        FaultKind::Other(_) | FaultKind::Long(_) => (vocabulary.remedy)(&fault.place),
        FaultKind::Missing(_) | FaultKind::Unknown(_) | FaultKind::Told(_) => None,
    };
    FieldError {
        value,
        message: better.map_or_else(|| fault.kind.message(), str::to_owned),
        field: fault.place,
    }
}

/// Whether a field of this name holds what must not be repeated. Into that of a
/// certificate its key may have got by mistake, and into that of the secret's key in the
/// cluster the secret.
pub(crate) fn is_secret(name: &str) -> bool {
    // However somebody spells it: what is not known may be what was meant.
    let name: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let name = name.to_lowercase();
    let words = [
        "password",
        "invite",
        "certificate",
        "privatekey",
        "apikey",
        "secret",
    ];
    name == "code" || name.ends_with("token") || words.iter().any(|word| name.contains(word))
}

/// Whether there is something inside of a value that must not be repeated.
fn holds_secret(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| is_secret(name) || holds_secret(value)),
        Value::Array(items) => items.iter().any(holds_secret),
        _ => false,
    }
}

/// Reads a request's body as a JSON object.
pub(crate) async fn form_of(bodies: &Bodies, request: Request) -> Result<Form, Problem> {
    require_json(&request)?;
    let (body, mut share) = body::read(&bodies.memory, request).await?;
    let cost = body::cost_of_json(&body);
    share.grow(cost)?;
    let read = json::read(&body);
    drop(body);
    share.shrink_to(cost);
    let (value, repeated) = read.map_err(|error| {
        Problem::new(
            ProblemKind::Malformed,
            format!("the body is not JSON: {error}"),
        )
    })?;
    match value {
        Value::Object(fields) => {
            let mut form = Form::new(fields).speaking(bodies.vocabulary);
            form.share = Some(share);
            form.repeated(repeated);
            Ok(form)
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_core::quantity::Bytes;
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
}

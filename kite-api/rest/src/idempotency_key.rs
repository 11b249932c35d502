//! `Idempotency-Key`: a creation that can be asked for again after a lost
//! answer, of any replica.
//!
//! Nothing is remembered beside the object that was created: it carries a stamp
//! of who asked with which key for what. Whoever asks again is shown it.

use aide::{OperationInput, generate::GenContext, openapi::Operation, operation::add_parameters};
use axum::extract::FromRequestParts;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderName, request::Parts};
use kite_core::cluster::{Object, ObjectKey};
use kube::ResourceExt as _;
use schemars::json_schema;
use sha2::{Digest as _, Sha256};

use crate::{
    cache::Cache,
    form::Form,
    header::refused,
    openapi::{refuses, request_header},
    problem::{Problem, ProblemKind},
};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// What the OpenAPI document calls it.
const NAME: &str = crate::headers::IDEMPOTENCY_KEY;
/// Annotation with the stamp.
const STAMP: &str = "hy3ons.github.io/idempotency";
/// Longest key.
const LONGEST: usize = 128;

/// The `Idempotency-Key` of a request, if it has one.
#[derive(Debug, Default)]
pub struct IdempotencyKey(Option<String>);

impl IdempotencyKey {
    /// What the object is marked with that the account with this uid asks for by `form`.
    /// The fields that hold secrets do not count: their digest would be an easy way to guess
    /// them.
    pub fn stamp(&self, uid: &str, form: &Form) -> Option<Stamp> {
        self.stamp_of(uid, form)
    }

    /// The same where nobody is signed in. The key is no secret of an account then:
    /// whoever relies on it has to see by other means who asks.
    pub fn stamp_of_anybody(&self, form: &Form) -> Option<Stamp> {
        self.stamp_of("", form)
    }

    fn stamp_of(&self, uid: &str, form: &Form) -> Option<Stamp> {
        let key = self.0.as_ref()?;
        Some(Stamp {
            asked: digest(&[uid, key]),
            body: digest(&[&form.public_fields()]),
        })
    }
}

/// Sixteen bytes say enough and leave room for more annotations.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..16])
}

/// Who asked with which key, and for what.
#[derive(Debug)]
pub struct Stamp {
    asked: String,
    body: String,
}

impl Stamp {
    /// A number for what is created, the same for the same key: where its name is
    /// not for the caller to choose.
    pub fn id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id.copy_from_slice(&Sha256::digest(&self.asked)[..16]);
        id
    }

    /// Marks an object that is about to be created.
    pub fn mark<K: Object>(&self, object: &mut K) {
        let text = format!("{}.{}", self.asked, self.body);
        object.annotations_mut().insert(STAMP.to_owned(), text);
    }

    /// Whether an object was created by a request with this key.
    pub fn is_on<K: Object>(&self, object: &K) -> bool {
        let stamp = object.annotations().get(STAMP);
        stamp.is_some_and(|stamp| stamp.split('.').next() == Some(&self.asked))
    }

    /// The same where what was asked for is somebody's of whom the body says nothing.
    #[must_use]
    pub fn of<K: Object>(mut self, owner: &K) -> Self {
        self.body = digest(&[&self.body, &owner.uid().unwrap_or_default()]);
        self
    }

    /// Refuses the key if an object that it [is on](Self::is_on) was asked for
    /// in other words.
    ///
    /// # Errors
    /// [`ProblemKind::IdempotencyKeyReused`] if it was.
    pub fn check<K: Object>(&self, object: &K) -> Result<(), Problem> {
        let stamp = object.annotations().get(STAMP);
        if stamp.and_then(|stamp| stamp.split('.').nth(1)) == Some(&self.body) {
            return Ok(());
        }
        Err(reused(object))
    }

    /// Refuses the key if, for all that is known here, it created another object of the
    /// kind than this one.
    ///
    /// # Errors
    /// [`ProblemKind::IdempotencyKeyReused`] if it did.
    pub fn require_only<K: Object>(
        &self,
        known: &Cache<K>,
        wanted: &ObjectKey,
    ) -> Result<(), Problem> {
        let other = known.find(|object| self.is_on(object) && ObjectKey::of(object) != *wanted);
        other.map_or(Ok(()), |other| Err(reused(other.as_ref())))
    }
}

fn reused<K: Object>(object: &K) -> Problem {
    Problem::new(
        ProblemKind::IdempotencyKeyReused,
        format!(
            "this Idempotency-Key created {:?} by a request with another body, or for another \
             account: use a new key for each thing that you create",
            object.name_any()
        ),
    )
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut given = parts.headers.get_all(&HEADER).iter();
        let Some(value) = given.next() else {
            return Ok(Self(None));
        };
        let is_key = (1..=LONGEST).contains(&value.len())
            && value.as_bytes().iter().all(u8::is_ascii_graphic);
        match value.to_str() {
            // Of two, nobody could say which one counts.
            Ok(key) if is_key && given.next().is_none() => Ok(Self(Some(key.to_owned()))),
            _ => Err(refused(
                &parts.headers,
                &HEADER,
                NAME,
                "write 1 to 128 visible characters, such as a UUID, once",
            )),
        }
    }
}

impl OperationInput for IdempotencyKey {
    fn operation_input(ctx: &mut GenContext, operation: &mut Operation) {
        let key = request_header(
            NAME,
            "Any text of visible ASCII characters, new for each thing to create: the same \
             request with the same key creates nothing twice and is answered like the first.",
            json_schema!({
                "type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": "^[!-~]*$",
            }),
        );
        add_parameters(ctx, operation, [key]);
        refuses(
            ctx,
            operation,
            &[ProblemKind::Malformed, ProblemKind::IdempotencyKeyReused],
        );
    }
}

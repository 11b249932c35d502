//! The audit log of the API: one record for each request that changes something, signs
//! somebody in, is refused for want of a right, or shows somebody what is another's.
//!
//! No handler writes it: the layer does, around all of them, with what is
//! noted on the way (`notes`). By what a request was recognised is noted where that is
//! found out, and each write by the cluster itself, so that none can be
//! forgotten. What only a handler knows it notes with a line.

mod cluster;
mod fields;
mod layer;
mod notes;
mod reads;

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use kite_audit::Lines;
use serde::Serialize;
use serde_json::Value;

pub use self::{
    cluster::{Audited, Before, spec},
    fields::is_secret,
    layer::{Auditor, Operations, audit},
    notes::{Notes, carried, note},
};

/// One audit record. Secrets and hashes of passwords are in none.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ApiRecord {
    /// When the request was answered.
    pub time: Timestamp,
    /// `request`.
    pub event: &'static str,
    /// The request's id, as in `X-Request-Id` and in the log.
    pub request: String,
    /// What it is called in the OpenAPI document; absent of what is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// Where the client is, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The account that sent it, or signed in by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// By what it was recognised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// Of whom something is changed or shown, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Of>,
    /// What came of it.
    pub outcome: Outcome,
    /// The status of the answer, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The kind of the problem with which it was answered, as in its `type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<&'static str>,
    /// How somebody signed in, or tried to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignIn>,
    /// What else there is to say, such as `refresh token used twice`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What was written, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Further changes of the request, which are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub further_changes: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// By what an account was recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum By {
    /// A session: the name of its `KiteSession`.
    Session(String),
    /// An API token: what its owner calls it.
    Token(String),
    /// The project that Kite is part of.
    Elsewhere,
}

/// Of whom it is what a request changes or shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Of {
    /// The account of this name.
    Account(String),
    /// Of all of them, as in lists, or of nobody who is known.
    Everybody,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// It was not: the client may not do that, or asked for what cannot be.
    Refused,
    /// It may have been carried out in part: look at the changes.
    Failed,
}

/// How somebody signed in, or tried to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SignIn {
    /// `password`, `bootstrap`, `sign-up` or the name of a provider after `provider:`.
    pub method: String,
    /// The name that was given, as far as it can be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The second factor that was asked for: `code` or `recovery-code`, or `missing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<&'static str>,
}

/// A write to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Change {
    /// `create`, `edit`, `apply`, `delete` or `invoke`.
    pub verb: &'static str,
    /// Kind of the object.
    pub kind: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The fields of the spec that are others now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Those of them that matter to security and are no secrets, as they were when this
    /// process last saw them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub before: BTreeMap<String, Value>,
    /// And as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub after: BTreeMap<String, Value>,
    /// Why it came to nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Takes records. Must not wait: hand over to a task where that takes time.
pub trait ApiAudit: Send + Sync + 'static {
    /// Takes one record.
    fn record(&self, record: &ApiRecord);
}

/// Writes each record as one line of JSON to the log, under the target
/// `kite_api::audit`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogRequests;

impl ApiAudit for LogRequests {
    fn record(&self, record: &ApiRecord) {
        match serde_json::to_string(record) {
            Ok(json) => tracing::info!(target: "kite_api::audit", record = %json, "audit"),
            Err(error) => tracing::error!(%error, "an audit record cannot be written as JSON"),
        }
    }
}

/// Writes each record as one line of a file, with the hash of the line before.
impl ApiAudit for Lines {
    fn record(&self, record: &ApiRecord) {
        Self::record(self, record);
    }
}

/// All of them take each record.
impl ApiAudit for Vec<Box<dyn ApiAudit>> {
    fn record(&self, record: &ApiRecord) {
        for audit in self {
            audit.record(record);
        }
    }
}

//! The options of a request as webhooks see them.

use serde_json::{Map, Value, json};

use crate::rest::options::{DeleteOptions, Propagation};
use crate::server::Call;

/// The options of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Options<'a> {
    /// `CreateOptions` or `UpdateOptions`.
    Write(&'static str),
    /// `DeleteOptions`, and the time that the object gets to end.
    Delete(&'a DeleteOptions, Option<i64>),
    /// Connections have none.
    None,
}

impl Options<'_> {
    /// As an object of their own kind.
    pub(super) fn shown(self, call: &Call) -> Value {
        match self {
            Self::Write(kind) => write(call, kind),
            Self::Delete(options, seconds) => delete(options, seconds),
            Self::None => Value::Null,
        }
    }
}

fn of_kind(kind: &str) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("kind".into(), kind.into());
    out.insert("apiVersion".into(), "meta.k8s.io/v1".into());
    out
}

/// What the request gives, and no defaults.
fn write(call: &Call, kind: &str) -> Value {
    let mut out = of_kind(kind);
    let dry_run: Vec<&str> = call.query.all("dryRun").collect();
    if !dry_run.is_empty() {
        out.insert("dryRun".into(), json!(dry_run));
    }
    for name in ["fieldManager", "fieldValidation"] {
        let given = call.query.text(name);
        if !given.is_empty() {
            out.insert(name.into(), given.into());
        }
    }
    out.into()
}

fn delete(options: &DeleteOptions, seconds: Option<i64>) -> Value {
    let mut out = of_kind("DeleteOptions");
    if options.dry_run {
        out.insert("dryRun".into(), json!(["All"]));
    }
    if let Some(seconds) = seconds.or(options.grace_seconds) {
        out.insert("gracePeriodSeconds".into(), seconds.into());
    }
    let mut conditions = Map::new();
    for (name, wanted) in [
        ("uid", &options.uid),
        ("resourceVersion", &options.resource_version),
    ] {
        if let Some(wanted) = wanted {
            conditions.insert(name.into(), wanted.as_str().into());
        }
    }
    if !conditions.is_empty() {
        out.insert("preconditions".into(), conditions.into());
    }
    let policy = options.propagation.map(|policy| match policy {
        Propagation::Orphan => "Orphan",
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
    });
    if let Some(policy) = policy {
        out.insert("propagationPolicy".into(), policy.into());
    }
    out.into()
}

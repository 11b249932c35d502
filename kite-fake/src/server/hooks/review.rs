//! The question: `AdmissionRequest`.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Write;
use crate::registry::Resource;
use crate::server::{ApiServer, Call, policies};
use crate::status::Status;

/// What a webhook is shown of a write.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    /// The version of the resource that its rules are about.
    pub(super) matched: Arc<Resource>,
    /// The object in that version.
    pub(super) object: Option<Cow<'a, Value>>,
    /// What it is instead of.
    old: Option<Cow<'a, Value>>,
}

impl ApiServer {
    /// What a webhook is shown of a write, in the version that its rules are about.
    pub(super) fn shown_of<'a>(
        &mut self,
        matched: &Arc<Resource>,
        write: &Write<'a>,
        object: Option<&'a Value>,
    ) -> Result<Seen<'a>, Status> {
        Ok(Seen {
            object: self.shown_as(matched, write.call, object)?,
            old: self.shown_as(matched, write.call, write.old)?,
            matched: Arc::clone(matched),
        })
    }
}

/// The request of a review, but for its uid.
pub(super) fn request(write: &Write<'_>, seen: &Seen<'_>) -> Map<String, Value> {
    let call = write.call;
    let (matched, asked) = (&seen.matched, &call.resource);
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| {
        let _ = out.insert(name.to_owned(), value);
    };
    set("kind", kind(call, matched));
    set("resource", plural(matched));
    set("requestKind", kind(call, asked));
    set("requestResource", plural(asked));
    for (name, value) in [
        ("subResource", write.subresource()),
        ("requestSubResource", write.subresource()),
        ("name", write.name),
        ("namespace", write.namespace()),
    ] {
        if !value.is_empty() {
            set(name, value.into());
        }
    }
    set("operation", write.operation.into());
    set("userInfo", user(call));
    set("object", json!(seen.object.as_deref()));
    set("oldObject", json!(seen.old.as_deref()));
    set("dryRun", write.dry_run.into());
    set("options", write.options.shown(call));
    out
}

fn kind(call: &Call, resource: &Resource) -> Value {
    match policies::own_kind(call) {
        Some((group, version, kind)) => json!({"group": group, "version": version, "kind": kind}),
        None => {
            json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
        }
    }
}

fn plural(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "resource": resource.plural})
}

fn user(call: &Call) -> Value {
    let identity = &call.identity;
    let mut out = Map::new();
    for (name, value) in [("username", &identity.name), ("uid", &identity.uid)] {
        if !value.is_empty() {
            out.insert(name.to_owned(), value.as_str().into());
        }
    }
    if !identity.groups.is_empty() {
        out.insert("groups".to_owned(), json!(identity.groups));
    }
    if !identity.extra.is_empty() {
        let extra = identity.extra.iter();
        let extra: Map<String, Value> = extra
            .map(|(name, values)| (name.clone(), json!(values)))
            .collect();
        out.insert("extra".to_owned(), extra.into());
    }
    out.into()
}

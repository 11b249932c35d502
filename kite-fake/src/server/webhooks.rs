//! Validating webhooks, in process: what the kinds of an operator demand beside
//! their schemas.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{ApiServer, Call};
use crate::auth::{Attributes, Identity};
use crate::patch::merge_patch;
use crate::status::{Cause, Details, Status};
use crate::store::{GroupResource, Key};

/// A write that a webhook is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    /// API group of the kind.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// The object as it would be.
    pub object: &'a Value,
    /// The object as it is; `None` for a create.
    pub old: Option<&'a Value>,
    /// Who writes, and what else there is; `None` where a review is made by hand.
    pub around: Option<&'a dyn Surroundings>,
}

/// What a webhook would ask the API server about a write.
pub trait Surroundings: fmt::Debug {
    /// Who writes.
    fn user(&self) -> &Identity;

    /// Another object, by API group, plural, namespace and name.
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;

    /// All objects of a kind in a namespace.
    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value>;

    /// Whether who writes may do `verb` on a resource in `namespace`; a
    /// subresource follows on a slash, as in `pods/log`.
    fn may(&self, verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> bool;
}

/// The server around a call.
struct Around<'a> {
    server: &'a ApiServer,
    call: &'a Call,
}

impl fmt::Debug for Around<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Around").finish_non_exhaustive()
    }
}

impl Surroundings for Around<'_> {
    fn user(&self) -> &Identity {
        &self.call.identity
    }

    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let found = self.server.store.get(
            &GroupResource::new(group, plural),
            &Key::new(namespace, name),
        );
        let unborn = || {
            let mut unborn = self.server.unborn(group, plural).iter();
            unborn.find(|it| is_named(it, namespace, name)).cloned()
        };
        found.map(|object| object.value().clone()).or_else(unborn)
    }

    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let resource = GroupResource::new(group, plural);
        let found = self.server.store.range(&resource, Some(namespace), None);
        let unborn = self.server.unborn(group, plural).iter();
        let unborn = unborn.filter(|it| it["metadata"]["namespace"] == namespace);
        let found = found.map(|(_, object)| object.value().clone());
        found.chain(unborn.cloned()).collect()
    }

    fn may(&self, verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let wanted = Attributes {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            path: String::new(),
        };
        self.server.decide(&self.call.identity, &wanted).allowed
    }
}

fn is_named(object: &Value, namespace: &str, name: &str) -> bool {
    let metadata = &object["metadata"];
    let text = |member: &str| metadata[member].as_str().unwrap_or_default();
    text("namespace") == namespace && text("name") == name
}

/// What a webhook says to who asks for an eviction that it refuses.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// Why.
    pub why: String,
    /// What it writes about it.
    pub marked: Option<Marked>,
}

impl Refused {
    /// A refusal of which nothing is written.
    pub fn because(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            marked: None,
        }
    }
}

/// What a webhook writes about what it was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Marked {
    /// API group of the object.
    pub group: &'static str,
    /// Its resource.
    pub plural: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// A merge patch of it, with its status.
    pub patch: Value,
}

/// A validating webhook. It sees creates and updates of whole objects, not of
/// their subresources.
pub trait Webhook: Send + Sync + fmt::Debug + 'static {
    /// Its name, which is in the message of a refusal.
    fn name(&self) -> &'static str;

    /// What speaks against the write: nothing lets it pass.
    fn review(&self, review: &Review<'_>) -> Vec<Cause>;

    /// A refusal in words alone: it is answered 400, without causes.
    fn veto(&self, review: &Review<'_>) -> Option<String> {
        let _ = review;
        None
    }

    /// What speaks against the eviction of `pod`, for now: whoever asks for it is to
    /// ask again. The review is about the `Eviction`.
    fn evicts(&self, pod: &Value, review: &Review<'_>) -> Option<Refused> {
        let _ = (pod, review);
        None
    }
}

impl ApiServer {
    /// Whether anybody is asked about writes: webhooks, or policies in force.
    pub(super) fn asks_others(&self) -> bool {
        let bindings = GroupResource::new(
            "admissionregistration.k8s.io",
            "validatingadmissionpolicybindings",
        );
        !self.webhooks.is_empty()
            || !self.hooks.is_empty()
            || self.store.count(&bindings, None) > 0
            || self.has_mutations()
    }

    /// Asks `webhook` about every write from now on. One of the same name is
    /// replaced.
    pub fn admit_by(&mut self, webhook: Arc<dyn Webhook>) {
        self.webhooks.retain(|other| other.name() != webhook.name());
        self.webhooks.push(webhook);
    }

    /// Refuses the eviction of `pod` if a webhook does, and writes what it writes.
    pub(crate) fn ask_about_eviction(
        &mut self,
        call: &Call,
        pod: &Value,
        eviction: &Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        let around = Around { server: self, call };
        let review = Review {
            group: "policy",
            kind: "Eviction",
            object: eviction,
            old: None,
            around: Some(&around),
        };
        let mut said = self.webhooks.iter();
        let said = said.find_map(|it| Some((it.name(), it.evicts(pod, &review)?)));
        let Some((webhook, refused)) = said else {
            return Ok(());
        };
        if let Some(mark) = refused.marked.filter(|_| !dry_run) {
            let collection = GroupResource::new(mark.group, mark.plural);
            let key = Key::new(&mark.namespace, &mark.name);
            if let Some(stored) = self.store.get(&collection, &key).cloned() {
                let patch = mark.patch.to_string();
                if let Ok(new) = merge_patch(stored.value(), patch.as_bytes()) {
                    self.store.put(&collection, key, new, stored.epoch());
                }
            }
        }
        let why = refused.why;
        let message = format!("admission webhook \"{webhook}\" denied the request: {why}");
        Err(Status::new(429, "TooManyRequests", message))
    }

    /// Refuses what a webhook refuses.
    pub(crate) fn ask_webhooks(
        &self,
        call: &Call,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if call.target.subresource.is_some() || self.webhooks.is_empty() {
            return Ok(());
        }
        let around = Around { server: self, call };
        let review = Review {
            group: &call.resource.group,
            kind: &call.resource.kind,
            object: new,
            old,
            around: Some(&around),
        };
        for webhook in &self.webhooks {
            if let Some(why) = webhook.veto(&review) {
                let name = webhook.name();
                let message = format!("admission webhook \"{name}\" denied the request: {why}");
                return Err(Status::new(400, "", message));
            }
            let causes = webhook.review(&review);
            if causes.is_empty() {
                continue;
            }
            let all: Vec<&str> = causes.iter().map(|c| c.message.as_str()).collect();
            let message = format!(
                "admission webhook \"{}\" denied the request: {}",
                webhook.name(),
                all.join(", ")
            );
            return Err(Status::new(422, "Invalid", message).with_details(Details {
                causes,
                ..Details::default()
            }));
        }
        Ok(())
    }
}

//! A `ReplicaSet`, as its Deployment sees it.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::actors::mirror::Found;
use crate::actors::objects::is_deleting;

/// The label that tells the `ReplicaSet`s of a Deployment apart.
pub(super) const HASH: &str = "pod-template-hash";
/// How many replicas the Deployment asked for when the set was last scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many it might have had then.
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
/// Which in the row of its Deployment's sets it is.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Which ones it was before.
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: Found,
    /// How many replicas it asks for.
    pub(super) replicas: i64,
}

impl Set {
    pub(super) fn of(object: Found) -> Self {
        let replicas = object.data["spec"]["replicas"].as_i64().unwrap_or(1);
        Self { object, replicas }
    }

    pub(super) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.object.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, annotation: &str) -> Option<i64> {
        self.annotation(annotation)?.parse().ok()
    }

    /// Zero for one that has none.
    pub(super) fn revision(&self) -> i64 {
        self.number(REVISION).unwrap_or_default()
    }

    /// A number in its status.
    pub(super) fn count(&self, member: &str) -> i64 {
        self.object.data["status"][member]
            .as_i64()
            .unwrap_or_default()
    }

    /// Whether its status is about what it asks for now.
    pub(super) fn is_observed(&self) -> bool {
        let observed = self.count("observedGeneration");
        self.object.metadata.generation.unwrap_or_default() <= observed
    }

    /// Whether nothing of it is there, nor will be.
    pub(super) fn is_empty(&self) -> bool {
        self.replicas == 0 && self.count("replicas") == 0 && self.is_observed()
    }

    pub(super) fn is_deleting(&self) -> bool {
        is_deleting(&self.object)
    }

    /// Whether its Pods are those of `template`.
    pub(super) fn is_of(&self, template: &Value) -> bool {
        without_hash(&self.object.data["spec"]["template"]) == without_hash(template)
    }

    /// By age; those of one second by name.
    pub(super) fn by_age(&self, other: &Self) -> Ordering {
        let key = |set: &Self| {
            let created = set.object.metadata.creation_timestamp.as_ref();
            (created.map(|it| it.0), set.name().to_owned())
        };
        key(self).cmp(&key(other))
    }
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH);
    }
    template
}

/// `labels` and the hash.
pub(super) fn with_hash(labels: &Value, hash: &str) -> Value {
    let mut labels = labels.as_object().cloned().unwrap_or_default();
    labels.insert(HASH.to_owned(), json!(hash));
    Value::Object(labels)
}

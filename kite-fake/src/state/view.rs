//! What of a state is shown or compared.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ObjectId, Snapshot, normal};
use crate::store::{GroupResource, Key, Object};

/// What of a state is shown or compared. As it is created, every object is
/// shown without `managedFields`, and two states are compared without
/// resourceVersions.
///
/// ```
/// use kite_fake::{FakeCluster, state::View};
///
/// let (a, b) = (
///     FakeCluster::builder().seed(1).build()?,
///     FakeCluster::builder().seed(2).build()?,
/// );
/// assert!(!a.snapshot().diff(&b.snapshot()).is_empty(), "the uids differ");
/// assert!(a.snapshot().diff_with(&b.snapshot(), &View::default().normalised()).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct View {
    pub(super) managed_fields: bool,
    pub(super) versions: bool,
    pub(super) normalised: bool,
    namespaces: Vec<String>,
    kinds: Vec<String>,
}

impl View {
    /// With `metadata.managedFields`.
    #[must_use]
    pub fn managed_fields(mut self) -> Self {
        self.managed_fields = true;
        self
    }

    /// With `metadata.resourceVersion`, also where states are compared: an
    /// object that was written without effect is a difference then.
    #[must_use]
    pub fn resource_versions(mut self) -> Self {
        self.versions = true;
        self
    }

    /// With placeholders for what differs between two runs of the same thing:
    /// uids (`<uid of Kind namespace/name>`, or `<uid>` of an object that is not
    /// there), resourceVersions (`<rv>`), times (`<time>`), and the generated
    /// part of names (`<gen:1>`, numbered by what the objects hold).
    #[must_use]
    pub fn normalised(mut self) -> Self {
        self.normalised = true;
        self
    }

    /// Only objects of this namespace, or of several if it is called again; an
    /// empty name stands for cluster-scoped objects.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Only objects of this kind, or of several if it is called again.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kinds.push(kind.into());
        self
    }

    pub(super) fn selects(&self, id: &ObjectId) -> bool {
        let (namespaces, kinds) = (&self.namespaces, &self.kinds);
        (namespaces.is_empty() || namespaces.contains(&id.namespace))
            && (kinds.is_empty() || kinds.contains(&id.kind))
    }

    /// An object without what the view leaves out.
    pub(super) fn strip(&self, mut value: Value) -> Value {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
            && !self.managed_fields
        {
            metadata.remove("managedFields");
        }
        value
    }

    /// The selected objects of a state, as they are shown.
    pub(super) fn of(&self, snapshot: &Snapshot) -> BTreeMap<ObjectId, Value> {
        let mut all: BTreeMap<ObjectId, Value> = snapshot
            .objects()
            .map(|(resource, key, object)| {
                let value = object.to_value();
                let kind = value["kind"].as_str().unwrap_or_default();
                let id = ObjectId::new(kind, resource, key);
                (id, self.strip(value))
            })
            .collect();
        // What is left out may be referred to: select last.
        if self.normalised {
            all = normal::objects(all, []);
        }
        all.retain(|id, _| self.selects(id));
        all
    }
}

impl Snapshot {
    /// The objects that `wanted` picks, normalised as by [`View::normalised`],
    /// without the cost of normalising the others.
    pub(crate) fn normalised(
        &self,
        wanted: impl Fn(&GroupResource, &Key, &Object) -> bool,
    ) -> BTreeMap<ObjectId, Value> {
        let view = View::default();
        let mut all = BTreeMap::new();
        let mut others = Vec::new();
        for (resource, key, object) in self.objects() {
            let id = || {
                let kind = object.value()["kind"].as_str().unwrap_or_default();
                ObjectId::new(kind, resource, key)
            };
            if wanted(resource, key, object) {
                all.insert(id(), view.strip(object.to_value()));
            } else {
                others.push((object.meta("uid").to_owned(), id()));
            }
        }
        normal::objects(all, others)
    }

    /// Whether an object is the same in any surroundings: it refers to no other
    /// by uid, and has no generated name.
    pub(crate) fn stands_alone(object: &Object) -> bool {
        let json = object.json();
        object.meta("generateName").is_empty()
            && std::str::from_utf8(&json)
                .is_ok_and(|text| normal::is_about_itself(text, object.meta("uid")))
    }
}

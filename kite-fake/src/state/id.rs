//! Which object: its kind, namespace and name.

use std::fmt;

use crate::store::{GroupResource, Key};

/// An object in words: `ConfigMap default/a`, `Namespace kube-system`. The
/// order is that of dumps: by kind, group, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Kind.
    pub kind: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectId {
    pub(super) fn new(kind: &str, resource: &GroupResource, key: &Key) -> Self {
        Self {
            kind: kind.to_owned(),
            group: resource.group.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

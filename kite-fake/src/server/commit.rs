//! The last step of every write: into the store, and what follows from it.

use serde_json::Value;

use super::ApiServer;
use crate::registry::Resource;
use crate::store::{Key, Object};

impl ApiServer {
    /// Stores a state and gives it as the resource's version sees it.
    pub(crate) fn commit(&mut self, resource: &Resource, key: &Key, mut value: Value) -> Object {
        if resource.version != resource.storage_version
            && let Some(storage) = self.registry.storage(&resource.collection())
        {
            value = super::rules::convert(storage, value);
        }
        self.bear_for(resource);
        let object = self
            .store
            .put(&resource.collection(), key.clone(), value, resource.epoch);
        if is_crd(resource) {
            self.settle_crd(resource, &object);
            self.end_definition(resource, key);
        }
        if resource.group.is_empty() && resource.plural == "resourcequotas" {
            self.settle_quota(key, &object);
        }
        if is_cluster_role(resource) {
            self.settle_roles();
        }
        self.settle_hooks(resource);
        Self::view(resource, &object)
    }

    /// Removes an object for good.
    pub(crate) fn remove(&mut self, resource: &Resource, key: &Key) {
        let removed = self.store.remove(&resource.collection(), key);
        if let Some(object) = &removed {
            self.refund_quota(resource, object.fresh().value());
        }
        if is_cluster_role(resource) {
            self.settle_roles();
        }
        self.settle_hooks(resource);
        self.after_last(resource);
        if let Some(object) = removed
            && is_crd(resource)
        {
            self.publish_crd(object.value(), false);
            let group = object.value()["spec"]["group"].as_str().unwrap_or_default();
            self.settle_waiting(resource, group);
        }
    }
}

fn is_cluster_role(resource: &Resource) -> bool {
    resource.group == "rbac.authorization.k8s.io" && resource.kind == "ClusterRole"
}

fn is_crd(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.kind == "CustomResourceDefinition"
}

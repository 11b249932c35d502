//! [`Audited`]: the cluster as handlers have it, which notes each write of a request.

use std::sync::Arc;

use async_trait::async_trait;
use kite_core::{
    cluster::{Cluster, ClusterError, FieldManager, KubeCluster, Listed, Object, ObjectKey},
    crd::GROUP,
};
use kube::api::{ListParams, PropagationPolicy};
use serde_json::{Map, Value};

use super::{Change, fields::difference, notes::note};
use crate::caches::Caches;

/// A cluster whose writes are noted.
#[derive(Clone)]
pub(crate) struct Audited {
    cluster: KubeCluster,
    /// Where objects are as they were before.
    caches: Arc<Caches>,
}

impl Audited {
    /// `cluster`, of which `caches` has copies.
    pub(crate) fn new(cluster: KubeCluster, caches: Arc<Caches>) -> Self {
        Self { cluster, caches }
    }

    /// See [`KubeCluster::try_create`]: nothing is written.
    pub(crate) async fn try_create<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        self.cluster.try_create(object).await
    }

    /// See [`KubeCluster::try_edit`]: nothing is written.
    pub(crate) async fn try_edit<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &Value,
    ) -> Result<K, ClusterError> {
        self.cluster.try_edit(manager, key, patch).await
    }

    /// Notes a write that came to `written`.
    fn wrote<K: Object>(
        verb: &'static str,
        key: &ObjectKey,
        before: Option<Map<String, Value>>,
        written: &Result<K, ClusterError>,
    ) {
        let mut change = change::<K>(verb, key);
        match written {
            Ok(object) => {
                change.uid.clone_from(&object.meta().uid);
                let after = spec(object).unwrap_or_default();
                let told = difference(&before.unwrap_or_default(), &after);
                // Somebody has signed in, or has renewed it.
                if &*change.kind == "KiteSession"
                    && let Some(user) = after.get("user").and_then(Value::as_str)
                {
                    note(|notes| notes.came_in(user));
                }
                change.fields = told.fields;
                change.before = told.before;
                change.after = told.after;
            }
            Err(error) => change.error = Some(short(error)),
        }
        note(|notes| notes.change(change));
    }
}

/// Kinds whose status and such is nobody's wish.
fn is_of_no_interest<K: Object>() -> bool {
    // By these consoles say that they are there.
    &*K::kind(&()) == "Lease"
}

fn change<K: Object>(verb: &'static str, key: &ObjectKey) -> Change {
    Change {
        verb,
        kind: K::kind(&()).into_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: None,
        fields: Vec::new(),
        before: std::collections::BTreeMap::new(),
        after: std::collections::BTreeMap::new(),
        error: None,
    }
}

/// What the API server said, which does not repeat the object.
fn short(error: &ClusterError) -> String {
    match error {
        ClusterError::AlreadyExists { .. } => "it exists already".to_owned(),
        ClusterError::Conflict { .. } => "it was changed meanwhile".to_owned(),
        ClusterError::NotFound { .. } => "it is not there".to_owned(),
        ClusterError::Invalid { .. } => "it is not valid".to_owned(),
        _ => "the API server refused it, or did not answer".to_owned(),
    }
}

/// The spec of a custom resource of Kite's. Of Secrets and such nothing is looked at.
fn spec<K: Object>(object: &K) -> Option<Map<String, Value>> {
    if K::group(&()) != GROUP {
        return None;
    }
    let Ok(Value::Object(mut object)) = serde_json::to_value(object) else {
        return None;
    };
    match object.remove("spec") {
        Some(Value::Object(spec)) => Some(spec),
        _ => None,
    }
}

impl Caches {
    /// The spec of an object as this process last saw it.
    fn spec_of<K: Object>(&self, key: &ObjectKey) -> Option<Map<String, Value>> {
        match &*K::kind(&()) {
            "KiteUser" => spec(&*self.users.get(key)?),
            "KitePlatform" => spec(&*self.platforms.get(key)?),
            "KiteVirtualMachine" => spec(&*self.vms.get(key)?),
            "KiteVirtualMachineOffer" => spec(&*self.offers.get(key)?),
            "KiteImage" => spec(&*self.images.get(key)?),
            "KiteSession" => spec(&*self.sessions.get(key)?),
            "KiteToken" => spec(&*self.tokens.get(key)?),
            "KiteInvite" => spec(&*self.invites.get(key)?),
            "KiteConnection" => spec(&*self.connections.get(key)?),
            _ => None,
        }
    }
}

#[async_trait]
impl Cluster for Audited {
    async fn get<K: Object>(&self, key: &ObjectKey) -> Result<K, ClusterError> {
        self.cluster.get(key).await
    }

    async fn list<K: Object>(
        &self,
        namespace: Option<String>,
        params: &ListParams,
    ) -> Result<Listed<K>, ClusterError> {
        self.cluster.list(namespace, params).await
    }

    async fn create<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        let created = self.cluster.create(object).await;
        Self::wrote("create", &ObjectKey::of(object), None, &created);
        created
    }

    async fn apply<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let before = self.caches.spec_of::<K>(&key);
        let applied = self.cluster.apply(manager, object).await;
        if !is_of_no_interest::<K>() {
            Self::wrote("apply", &key, before, &applied);
        }
        applied
    }

    async fn edit<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &Value,
    ) -> Result<K, ClusterError> {
        let before = self.caches.spec_of::<K>(key);
        let edited = self.cluster.edit(manager, key, patch).await;
        Self::wrote("edit", key, before, &edited);
        edited
    }

    async fn apply_status<K: Object>(
        &self,
        manager: FieldManager,
        object: &K,
    ) -> Result<K, ClusterError> {
        self.cluster.apply_status(manager, object).await
    }

    async fn edit_status<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &Value,
    ) -> Result<K, ClusterError> {
        self.cluster.edit_status(manager, key, patch).await
    }

    async fn delete<K: Object>(
        &self,
        key: &ObjectKey,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<Option<K>, ClusterError> {
        let deleted = self.cluster.delete::<K>(key, uid, propagation).await;
        note_deletion::<K, _>(key, Some(uid.to_owned()), &deleted);
        deleted
    }

    async fn delete_unchanged<K: Object>(
        &self,
        object: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), ClusterError> {
        let deleted = self.cluster.delete_unchanged(object, propagation).await;
        let uid = object.meta().uid.clone();
        note_deletion::<K, _>(&ObjectKey::of(object), uid, &deleted);
        deleted
    }

    async fn set_finalizers<K: Object>(
        &self,
        object: &K,
        finalizers: Vec<String>,
    ) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let before = spec(object);
        let set = self.cluster.set_finalizers(object, finalizers).await;
        Self::wrote("edit", &key, before, &set);
        set
    }

    async fn invoke<K: Object>(
        &self,
        group_version: &str,
        key: &ObjectKey,
        action: &str,
        body: &Value,
    ) -> Result<(), ClusterError> {
        let invoked = self
            .cluster
            .invoke::<K>(group_version, key, action, body)
            .await;
        let mut change = change::<K>("invoke", key);
        change.fields = vec![action.to_owned()];
        change.error = invoked.as_ref().err().map(short);
        note(|notes| notes.change(change));
        invoked
    }
}

fn note_deletion<K: Object, T>(
    key: &ObjectKey,
    uid: Option<String>,
    deleted: &Result<T, ClusterError>,
) {
    let mut change = change::<K>("delete", key);
    change.uid = uid;
    change.error = deleted.as_ref().err().map(short);
    note(|notes| notes.change(change));
}

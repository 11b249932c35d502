//! [`Audited`]: the cluster as handlers have it, which notes each write of a request.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use kite_core::cluster::{
    Cluster, ClusterError, FieldManager, KubeCluster, Listed, Object, ObjectKey,
};
use kube::api::{ListParams, PropagationPolicy};
use serde_json::{Map, Value};

use super::{Change, fields::difference, notes::note};

/// A cluster whose writes are noted.
#[derive(Clone)]
pub struct Audited {
    cluster: KubeCluster,
    before: Arc<dyn Before>,
}

/// What audit records say of objects beside their names, and where objects are as they were
/// before a write.
pub trait Before: Send + Sync + 'static {
    /// The group of the kinds whose specs are looked at.
    fn group(&self) -> &'static str;

    /// Fields of specs that are shown as they were and as they are: what says who may do
    /// what, who comes in by what, and what is reachable from where. All others are named
    /// when they change.
    fn shown(&self) -> &'static [&'static str];

    /// The spec of an object as this process last saw it.
    fn spec_of(&self, kind: &str, key: &ObjectKey) -> Option<Map<String, Value>>;

    /// Whose request it is that writes the spec of an object of this kind, where that says
    /// so: somebody who signs in.
    fn came_in<'a>(&self, kind: &str, spec: &'a Map<String, Value>) -> Option<&'a str>;
}

/// Nothing is known of what was before, and no spec is looked at.
impl Before for () {
    fn group(&self) -> &'static str {
        "of no kind"
    }

    fn shown(&self) -> &'static [&'static str] {
        &[]
    }

    fn spec_of(&self, _: &str, _: &ObjectKey) -> Option<Map<String, Value>> {
        None
    }

    fn came_in<'a>(&self, _: &str, _: &'a Map<String, Value>) -> Option<&'a str> {
        None
    }
}

impl fmt::Debug for Audited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audited").finish_non_exhaustive()
    }
}

impl Audited {
    /// `cluster`, of whose objects `before` knows what they were.
    pub fn new(cluster: KubeCluster, before: Arc<dyn Before>) -> Self {
        Self { cluster, before }
    }

    fn spec_before<K: Object>(&self, key: &ObjectKey) -> Option<Map<String, Value>> {
        if K::group(&()) != self.before.group() {
            return None;
        }
        self.before.spec_of(&K::kind(&()), key)
    }

    /// The spec of a custom resource. Of Secrets and such nothing is looked at.
    fn spec<K: Object>(&self, object: &K) -> Option<Map<String, Value>> {
        if K::group(&()) != self.before.group() {
            return None;
        }
        spec(object)
    }

    /// See [`KubeCluster::dry_run_create`]: nothing is written.
    ///
    /// # Errors
    /// As those of [`KubeCluster::dry_run_create`].
    pub async fn dry_run_create<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        self.cluster.dry_run_create(object).await
    }

    /// See [`KubeCluster::dry_run_merge_patch`]: nothing is written.
    ///
    /// # Errors
    /// As those of [`KubeCluster::dry_run_merge_patch`].
    pub async fn dry_run_merge_patch<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &Value,
    ) -> Result<K, ClusterError> {
        self.cluster.dry_run_merge_patch(manager, key, patch).await
    }

    /// Notes a write that came to `written`.
    fn wrote<K: Object>(
        &self,
        verb: &'static str,
        key: &ObjectKey,
        before: Option<Map<String, Value>>,
        written: &Result<K, ClusterError>,
    ) {
        let mut change = change::<K>(verb, key);
        match written {
            Ok(object) => {
                change.uid.clone_from(&object.meta().uid);
                let after = self.spec(object).unwrap_or_default();
                let before = before.unwrap_or_default();
                let told = difference(&before, &after, self.before.shown());
                if let Some(user) = self.before.came_in(&change.kind, &after) {
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

/// The spec of an object, which is JSON.
pub fn spec<K: Object>(object: &K) -> Option<Map<String, Value>> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(object) else {
        return None;
    };
    match object.remove("spec") {
        Some(Value::Object(spec)) => Some(spec),
        _ => None,
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
        self.wrote("create", &ObjectKey::of(object), None, &created);
        created
    }

    async fn apply<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let before = self.spec_before::<K>(&key);
        let applied = self.cluster.apply(manager, object).await;
        if !is_of_no_interest::<K>() {
            self.wrote("apply", &key, before, &applied);
        }
        applied
    }

    async fn merge_patch<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &Value,
    ) -> Result<K, ClusterError> {
        let before = self.spec_before::<K>(key);
        let edited = self.cluster.merge_patch(manager, key, patch).await;
        self.wrote("edit", key, before, &edited);
        edited
    }

    async fn apply_status<K: Object>(
        &self,
        manager: FieldManager,
        object: &K,
    ) -> Result<K, ClusterError> {
        self.cluster.apply_status(manager, object).await
    }

    async fn merge_patch_status<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &Value,
    ) -> Result<K, ClusterError> {
        self.cluster.merge_patch_status(manager, key, patch).await
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
        let before = self.spec(object);
        let set = self.cluster.set_finalizers(object, finalizers).await;
        self.wrote("edit", &key, before, &set);
        set
    }

    async fn put_subresource<K: Object>(
        &self,
        group_version: &str,
        key: &ObjectKey,
        action: &str,
        body: &Value,
    ) -> Result<(), ClusterError> {
        let invoked = self
            .cluster
            .put_subresource::<K>(group_version, key, action, body)
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

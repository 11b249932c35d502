//! A cluster whose reads are answered from caches.

use std::sync::Arc;

use async_trait::async_trait;
use kite_core::cluster::{Cluster, ClusterError, FieldManager, Object, ObjectKey};
use kube::{
    api::{ListParams, ObjectList, PropagationPolicy},
    core::{ListMeta, Status, TypeMeta},
};

use super::{
    Caches,
    memo::{Read, What},
    reading,
    table::{Known, Query, Table, digest_of, version},
};

/// Answers reads of the kinds that [`Caches`] hold from them, and passes
/// everything else on to another cluster. What is written through it is
/// remembered until the watch shows it, so that whoever reads after a write
/// reads what was written.
#[derive(Clone, Debug)]
pub struct CachedCluster<C> {
    inner: C,
    caches: Caches,
}

impl<C: Cluster> CachedCluster<C> {
    /// Reads from `caches` what they hold.
    pub fn new(inner: C, caches: Caches) -> Self {
        Self { inner, caches }
    }

    /// The cluster behind the caches.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// The caches.
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    async fn ask<K: Object>(
        &self,
        table: Option<&Arc<Table<K>>>,
        key: &ObjectKey,
    ) -> Result<K, ClusterError> {
        reading::note_unsure();
        let answer = self.inner.get::<K>(key).await;
        if let Some(table) = table {
            match &answer {
                Ok(object) => table.note(object),
                Err(ClusterError::NotFound { .. }) => table.note_absence(key),
                Err(_) => {}
            }
        }
        answer
    }

    /// Takes the answer to a write into the caches. After an error nobody knows
    /// what the object is like: it may have been written, or be another than was
    /// believed.
    fn written<K: Object>(
        &self,
        key: ObjectKey,
        answer: Result<K, ClusterError>,
    ) -> Result<K, ClusterError> {
        if let Some(table) = self.caches.table::<K>() {
            match &answer {
                Ok(object) => table.note(object),
                Err(_) => table.doubt(key),
            }
        }
        answer
    }
}

#[async_trait]
impl<C: Cluster> Cluster for CachedCluster<C> {
    async fn get<K: Object>(&self, key: &ObjectKey) -> Result<K, ClusterError> {
        let table = self.caches.table::<K>();
        let Some(table) = table.filter(|_| !reading::is_live()) else {
            return self.ask(table, key).await;
        };
        let (object, is_confirmed) = match table.known(key) {
            Known::There {
                object,
                is_confirmed,
            } => (Some(object), is_confirmed),
            Known::Absent { is_confirmed } => (None, is_confirmed),
            Known::Ask => return self.ask(Some(table), key).await,
        };
        let answer = match &object {
            Some(object) => version(&**object),
            None => Some(0),
        };
        match answer.filter(|_| is_confirmed) {
            Some(answer) => reading::note(|| {
                let what = What::One(Box::new(key.clone()));
                Read::new(Arc::clone(table) as _, what, answer)
            }),
            None => reading::note_ahead(),
        }
        match object {
            Some(object) => Ok(Arc::unwrap_or_clone(object)),
            None => Err(not_found::<K>(key)),
        }
    }

    async fn list<K: Object>(
        &self,
        namespace: Option<String>,
        params: &ListParams,
    ) -> Result<ObjectList<K>, ClusterError> {
        let query = Query::of(namespace.as_deref(), params);
        let (Some(table), Some(query)) = (self.caches.table::<K>(), query) else {
            reading::note_unsure();
            return self.inner.list(namespace, params).await;
        };
        let known = if reading::is_live() {
            None
        } else {
            table.find_all(&query)
        };
        let Some((mut found, is_confirmed)) = known else {
            reading::note_unsure();
            let answer = self.inner.list::<K>(namespace, params).await?;
            if answer
                .metadata
                .continue_
                .as_deref()
                .unwrap_or("")
                .is_empty()
            {
                table.note_all(&query, &answer.items);
            }
            return Ok(answer);
        };
        match digest_of(&found).filter(|_| is_confirmed) {
            Some(answer) => reading::note(|| {
                let what = What::All(Box::new(query));
                Read::new(Arc::clone(table) as _, what, answer)
            }),
            None => reading::note_ahead(),
        }
        let limit = params.limit.and_then(|limit| usize::try_from(limit).ok());
        found.truncate(limit.unwrap_or(usize::MAX));
        Ok(ObjectList {
            types: TypeMeta::list::<K>(),
            metadata: ListMeta::default(),
            items: found.into_iter().map(Arc::unwrap_or_clone).collect(),
        })
    }

    async fn create<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        let answer = self.inner.create(object).await;
        self.written(ObjectKey::of(object), answer)
    }

    async fn apply<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError> {
        let answer = self.inner.apply(manager, object).await;
        self.written(ObjectKey::of(object), answer)
    }

    async fn edit<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError> {
        let answer = self.inner.edit(manager, key, patch).await;
        self.written(key.clone(), answer)
    }

    async fn apply_status<K: Object>(
        &self,
        manager: FieldManager,
        object: &K,
    ) -> Result<K, ClusterError> {
        let answer = self.inner.apply_status(manager, object).await;
        self.written(ObjectKey::of(object), answer)
    }

    async fn delete<K: Object>(
        &self,
        key: &ObjectKey,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<(), ClusterError> {
        let answer = self.inner.delete::<K>(key, uid, propagation).await;
        // Finalizers may hold it, and the answer does not say.
        if let Some(table) = self.caches.table::<K>() {
            table.doubt(key.clone());
        }
        answer
    }

    async fn delete_unchanged<K: Object>(
        &self,
        object: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), ClusterError> {
        let answer = self.inner.delete_unchanged(object, propagation).await;
        if let Some(table) = self.caches.table::<K>() {
            table.doubt(ObjectKey::of(object));
        }
        answer
    }

    async fn set_finalizers<K: Object>(
        &self,
        object: &K,
        finalizers: Vec<String>,
    ) -> Result<K, ClusterError> {
        let answer = self.inner.set_finalizers(object, finalizers).await;
        let key = ObjectKey::of(object);
        let is_last = matches!(&answer, Ok(object) if object.meta().deletion_timestamp.is_some()
            && object.meta().finalizers.as_ref().is_none_or(Vec::is_empty));
        match self.caches.table::<K>() {
            // It went with its last finalizer.
            Some(table) if is_last => table.note_absence(&key),
            _ => return self.written(key, answer),
        }
        answer
    }

    async fn invoke<K: Object>(
        &self,
        group_version: &str,
        key: &ObjectKey,
        action: &str,
        body: &serde_json::Value,
    ) -> Result<(), ClusterError> {
        let invoked = self.inner.invoke::<K>(group_version, key, action, body);
        invoked.await
    }
}

/// What the API server would have said.
fn not_found<K: Object>(key: &ObjectKey) -> ClusterError {
    let kind = K::kind(&());
    let message = format!("{} {:?} not found", K::plural(&()), key.name);
    let status = Status {
        code: 404,
        ..Status::failure(&message, "NotFound")
    };
    ClusterError::NotFound {
        operation: format!("get {kind} {key} from the cache"),
        status: Box::new(status),
    }
}

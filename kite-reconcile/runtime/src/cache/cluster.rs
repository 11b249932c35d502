//! A cluster whose reads are answered from caches.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use kite_cluster::{
    Cluster, ClusterError, ClusterExt as _, FieldManager, Listed, NotLeader, Object, ObjectKey,
    Unread,
};
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
    core::Status,
};

use super::{
    Caches, Newest,
    memo::{Read, What},
    reading,
    table::{Found, Known, Query, Table, digest_of, version},
    written::Doubt,
};

/// Objects in doubt beyond which a list is asked for instead of each of them.
const FEW: usize = 4;

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

    /// The newest that is known of an object that a controller was handed: what it wrote
    /// a moment ago may not be in its store yet. `None` if it is gone, or another has its
    /// name.
    ///
    /// # Errors
    /// What the API server refuses, where it has to be asked since a write of the object went
    /// wrong.
    pub async fn newest<K: Object>(&self, object: Arc<K>) -> Result<Option<Arc<K>>, ClusterError> {
        match super::newest(&self.caches, &*object) {
            Newest::Given => Ok(Some(object)),
            Newest::Newer(newer) => Ok(Some(Arc::from(newer))),
            Newest::Ask => {
                let known = self.get_opt::<K>(&ObjectKey::of(&*object)).await?;
                let known = known.filter(|known| known.meta().uid == object.meta().uid);
                Ok(known.map(Arc::new))
            }
        }
    }

    async fn ask<K: Object>(
        &self,
        table: Option<&Arc<Table<K>>>,
        key: &ObjectKey,
    ) -> Result<K, ClusterError> {
        reading::note_unsure();
        let Some(table) = table else {
            return self.inner.get::<K>(key).await;
        };
        let answer = self.look_up(table, key).await;
        if let (Err(ClusterError::NotFound { .. }), Some(whose)) =
            (&answer, reading::finally_whose())
        {
            table.witness_absence(key, &whose);
        }
        answer
    }

    /// What the query finds, if that can be told without a list: by what is known,
    /// and by requests for those objects of which not enough is.
    async fn found<K: Object>(
        &self,
        table: &Arc<Table<K>>,
        query: &Query,
    ) -> Option<(Vec<Arc<K>>, Vec<Unread>, bool)> {
        // Others may write, and doubt, between the requests.
        for _ in 0..3 {
            let doubted = match table.find_all(query) {
                Found::All {
                    objects,
                    unreadable,
                    is_confirmed,
                } => return Some((objects, unreadable, is_confirmed)),
                Found::After(doubted) => doubted,
                Found::Ask => return None,
            };
            // A list of all tells what is not there; one by labels does not.
            if doubted.len() > FEW && query.labels.is_empty() {
                return None;
            }
            for key in doubted {
                match self.look_up(table, &key).await {
                    Ok(_) | Err(ClusterError::NotFound { .. }) => {}
                    Err(_) => return None,
                }
            }
        }
        None
    }

    /// Asks the API server for an object, and takes the answer into the caches.
    async fn look_up<K: Object>(
        &self,
        table: &Arc<Table<K>>,
        key: &ObjectKey,
    ) -> Result<K, ClusterError> {
        let mark = table.mark();
        let answer = self.inner.get::<K>(key).await;
        match &answer {
            Ok(object) => table.note(object, mark),
            Err(ClusterError::NotFound { .. }) => table.note_absence(key, mark),
            Err(_) => {}
        }
        answer
    }

    /// Takes the answer to a write into the caches. After most errors nobody knows
    /// what the object is like: it may have been written, with `labels` if those
    /// are known, or be another than was believed.
    async fn written<K: Object>(
        &self,
        key: ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
        write: impl Future<Output = Result<K, ClusterError>> + Send,
    ) -> Result<K, ClusterError> {
        let Some(table) = self.caches.table::<K>() else {
            return write.await;
        };
        let mark = table.mark();
        let answer = write.await;
        match &answer {
            Ok(object) => table.note(object, mark),
            Err(error) if tells_nothing(error) => {}
            Err(error) => {
                let labels = labels.filter(|_| !tells_of_another(error));
                let doubt = labels.map_or(Doubt::Anything, |it| Doubt::Labels(it.clone()));
                table.doubt(key, doubt);
            }
        }
        answer
    }

    /// The object with this uid was to be deleted, and nobody knows what came of it.
    fn deleted<K: Object>(
        &self,
        key: ObjectKey,
        uid: Option<&str>,
        answer: &Result<(), ClusterError>,
    ) {
        if matches!(answer, Err(error) if tells_nothing(error)) {
            return;
        }
        if let Some(table) = self.caches.table::<K>() {
            match uid {
                Some(uid) => table.doubt_deletion(key, uid),
                None => table.doubt(key, Doubt::Anything),
            }
        }
    }
}

/// Whether a write that failed so was not carried out, and says nothing of what is
/// stored: what was known before is as true as before.
fn tells_nothing(error: &ClusterError) -> bool {
    matches!(
        error,
        ClusterError::NotLeader {
            reason: NotLeader::NotSent,
            ..
        } | ClusterError::Forbidden { .. }
            | ClusterError::Invalid { .. }
    )
}

/// Whether a write failed because the object is another than was believed.
fn tells_of_another(error: &ClusterError) -> bool {
    matches!(
        error,
        ClusterError::AlreadyExists { .. }
            | ClusterError::Conflict { .. }
            | ClusterError::NotFound { .. }
    )
}

#[async_trait]
impl<C: Cluster> Cluster for CachedCluster<C> {
    async fn get<K: Object>(&self, key: &ObjectKey) -> Result<K, ClusterError> {
        let table = self.caches.table::<K>();
        if let Some(table) = table
            && is_witnessed(table, key)
        {
            return Err(not_found::<K>(key));
        }
        let Some(table) = table.filter(|_| !reading::is_live()) else {
            return self.ask(table, key).await;
        };
        let is_behind = is_behind(table);
        let (object, is_confirmed) = match table.known(key) {
            Known::There {
                object,
                is_confirmed,
            } => (Some(object), is_confirmed),
            Known::Absent { is_confirmed } => (None, is_confirmed),
            Known::Ask => return self.ask(Some(table), key).await,
        };
        if is_behind {
            reading::note_behind();
        }
        let answer = match &object {
            Some(object) => version(&**object),
            None => Some(0),
        };
        match answer.filter(|_| is_confirmed) {
            Some(answer) => reading::note(|| {
                let what = What::One(table.shelf.shared(key));
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
    ) -> Result<Listed<K>, ClusterError> {
        let query = Query::of(namespace.as_deref(), params);
        let (Some(table), Some(query)) = (self.caches.table::<K>(), query) else {
            reading::note_unsure();
            return self.inner.list(namespace, params).await;
        };
        // Before it is looked at: the watch may go on meanwhile.
        let is_behind = is_behind(table);
        let known = if reading::is_live() {
            None
        } else {
            self.found(table, &query).await
        };
        let Some((mut found, unreadable, is_confirmed)) = known else {
            reading::note_unsure();
            let mark = table.mark();
            let answer = self.inner.list::<K>(namespace, params).await?;
            if answer.continue_token.is_none() {
                table.note_all(&query, &answer, mark);
            }
            return Ok(answer);
        };
        if is_behind {
            reading::note_behind();
        }
        match digest_of(&found, &unreadable).filter(|_| is_confirmed) {
            Some(answer) => reading::note(|| {
                let what = What::All(Box::new(query));
                Read::new(Arc::clone(table) as _, what, answer)
            }),
            None => reading::note_ahead(),
        }
        let limit = params.limit.and_then(|limit| usize::try_from(limit).ok());
        found.truncate(limit.unwrap_or(usize::MAX));
        Ok(Listed {
            items: found.into_iter().map(Arc::unwrap_or_clone).collect(),
            unreadable,
            continue_token: None,
        })
    }

    async fn create<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        let create = self.inner.create(object);
        let labels = Some(object.labels());
        self.written(ObjectKey::of(object), labels, create).await
    }

    async fn apply<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError> {
        let apply = self.inner.apply(manager, object);
        let labels = Some(object.labels());
        self.written(ObjectKey::of(object), labels, apply).await
    }

    async fn merge_patch<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError> {
        let edit = self.inner.merge_patch(manager, key, patch);
        self.written(key.clone(), None, edit).await
    }

    async fn apply_status<K: Object>(
        &self,
        manager: FieldManager,
        object: &K,
    ) -> Result<K, ClusterError> {
        let apply = self.inner.apply_status(manager, object);
        self.written(ObjectKey::of(object), None, apply).await
    }

    async fn merge_patch_status<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError> {
        let edit = self.inner.merge_patch_status(manager, key, patch);
        self.written(key.clone(), None, edit).await
    }

    async fn delete<K: Object>(
        &self,
        key: &ObjectKey,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<Option<K>, ClusterError> {
        let Some(table) = self.caches.table::<K>() else {
            return self.inner.delete::<K>(key, uid, propagation).await;
        };
        // First: the watch may be faster than the answer.
        if let Some(whose) = reading::whose() {
            table.ends.begin(key, &whose, uid);
        }
        let mark = table.mark();
        let answer = self.inner.delete::<K>(key, uid, propagation).await;
        match &answer {
            Ok(Some(held)) => table.note(held, mark),
            Ok(None) => {
                table.ends.complete(key, Some(uid));
                table.note_absence(key, mark);
                // It was shown anew meanwhile, which says nothing of its end.
                if matches!(table.known(key), Known::There { object, .. }
                    if object.meta().uid.as_deref() == Some(uid))
                {
                    table.doubt_deletion(key.clone(), uid);
                }
            }
            // It was not sent, or is not to be done.
            Err(error) if tells_nothing(error) => table.ends.refute(key, None),
            Err(error) => {
                if tells_of_another(error) {
                    table.ends.refute(key, None);
                }
                table.doubt_deletion(key.clone(), uid);
            }
        }
        answer
    }

    async fn delete_unchanged<K: Object>(
        &self,
        object: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), ClusterError> {
        let answer = self.inner.delete_unchanged(object, propagation).await;
        let uid = object.meta().uid.as_deref();
        self.deleted::<K>(ObjectKey::of(object), uid, &answer);
        answer
    }

    async fn set_finalizers<K: Object>(
        &self,
        object: &K,
        finalizers: Vec<String>,
    ) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let Some(table) = self.caches.table::<K>() else {
            return self.inner.set_finalizers(object, finalizers).await;
        };
        let mark = table.mark();
        let answer = self.inner.set_finalizers(object, finalizers).await;
        let is_last = matches!(&answer, Ok(object) if object.meta().deletion_timestamp.is_some()
            && object.meta().finalizers.as_ref().is_none_or(Vec::is_empty));
        match &answer {
            // It went with its last finalizer.
            Ok(_) if is_last => table.note_absence(&key, mark),
            Ok(object) => table.note(object, mark),
            Err(error) if tells_nothing(error) => {}
            Err(_) => table.doubt(key, Doubt::Anything),
        }
        answer
    }

    async fn put_subresource<K: Object>(
        &self,
        group_version: &str,
        key: &ObjectKey,
        action: &str,
        body: &serde_json::Value,
    ) -> Result<(), ClusterError> {
        let invoked = self
            .inner
            .put_subresource::<K>(group_version, key, action, body);
        invoked.await
    }
}

/// Whether the present task need not ask whether there is such an object, since this
/// process saw the end of it.
fn is_witnessed<K: Object>(table: &Table<K>, key: &ObjectKey) -> bool {
    if reading::is_restless() {
        table.ends.refute(key, None);
    }
    reading::is_live() && reading::whose().is_some_and(|whose| table.is_surely_gone(key, &whose))
}

/// Whether the table may lack something of what the present task asks for.
fn is_behind<K: Object>(table: &Table<K>) -> bool {
    reading::since().is_some_and(|since| !table.is_complete_to(since))
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

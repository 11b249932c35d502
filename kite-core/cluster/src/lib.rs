//! [`Cluster`]: the few verbs with which an operator reads and changes a Kubernetes
//! cluster.
//!
//! Reconcilers are generic over it. [`KubeCluster`] carries it out with a
//! `kube::Client` and is what production uses; an in-memory API server such as
//! `kite-fake` gives a `kube::Client` too, so tests run the same code.
//! `MockCluster` (feature `mock`) is for tests of single error paths.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kite_cluster::{Cluster, ClusterError, ClusterExt as _, FieldManager, ObjectKey};
//!
//! /// Applies the object unless there is one.
//! async fn ensure<C: Cluster>(cluster: &C, map: &ConfigMap) -> Result<(), ClusterError> {
//!     if cluster.get_opt::<ConfigMap>(&ObjectKey::of(map)).await?.is_none() {
//!         cluster.apply(FieldManager::new("my-operator"), map).await?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! There is **no watch** here: what triggers a reconcile is `kube_runtime`'s
//! business, and whoever needs a stream takes one as an argument. There is no
//! replace either: reconcilers write by server-side apply, and what people ask for
//! is a merge patch of the fields that they name. Both own the fields that they set
//! and leave all others alone. A status is its controller's as a whole: see
//! [`ClusterExt::write_status`].
//!
//! | Module | What |
//! |---|---|
//! | [`conditions`] | conditions after the Kubernetes API conventions |
//! | [`versions`] | fields that only some versions of Kubernetes have as optional |
//! | [`watch_backoff`] | how long a watch that broke waits until it is begun again |
//!
//! # Feature flags
//!
//! | Feature | What |
//! |---|---|
//! | `mock` | `MockCluster`, by mockall, for tests of single error paths; off by default |

pub mod conditions;
mod error;
mod kube_cluster;
mod lenient;
#[cfg(feature = "mock")]
mod mock;
mod status;
pub mod versions;
pub mod watch_backoff;

use std::fmt;

use async_trait::async_trait;
use kube::{
    Resource, ResourceExt as _,
    api::{ListParams, PropagationPolicy},
    core::object::HasStatus,
};
use serde::{Serialize, de::DeserializeOwned};

#[cfg(feature = "mock")]
pub use self::mock::MockCluster;
pub use self::{
    error::{ClusterError, NotLeader},
    kube_cluster::KubeCluster,
    lenient::{Lenient, Listed, Unread},
    status::{StoredStatus, merge_patch},
};

/// A typed Kubernetes object that a [`Cluster`] can carry: what `kube::Resource`
/// gives for k8s-openapi's types and for derived custom resources.
pub trait Object:
    Resource<DynamicType = ()>
    + Clone
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = ()>
        + Clone
        + fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Namespace and name of an object.
///
/// ```
/// use kite_cluster::ObjectKey;
///
/// assert_eq!(ObjectKey::namespaced("dev", "web").to_string(), "dev/web");
/// assert_eq!(ObjectKey::cluster("ann").to_string(), "ann");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of a namespaced object.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key of `object`.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self {
            namespace: object.namespace(),
            name: object.name_any(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Who owns the fields of a server-side apply: one manager per concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldManager(&'static str);

impl FieldManager {
    /// A manager of this name. At most 128 printable characters, as the API server
    /// demands.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// A resourceVersion that no object ever has: an apply that names it makes the
/// object, and is refused ([`ClusterError::Conflict`]) if there is one already.
/// An API server looks at a resourceVersion only where something is stored, and
/// etcd's first revision, 1, is older than the first thing that is.
pub const ABSENT: &str = "1";

/// The verbs with which an operator reads and changes a cluster.
///
/// Every method is one request. Implementations retry nothing: who calls knows what may
/// be repeated.
///
/// # Errors
/// Every method fails with a [`ClusterError`] that keeps what the API server said: the
/// object, its kind or its namespace is not there ([`ClusterError::NotFound`]), the account
/// may not ([`ClusterError::Forbidden`]), the object is refused ([`ClusterError::Invalid`])
/// or cannot be read as its kind ([`ClusterError::Unreadable`]), or nobody answers
/// ([`ClusterError::Unavailable`]: a write may have taken effect). Methods name what they
/// fail with beside that.
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// Reads one object. [`ClusterError::NotFound`] when it is not there; see
    /// [`ClusterExt::get_opt`].
    async fn get<K: Object>(&self, key: &ObjectKey) -> Result<K, ClusterError>;

    /// Lists the objects of a kind in `namespace`, or in all of them. One that
    /// cannot be read as its kind does not spoil the list: the answer says so
    /// ([`Listed::unreadable`], [`Listed::complete`]).
    async fn list<K: Object>(
        &self,
        namespace: Option<String>,
        params: &ListParams,
    ) -> Result<Listed<K>, ClusterError>;

    /// Creates `object`, whose name must be set.
    /// [`ClusterError::AlreadyExists`] when another was first: this is how
    /// reservations and generated keys are decided.
    async fn create<K: Object>(&self, object: &K) -> Result<K, ClusterError>;

    /// Server-side apply of `object`, taking over the fields it sets. A uid or
    /// resourceVersion in its metadata is a precondition
    /// ([`ClusterError::Conflict`]): with a uid, the object must be there and be
    /// this one; with [`ABSENT`], there must be none.
    async fn apply<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError>;

    /// Changes only the fields that `patch` names (a JSON merge patch, RFC 7386:
    /// null removes a field) and takes those over for `manager`. This is how an
    /// edit on a person's behalf leaves alone what others wrote, and can remove
    /// what others wrote. A uid or resourceVersion in the patch's metadata is a
    /// precondition ([`ClusterError::Conflict`]). The object must be there.
    async fn merge_patch<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError>;

    /// Server-side apply of the status of `object`. Give only the type, name,
    /// namespace and status. A resourceVersion in the metadata is a precondition
    /// ([`ClusterError::Conflict`]); a uid is not looked at, since an API server
    /// takes the metadata of a custom resource's status from what is stored.
    async fn apply_status<K: Object>(
        &self,
        manager: FieldManager,
        object: &K,
    ) -> Result<K, ClusterError>;

    /// As [`merge_patch`](Self::merge_patch), of the status: `patch` names fields below `status`. A
    /// uid in the metadata is not looked at.
    async fn merge_patch_status<K: Object>(
        &self,
        manager: FieldManager,
        key: &ObjectKey,
        patch: &serde_json::Value,
    ) -> Result<K, ClusterError>;

    /// Deletes the object with this key *and* this uid; another object of the
    /// same name stays ([`ClusterError::Conflict`]). Gives the object while
    /// something holds it, such as finalizers, and none once it is gone.
    async fn delete<K: Object>(
        &self,
        key: &ObjectKey,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<Option<K>, ClusterError>;

    /// Deletes `object` on the condition that it is unchanged since it was read:
    /// this uid and this resourceVersion ([`ClusterError::Conflict`] otherwise).
    /// For deletions that nobody asked for by request, so that an edit at the
    /// last moment wins.
    async fn delete_unchanged<K: Object>(
        &self,
        object: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), ClusterError>;

    /// Replaces the finalizers of `object`, on the condition that it is
    /// unchanged since it was read ([`ClusterError::Conflict`] otherwise).
    async fn set_finalizers<K: Object>(
        &self,
        object: &K,
        finalizers: Vec<String>,
    ) -> Result<K, ClusterError>;

    /// Asks for something to be done with the object of this key: a `PUT` of
    /// `body` to its subresource `action`. `group_version` is where that is
    /// served, which need not be where the kind is: an aggregated API may serve what can
    /// be asked of a kind that a CRD defines. Nothing of the answer but its success is
    /// looked at.
    async fn put_subresource<K: Object>(
        &self,
        group_version: &str,
        key: &ObjectKey,
        action: &str,
        body: &serde_json::Value,
    ) -> Result<(), ClusterError>;
}

/// What can be said with the verbs of [`Cluster`].
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kite_cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey};
/// use kube::api::PropagationPolicy;
///
/// /// Deletes the Pod, if there is one, and no other that takes its name meanwhile.
/// async fn end<C: Cluster>(cluster: &C, key: &ObjectKey) -> Result<(), ClusterError> {
///     if let Some(pod) = cluster.get_opt::<Pod>(key).await? {
///         cluster.delete_by_uid(&pod, PropagationPolicy::Background).await?;
///     }
///     Ok(())
/// }
/// ```
#[async_trait]
pub trait ClusterExt: Cluster {
    /// Reads one object, if it is there.
    ///
    /// # Errors
    /// As those of [`Cluster::get`], but for [`ClusterError::NotFound`].
    async fn get_opt<K: Object>(&self, key: &ObjectKey) -> Result<Option<K>, ClusterError> {
        match self.get(key).await {
            Ok(object) => Ok(Some(object)),
            Err(ClusterError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes this very `object`, by its uid. Gone already, or replaced by another of
    /// the same name, is as good as deleted.
    ///
    /// # Errors
    /// As those of [`Cluster::delete`], but for [`ClusterError::NotFound`], and for
    /// [`ClusterError::Conflict`] where another has the name.
    async fn delete_by_uid<K: Object>(
        &self,
        object: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), ClusterError> {
        self.delete_by_uid_and_get(object, propagation)
            .await
            .map(drop)
    }

    /// As [`delete_by_uid`](Self::delete_by_uid). Gives what has the name then: the object
    /// itself while something holds it, or another.
    ///
    /// # Errors
    /// As those of [`delete_by_uid`](Self::delete_by_uid), and of [`Cluster::get`] where
    /// another has the name.
    async fn delete_by_uid_and_get<K: Object>(
        &self,
        object: &K,
        propagation: PropagationPolicy,
    ) -> Result<Option<K>, ClusterError> {
        let uid = object.uid().unwrap_or_default();
        let key = ObjectKey::of(object);
        match self.delete::<K>(&key, &uid, propagation).await {
            Err(ClusterError::NotFound { .. }) => Ok(None),
            Err(conflict @ ClusterError::Conflict { .. }) => {
                let left = self.get_opt::<K>(&key).await?;
                if left.as_ref().and_then(kube::ResourceExt::uid).as_ref() == Some(&uid) {
                    return Err(conflict);
                }
                Ok(left)
            }
            done => done,
        }
    }

    /// Writes the status of `object`, on the condition that it is as it was read
    /// ([`ClusterError::Conflict`]). Whatever was written before and by whom: what is
    /// stored then is `status`, and nothing of the old one.
    ///
    /// That takes one server-side apply, as a rule. An API server fails it where what is
    /// stored does not fit the CRD, as after an older CRD was put in the place of a later
    /// one, or where what it leaves of others' fields does not fit: then it is a merge patch,
    /// which names what is to go. So is what the apply leaves of fields that belong to
    /// others: an API server gives up who owns what where it cannot tell any more.
    ///
    /// # Errors
    /// [`ClusterError::Conflict`] if the object has changed, and else as those of
    /// [`Cluster::apply_status`] and [`Cluster::merge_patch_status`].
    async fn write_status<K>(
        &self,
        manager: FieldManager,
        object: &K,
        status: K::Status,
    ) -> Result<K, ClusterError>
    where
        K: Object + HasStatus,
        K::Status: StoredStatus,
    {
        status::write(self, manager, object, status).await
    }
}

impl<C: Cluster + ?Sized> ClusterExt for C {}

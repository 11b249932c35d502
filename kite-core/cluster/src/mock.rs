//! [`Cluster`] as a mock, for tests of single error paths.

use async_trait::async_trait;
use kube::api::{ListParams, PropagationPolicy};
use mockall::mock;

use super::{Cluster, ClusterError, FieldManager, Listed, Object, ObjectKey};

mock! {
    /// A scripted cluster. To test behaviour, use the in-memory API server of
    /// `kite-fake`: it does not care in which order things are asked.
    pub Cluster {}

    #[async_trait]
    impl Cluster for Cluster {
        async fn get<K: Object>(&self, key: &ObjectKey) -> Result<K, ClusterError>;
        async fn list<K: Object>(&self, namespace: Option<String>, params: &ListParams) -> Result<Listed<K>, ClusterError>;
        async fn create<K: Object>(&self, object: &K) -> Result<K, ClusterError>;
        async fn apply<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError>;
        async fn merge_patch<K: Object>(&self, manager: FieldManager, key: &ObjectKey, patch: &serde_json::Value) -> Result<K, ClusterError>;
        async fn apply_status<K: Object>(&self, manager: FieldManager, object: &K) -> Result<K, ClusterError>;
        async fn merge_patch_status<K: Object>(&self, manager: FieldManager, key: &ObjectKey, patch: &serde_json::Value) -> Result<K, ClusterError>;
        async fn delete<K: Object>(&self, key: &ObjectKey, uid: &str, propagation: PropagationPolicy) -> Result<Option<K>, ClusterError>;
        async fn delete_unchanged<K: Object>(&self, object: &K, propagation: PropagationPolicy) -> Result<(), ClusterError>;
        async fn set_finalizers<K: Object>(&self, object: &K, finalizers: Vec<String>) -> Result<K, ClusterError>;
        async fn put_subresource<K: Object>(&self, group_version: &str, key: &ObjectKey, action: &str, body: &serde_json::Value) -> Result<(), ClusterError>;
    }
}

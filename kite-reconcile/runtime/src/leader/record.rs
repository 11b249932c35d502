//! What is asked of the API server about a Lease: each change on the condition
//! that the Lease is as it was read.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kite_cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Election, leadership::Moment};
use crate::Clock;

/// A Lease, and who stands for it.
pub(super) struct Record<C> {
    pub(super) cluster: Arc<C>,
    pub(super) election: Election,
    pub(super) clock: Clock,
}

impl<C: Cluster> Record<C> {
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(&self.election.namespace, &self.election.name)
    }

    /// What time it is, by both clocks.
    pub(super) fn now(&self) -> Moment {
        Moment {
            monotonic: Instant::now(),
            system: (self.clock)(),
            clock: Arc::clone(&self.clock),
        }
    }

    /// Up to when the Lease holds that was asked for at `sent`.
    pub(super) fn until(&self, sent: Moment) -> Moment {
        sent.after(self.election.renew_deadline)
    }

    pub(super) async fn read(&self) -> Result<Option<Lease>, ClusterError> {
        self.cluster.get_opt::<Lease>(&self.key()).await
    }

    /// Whether nobody holds `found`, which was last seen to change this long ago.
    /// Only the length of the Lease is believed, never its times.
    pub(super) fn is_free(&self, found: &Lease, unchanged: Duration) -> bool {
        match holder(found) {
            None => true,
            // Held by an earlier term of this very process.
            Some(holder) if holder == self.election.identity => true,
            Some(_) => {
                let duration = self.lasts(found);
                unchanged >= duration
            }
        }
    }

    /// How long `found` lasts after a renewal.
    pub(super) fn lasts(&self, found: &Lease) -> Duration {
        let seconds = found
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0);
        seconds.map_or(self.election.lease_duration, Duration::from_secs)
    }

    /// Makes the Lease; `None` when another was first.
    pub(super) async fn create(&self) -> Result<Option<Lease>, ClusterError> {
        let now = MicroTime((self.clock)());
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.election.name.clone()),
                namespace: Some(self.election.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.election.identity.clone()),
                lease_duration_seconds: Some(self.seconds()),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            }),
        };
        match self.cluster.create(&lease).await {
            Ok(made) => Ok(Some(made)),
            Err(ClusterError::AlreadyExists { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the Lease over; `None` when another was first.
    pub(super) async fn take(&self, found: &Lease) -> Result<Option<Lease>, ClusterError> {
        let spec = found.spec.as_ref();
        let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let now = text((self.clock)());
        let patch = json!({
            "holderIdentity": self.election.identity,
            "leaseDurationSeconds": self.seconds(),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions.saturating_add(1),
        });
        match self.change(found, patch).await {
            Ok(taken) => Ok(Some(taken)),
            Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn renew(&self, held: &Lease) -> Result<Lease, ClusterError> {
        let patch = json!({
            "leaseDurationSeconds": self.seconds(),
            "renewTime": text((self.clock)()),
        });
        self.change(held, patch).await
    }

    /// Gives the Lease back, unless it changed since it was read.
    pub(super) async fn release(&self, held: &Lease) -> Result<bool, ClusterError> {
        let patch = json!({
            "holderIdentity": null,
            "leaseDurationSeconds": 1,
            "renewTime": text((self.clock)()),
        });
        match self.change(held, patch).await {
            Ok(_) => Ok(true),
            Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn change(&self, found: &Lease, spec: Value) -> Result<Lease, ClusterError> {
        let patch = json!({
            "metadata": {
                "resourceVersion": found.resource_version(),
                "uid": found.uid(),
            },
            "spec": spec,
        });
        self.cluster
            .merge_patch(self.election.manager, &self.key(), &patch)
            .await
    }

    fn seconds(&self) -> i32 {
        i32::try_from(self.election.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}

/// Who holds a Lease.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease
        .spec
        .as_ref()?
        .holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
}

/// A time as a `MicroTime` of the API.
fn text(at: Timestamp) -> Value {
    json!(MicroTime(at))
}

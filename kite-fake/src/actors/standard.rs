//! The actors that every cluster has.

use std::sync::Arc;

use super::{
    AccountTokens, Actor, AttributesProtection, ClaimBinder, CronJobs, DaemonSets, Deployments,
    DisruptionBudgets, EndpointMirrors, EndpointSlices, Endpoints, GarbageCollector, Jobs,
    LoadBalancers, NamespaceDefaults, NamespaceLifecycle, Nodes, Pods, Replicas, StatefulSets,
    TaintEvictions, VolumeSnapshots,
};

/// The controllers of Kubernetes itself: namespaces, garbage, Services, storage,
/// workloads, disruptions, and two nodes with their Pods.
pub fn control_plane() -> Vec<Arc<dyn Actor>> {
    vec![
        Arc::new(NamespaceLifecycle::default()),
        Arc::new(NamespaceDefaults),
        Arc::new(GarbageCollector::default()),
        Arc::new(AccountTokens::default()),
        Arc::new(EndpointSlices::default()),
        Arc::new(Endpoints::default()),
        Arc::new(EndpointMirrors::default()),
        Arc::new(LoadBalancers::default()),
        Arc::new(ClaimBinder),
        Arc::new(AttributesProtection),
        Arc::new(VolumeSnapshots::default()),
        Arc::new(Deployments::default()),
        Arc::new(Replicas::of_replica_sets()),
        Arc::new(Replicas::of_replication_controllers()),
        Arc::new(StatefulSets::default()),
        Arc::new(DaemonSets::default()),
        Arc::new(Jobs::default()),
        Arc::new(CronJobs),
        Arc::new(DisruptionBudgets::default()),
        Arc::new(Nodes),
        Arc::new(Pods::default()),
        Arc::new(TaintEvictions::default()),
    ]
}

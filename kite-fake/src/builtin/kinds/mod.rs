//! What single kinds want beside their schemas: defaults, preparation, validation.

pub(super) mod admission;
pub(super) mod allocation;
pub(super) mod autoscaler;
pub(super) mod certificates;
pub(super) mod config;
pub(super) mod containers;
pub(super) mod endpoints;
pub(super) mod events;
pub(super) mod families;
pub(super) mod jobs;
pub(super) mod network;
pub(super) mod pod;
pub(super) mod pod_changes;
pub(super) mod pod_rules;
pub(super) mod quotas;
pub(super) mod rbac;
pub(super) mod service;
pub(super) mod service_rules;
pub(super) mod small;
pub(super) mod storage;
pub(super) mod volumes;
pub(super) mod workload;
pub(super) mod workload_rules;

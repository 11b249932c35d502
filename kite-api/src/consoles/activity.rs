//! That somebody is at a console of a VM is use of it: one that is switched off
//! when nobody uses it stays on. See [`kite_core::activity`].

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    activity::{REPORT_EVERY, report},
    cluster::{Cluster as _, ObjectKey},
};

use crate::{console::Grant, state::ApiState};

/// How long one report may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reports that the VM is used, for as long as this is awaited.
pub(super) async fn keep_reporting(state: &ApiState, grant: &Grant) {
    loop {
        tell(state, grant).await;
        tokio::time::sleep(REPORT_EVERY).await;
    }
}

/// Reports once, if the VM is one that is switched off when nobody uses it.
pub(super) async fn tell(state: &ApiState, grant: &Grant) {
    let key = ObjectKey::namespaced(&grant.namespace, &grant.vm);
    let vm = state.caches().vms.get(&key);
    if vm.is_none_or(|vm| vm.spec.idle_timeout.is_none()) {
        return;
    }
    let lease = report(&grant.namespace, &grant.vm, &grant.uid, Timestamp::now());
    let writing = state.cluster().apply(kite_core::managers::API, &lease);
    match tokio::time::timeout(PATIENCE, writing).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(vm = %key, %error, "the use of a VM cannot be reported"),
        Err(_) => tracing::warn!(vm = %key, "the use of a VM cannot be reported in time"),
    }
}

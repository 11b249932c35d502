//! Holds claims that Pods use.

use kube::api::DynamicObject;

use super::claims::claims_of;
use crate::actors::actor::ActorError;
use crate::actors::kind::{Key, POD};
use crate::actors::objects::{Objects, text};
use crate::actors::workloads::pod_state::is_over;

const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Lets a claim that is being deleted go, unless a Pod uses it: one that is on a node, as
/// no node starts a Pod whose claim is about to go.
pub(super) async fn release(
    objects: Objects<'_>,
    key: &Key,
    claim: &DynamicObject,
) -> Result<(), ActorError> {
    let pods = objects.list(&POD, key.namespace.as_deref(), "").await?;
    let used = pods.iter().any(|pod| {
        !text(pod, "/spec/nodeName").is_empty()
            && !is_over(pod)
            && claims_of(pod).any(|name| name == key.name)
    });
    if used {
        return Ok(());
    }
    objects.remove_finalizer(key, claim, FINALIZER).await
}

//! Binds claims, and takes volumes away with them.

use async_trait::async_trait;
use kube::api::DynamicObject;

use super::binding::{SELECTED_NODE, bind, claim_size, is_bound, is_late_bound, volume_name};
use super::protection::release;
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{CLAIM, Key, Kind, POD, VOLUME};
use crate::actors::objects::{Deletion, Objects, is_deleting, text, uid};
use crate::actors::rules::{Gate, Stage};
use crate::actors::workloads::pod_state::is_over;

/// Holds a volume on real clusters, while it is bound.
const PROTECTION: &str = "kubernetes.io/pv-protection";

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[CLAIM, VOLUME];

/// Plays the volume controllers: a claim gets a volume of its own and is bound;
/// a bound claim that asks for more grows; a claim that is deleted is held while
/// a Pod uses it; the volume goes with the claim. Claims that somebody else
/// fills first are left to them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimBinder;

#[async_trait]
impl Actor for ClaimBinder {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![CLAIM, VOLUME, POD])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let object = &change.object;
        if change.kind == CLAIM && change.gone {
            return vec![Key::new(&VOLUME, None, &volume_name(object))];
        }
        if change.kind == CLAIM || change.kind == VOLUME {
            return vec![change.key()];
        }
        if !change.gone && !is_over(object) {
            return Vec::new();
        }
        let namespace = object.metadata.namespace.as_deref();
        claims_of(object)
            .map(|claim| Key::new(&CLAIM, namespace, claim))
            .collect()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(claim) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        if key.kind == VOLUME {
            reclaim(objects, key, &claim).await?;
            return Ok(Next::Done);
        }
        if is_deleting(&claim) {
            release(objects, key, &claim).await?;
            return Ok(Next::Done);
        }
        if is_bound(&claim) {
            if text(&claim, "/status/capacity/storage") != claim_size(&claim) {
                bind(objects, &claim).await?;
            }
            return Ok(Next::Done);
        }
        if claim.data["spec"]["dataSourceRef"].is_object() {
            return Ok(Next::Done);
        }
        let annotations = claim.metadata.annotations.as_ref();
        let consumed = annotations.is_some_and(|a| a.contains_key(SELECTED_NODE));
        if !consumed && is_late_bound(objects, &claim).await? {
            return Ok(Next::Done);
        }
        match context.gate(Stage::CLAIM_BOUND, &claim, "") {
            Gate::Open => bind(objects, &claim).await?,
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            // A claim has no way to fail: it stays pending.
            Gate::Held | Gate::Fail(_) => return Ok(Next::Held),
        }
        Ok(Next::Done)
    }
}

/// Names of the claims that a Pod mounts.
pub fn claims_of(pod: &DynamicObject) -> impl Iterator<Item = &str> {
    let volumes = pod.data["spec"]["volumes"].as_array();
    let volumes = volumes.map_or(&[][..], Vec::as_slice);
    volumes
        .iter()
        .filter_map(|v| v["persistentVolumeClaim"]["claimName"].as_str())
}

/// Deletes a volume that was made for a claim that is no more.
async fn reclaim(
    objects: Objects<'_>,
    key: &Key,
    volume: &DynamicObject,
) -> Result<(), ActorError> {
    let of = |field: &str| text(volume, &format!("/spec/claimRef/{field}"));
    if of("uid").is_empty() || text(volume, "/spec/persistentVolumeReclaimPolicy") != "Delete" {
        return Ok(());
    }
    let (namespace, name) = (Some(of("namespace")), of("name"));
    let is_meant = |claim: &DynamicObject| uid(claim) == of("uid");
    let seen = objects.find(&CLAIM, namespace, name).await?;
    if seen.is_some_and(|claim| is_meant(&claim)) {
        return Ok(());
    }
    // A watch may only not have shown it yet.
    let claim = objects.live().find(&CLAIM, namespace, name).await?;
    if claim.is_some_and(|claim| is_meant(&claim)) {
        return Ok(());
    }
    if is_deleting(volume) {
        return objects.remove_finalizer(key, volume, PROTECTION).await;
    }
    objects.delete(key, volume, Deletion::default()).await
}

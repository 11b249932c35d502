//! Binds claims, and takes volumes away with them.

use std::time::Duration;

use async_trait::async_trait;
use kube::api::DynamicObject;

use serde_json::json;

use super::binding::{
    adopt, bind, claim_size, class_of, grow, is_bound, is_consumed, is_late, volume_name,
};
use super::contents::Filling;
use super::drivers::{Bond, Driver};
use super::protection::release;
use super::standing::{Standing, standing};
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::events;
use crate::actors::kind::{CLAIM, Key, Kind, POD, VOLUME, VOLUME_SNAPSHOT_CONTENT};
use crate::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text, uid};
use crate::actors::rules::{Gate, Stage};
use crate::actors::workloads::pod_state::is_over;
use crate::builtin::quantity;

/// Holds a volume on real clusters, while it is bound.
const PROTECTION: &str = "kubernetes.io/pv-protection";

/// When a claim is looked at again that waits for a volume, or a volume that is held.
const AGAIN: Duration = Duration::from_secs(5);

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[CLAIM, VOLUME];

/// Plays the volume controllers: a claim gets a volume that is there for it, or one of its own,
/// and is bound;
/// a bound claim that asks for more grows; a claim that is deleted is held while
/// a Pod uses it; the volume goes with the claim, or is released, as it says. Claims that
/// somebody else fills first are left to them.
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
            let name = match text(object, "/spec/volumeName") {
                "" => volume_name(object),
                name => name.to_owned(),
            };
            return vec![Key::new(&VOLUME, None, &name)];
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
            return reclaim(context, objects, key, &claim).await;
        }
        if is_deleting(&claim) {
            release(objects, key, &claim).await?;
            return Ok(Next::Done);
        }
        if is_bound(&claim) {
            if is_smaller(&claim) {
                grow(objects, &claim).await?;
            }
            return Ok(Next::Done);
        }
        if claim.data["spec"]["dataSourceRef"].is_object() {
            return Ok(Next::Done);
        }
        let class = class_of(objects, &claim).await?;
        let standing = standing(objects, &claim, class.as_deref()).await?;
        let is_early = !is_consumed(&claim) && class.as_deref().is_some_and(is_late);
        match &standing {
            Standing::Waits => return Ok(Next::Later(AGAIN)),
            Standing::Volume {
                is_reserved: true, ..
            } => {}
            _ if is_early => return Ok(Next::Done),
            Standing::Volume { .. } | Standing::None => {}
        }
        match context.gate(Stage::CLAIM_BOUND, &claim, "") {
            Gate::Open => match standing {
                Standing::Volume { volume, .. } => adopt(objects, &claim, &volume).await?,
                _ => bind(objects, &claim, class.as_deref(), &Filling::none()).await?,
            },
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            // A claim has no way to fail: it stays pending.
            Gate::Held | Gate::Fail(_) => return Ok(Next::Held),
        }
        Ok(Next::Done)
    }
}

/// Whether a bound claim has less than it asks for. One that took a volume that was there may
/// have more.
fn is_smaller(claim: &DynamicObject) -> bool {
    let has = quantity::nano(text(claim, "/status/capacity/storage"));
    has < quantity::nano(claim_size(claim))
}

/// Names of the claims that a Pod mounts.
pub fn claims_of(pod: &DynamicObject) -> impl Iterator<Item = &str> {
    let volumes = pod.data["spec"]["volumes"].as_array();
    let volumes = volumes.map_or(&[][..], Vec::as_slice);
    volumes
        .iter()
        .filter_map(|v| v["persistentVolumeClaim"]["claimName"].as_str())
}

/// Deletes a volume whose claim is no more, or lets it be anybody's, as it says.
async fn reclaim(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    volume: &DynamicObject,
) -> Result<Next, ActorError> {
    let of = |field: &str| text(volume, &format!("/spec/claimRef/{field}"));
    if of("uid").is_empty() {
        // Nobody's, or kept for somebody who has not come yet.
        let available = objects.set_status(key, volume, json!({"phase": "Available"}));
        ignore_missing(available.await)?;
        return release_volume(objects, key, volume).await;
    }
    let (namespace, name) = (Some(of("namespace")), of("name"));
    let is_meant = |claim: &DynamicObject| uid(claim) == of("uid");
    let seen = objects.find(&CLAIM, namespace, name).await?;
    if seen.is_some_and(|claim| is_meant(&claim)) {
        return Ok(Next::Done);
    }
    // A watch may only not have shown it yet.
    let claim = objects.live().find(&CLAIM, namespace, name).await?;
    if claim.is_some_and(|claim| is_meant(&claim)) {
        return Ok(Next::Done);
    }
    let keeps = text(volume, "/spec/persistentVolumeReclaimPolicy") != "Delete";
    let held = !keeps && is_held(context, objects, volume).await?;
    if keeps || held {
        let released = objects
            .set_status(key, volume, json!({"phase": "Released"}))
            .await;
        if held && matches!(released, Ok(true)) {
            let why = format!(
                "rpc error: code = FailedPrecondition desc = volume {} has snapshots",
                key.name
            );
            let said = events::warning("VolumeFailedDelete", why);
            events::tell(context, "csi-provisioner", (&VOLUME, volume), said).await;
        }
        ignore_missing(released)?;
        if held {
            // Snapshots are not watched.
            return Ok(Next::Later(AGAIN));
        }
        return release_volume(objects, key, volume).await;
    }
    if !is_deleting(volume) {
        objects.delete(key, volume, Deletion::default()).await?;
        return Ok(Next::Done);
    }
    release_volume(objects, key, volume).await
}

/// Lets a volume go that is being deleted and is nobody's.
async fn release_volume(
    objects: Objects<'_>,
    key: &Key,
    volume: &DynamicObject,
) -> Result<Next, ActorError> {
    if is_deleting(volume)
        && let Some(fresh) = objects.live().get(key).await?
    {
        objects.remove_finalizer(key, &fresh, PROTECTION).await?;
    }
    Ok(Next::Done)
}

/// Whether the storage keeps a volume for the sake of its snapshots.
async fn is_held(
    context: &Context,
    objects: Objects<'_>,
    volume: &DynamicObject,
) -> Result<bool, ActorError> {
    let holds = Driver::of_volume(volume).is_some_and(|it| it.bond == Bond::HoldsVolume);
    if !holds || !context.catalog.has(&VOLUME_SNAPSHOT_CONTENT) {
        return Ok(false);
    }
    let handle = text(volume, "/spec/csi/volumeHandle");
    let all = objects
        .live()
        .list(&VOLUME_SNAPSHOT_CONTENT, None, "")
        .await?;
    let mut handles = all.iter().map(|it| text(it, "/spec/source/volumeHandle"));
    Ok(handles.any(|it| it == handle))
}

//! How a claim is bound to a volume that was made for it.

use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::contents::{Filling, annotation};
use crate::actors::actor::ActorError;
use crate::actors::kind::{CLAIM, Key, STORAGE_CLASS, VOLUME};
use crate::actors::objects::{Found, Objects, ignore_missing, text, uid};

/// Whether `claim` is bound.
pub fn is_bound(claim: &DynamicObject) -> bool {
    text(claim, "/status/phase") == "Bound"
}

/// On a claim that has its volume.
const BOUND: &str = "pv.kubernetes.io/bind-completed";
/// On a claim: the node of the first Pod that uses it, as the scheduler says.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The storage class of `claim`, if it is there.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn class_of(
    objects: Objects<'_>,
    claim: &DynamicObject,
) -> Result<Option<Found>, ActorError> {
    let class = text(claim, "/spec/storageClassName");
    objects.find(&STORAGE_CLASS, None, class).await
}

/// Whether storage of a class waits for a Pod that uses it
/// (`volumeBindingMode: WaitForFirstConsumer`).
pub fn is_late(class: &DynamicObject) -> bool {
    text(class, "/volumeBindingMode") == "WaitForFirstConsumer"
}

/// Whether the storage of `claim` waits for a Pod that uses it.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn is_late_bound(
    objects: Objects<'_>,
    claim: &DynamicObject,
) -> Result<bool, ActorError> {
    let class = class_of(objects, claim).await?;
    Ok(class.is_some_and(|class| is_late(&class)))
}

/// Whether a Pod that uses `claim` has a node.
pub fn is_consumed(claim: &DynamicObject) -> bool {
    annotation(claim, SELECTED_NODE).is_some()
}

/// The storage that `claim` asks for.
pub fn claim_size(claim: &DynamicObject) -> &str {
    text(claim, "/spec/resources/requests/storage")
}

/// The volume that `claim` names, if it is there.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn volume_of(
    objects: Objects<'_>,
    claim: &DynamicObject,
) -> Result<Option<Found>, ActorError> {
    let name = text(claim, "/spec/volumeName");
    objects.find(&VOLUME, None, name).await
}

/// Name of the volume that is made for `claim`.
pub(super) fn volume_name(claim: &DynamicObject) -> String {
    format!("pvc-{}", uid(claim))
}

/// Makes a volume for `claim` of `class` with this on it, and binds the two.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn bind(
    objects: Objects<'_>,
    claim: &DynamicObject,
    class: Option<&DynamicObject>,
    filling: &Filling,
) -> Result<(), ActorError> {
    let name = volume_name(claim);
    let body = volume_for(claim, class, &name, filling);
    let created = objects.create(&VOLUME, None, body).await?;
    let key = Key::new(&VOLUME, None, &name);
    let there = match created {
        Some(created) => Some(created),
        None => objects.live().get(&key).await?,
    };
    match there {
        Some(made) => tie(objects, claim, &made).await,
        None => Ok(()),
    }
}

/// Binds `claim` to a volume that is there, and nobody's.
pub(super) async fn adopt(
    objects: Objects<'_>,
    claim: &DynamicObject,
    volume: &DynamicObject,
) -> Result<(), ActorError> {
    let patch = json!({"spec": {"claimRef": reference(claim)}});
    let key = Key::of(&VOLUME, volume);
    let bound = objects.merge(&key, Some(volume), patch).await?;
    tie(objects, claim, &bound).await
}

/// Has `claim` be that of the volume which is kept for it.
async fn tie(
    objects: Objects<'_>,
    claim: &DynamicObject,
    volume: &DynamicObject,
) -> Result<(), ActorError> {
    let at = Key::of(&VOLUME, volume);
    let bound = json!({"phase": "Bound"});
    ignore_missing(objects.set_status(&at, volume, bound).await)?;
    let claim = if annotation(claim, BOUND).is_none() {
        let patch = json!({
            "metadata": {"annotations": {BOUND: "yes", "pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"volumeName": at.name},
        });
        let key = Key::of(&CLAIM, claim);
        objects.merge(&key, Some(claim), patch).await?
    } else {
        Arc::new(claim.clone())
    };
    let has = &volume.data["spec"];
    tell(objects, &claim, &has["accessModes"], &has["capacity"]).await
}

/// Lets a bound claim have all that it asks for, and its volume before it.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn grow(objects: Objects<'_>, claim: &DynamicObject) -> Result<(), ActorError> {
    let size = claim_size(claim);
    let volume = volume_of(objects, claim).await?;
    if let Some(volume) = volume.filter(|it| text(it, "/spec/capacity/storage") != size) {
        let patch = json!({"spec": {"capacity": {"storage": size}}});
        let key = Key::of(&VOLUME, &volume);
        ignore_missing(objects.merge(&key, None, patch).await)?;
    }
    let modes = &claim.data["spec"]["accessModes"];
    tell(objects, claim, modes, &json!({"storage": size})).await
}

/// Has a claim say that it is bound, and what it has.
async fn tell(
    objects: Objects<'_>,
    claim: &DynamicObject,
    modes: &Value,
    capacity: &Value,
) -> Result<(), ActorError> {
    let status = json!({"phase": "Bound", "accessModes": modes, "capacity": capacity});
    let key = Key::of(&CLAIM, claim);
    ignore_missing(objects.set_status(&key, claim, status).await)
}

/// Gives the volume of the claim `from` to the claim `to`, which has none. Done again it
/// changes nothing. Whether it is the volume of `to` now.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn rebind(
    objects: Objects<'_>,
    from: &DynamicObject,
    to: &DynamicObject,
) -> Result<bool, ActorError> {
    let Some(mut volume) = volume_of(objects.live(), from).await? else {
        return Ok(false);
    };
    let owner = text(&volume, "/spec/claimRef/uid");
    if owner == uid(from) {
        let capacity = json!({"storage": claim_size(to)});
        let patch = json!({"spec": {"claimRef": reference(to), "capacity": capacity}});
        let key = Key::of(&VOLUME, &volume);
        volume = objects.merge(&key, Some(&volume), patch).await?;
    } else if owner != uid(to) {
        return Ok(false);
    }
    tie(objects, to, &volume).await?;
    Ok(true)
}

/// Whether `claim` has a volume that was made for it and not told of yet: somebody was killed
/// in between. It is bound then, whatever has become of its source.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn resume(objects: Objects<'_>, claim: &DynamicObject) -> Result<bool, ActorError> {
    let volume = if text(claim, "/spec/volumeName").is_empty() {
        let key = Key::new(&VOLUME, None, &volume_name(claim));
        objects.get(&key).await?
    } else {
        volume_of(objects, claim).await?
    };
    let is_its = |volume: &Found| text(volume, "/spec/claimRef/uid") == uid(claim);
    let Some(volume) = volume.filter(is_its) else {
        return Ok(false);
    };
    tie(objects, claim, &volume).await?;
    Ok(true)
}

fn reference(claim: &DynamicObject) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
        "resourceVersion": null,
    })
}

fn volume_for(
    claim: &DynamicObject,
    class: Option<&DynamicObject>,
    name: &str,
    filling: &Filling,
) -> Value {
    let spec = &claim.data["spec"];
    let of_class = |field: &str| class.map(|class| text(class, field)).unwrap_or_default();
    let policy = match of_class("/reclaimPolicy") {
        "" => "Delete",
        policy => policy,
    };
    let mut claim_ref = reference(claim);
    drop(
        claim_ref
            .as_object_mut()
            .map(|r| r.remove("resourceVersion")),
    );
    let mut volume = json!({
        "metadata": {"name": name, "annotations": filling.annotations()},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": claim_size(claim)},
            "claimRef": claim_ref,
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": text(claim, "/spec/storageClassName"),
            "volumeMode": spec["volumeMode"].as_str().unwrap_or("Filesystem"),
        },
    });
    let driver = of_class("/provisioner");
    if driver.is_empty() || driver.starts_with("kubernetes.io/") {
        let path = format!("/var/lib/kite-fake/{name}");
        volume["spec"]["hostPath"] = json!({"path": path});
    } else {
        volume["spec"]["csi"] = json!({"driver": driver, "volumeHandle": name});
    }
    volume
}

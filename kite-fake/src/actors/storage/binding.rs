//! How a claim is bound to a volume that was made for it.

use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::contents::Filling;
use crate::actors::actor::ActorError;
use crate::actors::kind::{CLAIM, Key, STORAGE_CLASS, VOLUME};
use crate::actors::objects::{Found, Objects, ignore_missing, text, uid};

/// Whether `claim` is bound.
pub fn is_bound(claim: &DynamicObject) -> bool {
    text(claim, "/status/phase") == "Bound"
}

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
    let annotations = claim.metadata.annotations.as_ref();
    annotations.is_some_and(|a| a.contains_key(SELECTED_NODE))
}

/// The storage that `claim` asks for.
pub fn claim_size(claim: &DynamicObject) -> &str {
    text(claim, "/spec/resources/requests/storage")
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
    if let Some(made) = there {
        let bound = json!({"phase": "Bound"});
        ignore_missing(objects.set_status(&key, &made, bound).await)?;
    }
    tie(objects, claim, &name).await
}

/// Binds `claim` to a volume that is there.
pub(super) async fn adopt(
    objects: Objects<'_>,
    claim: &DynamicObject,
    volume: &DynamicObject,
) -> Result<(), ActorError> {
    let key = Key::of(&VOLUME, volume);
    let patch = json!({"spec": {"claimRef": reference(claim)}});
    let bound = objects.merge(&key, Some(volume), patch).await?;
    let status = json!({"phase": "Bound"});
    ignore_missing(objects.set_status(&key, &bound, status).await)?;
    let patch = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": key.name},
    });
    let claim = objects
        .merge(&Key::of(&CLAIM, claim), Some(claim), patch)
        .await?;
    let status = json!({
        "phase": "Bound",
        "accessModes": volume.data["spec"]["accessModes"],
        "capacity": {"storage": text(volume, "/spec/capacity/storage")},
    });
    ignore_missing(
        objects
            .set_status(&Key::of(&CLAIM, &claim), &claim, status)
            .await,
    )
}

/// Has `claim` be that of the volume of this name.
async fn tie(objects: Objects<'_>, claim: &DynamicObject, volume: &str) -> Result<(), ActorError> {
    let claim = if text(claim, "/spec/volumeName").is_empty() {
        let patch = json!({
            "metadata": {"annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            }},
            "spec": {"volumeName": volume},
        });
        let key = Key::of(&CLAIM, claim);
        objects.merge(&key, Some(claim), patch).await?
    } else {
        Arc::new(claim.clone())
    };
    tell(objects, &claim).await
}

/// Lets a bound claim have all that it asks for, and its volume before it.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn grow(objects: Objects<'_>, claim: &DynamicObject) -> Result<(), ActorError> {
    let key = Key::new(&VOLUME, None, text(claim, "/spec/volumeName"));
    let volume = objects.get(&key).await?;
    let size = claim_size(claim);
    if volume.is_some_and(|volume| text(&volume, "/spec/capacity/storage") != size) {
        let patch = json!({"spec": {"capacity": {"storage": size}}});
        ignore_missing(objects.merge(&key, None, patch).await)?;
    }
    tell(objects, claim).await
}

/// Has a claim say that it has what it asks for.
async fn tell(objects: Objects<'_>, claim: &DynamicObject) -> Result<(), ActorError> {
    let status = json!({
        "phase": "Bound",
        "accessModes": claim.data["spec"]["accessModes"],
        "capacity": {"storage": claim_size(claim)},
    });
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
    let name = text(from, "/spec/volumeName");
    let key = Key::new(&VOLUME, None, name);
    let Some(volume) = objects.live().get(&key).await? else {
        return Ok(false);
    };
    let owner = text(&volume, "/spec/claimRef/uid");
    if owner == uid(from) {
        let patch =
            json!({"spec": {"claimRef": reference(to), "capacity": {"storage": claim_size(to)}}});
        objects.merge(&key, Some(&volume), patch).await?;
    }
    if owner != uid(from) && owner != uid(to) {
        return Ok(false);
    }
    tie(objects, to, name).await?;
    Ok(true)
}

/// Whether `claim` has a volume that was made for it and not told of yet: somebody was killed
/// in between. It is bound then, whatever has become of its source.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn resume(objects: Objects<'_>, claim: &DynamicObject) -> Result<bool, ActorError> {
    let name = match text(claim, "/spec/volumeName") {
        "" => volume_name(claim),
        name => name.to_owned(),
    };
    let volume = objects.get(&Key::new(&VOLUME, None, &name)).await?;
    if volume.is_none_or(|volume| text(&volume, "/spec/claimRef/uid") != uid(claim)) {
        return Ok(false);
    }
    tie(objects, claim, &name).await?;
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

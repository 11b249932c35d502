//! How a claim is bound to a volume that was made for it.

use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::actor::ActorError;
use crate::actors::kind::{CLAIM, Key, STORAGE_CLASS, VOLUME};
use crate::actors::objects::{Objects, ignore_missing, text, uid};

/// Whether `claim` is bound.
pub fn is_bound(claim: &DynamicObject) -> bool {
    text(claim, "/status/phase") == "Bound"
}

/// On a claim: the node of the first Pod that uses it, as the scheduler says.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Whether the storage of `claim` waits for a Pod that uses it
/// (`volumeBindingMode: WaitForFirstConsumer`).
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn is_late_bound(
    objects: Objects<'_>,
    claim: &DynamicObject,
) -> Result<bool, ActorError> {
    let class = text(claim, "/spec/storageClassName");
    let class = objects.find(&STORAGE_CLASS, None, class).await?;
    Ok(class.is_some_and(|c| text(&c, "/volumeBindingMode") == "WaitForFirstConsumer"))
}

/// The storage that `claim` asks for.
pub fn claim_size(claim: &DynamicObject) -> &str {
    text(claim, "/spec/resources/requests/storage")
}

/// Name of the volume that is made for `claim`.
pub(super) fn volume_name(claim: &DynamicObject) -> String {
    format!("pvc-{}", uid(claim))
}

/// Makes a volume for `claim` and binds the two, or lets a bound claim have
/// grown. Nothing is written where nothing is to be done.
///
/// # Errors
/// An [`ActorError`] if the API server refuses.
pub async fn bind(objects: Objects<'_>, claim: &DynamicObject) -> Result<(), ActorError> {
    let key = Key::of(&CLAIM, claim);
    let volume = volume_name(claim);
    if !is_bound(claim) {
        let created = objects
            .create(&VOLUME, None, volume_for(claim, &volume))
            .await?;
        let made = Key::new(&VOLUME, None, &volume);
        let there = match created {
            Some(created) => Some(created),
            None => objects.live().get(&made).await?,
        };
        if let Some(made_object) = there {
            let bound = json!({"phase": "Bound"});
            ignore_missing(objects.set_status(&made, &made_object, bound).await)?;
        }
    }
    let claim = if text(claim, "/spec/volumeName").is_empty() {
        let patch = json!({
            "metadata": {"annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            }},
            "spec": {"volumeName": volume},
        });
        objects.merge(&key, Some(claim), patch).await?
    } else {
        Arc::new(claim.clone())
    };
    let status = json!({
        "phase": "Bound",
        "accessModes": claim.data["spec"]["accessModes"],
        "capacity": {"storage": claim_size(&claim)},
    });
    ignore_missing(objects.set_status(&key, &claim, status).await)
}

fn volume_for(claim: &DynamicObject, name: &str) -> Value {
    let spec = &claim.data["spec"];
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": claim_size(claim)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            },
            "hostPath": {"path": format!("/var/lib/kite-fake/{name}")},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": text(claim, "/spec/storageClassName"),
            "volumeMode": spec["volumeMode"].as_str().unwrap_or("Filesystem"),
        },
    })
}

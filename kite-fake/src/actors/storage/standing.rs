//! Volumes that are there before the claim that gets them.

use kube::api::DynamicObject;

use super::binding::claim_size;
use super::contents::obstacle;
use crate::actors::actor::ActorError;
use crate::actors::kind::{Key, VOLUME};
use crate::actors::objects::{Found, Objects, is_deleting, text, uid};
use crate::builtin::quantity;

/// What there is for a claim.
pub(super) enum Standing {
    /// This volume.
    Volume {
        /// It.
        volume: Found,
        /// Whether it is this claim's alone.
        is_reserved: bool,
    },
    /// None, and one can be made for it.
    None,
    /// None that it can have, and none is made for it.
    Waits,
}

/// The volume that `claim` names, one that is kept for it, or one that anybody may have of its
/// class.
pub(super) async fn standing(
    objects: Objects<'_>,
    claim: &DynamicObject,
    class: Option<&DynamicObject>,
) -> Result<Standing, ActorError> {
    let name = text(claim, "/spec/volumeName");
    if !name.is_empty() {
        let volume = objects.get(&Key::new(&VOLUME, None, name)).await?;
        let volume = volume.filter(|volume| is_free_for(volume, claim) && fits(volume, claim));
        let reserved = |volume| Standing::Volume {
            volume,
            is_reserved: true,
        };
        return Ok(volume.map_or(Standing::Waits, reserved));
    }
    let provisioner = class.map(|class| text(class, "/provisioner"));
    let is_static = claim.data["spec"]["storageClassName"] == ""
        || provisioner == Some("kubernetes.io/no-provisioner");
    let all = objects.list(&VOLUME, None, "").await?;
    let kept = all.iter().find(|volume| is_kept_for(volume, claim));
    if let Some(kept) = kept.filter(|volume| fits(volume, claim)) {
        return Ok(Standing::Volume {
            volume: kept.clone(),
            is_reserved: true,
        });
    }
    let free = all.iter().filter(|volume| {
        volume.data["spec"]["claimRef"].is_null()
            && text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
            && fits(volume, claim)
    });
    // The smallest that is large enough.
    let size = |volume: &&Found| quantity::nano(text(volume, "/spec/capacity/storage"));
    Ok(match (free.min_by_key(size), is_static) {
        (Some(free), _) => Standing::Volume {
            volume: free.clone(),
            is_reserved: false,
        },
        (None, true) => Standing::Waits,
        (None, false) => Standing::None,
    })
}

/// Whether a volume is kept for a claim of this name, or is that claim's already.
fn is_kept_for(volume: &DynamicObject, claim: &DynamicObject) -> bool {
    let of = |field: &str| text(volume, &format!("/spec/claimRef/{field}"));
    let meta = &claim.metadata;
    let is_named = Some(of("name")) == meta.name.as_deref()
        && Some(of("namespace")) == meta.namespace.as_deref();
    is_named && (of("uid").is_empty() || of("uid") == uid(claim))
}

fn is_free_for(volume: &DynamicObject, claim: &DynamicObject) -> bool {
    volume.data["spec"]["claimRef"].is_null() || is_kept_for(volume, claim)
}

fn fits(volume: &DynamicObject, claim: &DynamicObject) -> bool {
    let (has, wants) = (&volume.data["spec"], &claim.data["spec"]);
    let modes = |spec: &serde_json::Value| spec["accessModes"].as_array().cloned();
    let has_modes = modes(has).unwrap_or_default();
    let mut wanted = modes(wants).unwrap_or_default().into_iter();
    let mode = |spec: &serde_json::Value| {
        let mode = spec["volumeMode"].as_str();
        mode.unwrap_or("Filesystem").to_owned()
    };
    let size = quantity::nano(text(volume, "/spec/capacity/storage"));
    !is_deleting(volume)
        && obstacle(volume).is_none()
        && wanted.all(|mode| has_modes.contains(&mode))
        && mode(has) == mode(wants)
        && text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
        && quantity::nano(claim_size(claim)) <= size
}

//! The volumes of an instance and what is known of their storage.

use kube::api::DynamicObject;
use serde_json::Value;

use crate::actors::actor::ActorError;
use crate::actors::kind::{CLAIM, DATA_VOLUME, Key};
use crate::actors::objects::{Objects, text};
use crate::actors::storage::is_bound;

/// A volume of an instance.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    /// Its name in the spec.
    pub(super) name: String,
    /// The claim behind it, if it is of a kind that has one.
    pub(super) storage: Option<Storage>,
}

/// The storage behind a volume.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    /// Name of the claim, and of the `DataVolume` if there is one.
    pub(super) claim_name: String,
    /// The claim, if it is there.
    pub(super) claim: Option<DynamicObject>,
    /// The `DataVolume` of the claim's name, if it is there.
    pub(super) data_volume: Option<DynamicObject>,
}

impl Storage {
    /// Whether the disk is filled, as far as a `DataVolume` has to do it.
    pub(super) fn is_filled(&self) -> bool {
        let phase = self.data_volume.as_ref().map(|v| text(v, "/status/phase"));
        phase.is_none_or(|phase| phase == "Succeeded")
    }

    /// Whether the claim is there and bound.
    pub(super) fn is_bound(&self) -> bool {
        self.claim.as_ref().is_some_and(is_bound)
    }
}

/// Names and claim names of the volumes in an instance's spec.
pub(super) fn named(spec: &Value) -> Vec<(String, Option<String>)> {
    let volumes = spec["volumes"].as_array();
    volumes
        .into_iter()
        .flatten()
        .map(|volume| {
            let claim = volume["dataVolume"]["name"]
                .as_str()
                .or(volume["persistentVolumeClaim"]["claimName"].as_str());
            let name = volume["name"].as_str().unwrap_or_default();
            (name.to_owned(), claim.map(str::to_owned))
        })
        .collect()
}

/// Keys of what the volumes in an instance's spec depend on.
pub(super) fn dependencies(spec: &Value, namespace: Option<&str>) -> Vec<Key> {
    let claims = named(spec).into_iter().filter_map(|(_, claim)| claim);
    claims
        .flat_map(|claim| [&CLAIM, &DATA_VOLUME].map(|kind| Key::new(kind, namespace, &claim)))
        .collect()
}

/// The volumes in an instance's spec with their storage as it is now.
pub(super) async fn observe(
    objects: Objects<'_>,
    spec: &Value,
    namespace: Option<&str>,
) -> Result<Vec<Volume>, ActorError> {
    let mut volumes = Vec::new();
    for (name, claim_name) in named(spec) {
        let storage = match claim_name {
            None => None,
            Some(claim_name) => Some(Storage {
                claim: objects.find(&CLAIM, namespace, &claim_name).await?,
                data_volume: objects.find(&DATA_VOLUME, namespace, &claim_name).await?,
                claim_name,
            }),
        };
        volumes.push(Volume { name, storage });
    }
    Ok(volumes)
}

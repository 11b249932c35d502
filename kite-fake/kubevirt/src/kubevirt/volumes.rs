//! The volumes of an instance and what is known of their storage.

use kite_fake::actors::ActorError;
use kite_fake::actors::kind::{CLAIM, Key};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{Objects, is_controlled_by, text, uid};
use kite_fake::actors::storage::is_bound;
use serde_json::Value;

use crate::kinds::DATA_VOLUME;

/// A volume of an instance.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    /// Its name in the spec.
    pub(super) name: String,
    /// Whether it is plugged in while the instance runs.
    pub(super) hotplug: bool,
    /// The claim behind it, if it is of a kind that has one.
    pub(super) storage: Option<Storage>,
}

/// The storage behind a volume.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    /// Name of the claim, and of the `DataVolume` if there is one.
    pub(super) claim_name: String,
    /// The claim, if it is there.
    pub(super) claim: Option<Found>,
    /// The `DataVolume` of the claim's name, if it is there.
    pub(super) data_volume: Option<Found>,
}

impl Storage {
    /// Whether the disk is filled, as far as a `DataVolume` has to do it.
    pub(super) fn is_filled(&self) -> bool {
        self.phase().is_none_or(|phase| phase == "Succeeded")
    }

    /// Whether the disk is filled when a Pod uses it, and none did yet.
    pub(super) fn waits_for_consumer(&self) -> bool {
        self.phase() == Some("PendingPopulation")
    }

    /// How far its `DataVolume` is. Of a claim that is not its own somebody else has filled it.
    fn phase(&self) -> Option<&str> {
        let disk = self.data_volume.as_ref()?;
        let is_its = |claim: &Found| is_controlled_by(claim, uid(disk));
        let counts = self.claim.as_ref().is_none_or(is_its);
        counts.then(|| text(disk, "/status/phase"))
    }

    /// Whether the claim is there and bound.
    pub(super) fn is_bound(&self) -> bool {
        self.claim.as_deref().is_some_and(is_bound)
    }
}

/// Name of the claim behind a volume of a spec.
pub(super) fn claim_name(volume: &Value) -> Option<&str> {
    let claim = volume["dataVolume"]["name"].as_str();
    claim.or(volume["persistentVolumeClaim"]["claimName"].as_str())
}

/// Whether a volume of a spec is plugged into a running instance.
pub(super) fn is_hotplug(volume: &Value) -> bool {
    volume["dataVolume"]["hotpluggable"] == true
        || volume["persistentVolumeClaim"]["hotpluggable"] == true
}

/// The volumes of an instance's spec.
pub(super) fn listed(spec: &Value) -> impl Iterator<Item = &Value> {
    let volumes = spec["volumes"].as_array();
    volumes.map_or(&[][..], Vec::as_slice).iter()
}

/// Names and claim names of the volumes that an instance boots with.
pub(super) fn at_boot(spec: &Value) -> impl Iterator<Item = (&str, Option<&str>)> {
    let volumes = listed(spec).filter(|volume| !is_hotplug(volume));
    volumes.map(|volume| {
        let name = volume["name"].as_str().unwrap_or_default();
        (name, claim_name(volume))
    })
}

/// Keys of what the volumes in an instance's spec depend on.
pub(super) fn dependencies(spec: &Value, namespace: Option<&str>) -> Vec<Key> {
    let claims = listed(spec).filter_map(claim_name);
    claims
        .flat_map(|claim| [&CLAIM, &DATA_VOLUME].map(|kind| Key::new(kind, namespace, claim)))
        .collect()
}

/// The volumes in an instance's spec with their storage as it is now.
pub(super) async fn observe(
    objects: Objects<'_>,
    spec: &Value,
    namespace: Option<&str>,
) -> Result<Vec<Volume>, ActorError> {
    let mut volumes = Vec::new();
    for volume in listed(spec) {
        let storage = match claim_name(volume) {
            None => None,
            Some(claim_name) => Some(Storage {
                claim: objects.find(&CLAIM, namespace, claim_name).await?,
                data_volume: objects.find(&DATA_VOLUME, namespace, claim_name).await?,
                claim_name: claim_name.to_owned(),
            }),
        };
        volumes.push(Volume {
            name: volume["name"].as_str().unwrap_or_default().to_owned(),
            hotplug: is_hotplug(volume),
            storage,
        });
    }
    Ok(volumes)
}

//! How large a disk has to be that holds the image.

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::OwnerReference};
use kite_core::quantity::Bytes;

use super::Observed;

/// The size of a disk that holds the image: that of the claim that is cloned.
pub(super) fn size(seen: &Observed) -> Option<Bytes> {
    let requested = |disk: &kite_core::cdi::DataVolumeSpec| -> Option<Quantity> {
        let resources = disk.storage.as_ref()?.resources.as_ref()?;
        resources.requests.as_ref()?.get("storage").cloned()
    };
    let of_disk = seen.disk.as_ref().and_then(|disk| requested(&disk.spec));
    let of_cron = || requested(&seen.cron.as_ref()?.spec.template.spec);
    let of_claim_disk = || {
        // CDI makes the claim larger than what is on it.
        let disk = seen.claim_disk.as_ref()?;
        let owners = seen.claim.as_ref()?.metadata.owner_references.iter();
        let is_its = |owner: &OwnerReference| Some(&owner.uid) == disk.metadata.uid.as_ref();
        owners.flatten().any(is_its).then_some(())?;
        requested(&disk.spec)
    };
    let of_claim = || {
        let status = seen.claim.as_ref()?.status.as_ref()?;
        status.capacity.as_ref()?.get("storage").cloned()
    };
    let size = of_disk
        .or_else(of_cron)
        .or_else(of_claim_disk)
        .or_else(of_claim)?;
    size.0.parse().ok()
}

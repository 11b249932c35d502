//! The claim of a disk: how large it has to be, and how far it has grown.

mod growth;
mod overhead;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{cdi::DataVolume, quantity::Bytes};

pub(crate) use self::{
    growth::{Growth, growth},
    overhead::Overhead,
};

/// The size that a disk was made with.
pub(crate) fn disk_size(disk: &DataVolume) -> Option<Bytes> {
    let resources = disk.spec.storage.as_ref()?.resources.as_ref()?;
    resources.requests.as_ref()?.get("storage")?.0.parse().ok()
}

/// The size that a claim asks for.
pub(crate) fn claim_size(claim: &PersistentVolumeClaim) -> Option<Bytes> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    resources.requests.as_ref()?.get("storage")?.0.parse().ok()
}

pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim
        .status
        .as_ref()
        .is_some_and(|status| status.phase.as_deref() == Some("Bound"))
}

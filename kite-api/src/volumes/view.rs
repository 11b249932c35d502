//! A volume as the API shows it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kite_core::{
    crd::{AttachedTo, KiteVolume, OnAccountDeletion, VolumePhase},
    names,
    quantity::Bytes,
};
use kite_rest::etag_of;
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::owned::owner_of;

/// Desired and observed state, under the names of the custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Volume")]
pub(crate) struct VolumeView {
    /// Its name, one of its owner's.
    name: String,
    /// Name of the account it belongs to.
    owner: String,
    /// The namespace that it is in.
    namespace: String,
    /// What tells it from any other volume, also a later one of the same name.
    uid: String,
    /// What an edit sends as `If-Match` to count only if nobody else edited since.
    etag: String,
    /// How large it is to be.
    size: Bytes,
    /// What its owner says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// What becomes of it when its owner's account is deleted.
    on_account_deletion: OnAccountDeletion,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Time>,
    /// Whether it is being deleted.
    deleting: bool,
    /// Which of its settings cannot be read, and why: what is shown in their place is
    /// not theirs. Left out where all can.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    /// What was seen of it.
    status: StatusView,
}

/// What was seen.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "VolumeStatus")]
struct StatusView {
    /// Where it is in its life.
    phase: VolumePhase,
    /// Whether the status speaks of the spec as it is now.
    up_to_date: bool,
    /// The size that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Bytes>,
    /// The VM that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    attached_to: Option<AttachedTo>,
    /// By what the guest knows the disk: `/dev/disk/by-id/virtio-<serial>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    /// Why it is as it is.
    conditions: Vec<Condition>,
}

impl VolumeView {
    pub(crate) fn of(volume: &KiteVolume) -> Self {
        let status = volume.status.clone().unwrap_or_default();
        Self {
            name: volume.name_any(),
            owner: owner_of(volume.metadata.namespace.as_deref()),
            namespace: volume.namespace().unwrap_or_default(),
            uid: volume.uid().unwrap_or_default(),
            etag: etag_of(volume),
            size: volume.spec.size.clone(),
            description: volume.spec.description.clone(),
            on_account_deletion: volume.spec.on_account_deletion,
            created_at: volume.creation_timestamp(),
            deleting: volume.metadata.deletion_timestamp.is_some(),
            unreadable: volume.unreadable().map(Cow::into_owned),
            status: StatusView {
                phase: phase(volume),
                up_to_date: status.observed_generation.is_some()
                    && status.observed_generation == volume.metadata.generation,
                size: status.disk.and_then(|it| it.size),
                attached_to: status.attached_to,
                serial: status.serial,
                conditions: status.conditions,
            },
        }
    }
}

/// The phase that was seen, `Pending` before anything was.
pub(super) fn phase(volume: &KiteVolume) -> VolumePhase {
    let status = volume.status.as_ref();
    let phase = status.and_then(|it| it.phase);
    phase.unwrap_or(VolumePhase::Pending)
}

/// What people look for a volume by.
pub(super) fn texts(volume: &KiteVolume) -> impl Iterator<Item = &str> {
    let owner = volume.metadata.namespace.as_deref();
    let owner = owner.and_then(names::user_of_namespace);
    let status = volume.status.as_ref();
    let vm = status.and_then(|it| it.attached_to.as_ref());
    [
        volume.metadata.name.as_deref(),
        owner,
        volume.spec.description.as_deref(),
        vm.map(|it| it.vm.as_str()),
    ]
    .into_iter()
    .flatten()
}

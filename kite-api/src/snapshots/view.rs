//! A snapshot as the API shows it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kite_core::{
    conditions,
    crd::{Consistency, KiteSnapshot, Quiesce, SnapshotFailure, SnapshotPhase, SnapshotSource},
    labels,
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
#[schemars(rename = "Snapshot")]
pub(crate) struct SnapshotView {
    /// Its name, one of its owner's.
    name: String,
    /// Name of the account it belongs to.
    owner: String,
    /// The namespace that it is in.
    namespace: String,
    /// What tells it from any other snapshot, also a later one of the same name.
    uid: String,
    /// What an edit sends as `If-Match` to count only if nobody else edited since.
    etag: String,
    /// Name of the VM that it is of.
    vm: String,
    /// Whether the guest's file systems were to be at rest.
    quiesce: Quiesce,
    /// Until when it is kept whatever becomes of its VM; it is deleted after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_until: Option<Time>,
    /// Whether it is kept whatever becomes of its VM, and when it is deleted.
    protected: bool,
    /// What its owner says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Whether a schedule of its VM has taken it.
    scheduled: bool,
    /// When it was asked for.
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
#[schemars(rename = "SnapshotStatus")]
struct StatusView {
    /// How far it is.
    phase: SnapshotPhase,
    /// Whether the status speaks of the spec as it is now.
    up_to_date: bool,
    /// The moment that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_at: Option<Time>,
    /// How consistent it is; once this is told, all of the data is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    consistency: Option<Consistency>,
    /// Why it is no more consistent than that, where it is as after a power failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    consistency_note: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<SnapshotFailure>,
    /// Size of the disk that it is of, with which its owner is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Bytes>,
    /// What it was taken of, as it was then.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SnapshotSource>,
    /// Why it is as it is.
    conditions: Vec<Condition>,
}

impl SnapshotView {
    pub(crate) fn of(snapshot: &KiteSnapshot) -> Self {
        let spec = snapshot.spec.clone();
        Self {
            name: snapshot.name_any(),
            owner: owner_of(snapshot.metadata.namespace.as_deref()),
            namespace: snapshot.namespace().unwrap_or_default(),
            uid: snapshot.uid().unwrap_or_default(),
            etag: etag_of(snapshot),
            vm: spec.vm,
            quiesce: spec.quiesce,
            keep_until: spec.keep_until,
            protected: spec.protected,
            description: spec.description,
            scheduled: snapshot.labels().contains_key(labels::SCHEDULE_OF),
            created_at: snapshot.creation_timestamp(),
            deleting: snapshot.metadata.deletion_timestamp.is_some(),
            unreadable: snapshot.unreadable().map(Cow::into_owned),
            status: StatusView::of(snapshot),
        }
    }
}

impl StatusView {
    fn of(snapshot: &KiteSnapshot) -> Self {
        let status = snapshot.status.clone().unwrap_or_default();
        Self {
            phase: phase(snapshot),
            up_to_date: status.observed_generation.is_some()
                && status.observed_generation == snapshot.metadata.generation,
            taken_at: status.taken_at,
            consistency: status.consistency,
            consistency_note: status.consistency_note,
            failure: status.failure,
            size: status.size,
            source: status.source,
            conditions: status.conditions,
        }
    }
}

/// The phase that was seen, `Pending` before anything was.
pub(super) fn phase(snapshot: &KiteSnapshot) -> SnapshotPhase {
    let status = snapshot.status.as_ref();
    let phase = status.and_then(|it| it.phase);
    phase.unwrap_or(SnapshotPhase::Pending)
}

/// What the controller says of it.
pub(super) fn told(snapshot: &KiteSnapshot) -> String {
    let status = snapshot.status.as_ref();
    let failure = status.and_then(|it| it.failure.as_ref());
    let ready = || conditions::find(&status?.conditions, "Ready").map(|it| &it.message);
    let told = failure.map(|it| &it.message).or_else(ready);
    told.cloned().unwrap_or_default()
}

/// What people look for a snapshot by.
pub(super) fn texts(snapshot: &KiteSnapshot) -> impl Iterator<Item = &str> {
    let owner = snapshot.metadata.namespace.as_deref();
    let owner = owner.and_then(kite_core::names::user_of_namespace);
    [
        snapshot.metadata.name.as_deref(),
        owner,
        Some(snapshot.spec.vm.as_str()),
        snapshot.spec.description.as_deref(),
    ]
    .into_iter()
    .flatten()
}

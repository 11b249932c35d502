//! What is kept, and what of it.

use k8s_openapi::api::core::v1::Secret;
use kite_api::SEALED_TOKENS;
use kite_core::crd::{
    KiteImage, KiteInvite, KitePassword, KitePlatform, KiteReservation, KiteSecondFactor,
    KiteToken, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer, KiteVolume,
};
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde_json::{Map, Value};

/// Annotation of a password that was found as it was kept: when. It is written so that who
/// is about to clear the password away sees that it is needed.
pub(super) const SEEN_AT: &str = "hy3ons.github.io/restore-seen-at";
/// What `kubectl apply` leaves in annotations.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The uid that an object had before a restore made it anew.
pub(super) const FORMER_UID: &str = "hy3ons.github.io/restored-from-uid";

/// A kind that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Platform,
    Image,
    Offer,
    Password,
    User,
    SecondFactor,
    Token,
    Invite,
    Volume,
    Machine,
    Reservation,
    Secret,
}

impl Kind {
    /// Kite's own. Sessions and connections are not among them: people sign in again.
    pub(super) const OWN: [Self; 11] = [
        Self::Platform,
        Self::Image,
        Self::Offer,
        Self::Password,
        Self::User,
        Self::SecondFactor,
        Self::Token,
        Self::Invite,
        Self::Volume,
        Self::Machine,
        Self::Reservation,
    ];

    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Platform => ApiResource::erase::<KitePlatform>(&()),
            Self::Image => ApiResource::erase::<KiteImage>(&()),
            Self::Offer => ApiResource::erase::<KiteVirtualMachineOffer>(&()),
            Self::Password => ApiResource::erase::<KitePassword>(&()),
            Self::User => ApiResource::erase::<KiteUser>(&()),
            Self::SecondFactor => ApiResource::erase::<KiteSecondFactor>(&()),
            Self::Token => ApiResource::erase::<KiteToken>(&()),
            Self::Invite => ApiResource::erase::<KiteInvite>(&()),
            Self::Volume => ApiResource::erase::<KiteVolume>(&()),
            Self::Machine => ApiResource::erase::<KiteVirtualMachine>(&()),
            Self::Reservation => ApiResource::erase::<KiteReservation>(&()),
            Self::Secret => ApiResource::erase::<Secret>(&()),
        }
    }

    /// The kind of an object, if it is kept.
    pub(super) fn of(object: &DynamicObject) -> Option<Self> {
        let types = object.types.as_ref()?;
        let mut all = Self::OWN.into_iter().chain([Self::Secret]);
        all.find(|it| it.is(&types.api_version, &types.kind))
    }

    fn is(self, api_version: &str, kind: &str) -> bool {
        let resource = self.resource();
        resource.kind == kind && resource.api_version == api_version
    }

    pub(super) fn is_namespaced(self) -> bool {
        matches!(self, Self::Volume | Self::Machine | Self::Secret)
    }

    /// Fields of the status of which nothing else tells: all others the controller
    /// finds out again.
    pub(super) fn truths(self) -> &'static [&'static str] {
        match self {
            Self::Offer => &["claimedBy"],
            Self::Token => &["lastUsedAt"],
            Self::Invite => &["claimedFor"],
            Self::Volume => &["granted"],
            Self::Machine => &["granted", "restart"],
            Self::Platform
            | Self::Image
            | Self::Password
            | Self::User
            | Self::SecondFactor
            | Self::Reservation
            | Self::Secret => &[],
        }
    }

    /// Numbers of the spec that only rise.
    pub(super) fn rising(self) -> &'static [&'static str] {
        match self {
            Self::Platform => &["sessionEpoch", "tokenEpoch"],
            Self::User => &["tokenEpoch"],
            Self::SecondFactor => &["lastStep"],
            Self::Image
            | Self::Offer
            | Self::Password
            | Self::Token
            | Self::Invite
            | Self::Volume
            | Self::Machine
            | Self::Reservation
            | Self::Secret => &[],
        }
    }

    /// Whether others name it by its uid.
    pub(super) fn is_named_by_uid(self) -> bool {
        matches!(self, Self::User | Self::Machine | Self::Offer)
    }

    /// Where it names uids of other objects.
    pub(super) fn uids(self) -> &'static [&'static str] {
        match self {
            Self::Offer => &["/status/claimedBy/uid"],
            Self::SecondFactor | Self::Token => &["/spec/userUid"],
            Self::Invite => &["/spec/createdBy/uid"],
            Self::Reservation => &["/spec/holder/uid"],
            Self::Platform
            | Self::Image
            | Self::Password
            | Self::User
            | Self::Volume
            | Self::Machine
            | Self::Secret => &[],
        }
    }
}

/// What is kept of an object.
pub(super) fn essence(kind: Kind, object: &DynamicObject) -> DynamicObject {
    let metadata = &object.metadata;
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    // What is sealed for a repeated request would open elsewhere what it opens here.
    let own = [LAST_APPLIED, FORMER_UID, SEEN_AT];
    let is_left_out = |name: &str| own.contains(&name) || SEALED_TOKENS.contains(&name);
    annotations.retain(|name, _| !is_left_out(name));
    let mut owners = metadata.owner_references.clone().unwrap_or_default();
    // A Secret comes back before its VM, and the controller takes it up by its labels.
    // Of owners that are not kept nobody could tell the new uid.
    owners.retain(|it| {
        let mut own = Kind::OWN.into_iter();
        kind != Kind::Secret && own.any(|of| of.is(&it.api_version, &it.kind))
    });
    let mut data = object.data.as_object().cloned().unwrap_or_default();
    let status = data.remove("status").unwrap_or_default();
    let status = truths(kind, &status);
    if !status.is_empty() {
        data.insert("status".to_owned(), status.into());
    }
    DynamicObject {
        types: object.types.clone(),
        metadata: ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            labels: metadata.labels.clone().filter(|it| !it.is_empty()),
            annotations: Some(annotations).filter(|it| !it.is_empty()),
            owner_references: Some(owners).filter(|it| !it.is_empty()),
            ..ObjectMeta::default()
        },
        data: data.into(),
    }
}

fn truths(kind: Kind, status: &Value) -> Map<String, Value> {
    let fields = kind.truths().iter();
    let mut kept: Map<_, _> = fields
        .filter_map(|field| {
            let value = status.get(*field)?;
            (!value.is_null()).then(|| ((*field).to_owned(), value.clone()))
        })
        .collect();
    // Which instance was to end, and when that was asked for, is over.
    if let Some(restart) = kept.get_mut("restart").and_then(Value::as_object_mut) {
        restart.retain(|field, _| field == "restartedAt");
    }
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_sealed_for_a_repeated_request_is_not_kept() {
        for (kind, sealed) in [
            ("KiteToken", "hy3ons.github.io/api-token"),
            ("KiteInvite", "hy3ons.github.io/invite-token"),
        ] {
            let object = json!({
                "apiVersion": "hy3ons.github.io/v1", "kind": kind,
                "metadata": {"name": "it", "annotations": {sealed: "x", "example.org/note": "y"}},
                "spec": {"hash": "z"},
            });
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let kept = essence(Kind::of(&object).unwrap(), &object);
            let annotations = kept.metadata.annotations.unwrap();
            let names: Vec<_> = annotations.keys().collect();
            assert_eq!(names, ["example.org/note"], "{kind}");
            assert_eq!(kept.data["spec"]["hash"], "z");
        }
    }
}

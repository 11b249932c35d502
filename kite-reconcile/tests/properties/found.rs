//! How an object that has a name of ours is found.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kite_core::crd::{Holder, HolderKind, KiteReservation};
use kite_core::{cluster::Object, labels};
use kite_reconcile::{
    claims::{ClaimState, Claims, WantedClaim},
    objects::AnyObject,
};
use kube::ResourceExt as _;
use proptest::prelude::*;

/// The tenant whose things are never to be touched.
pub const BOB: &str = "kite-user-bob";

/// How an object is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Not,
    AsWanted,
    /// Ours, with other content.
    Drifted,
    /// Ours by its owner.
    WithoutLabels,
    /// Ours by its labels.
    WithoutOwner,
    /// Ours, and on its way out.
    Leaving,
    /// Of an object that had the owner's name before.
    OfAnEarlierLife,
    /// The same, and on its way out.
    OfAnEarlierLifeLeaving,
    /// With another controller.
    SomebodyElses,
    /// Without an owner, with the labels of another tenant.
    OfAnotherTenant,
    /// Without an owner and without labels.
    Nobodys,
}

impl Found {
    /// Whether the reconciled object made it.
    pub fn is_ours(self) -> bool {
        match self {
            Self::AsWanted
            | Self::Drifted
            | Self::WithoutLabels
            | Self::WithoutOwner
            | Self::Leaving => true,
            Self::Not
            | Self::OfAnEarlierLife
            | Self::OfAnEarlierLifeLeaving
            | Self::SomebodyElses
            | Self::OfAnotherTenant
            | Self::Nobodys => false,
        }
    }

    /// Whether something else has its place for good.
    pub fn is_in_the_way(self) -> bool {
        matches!(
            self,
            Self::OfAnEarlierLife | Self::SomebodyElses | Self::OfAnotherTenant | Self::Nobodys
        )
    }
}

/// Most things are as they should be, so that plans get far.
pub fn found() -> BoxedStrategy<Found> {
    prop_oneof![
        6 => Just(Found::Not),
        6 => Just(Found::AsWanted),
        2 => Just(Found::Drifted),
        1 => Just(Found::WithoutLabels),
        1 => Just(Found::WithoutOwner),
        2 => Just(Found::Leaving),
        1 => Just(Found::OfAnEarlierLife),
        1 => Just(Found::OfAnEarlierLifeLeaving),
        1 => Just(Found::SomebodyElses),
        1 => Just(Found::OfAnotherTenant),
        1 => Just(Found::Nobodys),
    ]
    .boxed()
}

/// Nothing that belongs to somebody else.
pub fn found_ours() -> BoxedStrategy<Found> {
    prop_oneof![
        Just(Found::Not),
        Just(Found::AsWanted),
        Just(Found::Drifted),
        Just(Found::WithoutLabels),
        Just(Found::WithoutOwner),
        Just(Found::Leaving),
    ]
    .boxed()
}

/// `wanted` as it is found.
pub fn place<K: Object>(wanted: K, found: Found) -> Option<K> {
    let mut object = if found == Found::Drifted {
        drifted(&wanted)
    } else {
        wanted
    };
    let meta = object.meta_mut();
    meta.uid = Some(uid_of(found, meta.name.as_deref().unwrap()));
    match found {
        Found::Not => return None,
        Found::AsWanted | Found::Drifted => {}
        Found::WithoutLabels => meta.labels = None,
        Found::WithoutOwner => meta.owner_references = None,
        Found::Leaving => meta.deletion_timestamp = Some(now()),
        Found::OfAnEarlierLife | Found::OfAnEarlierLifeLeaving => {
            for owner in meta.owner_references.iter_mut().flatten() {
                "uid-earlier".clone_into(&mut owner.uid);
            }
            if found == Found::OfAnEarlierLifeLeaving {
                meta.deletion_timestamp = Some(now());
            }
        }
        Found::SomebodyElses => {
            meta.owner_references = Some(vec![OwnerReference {
                controller: Some(true),
                kind: "Other".to_owned(),
                uid: "uid-other".to_owned(),
                ..OwnerReference::default()
            }]);
        }
        Found::OfAnotherTenant => {
            meta.owner_references = None;
            meta.labels = Some(labels::for_vm(BOB, "web"));
        }
        Found::Nobodys => {
            meta.owner_references = None;
            meta.labels = None;
        }
    }
    Some(object)
}

/// The uid tells a test later how the object was found.
fn uid_of(found: Found, name: &str) -> String {
    let whose = if found.is_ours() { "ours" } else { "theirs" };
    format!("{whose}-{name}")
}

/// Whether the object was found there and is not ours.
pub fn is_foreign(object: &AnyObject) -> bool {
    let uid = object.metadata().uid.as_deref();
    uid.is_some_and(|uid| uid.starts_with("theirs-"))
}

/// With one field of its spec, or of its data, taken away.
fn drifted<K: Object>(wanted: &K) -> K {
    for part in ["spec", "data"] {
        let mut json = serde_json::to_value(wanted).unwrap();
        let fields = json
            .get_mut(part)
            .and_then(serde_json::Value::as_object_mut);
        let Some(field) = fields
            .as_ref()
            .and_then(|fields| fields.keys().next().cloned())
        else {
            continue;
        };
        fields.unwrap().remove(&field);
        if let Ok(drifted) = serde_json::from_value(json) {
            return drifted;
        }
    }
    let mut drifted = wanted.clone();
    drifted.labels_mut().remove(labels::MANAGED_BY);
    drifted
}

pub fn now() -> Time {
    Time("2026-01-01T00:00:00Z".parse().unwrap())
}

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    Free,
    Mine,
    Theirs { alive: bool },
}

pub fn claimed() -> impl Strategy<Value = Claimed> {
    prop_oneof![
        2 => Just(Claimed::Free),
        5 => Just(Claimed::Mine),
        2 => any::<bool>().prop_map(|alive| Claimed::Theirs { alive }),
    ]
}

/// The holder of claims who is not the reconciled object.
pub fn other_holder(alive: bool) -> Holder {
    Holder {
        kind: HolderKind::KiteVirtualMachine,
        // The name of one that is gone is kept for its owner, who is the same.
        namespace: Some(if alive { BOB } else { "kite-user-ann" }.to_owned()),
        name: "other".to_owned(),
        uid: if alive { "uid-alive" } else { "uid-dead" }.to_owned(),
    }
}

/// `wanted`, standing like `how`, and with `stale` a claim that an edit dropped.
pub fn claims(wanted: Vec<KiteReservation>, how: &[Claimed], stale: bool) -> Claims {
    let dropped = stale.then(|| {
        let mut dropped = wanted[0].clone();
        dropped.metadata.name = Some("ssh-id.dropped".to_owned());
        dropped
    });
    let state = |wanted: &KiteReservation, how: Claimed| match how {
        Claimed::Free => ClaimState::Free,
        Claimed::Mine => ClaimState::Mine(wanted.clone()),
        Claimed::Theirs { alive } => {
            let mut reservation = wanted.clone();
            reservation.spec.holder = other_holder(alive);
            ClaimState::Held {
                reservation,
                alive,
                user_uid: None,
            }
        }
    };
    Claims {
        user_uid: None,
        wanted: wanted
            .into_iter()
            .zip(how)
            .map(|(wanted, how)| WantedClaim {
                state: state(&wanted, *how),
                wanted,
            })
            .collect(),
        stale: dropped.into_iter().collect(),
    }
}

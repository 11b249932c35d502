//! Whose an observed object is, and what it needs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kite_core::{
    cluster::{ABSENT, Object},
    labels,
};

use crate::matches::is_applied;

/// How an object that has the name of one of ours stands to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Ours: put right what differs.
    Ours,
    /// Ours or not, it is on its way out: wait.
    Leaving,
    /// It belongs to an earlier object of the owner's name, or to somebody
    /// else: leave it alone.
    Foreign,
}

/// Judges an observed object by what should own it. An object is ours when our
/// owner is its controller; or, should its owner references have been lost, when
/// it has our labels and no controller.
pub fn standing(observed: &ObjectMeta, desired: &ObjectMeta) -> Standing {
    let ours = desired.owner_references.iter().flatten().next();
    let controller = observed
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true));
    let is_ours = match (controller, ours) {
        (Some(controller), Some(ours)) => controller.uid == ours.uid,
        (Some(_), None) => false,
        (None, _) => {
            let has = |key: &str| {
                let of = |metadata: &ObjectMeta| {
                    metadata
                        .labels
                        .as_ref()
                        .and_then(|labels| labels.get(key).cloned())
                };
                of(observed) == of(desired)
            };
            [
                labels::MANAGED_BY,
                labels::VM_NAME,
                labels::VM_NAMESPACE,
                labels::USER_NAME,
                labels::IMAGE_NAME,
                labels::SNAPSHOT_NAME,
                labels::SNAPSHOT_UID,
                labels::VOLUME_NAME,
                labels::PLATFORM_NAME,
            ]
            .into_iter()
            .all(has)
        }
    };
    match (is_ours, observed.deletion_timestamp.is_some()) {
        (true, true) => Standing::Leaving,
        (true, false) => Standing::Ours,
        (false, _) => Standing::Foreign,
    }
}

/// What has to be done for an object to be as desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// Nothing.
    Nothing,
    /// It is to be applied.
    Apply,
    /// A former one has to go first; the text says so.
    Wait(String),
    /// Somebody else's has its name; the text says so.
    Blocked(String),
}

/// Compares the object that should be with the one that is there. `whose` names
/// the owner's kind for people.
pub(crate) fn needed<K: Object>(desired: &K, stored: Option<&K>, whose: &str) -> Needed {
    let Some(stored) = stored else {
        return Needed::Apply;
    };
    let name = desired.meta().name.as_deref().unwrap_or_default();
    let kind = K::kind(&());
    match standing(stored.meta(), desired.meta()) {
        Standing::Ours if is_applied(desired, stored) => Needed::Nothing,
        Standing::Ours => Needed::Apply,
        Standing::Leaving => Needed::Wait(format!("waiting for the former {kind} {name} to go")),
        Standing::Foreign => Needed::Blocked(format!(
            "{kind} {name} is there and belongs to something else: it must go, or the {whose} \
             needs another name"
        )),
    }
}

/// `desired`, to be applied over the object that was seen and over no other: what
/// was seen may be old. Where nothing was seen, nothing may be there: an object
/// that somebody else has made meanwhile is not taken over.
pub(crate) fn guarded<K: Object>(desired: &K, stored: Option<&K>) -> K {
    let mut guarded = desired.clone();
    let metadata = guarded.meta_mut();
    match stored {
        Some(stored) => metadata.uid.clone_from(&stored.meta().uid),
        None => metadata.resource_version = Some(ABSENT.to_owned()),
    }
    guarded
}

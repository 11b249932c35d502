//! Whose an observed object is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kite_core::labels;

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

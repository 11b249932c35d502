//! Since when a VM has keys and a password of its own, in an annotation of the VM.
//!
//! It is written by whatever tells the owner of them (`notices::told`), in the same write
//! as the access itself: no way to change that goes without. What others than the API put
//! there has the date on which that was found.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// The annotation of a VM that tells since when it has what opens it.
pub(crate) const SINCE: &str = "hy3ons.github.io/access-since";

/// What is noted of a VM that gets keys or a password at `now`.
pub(crate) fn note_access(now: Timestamp) -> (String, String) {
    (SINCE.to_owned(), now.to_string())
}

/// Since when a VM with these annotations has what opens it; nothing where that was never
/// noted.
pub(crate) fn date_in(annotations: &BTreeMap<String, String>) -> Option<Timestamp> {
    annotations.get(SINCE)?.parse().ok()
}

//! What asks for a fresh proof of who one is, by operation: those of accounts are in
//! [`kite_identity::proof`]. A test asks every one of them.

pub use kite_identity::proof::Asks;

/// What opens a VM, in bodies that make or edit one.
const VM_ACCESS: &[&str] = &["sshPublicKeys", "sshPassword"];

/// Every operation that changes something beside those of accounts, by its id. What only
/// looks never asks.
pub const OPERATIONS: [(&str, Asks); 27] = [
    ("deleteCertificate", Asks::Always),
    ("putCertificate", Asks::Always),
    ("createOffer", Asks::Always),
    ("deleteOffer", Asks::Always),
    ("createImage", Asks::Always),
    ("editImage", Asks::Always),
    ("deleteImage", Asks::Always),
    ("editPlatform", Asks::Always),
    ("endAnyVmSession", Asks::Always),
    ("claimOffer", Asks::For(VM_ACCESS)),
    ("createVm", Asks::ForOthersOr(VM_ACCESS)),
    ("deleteVm", Asks::ForOthers),
    (
        "editVm",
        Asks::ForOthersOr(&["sshPublicKeys", "sshPassword", "sshLogin", "domainPrefix"]),
    ),
    ("openConsole", Asks::ForOthers),
    ("restartVm", Asks::ForOthers),
    ("endVmSession", Asks::ForOthers),
    ("startVm", Asks::ForOthers),
    ("stopVm", Asks::ForOthers),
    ("restoreVm", Asks::ForOthers),
    ("cancelRestore", Asks::ForOthers),
    ("createSnapshot", Asks::ForOthers),
    ("editSnapshot", Asks::ForOthers),
    ("deleteSnapshot", Asks::ForOthers),
    ("createVolume", Asks::ForOthers),
    ("editVolume", Asks::ForOthers),
    ("deleteVolume", Asks::ForOthers),
    ("seeNotices", Asks::Always),
];

/// Every operation that changes something.
pub fn operations() -> impl Iterator<Item = (&'static str, Asks)> {
    let accounts = kite_identity::proof::OPERATIONS.into_iter();
    accounts.chain(OPERATIONS)
}

/// When the operation with this id asks; never where it only looks.
pub fn of_operation(id: &str) -> Asks {
    operations()
        .find_map(|(known, asks)| (known == id).then_some(asks))
        .unwrap_or(Asks::Never)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use std::collections::BTreeSet;

    use kite_identity::rule::Proof;

    use super::*;
    use crate::vm_fields::{self, Edited};

    #[test]
    fn an_edit_of_a_vm_asks_with_the_fields_whose_action_does() {
        let asking = vm_fields::all().filter_map(|field| match field.edit {
            Edited::By(action) if action.rule().proof == Proof::Always => Some(field.name),
            Edited::By(_) | Edited::Never(_) => None,
        });
        let asking: BTreeSet<_> = asking.collect();
        let Asks::ForOthersOr(told) = of_operation("editVm") else {
            panic!("{:?}", of_operation("editVm"));
        };
        assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), asking);
    }
}

//! What is said of an object whose spec cannot be read.

use kite_core::conditions::NewCondition;

/// The condition `type_` of an object of which `why` says what cannot be read of it.
pub(crate) fn unreadable(type_: &'static str, what: &str, why: &str) -> NewCondition {
    NewCondition::new(
        type_,
        false,
        "Unreadable",
        format!(
            "{what} cannot be read: {why}; mend the field that is named (kubectl edit), or \
             delete {what}; until then nothing is made or changed for it"
        ),
    )
}

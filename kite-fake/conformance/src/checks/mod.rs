//! The table of behaviours, by area.

// Path and patch, made and map are the words of what is checked.
#![allow(clippy::similar_names)]
// `json!` borrows what it is given.
#![allow(clippy::needless_pass_by_value)]

use super::Behaviour;

/// A table of checks: each function's name, what holds, and why it matters.
/// `[controllers]` marks those that need controllers beside the API server.
macro_rules! table {
    ($area:ident; $($check:ident $([$need:ident])?: $what:literal, $why:literal;)*) => {
        pub(super) const TABLE: &[$crate::Behaviour] = &[
            $($crate::Behaviour {
                name: stringify!($check),
                area: $crate::Area::$area,
                what: $what,
                why: $why,
                controllers: [$(table!(@$need),)? false][0],
                check: |site| Box::pin($check(site)),
            }),*
        ];
    };
    (@controllers) => { true };
}

mod access;
mod apply;
mod defaults;
mod definitions;
mod deletion;
mod discovery;
mod dry_run;
mod garbage;
mod kinds;
mod lists;
mod namespaces;
mod objects;
mod ownership;
mod patches;
mod policies;
mod quota;
mod rules;
mod schemas;
mod status;
mod tables;
mod texts;
mod watches;
mod workloads;

/// All behaviours, by area.
pub(super) fn all() -> Vec<Behaviour> {
    [
        objects::TABLE,
        status::TABLE,
        apply::TABLE,
        ownership::TABLE,
        patches::TABLE,
        deletion::TABLE,
        garbage::TABLE,
        lists::TABLE,
        watches::TABLE,
        definitions::TABLE,
        schemas::TABLE,
        namespaces::TABLE,
        defaults::TABLE,
        quota::TABLE,
        access::TABLE,
        dry_run::TABLE,
        discovery::TABLE,
        tables::TABLE,
        texts::TABLE,
        kinds::TABLE,
        rules::TABLE,
        policies::TABLE,
        workloads::TABLE,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn every_behaviour_has_a_name_of_its_own_and_says_why() {
        let all = super::all();
        let names: BTreeSet<&str> = all.iter().map(|b| b.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() >= 245, "{} behaviours", all.len());
        assert!(
            all.iter()
                .all(|b| b.what.ends_with('.') && b.why.ends_with('.'))
        );
    }
}

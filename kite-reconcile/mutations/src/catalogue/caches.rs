//! What is believed of objects that were just written.

use super::Mutation;
use crate::suite::Suite::Lib;

const FILE: &str = "kite-reconcile/src/cache/written.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "own-writes-forgotten",
        what: "believes a watch that lags behind its own writes",
        file: FILE,
        edits: &[(
            "State::There { object, .. } => Verdict::There(Arc::clone(object)),",
            "State::There { .. } => Verdict::Confirmed,",
        )],
        first: (Lib, "cache"),
    },
    Mutation {
        name: "own-deletes-forgotten",
        what: "sees again in an old view what it has deleted",
        file: FILE,
        edits: &[(
            "None if is_old => Verdict::Confirmed,",
            "None if is_old => Verdict::Confirmed,\n                Some(_) => Verdict::Confirmed,",
        )],
        first: (Lib, "cache"),
    },
    Mutation {
        name: "unknown-outcome-believed",
        what: "believes its caches after a write whose outcome is not known",
        file: FILE,
        edits: &[(
            "State::Unsure { .. } => Verdict::Ask,",
            "State::Unsure { .. } => Verdict::Confirmed,",
        )],
        first: (Lib, "cache"),
    },
];

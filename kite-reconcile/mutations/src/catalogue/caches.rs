//! What is believed of what was read before, and of what was just written.

use super::Mutation;
use crate::suite::Suite::{Runtime, Scenarios, Sweep};

const FILE: &str = "kite-reconcile/runtime/src/cache/written.rs";
const CLUSTER: &str = "kite-reconcile/runtime/src/cache/cluster.rs";
const TABLE: &str = "kite-reconcile/runtime/src/cache/table.rs";
const MEMO: &str = "kite-reconcile/runtime/src/cache/memo.rs";
const WITNESS: &str = "kite-reconcile/runtime/src/cache/witness.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "own-writes-forgotten",
        what: "believes a watch that lags behind its own writes",
        file: FILE,
        edits: &[(
            "State::There { patience, .. } if self.since.elapsed() > *patience => Verdict::Ask,",
            "State::There { .. } if stored.is_some() || stored.is_none() => Verdict::Confirmed,",
        )],
        first: (Runtime, "cache"),
    },
    Mutation {
        name: "own-deletes-forgotten",
        what: "sees again in an old view what it has deleted",
        file: FILE,
        edits: &[(
            "None if is_old => Verdict::Confirmed,",
            "None if is_old => Verdict::Confirmed,\n                Some(_) => Verdict::Confirmed,",
        )],
        first: (Runtime, "cache"),
    },
    Mutation {
        name: "unknown-outcome-believed",
        what: "believes its caches after a write whose outcome is not known",
        file: FILE,
        edits: &[(
            "State::Unsure { .. } => Verdict::Ask,",
            "State::Unsure { .. } => Verdict::Confirmed,",
        )],
        first: (Runtime, "cache"),
    },
    Mutation {
        name: "own-answers-not-noted",
        what: "reads from its caches without what the last write answered",
        file: CLUSTER,
        edits: &[(
            "let answer = write.await;
             match &answer {
             Ok(object) => table.note(object, mark),",
            "let answer = write.await;
             match &answer {
             Ok(_) => drop(mark),",
        )],
        first: (Runtime, "cache::tests::what_was_written"),
    },
    Mutation {
        name: "deletes-not-doubted",
        what: "believes its caches of what it has told to go",
        file: CLUSTER,
        edits: &[(
            "                table.doubt_deletion(key.clone(), uid);\n            }\n        }\n        answer",
            "            }\n        }\n        answer",
        )],
        first: (Runtime, "cache"),
    },
    Mutation {
        name: "asks-nobody",
        what: "answers from caches what the API server itself is to be asked",
        file: CLUSTER,
        edits: &[(
            "table.filter(|_| !reading::is_live())",
            "table.filter(|_| true)",
        )],
        first: (Scenarios, "stale::"),
    },
    Mutation {
        name: "successors-taken-for-gone",
        what: "takes another object of the name for the one that it has seen the end of",
        file: WITNESS,
        edits: &[(
            "uid.is_none() || end.uid.as_deref() != uid;",
            "uid.is_none() && end.uid.as_deref() != uid;",
        )],
        first: (Runtime, "cache::witness_tests::another"),
    },
    Mutation {
        name: "ends-of-others-believed",
        what: "takes for gone what went before anybody knew that its owner goes",
        file: WITNESS,
        edits: &[(
            "end.is_over && &*end.whose == whose && !end.is_ancient()",
            "end.is_over && (&*end.whose == whose || true) && !end.is_ancient()",
        )],
        first: (Runtime, "cache::witness_tests::what_was_answered"),
    },
    Mutation {
        name: "empty-cache-believed",
        what: "takes a cache whose first list is not there for an empty cluster",
        file: TABLE,
        edits: &[(
            "(self.is_synced() && reach.covers(namespace, name)).then_some(reach)",
            "reach.covers(namespace, name).then_some(reach)",
        )],
        first: (Sweep, "vm_life::crashes vm_deletion::crashes"),
    },
    Mutation {
        name: "settled-for-good",
        what: "takes an object for settled whatever has become of what it rests on",
        file: MEMO,
        edits: &[(
            "memo.reads.iter().all(Read::would_be_the_same)",
            "memo.reads.iter().all(|read| read.would_be_the_same() || true)",
        )],
        first: (Sweep, "drift::crashes suspension::crashes"),
    },
    Mutation {
        name: "edits-unseen",
        what: "takes an edited object for settled",
        file: MEMO,
        edits: &[(
            "memo.uid == meta.uid && memo.version == meta.resource_version",
            "memo.uid == meta.uid",
        )],
        first: (Sweep, "vm_life::crashes"),
    },
    Mutation {
        name: "time-unseen",
        what: "takes an object for settled though time alone calls for something",
        file: MEMO,
        edits: &[(
            "Some(until) if until <= now => None,",
            "Some(until) if until <= now => Some(self.again),",
        )],
        first: (Sweep, "vm_expiry::crashes"),
    },
];

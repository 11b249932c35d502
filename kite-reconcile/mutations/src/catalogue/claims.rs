//! Names of which there can be one.

use super::Mutation;
use crate::suite::Suite::{Properties, Scenarios, Sweep};

const FILE: &str = "kite-reconcile/src/claims.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "claim-taken-from-the-living",
        what: "takes over a claim whose holder is there",
        file: FILE,
        edits: &[(
            "Ok(uid.as_deref() == Some(holder.uid.as_str()))",
            "Ok(uid.is_some_and(|_| false))",
        )],
        first: (Sweep, "one_name_for_two::crashes"),
    },
    Mutation {
        name: "claim-left-to-a-namesake",
        what: "takes another object of the holder's name for the holder",
        file: FILE,
        edits: &[(
            "Ok(uid.as_deref() == Some(holder.uid.as_str()))",
            "Ok(uid.is_some())",
        )],
        first: (Scenarios, "walls_of_names::"),
    },
    Mutation {
        name: "claim-won-by-the-second",
        what: "takes a claim for its own that another was first to make",
        file: FILE,
        edits: &[(
            "Err(ClusterError::AlreadyExists { .. }) => inspect(cluster, wanted).await,",
            "Err(ClusterError::AlreadyExists { .. }) => Ok(ClaimState::Mine(wanted.clone())),",
        )],
        first: (Scenarios, "races::a_name"),
    },
    Mutation {
        name: "claim-of-a-namesake",
        what: "takes the claim of an earlier object of its name for its own",
        file: FILE,
        edits: &[(
            "if reservation.spec.holder == wanted.spec.holder {",
            "if reservation.spec.holder.name == wanted.spec.holder.name {",
        )],
        first: (Scenarios, "walls_of_names::"),
    },
    Mutation {
        name: "dropped-claim-kept",
        what: "keeps a name that its spec does not ask for any more",
        file: FILE,
        edits: &[(
            "stale.cloned().map(Step::Unclaim).collect()",
            "stale.cloned().map(Step::Unclaim).take(0).collect()",
        )],
        first: (Sweep, "vm_edits::crashes"),
    },
    Mutation {
        name: "stale-claims-left-behind",
        what: "goes without the names that an edit had dropped",
        file: FILE,
        edits: &[("mine.chain(&self.stale)", "mine")],
        first: (Properties, "laws::"),
    },
];

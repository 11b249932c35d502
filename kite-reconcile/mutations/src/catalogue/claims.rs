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
        first: (Scenarios, "names::"),
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
            "if reservation.spec.holder == wanted.spec.holder || reservation.spec.kept.is_some() {",
            "if reservation.spec.holder.name == wanted.spec.holder.name || reservation.spec.kept.is_some() {",
        )],
        first: (Scenarios, "names::"),
    },
    Mutation {
        name: "dropped-claim-kept",
        what: "keeps a name that its spec does not ask for any more",
        file: FILE,
        edits: &[(
            "stale.map(|claim| given_back(claim, user_uid)).collect()",
            "stale.map(|claim| given_back(claim, user_uid)).take(0).collect()",
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
    Mutation {
        name: "released-name-freed",
        what: "frees a name that is to be kept for its former owner",
        file: FILE,
        edits: &[("if claim.spec.claim.is_kept() {", "if false {")],
        first: (Scenarios, "kept::"),
    },
    Mutation {
        name: "kept-name-for-a-namesake",
        what: "takes a later user of the same name for the former owner of a name",
        file: "kite-core/src/crd/reservation.rs",
        edits: &[(
            "&& kept.user_uid.as_deref() == user_uid;",
            "&& user_uid.is_some() == kept.user_uid.is_some();",
        )],
        first: (Scenarios, "kept::"),
    },
];

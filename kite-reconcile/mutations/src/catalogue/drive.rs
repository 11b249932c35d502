//! The loop behind every reconciler.

use super::Mutation;
use crate::suite::Suite::{Scenarios, Sweep};

const FILE: &str = "kite-reconcile/runtime/src/plan/rounds.rs";
const STEP: &str = "kite-reconcile/runtime/src/plan/step.rs";
const EXECUTE: &str = "kite-reconcile/src/execute.rs";
const REPORT: &str = "kite-reconcile/runtime/src/plan/report.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "status-before-steps",
        what: "writes the status before what it speaks of is done",
        file: FILE,
        edits: &[(
            "wanted = first.describe();",
            "wanted = first.describe();
             let early = completed_status::<R, C>(object, &plan, shared);
             write_status(planner, object, early, shared).await?;",
        )],
        first: (Scenarios, "users::"),
    },
    Mutation {
        name: "status-without-version",
        what: "writes a status over one that was made of a newer view",
        file: "kite-core/cluster/src/status.rs",
        edits: &[("resource_version: of.resource_version.clone(),", "")],
        first: (Scenarios, "races::a_status_is"),
    },
    Mutation {
        name: "status-at-every-pass",
        what: "writes the status though it says nothing new",
        file: FILE,
        edits: &[(
            "if old == Some(&status) {",
            "if old.is_none() && old == Some(&status) {",
        )],
        first: (Sweep, "sign_up::crashes"),
    },
    Mutation {
        name: "status-lost",
        what: "takes any refusal of a status as written",
        file: REPORT,
        edits: &[(
            "// Deleted meanwhile: nobody is left to read it.
             Err(ClusterError::NotFound { .. }) => Ok(None),",
            "Err(_) => Ok(Some(object.clone())),",
        )],
        first: (Sweep, "aimed::a_status_that_was_not_written"),
    },
    Mutation {
        name: "generation-not-noted",
        what: "leaves status.observedGeneration out",
        file: REPORT,
        edits: &[(
            "plan.status.clone().complete(conditions, Some(generation))",
            "plan.status.clone().complete(conditions, None)",
        )],
        first: (Scenarios, "races::a_status_says"),
    },
    Mutation {
        name: "cached-object-believed",
        what: "acts on the object as its cache has it, without reading it anew",
        file: FILE,
        edits: &[(
            "if !is_live && !is_guarded {",
            "if false && !is_live && !is_guarded {",
        )],
        first: (Scenarios, "faults::for_a_vm"),
    },
    Mutation {
        name: "cached-view-deletes",
        what: "deletes by what its caches say, without asking the API server",
        file: FILE,
        edits: &[(
            "if !is_observed_live && plan.steps.iter().any(is_delicate) {",
            "if false && !is_observed_live && plan.steps.iter().any(is_delicate) {",
        )],
        first: (Scenarios, "stale::"),
    },
    Mutation {
        name: "finalizers-of-others-dropped",
        what: "takes the finalizers of others off with its own",
        file: STEP,
        edits: &[(
            "finalizers.retain(|finalizer| finalizer != name);",
            "finalizers.clear();",
        )],
        first: (Scenarios, "races::the_fin"),
    },
    Mutation {
        name: "finalizers-of-others-replaced",
        what: "puts its finalizer in the place of the others'",
        file: STEP,
        edits: &[(
            "finalizers.push((*name).to_owned());",
            "finalizers.clear(); finalizers.push((*name).to_owned());",
        )],
        first: (Scenarios, "races::the_fin"),
    },
    Mutation {
        name: "keys-replaced",
        what: "applies a VM's keys over those that another was first to make",
        file: EXECUTE,
        edits: &[(
            "match secret.create(cluster).await {",
            "match secret.apply(cluster, kite_core::managers::CONTROLLER).await {",
        )],
        first: (Scenarios, "defect_13"),
    },
    Mutation {
        name: "own-keys-believed",
        what: "goes on with its own keys though another was first to make some",
        file: EXECUTE,
        edits: &[(
            "Ok(secret.find(cluster).await?.ok_or(error)?)",
            "{ let _ = error; Ok(secret) }",
        )],
        first: (Scenarios, "defect_13"),
    },
    Mutation {
        name: "deleted-means-gone",
        what: "takes what was told to go for gone",
        file: "kite-reconcile/src/plan.rs",
        edits: &[(
            "Some(left) => Outcome::Stored(left), None => Outcome::Gone(object.clone())",
            "_ => Outcome::Gone(object.clone())",
        )],
        first: (Sweep, "vm_deletion::crashes user_deletion::crashes"),
    },
    Mutation {
        name: "lost-answer-means-done",
        what: "takes an apply for done that the API server did not answer",
        file: EXECUTE,
        edits: &[(
            "Outcome::Stored(desired.apply(cluster, manager).await?)",
            "Outcome::Stored(match desired.apply(cluster, manager).await {
                Err(ClusterError::Unavailable { .. }) => desired.clone(),
                answer => answer?,
            })",
        )],
        first: (Scenarios, "races::nothing"),
    },
    Mutation {
        name: "errors-forgotten",
        what: "is not called again after a step that failed",
        file: FILE,
        edits: &[(
            "*failed = Some(plan); return Err(error);",
            "let _ = (plan, error); return Ok(Action::await_change());",
        )],
        first: (Sweep, "sign_up::answers"),
    },
    Mutation {
        name: "applies-unguarded",
        what: "applies over whatever has the name, not over what was seen",
        file: "kite-reconcile/src/standing.rs",
        edits: &[
            (
                "metadata.uid.clone_from(&stored.meta().uid)",
                "{ let _ = stored; }",
            ),
            (
                "metadata.resource_version = Some(ABSENT.to_owned())",
                "{ let _ = (&metadata, ABSENT); }",
            ),
        ],
        first: (Scenarios, "stale::a"),
    },
];

//! The reconcilers of users and images.

use super::Mutation;
use crate::suite::Suite::{Properties, Scenarios};

const USER: &str = "kite-reconcile/src/user/plan.rs";
const IMAGE: &str = "kite-reconcile/src/image/plan.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "user-finalizer-skipped",
        what: "makes a user's namespace without the finalizer",
        file: USER,
        edits: &[(
            "if !user.object.finalizers().iter().any(|f| f == USER_FINALIZER) {
                return (vec![Step::AddFinalizer(USER_FINALIZER)], not_yet());
            }",
            "",
        )],
        first: (Scenarios, "users::"),
    },
    Mutation {
        name: "walls-before-vms",
        what: "deletes a user's namespace, and the walls in it, before the VMs",
        file: USER,
        edits: &[(
            "if !seen.vms.is_empty() {",
            "if false && !seen.vms.is_empty() {",
        )],
        first: (Scenarios, "deletion::defect_15"),
    },
    Mutation {
        name: "walls-not-put-right",
        what: "leaves a wall open that somebody has opened",
        file: USER,
        edits: &[(
            "if !stored.is_some_and(|stored| is_applied(desired, stored)) {",
            "if !stored.is_some_and(|stored| is_applied(stored, stored)) {",
        )],
        first: (Scenarios, "users::"),
    },
    Mutation {
        name: "namespace-of-others-deleted",
        what: "deletes a namespace that has a user's name and is somebody else's",
        file: USER,
        edits: &[
            (
                "matches!(ours, Some(Standing::Ours | Standing::Leaving))",
                "ours.is_some()",
            ),
            (
                "(Some(stored), Some(Standing::Ours)) => {",
                "(Some(stored), _) => {",
            ),
        ],
        first: (Scenarios, "users::"),
    },
    Mutation {
        name: "user-claims-kept",
        what: "keeps the username and the email of a user who goes",
        file: USER,
        edits: &[(
            "let mut steps = seen.claims.release();",
            "let mut steps = Vec::new();",
        )],
        first: (Scenarios, "deletion::defect_15"),
    },
    Mutation {
        name: "image-disk-before-its-name",
        what: "deletes an image's disk while clones of it can still begin",
        file: IMAGE,
        edits: &[(
            "seen.source.clone().map(AnyObject::from),
             seen.disk.clone().map(AnyObject::from)",
            "seen.disk.clone().map(AnyObject::from),
             seen.source.clone().map(AnyObject::from)",
        )],
        first: (Properties, "image_laws::"),
    },
];

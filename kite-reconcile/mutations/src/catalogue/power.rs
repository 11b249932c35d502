//! When VMs are on, off, restarted, and gone; and who may say so.

use super::Mutation;
use crate::suite::Suite::Scenarios;

const HOLD: &str = "kite-reconcile/src/vm/hold.rs";
const EXPIRY: &str = "kite-reconcile/src/vm/expiry.rs";
const IDLE: &str = "kite-reconcile/src/vm/idle.rs";
const RESTART: &str = "kite-reconcile/src/vm/restart.rs";
const EXECUTE: &str = "kite-reconcile/src/drive/execute.rs";
const WIRE: &str = "kite-reconcile/src/wire/mod.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "suspension-ignored",
        what: "runs the VMs of a suspended user",
        file: HOLD,
        edits: &[(
            "if owner.is_some_and(|owner| owner.spec.suspended) {",
            "if owner.is_some_and(|owner| owner.spec.suspended && seen.disk.is_none()) {",
        )],
        first: (Scenarios, "life::a_suspended"),
    },
    Mutation {
        name: "expired-without-a-word",
        what: "deletes an expired VM before its owner was told",
        file: EXPIRY,
        edits: &[(
            "self.reported && self.delete_at().is_some_and(|at| self.now >= at)",
            "self.delete_at().is_some_and(|at| self.now >= at)",
        )],
        first: (Scenarios, "expiry::nobody"),
    },
    Mutation {
        name: "grace-ignored",
        what: "deletes an expired VM at once",
        file: EXPIRY,
        edits: &[(
            "self.expired_at.map(|at| later(at, self.grace))",
            "self.expired_at",
        )],
        first: (Scenarios, "expiry::an_expired"),
    },
    Mutation {
        name: "more-time-overlooked",
        what: "deletes an expired VM that was given more time a moment ago",
        file: EXECUTE,
        edits: &[(
            "cluster.delete_unchanged(object, propagation)",
            "cluster.remove(object, propagation)",
        )],
        first: (Scenarios, "expiry::more_time"),
    },
    Mutation {
        name: "use-overlooked",
        what: "stops a VM as idle that is in use",
        file: IDLE,
        edits: &[(
            "used.map_or(begun, |used| used.max(begun))",
            "used.map_or(begun, |_| begun)",
        )],
        first: (Scenarios, "idle::"),
    },
    Mutation {
        name: "restarted-again-and-again",
        what: "restarts a VM that has restarted since it was asked",
        file: RESTART,
        edits: &[(
            "let is_due = running.is_some() && running == note.instance_uid;",
            "let is_due = running.is_some();",
        )],
        first: (Scenarios, "restarts::"),
    },
    Mutation {
        name: "writes-after-leadership",
        what: "goes on writing after another leads",
        file: WIRE,
        edits: &[(
            "let lost = leadership.lost();",
            "let lost = std::future::pending::<()>(); let _ = leadership;",
        )],
        first: (Scenarios, "leader::"),
    },
];

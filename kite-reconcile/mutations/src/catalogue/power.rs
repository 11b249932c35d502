//! When VMs are on, off, restarted, and gone; and who may say so.

use super::Mutation;
use crate::suite::Suite::{Scenarios, Sweep};

const HOLD: &str = "kite-reconcile/src/vm/hold.rs";
const EXPIRY: &str = "kite-reconcile/src/vm/expiry.rs";
const IDLE: &str = "kite-reconcile/src/vm/idle.rs";
const RESTART: &str = "kite-reconcile/src/vm/restart.rs";
const ROUNDS: &str = "kite-reconcile/runtime/src/plan/rounds.rs";
const STEP: &str = "kite-reconcile/runtime/src/plan/step.rs";
const OBSERVE: &str = "kite-reconcile/src/vm/around.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "suspension-ignored",
        what: "runs the VMs of a suspended user",
        file: HOLD,
        edits: &[(
            "if owner.is_some_and(|owner| owner.spec.suspended) {",
            "if owner.is_some_and(|owner| owner.spec.suspended && seen.disk.is_none()) {",
        )],
        first: (Sweep, "suspension::crashes"),
    },
    Mutation {
        name: "expired-without-a-word",
        what: "deletes an expired VM before its owner was told",
        file: EXPIRY,
        edits: &[(
            "self.reported && self.delete_at().is_some_and(|at| self.now >= at)",
            "self.delete_at().is_some_and(|at| self.now >= at)",
        )],
        first: (Scenarios, "expiry::without"),
    },
    Mutation {
        name: "grace-ignored",
        what: "deletes an expired VM at once",
        file: EXPIRY,
        edits: &[(
            "self.expired_at.map(|at| later(at, self.grace))",
            "self.expired_at",
        )],
        first: (Sweep, "vm_expiry::crashes"),
    },
    Mutation {
        name: "more-time-overlooked",
        what: "deletes an expired VM that was given more time a moment ago",
        file: STEP,
        edits: &[(
            "cluster.delete_unchanged(object, propagation)",
            "cluster.delete_by_uid(object, propagation)",
        )],
        first: (Scenarios, "expiry::more_time"),
    },
    Mutation {
        name: "expired-runs-on",
        what: "leaves a VM on whose time is over",
        file: HOLD,
        edits: &[(
            "Expiry::of(vm.object, seen.now).filter(Expiry::is_expired)",
            "Expiry::of(vm.object, seen.now).filter(|it| it.is_expired() && it.is_due())",
        )],
        first: (Sweep, "vm_expiry::crashes"),
    },
    Mutation {
        name: "earlier-end-believed",
        what: "deletes a VM by what was told of an end that was moved since",
        file: EXPIRY,
        edits: &[(
            ".filter(|expired_at| *expired_at >= expires_at && now >= expires_at);",
            ".filter(|expired_at| *expired_at > Timestamp::MIN);",
        )],
        first: (Scenarios, "expiry::whoever"),
    },
    Mutation {
        name: "end-of-time-slept-through",
        what: "does not look again when a VM's time is over",
        file: EXPIRY,
        edits: &[(
            "moments.into_iter().filter(|at| *at > self.now).min()",
            "moments.into_iter().filter(|at| *at > self.now).take(0).min()",
        )],
        first: (Scenarios, "expiry::"),
    },
    Mutation {
        name: "idle-without-a-word",
        what: "stops an idle VM before that stands in its status",
        file: IDLE,
        edits: &[(
            "matches!(self, Self::Decided(..))",
            "matches!(self, Self::Decided(..) | Self::Found(..))",
        )],
        first: (Scenarios, "idle::use_that"),
    },
    Mutation {
        name: "idle-for-good",
        what: "keeps an idle VM off though its owner edits it",
        file: IDLE,
        edits: &[(
            "&& idle.generation == generation",
            "&& idle.generation <= generation",
        )],
        first: (Scenarios, "idle::any_edit"),
    },
    Mutation {
        name: "idle-before-anybody-could-say",
        what: "takes a VM for idle as of its start, though nobody reported its use yet",
        file: IDLE,
        edits: &[(
            "started.max(known_since(vm, seen.now))",
            "started.max(known_since(vm, seen.now).min(started))",
        )],
        first: (Scenarios, "idle::a_vm_that_runs"),
    },
    Mutation {
        name: "use-by-an-old-view",
        what: "stops a VM as idle by what its caches know of its use",
        file: OBSERVE,
        edits: &[("uncached(lease).await", "lease.await")],
        first: (Scenarios, "stale::use"),
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
        name: "restart-not-noted",
        what: "asks for a restart of which it has not noted that it asks",
        file: ROUNDS,
        edits: &[(
            "if is_told_first(&plan.steps) {",
            "if is_told_first(&plan.steps) && wanted.is_empty() {",
        )],
        first: (Scenarios, "restarts::of_two"),
    },
    Mutation {
        name: "restart-not-asked-again",
        what: "takes a VM for settled whose restart was noted and never asked for",
        file: RESTART,
        edits: &[(
            "plan(vm, seen, true).again",
            "plan(vm, seen, true).again.filter(|_| false)",
        )],
        first: (Sweep, "vm_restart::crashes"),
    },
    Mutation {
        name: "restart-asked-by-all",
        what: "asks for a restart for which another controller is asking",
        file: RESTART,
        edits: &[(
            "ASK_AGAIN.checked_sub(passed)",
            "Duration::ZERO.checked_sub(passed)",
        )],
        first: (Scenarios, "restarts::of_two"),
    },
];

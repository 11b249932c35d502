//! One controller at a time.

use super::Mutation;
use crate::suite::Suite::Scenarios;

const WIRE: &str = "kite-reconcile/runtime/src/wire/mod.rs";
const LEADER: &str = "kite-reconcile/runtime/src/leader/mod.rs";
const LEADERSHIP: &str = "kite-reconcile/runtime/src/leader/leadership.rs";
const RECORD: &str = "kite-reconcile/runtime/src/leader/record.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "writes-after-leadership",
        what: "goes on writing after another leads",
        file: WIRE,
        edits: &[(
            "let lost = leadership.lost();",
            "let lost = std::future::pending::<()>(); let _ = leadership;",
        )],
        first: (Scenarios, "leader::a_write"),
    },
    Mutation {
        name: "slept-leader-writes",
        what: "believes after a sleep that it still leads",
        file: LEADERSHIP,
        edits: &[(
            "Instant::now() >= self.monotonic || (self.clock)() >= self.system",
            "Instant::now() >= self.monotonic && (self.clock)() >= self.system",
        )],
        first: (Scenarios, "leader::a_process_that_slept"),
    },
    Mutation {
        name: "lease-taken-from-the-living",
        what: "takes the Lease before its holder has stopped",
        file: RECORD,
        edits: &[("unchanged >= duration", "unchanged + duration >= duration")],
        first: (Scenarios, "leader::"),
    },
    Mutation {
        name: "lease-renewed-blindly",
        what: "renews the Lease of its successor",
        file: RECORD,
        edits: &[(
            "\"resourceVersion\": found.resource_version(),
             \"uid\": found.uid(), }",
            "\"uid\": found.uid(), }",
        )],
        first: (Scenarios, "leader::"),
    },
    Mutation {
        name: "term-counted-from-the-answer",
        what: "counts its term from the answer to a renewal, not from its sending",
        file: LEADER,
        edits: &[(
            "leadership.prolong(lease.until(sent))",
            "leadership.prolong(lease.until({ let _ = sent; lease.now() }))",
        )],
        first: (Scenarios, "leader::a_late"),
    },
    Mutation {
        name: "lease-not-given-back",
        what: "keeps the Lease when it ends, so that the next one waits",
        file: LEADER,
        edits: &[(
            "if leadership.end() { release(&lease).await; }",
            "leadership.end();",
        )],
        first: (Scenarios, "leader::a_leader_that_ends"),
    },
    Mutation {
        name: "deleted-lease-taken-at-once",
        what: "takes a Lease that was deleted while its holder may still write",
        file: LEADER,
        edits: &[(
            ".is_none_or(|(seen, since)| lease.is_free(seen, since.elapsed()))",
            ".is_none_or(|(seen, _)| lease.is_free(seen, Duration::MAX))",
        )],
        first: (Scenarios, "leader::a_lease_that_is_deleted"),
    },
    Mutation {
        name: "one-renewal-only",
        what: "waits for one renewal until leadership is lost",
        file: LEADER,
        edits: &[(
            "until.min(Instant::now() + lease.election.renew_deadline / 3)",
            "until",
        )],
        first: (Scenarios, "leader::one_renewal"),
    },
];

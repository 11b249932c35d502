//! Which of a machine's disks counts, and which may go.

use super::Mutation;
use crate::suite::Suite::Model;

const HOLD: &str = "kite-reconcile/disks/src/hold.rs";
const PLAN: &str = "kite-reconcile/disks/src/plan.rs";
const SEEN: &str = "kite-reconcile/disks/src/seen.rs";
const TAKING: &str = "kite-reconcile/disks/src/taking.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "early-copy-believed",
        what: "deletes the former disk while its successor may still be copied",
        file: PLAN,
        edits: &[(
            "current.is_proven && current.fill == Fill::Done && !current.is_leaving",
            "current.fill == Fill::Done && !current.is_leaving",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "former-disk-not-kept",
        what: "deletes the former disk at once",
        file: PLAN,
        edits: &[(
            "own.turn < mark.turn && left.is_none()",
            "own.turn < mark.turn && (left.is_none() || true)",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "snapshot-dies-with-its-disk",
        what: "deletes a disk that a snapshot dies with",
        file: HOLD,
        edits: &[(
            "own.any(|it| !it.outlives)",
            "own.any(|it| !it.outlives) && false",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "snapshot-gone-while-copied",
        what: "deletes a snapshot when its copy is called done",
        file: HOLD,
        edits: &[(
            "it.is_proven || it.is_leaving",
            "it.fill == Fill::Done || it.is_leaving",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "restore-repeated",
        what: "carries out a request again and again",
        file: PLAN,
        edits: &[(
            "seen.request.filter(|it| mark.request.is_none_or(|last| it.at > last))",
            "seen.request.filter(|it| mark.request.is_none_or(|last| it.at > last) || true)",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "old-marks-believed",
        what: "points the machine back by marks that are older than its own",
        file: SEEN,
        edits: &[(
            "marks.chain(told.map(|(mark, _)| mark))",
            "marks.chain(told.map(|(mark, _)| mark).filter(|_| false))",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "disk-changed-under-a-guest",
        what: "points the machine elsewhere while its guest runs",
        file: PLAN,
        edits: &[(
            "seen.power == Power::Off || is_there",
            "seen.power == Power::Off || is_there || true",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "unasked-disk-stays",
        what: "leaves a disk behind that nobody asks for any more",
        file: PLAN,
        edits: &[(
            "asked.is_none() || disk.made_for != asked",
            "(asked.is_none() || disk.made_for != asked) && false",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "proven-by-another-disk",
        what: "takes a disk for proven because a guest runs on whatever disk",
        file: PLAN,
        edits: &[(
            "let runs = !is_behind(seen, mark, current) && seen.power == on;",
            "let runs = seen.power == on || matches!(seen.power, Power::Runs { .. });",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "disk-gone-under-a-guest",
        what: "deletes the disks of a machine whose guest still runs",
        file: PLAN,
        edits: &[(
            "if seen.machine.is_some() || seen.power != Power::Off {",
            "if seen.machine.is_some() {",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "former-disk-gone-with-the-present",
        what: "deletes the former disk while somebody deletes the present one",
        file: PLAN,
        edits: &[(
            "current.is_proven && current.fill == Fill::Done && !current.is_leaving",
            "current.is_proven && current.fill == Fill::Done",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "former-before-the-change",
        what: "takes a disk for a former one that the machine still points at, or did last",
        file: PLAN,
        edits: &[("is_whole && !is_behind(seen, mark, current)", "is_whole")],
        first: (Model, ""),
    },
    Mutation {
        name: "turn-shared",
        what: "leaves two disks with one turn, so that the other one stays for ever",
        file: PLAN,
        edits: &[(
            "(is_shared && is_sure(seen, mark, current))",
            "(is_shared && is_sure(seen, mark, current) && false)",
        )],
        first: (Model, "nor_do_two"),
    },
    Mutation {
        name: "failed-copy-preferred",
        what: "takes the copy that failed where there is another",
        file: PLAN,
        edits: &[(
            "made.min_by_key(|it| it.fill)",
            "made.max_by_key(|it| it.fill)",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "late-cut-called-quiesced",
        what: "calls a snapshot quiesced that was cut after the guest went on by itself",
        file: TAKING,
        edits: &[(
            "is_frozen && noted.is_some_and(|it| is_in_time(seen, it))",
            "is_frozen && noted.is_some()",
        )],
        first: (Model, "taking"),
    },
    Mutation {
        name: "start-meanwhile-overlooked",
        what: "calls a snapshot offline though the guest was on meanwhile",
        file: TAKING,
        edits: &[("before.is_off && is_same", "before.is_off")],
        first: (Model, "taking"),
    },
    Mutation {
        name: "guest-left-frozen",
        what: "lets the guest go on only where the snapshot failed",
        file: TAKING,
        edits: &[(
            "(Some(freeze), _, _) => Next::Thaw(freeze.instance),",
            "(Some(freeze), Err(_), _) => Next::Thaw(freeze.instance),",
        )],
        first: (Model, "taking"),
    },
    Mutation {
        name: "required-for-nothing",
        what: "keeps a snapshot that is not quiesced where that is required",
        file: TAKING,
        edits: &[(
            "} else if seen.quiesce == Quiesce::Required {",
            "} else if seen.quiesce == Quiesce::Required && false {",
        )],
        first: (Model, "taking"),
    },
    Mutation {
        name: "freeze-counted-anew",
        what: "counts the time of a freeze from the last request for it",
        file: TAKING,
        edits: &[(
            "seen.freeze.filter(|it| it.instance == instance)",
            "seen.freeze.filter(|it| it.instance == instance && (it.since == seen.now
                || matches!(seen.guest, Guest::Runs { is_frozen: true, .. })))",
        )],
        first: (Model, "taking"),
    },
    Mutation {
        name: "failed-snapshot-kept",
        what: "leaves behind what storage has cut of a snapshot that failed",
        file: TAKING,
        edits: &[(
            "Cut::Asked | Cut::Failed | Cut::Made(_)) => Next::Discard,",
            "Cut::Asked | Cut::Failed) => Next::Discard,",
        )],
        first: (Model, "taking"),
    },
    Mutation {
        name: "asked-for-disk-deleted",
        what: "deletes the former disk that somebody has just asked for",
        file: PLAN,
        edits: &[(
            "open.is_some_and(|it| it.from == From::Former(disk.name))",
            "open.is_some_and(|it| it.from == From::Former(disk.name)) && false",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "moved-pointer-believed",
        what: "takes the disk for the machine's that somebody else has pointed it at",
        file: SEEN,
        edits: &[(
            "(is_there(it), it.is_proven, it.generation)",
            "(it.is_proven && !is_there(it), it.generation)",
        )],
        first: (Model, ""),
    },
    Mutation {
        name: "frozen-by-another",
        what: "takes what another has frozen for its own",
        file: TAKING,
        edits: &[(
            "(_, None) if is_frozen || seen.is_another_on => wait,",
            "(_, None) if seen.is_another_on => wait,",
        )],
        first: (Model, "taking"),
    },
];

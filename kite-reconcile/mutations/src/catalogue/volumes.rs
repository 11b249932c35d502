//! Volumes: their data, and which VM has them.

use super::Mutation;
use crate::suite::Suite::Scenarios;

const DATA: &str = "kite-reconcile/src/volume/data.rs";
const PLAN: &str = "kite-reconcile/src/volume/plan.rs";
const USER: &str = "kite-reconcile/src/user/delete.rs";
const OF_VM: &str = "kite-reconcile/src/vm/volumes.rs";
const RESERVED: &str = "kite-reconcile/src/vm/reserved.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "volume-made-anew",
        what: "makes an empty disk in the place of one that is lost",
        file: DATA,
        edits: &[(
            "(_, Some(_)) => Self::Lost,",
            "(None, Some(_)) => Self::None,\n(Some(disk), Some(_)) => Self::Begun(disk),",
        )],
        first: (Scenarios, "volumes::what_is_lost"),
    },
    Mutation {
        name: "volume-taken-for-another",
        what: "takes an empty claim of its name for the volume",
        file: DATA,
        edits: &[(
            "_ if told.is_some() && !is_told(volume, claim) => Self::Lost,",
            "",
        )],
        first: (Scenarios, "volumes::what_is_lost"),
    },
    Mutation {
        name: "volume-taken-away",
        what: "deletes a volume's data while a VM has it",
        file: PLAN,
        edits: &[(
            "&& !self.seen.holder_is_gone",
            "&& !self.seen.holder_is_gone && false",
        )],
        first: (Scenarios, "volumes::one_that_a_vm_has"),
    },
    Mutation {
        name: "volume-held-by-nobody",
        what: "waits for a VM that is gone to let go of its volume",
        file: PLAN,
        edits: &[("&& !self.seen.holder_is_gone", "")],
        first: (Scenarios, "volumes::one_whose_vm"),
    },
    Mutation {
        name: "volume-goes-with-its-account",
        what: "deletes the namespace of an account whose volumes are to be kept",
        file: USER,
        edits: &[(
            "&& !seen.volumes.is_empty() {",
            "&& seen.volumes.iter().any(|it| !it.outlives_account()) {",
        )],
        first: (Scenarios, "volumes::account::one_that_is_to_be_kept"),
    },
    Mutation {
        name: "volumes-all-kept",
        what: "keeps all volumes of an account where one is to be kept",
        file: USER,
        edits: &[(".map(delete)", ".map(delete).take(0)")],
        first: (Scenarios, "volumes::account::one_that_is_to_be_kept"),
    },
    Mutation {
        name: "volume-let-go-early",
        what: "gives a volume back while its guest runs with it",
        file: RESERVED,
        edits: &[("&& !volumes::has(seen, claim)", "")],
        first: (Scenarios, "volumes::one_vm_has_it"),
    },
    Mutation {
        name: "volume-shared",
        what: "gives a VM a disk that another machine has",
        file: OF_VM,
        edits: &[(
            "let other = it.used_by.as_ref()?;",
            "let other = it.used_by.as_ref().filter(|_| false)?;",
        )],
        first: (Scenarios, "volumes::a_reservation"),
    },
    Mutation {
        name: "volume-not-waited-for",
        what: "starts a VM without its volumes",
        file: OF_VM,
        edits: &[(
            "let (reason, message) = first_lack(vm, seen)?;\n    let message = format!(\"{message}; the VM starts",
            "let (reason, message) = first_lack(vm, seen).filter(|_| false)?;\n    let message = format!(\"{message}; the VM starts",
        )],
        first: (Scenarios, "volumes::a_vm_waits"),
    },
    Mutation {
        name: "volume-taken-from-what-runs",
        what: "takes a volume that is to be deleted out of a machine that runs",
        file: OF_VM,
        edits: &[(
            "if keeps || lack(vm, seen, it).is_none()",
            "if lack(vm, seen, it).is_none()",
        )],
        first: (Scenarios, "volumes::one_that_a_vm_has"),
    },
];

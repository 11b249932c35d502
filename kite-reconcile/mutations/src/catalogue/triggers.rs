//! What is listened to.

use super::Mutation;
use crate::suite::Suite::Scenarios;

const OF_VMS: &str = "kite-reconcile/src/triggers/virtual_machines.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "services-not-watched",
        what: "does not hear when a VM's Services change",
        file: OF_VMS,
        edits: &[(".on(managed(), || |o: &Service, _: &_| vm_of(o))", "")],
        first: (Scenarios, "live::a_vm"),
    },
    Mutation {
        name: "claims-not-watched",
        what: "does not hear when a name becomes free",
        file: OF_VMS,
        edits: &[(
            "claimants(&claims, vms, claim)",
            "claimants(&claims, vms, claim).into_iter().take(0).collect::<Vec<_>>()",
        )],
        first: (Scenarios, "live::a_vm"),
    },
    Mutation {
        name: "usage-not-watched",
        what: "does not hear of a user's VMs",
        file: "kite-reconcile/src/triggers.rs",
        edits: &[(
            "let user = names::user_of_namespace(&namespace).map(ObjectRef::new);",
            "let user = names::user_of_namespace(&namespace).map(ObjectRef::new).filter(|_| false);",
        )],
        first: (Scenarios, "live::usage"),
    },
];

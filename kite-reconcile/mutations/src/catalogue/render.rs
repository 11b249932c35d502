//! What rendered objects say of themselves.

use super::Mutation;
use crate::suite::Suite::Scenarios;

const OWNER: &str = "kite-render/src/owner.rs";
const RESERVATION: &str = "kite-render/src/reservation.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "no-controller",
        what: "leaves out that the owner is the controller",
        file: OWNER,
        edits: &[("controller: Some(true),", "controller: None,")],
        first: (Scenarios, "life::defect_17"),
    },
    Mutation {
        name: "claim-with-generated-name",
        what: "creates claims under generated names, so that there can be several",
        file: RESERVATION,
        edits: &[(
            "name: Some(name),
             labels: Some(labels::for_vm(vm.namespace, vm.name)),",
            "generate_name: Some(name),
             labels: Some(labels::for_vm(vm.namespace, vm.name)),",
        )],
        first: (Scenarios, "names::"),
    },
];

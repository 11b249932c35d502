//! What sweeps have found, each as a run that showed it.

use kite_fake::fault::{Fault, Plan};

use crate::{
    scenarios::{self, Scenario},
    sweeps::simulation,
};

/// Runs a scenario with these faults in several orders: the outcome is that
/// without them.
fn stands(scenario: Scenario, plan: &Plan) {
    let simulation = simulation(scenario, 1);
    for seed in 0..4 {
        let run = simulation.run(plan.clone(), seed);
        if let Err(finding) = run.check(&simulation.reference(seed)) {
            panic!("{finding}\n{}", run.trace);
        }
    }
}

/// Somebody deletes and creates again the reservation of a name that a VM gives
/// up, just before the VM does: it still is the VM's to give up.
#[test]
fn a_name_that_is_made_anew_while_it_is_given_up_is_given_up_too() {
    let plan = Plan::first("the domain is given up", Fault::RivalRecreates, |call| {
        call.verb == "patch" && call.name == "domain.web"
    });
    stands(scenarios::vm_edits, &plan);
}

/// A controller that starts while names are being given up may hear of their
/// reservations before it hears of their holder: who waits for them has to be
/// told all the same when they go.
#[test]
fn who_waits_for_a_name_is_told_after_a_restart_too() {
    for (verb, plural) in [("delete", "secrets"), ("delete", "datavolumes")] {
        let plan = Plan::first("the holder goes", Fault::CrashAfterCommit, move |call| {
            call.verb == verb && call.plural == plural
        });
        stands(scenarios::one_name_for_two, &plan);
    }
}

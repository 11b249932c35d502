//! Faults at the requests at which they do most harm: those after which nothing
//! else happens that would have them repeated. The sweep has them too, but not in
//! a sample of two.

use kite_fake::fault::{Call, Fault, Plan};

use crate::{
    limits, moves, offers,
    scenarios::{self, Scenario},
    sweeps::simulation,
};

/// Runs a scenario with each of these faults at the last request that `is_meant`
/// in the run without faults: the outcome is that without them.
fn stands(scenario: Scenario, faults: &[Fault], is_meant: impl Fn(&Call) -> bool) {
    let simulation = simulation(scenario, 1);
    let reference = simulation.reference(0);
    let numbered = (1..).zip(&reference.requests);
    let meant = numbered.filter(|(_, call)| is_meant(call)).last();
    let (number, _) = meant.expect("there is such a request");
    for fault in faults {
        let run = simulation.run(Plan::at(number, *fault), 0);
        if let Err(finding) = run.check(&reference) {
            panic!("{finding}\n{}", run.trace);
        }
    }
}

/// A write of an object, or of its status.
fn write(verb: &str, plural: &str, subresource: &str) -> impl Fn(&Call) -> bool {
    move |call| call.verb == verb && call.plural == plural && call.subresource == subresource
}

/// What is told last is told in the end.
#[test]
fn a_status_that_was_not_written_is_written_later() {
    let of: [(Scenario, &str); 5] = [
        (scenarios::sign_up, "kiteusers"),
        (scenarios::vm_life, "kitevirtualmachines"),
        (scenarios::image_import, "kiteimages"),
        (scenarios::platform_exposure, "kiteplatforms"),
        (offers::offer_claimed, "kitevirtualmachineoffers"),
    ];
    for (scenario, plural) in of {
        let refused = [Fault::ServerError, Fault::Conflict];
        stands(scenario, &refused, write("patch", plural, "status"));
    }
}

#[test]
fn a_step_that_failed_is_done_later() {
    let steps: [(Scenario, &str, &str); 6] = [
        (scenarios::sign_up, "patch", "networkpolicies"),
        (scenarios::vm_life, "patch", "virtualmachines"),
        (scenarios::vm_edits, "patch", "persistentvolumeclaims"),
        (scenarios::vm_edits, "patch", "kitereservations"),
        (scenarios::vm_deletion, "delete", "datavolumes"),
        (scenarios::platform_exposure, "delete", "ingresses"),
    ];
    for (scenario, verb, plural) in steps {
        stands(scenario, &[Fault::ServerError], write(verb, plural, ""));
    }
}

/// `KubeVirt` refuses a restart by 409 when it is busy, and nobody hears when it is
/// not any more.
#[test]
fn a_restart_that_was_refused_is_asked_for_again() {
    let asked = write("update", "virtualmachines", "restart");
    stands(scenarios::vm_restart, &[Fault::Conflict], asked);
}

/// A machine that is made again is made behind the same network policies as the first one.
#[test]
fn a_machine_waits_for_network_policies_that_cannot_be_put_back() {
    let policy = write("patch", "networkpolicies", "");
    stands(scenarios::drift, &[Fault::ServerError], policy);
}

/// Nobody else gets an offer whose claim was deleted before it said that it was used.
#[test]
fn an_offer_that_was_used_up_is_so_whoever_deletes_its_claim() {
    let fulfils = |call: &Call| call.verb == "patch" && call.name == "offer.gold";
    stands(offers::offer_given_back, &[Fault::RivalDeletes], fulfils);
}

/// A VM whose end could not be told stays until it is.
#[test]
fn nothing_ends_that_was_not_told_of() {
    let faults = [Fault::ServerError, Fault::CrashBeforeSend];
    let told = write("patch", "kitevirtualmachines", "status");
    stands(limits::expiry_without_grace, &faults, told);
}

/// Whoever ordered a move and does not know it orders no other.
#[test]
fn a_move_that_was_ordered_unheard_is_ordered_once() {
    let faults = [
        Fault::CrashAfterCommit,
        Fault::ResetAfterCommit,
        Fault::ServerError,
        Fault::Timeout,
    ];
    let orders = write("create", "virtualmachineinstancemigrations", "");
    stands(moves::vm_resize_by_default, &faults, orders);
}

/// Whoever wins an offer and is gone, or is told that it failed, has won it once.
#[test]
fn an_offer_that_was_won_unheard_is_won_once() {
    let faults = [Fault::CrashAfterCommit, Fault::ResetAfterCommit];
    let claims = |call: &Call| call.verb == "create" && call.name == "offer.gold";
    stands(offers::offer_claimed_in_vain, &faults, claims);
    stands(offers::offer_claimed, &faults[..1], claims);
}

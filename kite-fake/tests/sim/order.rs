//! The same plan and seed give the same run, in any process.

use std::fmt::Write as _;
use std::process::Command;

use kite_fake::fault::{Fault, Plan};

use crate::operator::{Flaw, simulation};

const BEGIN: &str = "-----8<----- begin";
const END: &str = "-----8<----- end";
const CHILD: &str = "KITE_SIM_PRINTS";

fn traces() -> String {
    let simulation = simulation(Flaw::None);
    let mut all = String::new();
    for (plan, seed) in [
        (Plan::none(), 0),
        (Plan::none(), 3),
        (Plan::at(9, Fault::StaleRestart), 5),
        (Plan::random(4, 60, Fault::ALL), 11),
    ] {
        let run = simulation.run(plan, seed);
        writeln!(all, "{} {}\n{}", run.plan, run.revision, run.trace).unwrap();
    }
    all
}

#[test]
fn the_same_seed_gives_the_same_trace_in_another_process() {
    let here = traces();
    if std::env::var_os(CHILD).is_some() {
        println!("{BEGIN}\n{here}{END}");
        return;
    }
    let name = "order::the_same_seed_gives_the_same_trace_in_another_process";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let output = String::from_utf8(child.stdout).unwrap();
    let (_, there) = output.split_once(&format!("{BEGIN}\n")).expect(&output);
    let (there, _) = there.split_once(END).unwrap();
    assert!(here.lines().count() > 200);
    for (mine, theirs) in here.lines().zip(there.lines()) {
        assert_eq!(mine, theirs);
    }
    assert_eq!(here, there);
}

#[test]
fn another_seed_is_another_order_with_the_same_outcome() {
    let simulation = simulation(Flaw::None);
    let (first, second) = (
        simulation.run(Plan::none(), 1),
        simulation.run(Plan::none(), 2),
    );
    assert_ne!(first.trace, second.trace);
    assert_eq!(first.compare(&second), []);
}

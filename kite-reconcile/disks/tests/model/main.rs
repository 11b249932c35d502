//! Histories of a machine's disks: users' words, storage that lies, rivals, and two
//! controllers, one of which has old views, in every order. The decisions are those of the
//! crate.
//!
//! Small ones are tried without exception, large ones by chance; `KITE_MODEL=long` tries more
//! of both.
#![allow(clippy::unwrap_used, clippy::panic)]
#![allow(clippy::print_stdout, reason = "it says how much was tried")]

mod acts;
mod histories;
mod properties;
mod state;
mod taking;
mod world;

use std::time::Duration;

use histories::Histories;
use state::Budget;
use stateright::{Checker, Expectation, HasDiscoveries, Model, UniformChooser};
use world::Driver;

const DRIVERS: [Driver; 4] = [
    Driver {
        outlives: false,
        is_early: true,
    },
    Driver {
        outlives: false,
        is_early: false,
    },
    Driver {
        outlives: true,
        is_early: true,
    },
    Driver {
        outlives: true,
        is_early: false,
    },
];

const NOTHING: Budget = Budget {
    requests: 0,
    snapshots: 0,
    deletions: 0,
    ends: 0,

    ticks: 0,
    rivals: 0,
    failures: 0,
    old_steps: 0,
};

/// What may happen where nobody's view is old.
const PROMPT: Budget = Budget {
    requests: 2,
    snapshots: 1,
    deletions: 1,
    ends: 1,

    ticks: 1,
    failures: 1,
    ..NOTHING
};

/// What may happen beside one step that was planned from an old view.
const OLD: Budget = Budget {
    requests: 1,
    snapshots: 1,
    deletions: 1,
    ticks: 1,
    old_steps: 1,
    ..NOTHING
};

/// What may happen in histories that are picked by chance.
const MUCH: Budget = Budget {
    requests: 4,
    snapshots: 2,
    deletions: 2,
    ends: 1,

    ticks: 2,
    rivals: 1,
    failures: 1,
    old_steps: 4,
};

fn is_long() -> bool {
    std::env::var("KITE_MODEL").is_ok_and(|it| it == "long")
}

/// Fails by a history in which something does not hold, or where none comes to one of
/// `expected`.
fn judge(checker: &impl Checker<Histories>, expected: &[&str]) {
    let Histories { driver, budget } = checker.model();
    println!("{driver:?}: {} states", checker.unique_state_count());
    let found = checker.discoveries();
    for property in properties::all() {
        let is_harm = property.expectation == Expectation::Always;
        if is_harm && let Some(path) = found.get(property.name) {
            let steps = path.clone().into_actions();
            let steps: Vec<_> = steps.into_iter().map(properties::told).collect();
            let (name, steps) = (property.name, steps.join("\n"));
            panic!("not so: {name}, with {driver:?}, {budget:?}\n{steps}");
        }
    }
    for name in expected {
        assert!(found.contains_key(name), "no history in which {name}");
    }
}

fn all(driver: Driver, budget: Budget, expected: &[&str]) {
    let checker = Histories { driver, budget }.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    judge(&checker.threads(2).spawn_bfs().join(), expected);
}

#[test]
fn no_history_loses_what_somebody_keeps() {
    let expected = [
        "a snapshot is restored",
        "a restore is taken back",
        "a former disk goes",
        "a snapshot outlives its machine",
    ];
    let rivals = u8::from(is_long());
    for driver in DRIVERS {
        all(driver, Budget { rivals, ..PROMPT }, &expected);
    }
    let asked_often = Budget {
        requests: if is_long() { 5 } else { 3 },
        ticks: 1,
        ..NOTHING
    };
    all(DRIVERS[0], asked_often, &["a restore is taken back"]);
}

/// Who deletes what is Kite's, points elsewhere, or takes marks off.
#[test]
fn nor_do_others() {
    let one_restore = Budget {
        requests: 1,
        rivals: 1,
        ..PROMPT
    };
    for driver in DRIVERS {
        all(driver, one_restore, &[]);
    }
    let taken_back = Budget {
        requests: 2,
        ticks: 1,
        rivals: 1,
        ..NOTHING
    };
    all(DRIVERS[0], taken_back, &["a restore is taken back"]);
}

#[test]
fn nor_does_an_old_view() {
    let expected = ["a former disk goes", "an old step is refused"];
    for driver in DRIVERS {
        all(driver, OLD, &expected);
        if is_long() {
            let (requests, deletions) = (2, 0);
            let more = Budget {
                requests,
                deletions,
                ..OLD
            };
            all(driver, more, &expected);
        }
    }
}

/// As where it carries out the former one of two requests, and another one the latter.
#[test]
fn nor_do_two_that_know_different_requests() {
    let two = Budget {
        requests: 2,
        ticks: 1,
        old_steps: 1,
        ..NOTHING
    };
    all(DRIVERS[0], two, &["a former disk goes"]);
}

/// Also of what the owner says, and where there are two copies for one request.
#[test]
fn nor_does_an_old_word() {
    let words = Budget {
        requests: 2,
        failures: 1,
        old_steps: 1,
        ..NOTHING
    };
    all(DRIVERS[3], words, &["an old step is refused"]);
}

#[test]
fn nor_do_many_by_chance() {
    let seconds = if is_long() { 120 } else { 3 };
    for driver in DRIVERS {
        let histories = Histories {
            driver,
            budget: MUCH,
        };
        let checker = histories
            .checker()
            .finish_when(HasDiscoveries::AnyFailures)
            .timeout(Duration::from_secs(seconds));
        let checker = checker.threads(2).spawn_simulation(1, UniformChooser);
        judge(&checker.join(), &[]);
    }
}

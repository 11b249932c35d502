//! Each scenario with each class of faults. A plain run takes a sample of each,
//! `KITE_SWEEP=full` everything, `KITE_SWEEP=50` samples of fifty.
//! `KITE_SWEEP_PAIRS=200` tries so many pairs of faults in each scenario;
//! `KITE_SWEEP_SEED=7` other ones, and another order.

use std::{env, sync::LazyLock, time::Duration};

use kite_fake::{
    fault::Fault,
    sim::{Simulation, Summary},
};

use crate::{
    invariants,
    scenarios::{self, Scenario},
};

/// Faults of one kind.
struct Class {
    name: &'static str,
    faults: &'static [Fault],
    /// How many copies of each controller run at once.
    copies: usize,
    /// In what orders things happen; in turn, if it is 0. A sample takes only that.
    seeds: std::ops::Range<u64>,
    /// How many runs with a fault a plain run of the tests takes.
    sample: usize,
}

const CRASHES: Class = Class {
    name: "crashes",
    faults: &[Fault::CrashBeforeSend, Fault::CrashAfterCommit],
    copies: 1,
    seeds: 0..1,
    sample: 2,
};

const ANSWERS: Class = Class {
    name: "answers",
    faults: &[
        Fault::ResetBeforeSend,
        Fault::ResetAfterCommit,
        Fault::Conflict,
        Fault::TooManyRequests,
        Fault::ServerError,
        Fault::Timeout,
    ],
    copies: 1,
    seeds: 0..1,
    sample: 2,
};

const VIEWS: Class = Class {
    name: "views",
    faults: &[
        Fault::WatchEnds,
        Fault::WatchExpires,
        Fault::WatchLags,
        Fault::StaleRestart,
        Fault::Coalesced,
        Fault::HiddenRecreate,
    ],
    copies: 1,
    seeds: 0..1,
    sample: 2,
};

const RIVALS: Class = Class {
    name: "rivals",
    faults: &[
        Fault::RivalEdits,
        Fault::RivalDeletes,
        Fault::RivalRecreates,
    ],
    copies: 1,
    seeds: 0..1,
    sample: 1,
};

const TWINS: Class = Class {
    name: "twins",
    faults: &[
        Fault::CrashAfterCommit,
        Fault::ResetAfterCommit,
        Fault::WatchLags,
    ],
    copies: 2,
    seeds: 0..3,
    sample: 1,
};

/// Every fault that comes in pairs, too.
const PAIRS: &[Fault] = &[
    Fault::CrashBeforeSend,
    Fault::CrashAfterCommit,
    Fault::ResetAfterCommit,
    Fault::Conflict,
    Fault::TooManyRequests,
    Fault::ServerError,
    Fault::Timeout,
    Fault::WatchExpires,
    Fault::WatchLags,
    Fault::StaleRestart,
    Fault::Coalesced,
    Fault::RivalEdits,
    Fault::RivalDeletes,
    Fault::RivalRecreates,
];

/// A number that an environment variable says.
fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    env::var(variable).ok()?.parse().ok()
}

fn is_full() -> bool {
    env::var("KITE_SWEEP").is_ok_and(|value| value == "full")
}

/// What `KITE_SWEEP` says of samples: so many runs for each scenario and class.
fn asked_for() -> Option<usize> {
    number("KITE_SWEEP")
}

fn simulation(scenario: Scenario, copies: usize) -> Simulation {
    invariants::always(scenario(copies))
        // A fault may cost some back-off; two copies also trip over each other.
        .patience(Duration::from_secs(3600))
        .build()
}

fn run(simulation: &Simulation, class: &Class, sample: Option<usize>, threads: usize) -> Summary {
    let sweep = simulation.sweep().faults(class.faults).threads(threads);
    match sample {
        Some(sample) => sweep.sample(sample).run(),
        None => sweep.seeds(class.seeds.clone()).run(),
    }
}

fn slice(simulation: &Simulation, class: &Class) {
    if is_full() {
        return;
    }
    let sample = asked_for().unwrap_or(class.sample);
    let summary = run(simulation, class, Some(sample), 1);
    println!("{}: {summary}", class.name);
    assert!(summary.is_clean(), "{}: {summary}", class.name);
}

macro_rules! sweeps {
    ($($scenario:ident),* $(,)?) => {
        /// All scenarios, by name.
        const ALL: &[(&str, Scenario)] = &[$((stringify!($scenario), scenarios::$scenario)),*];

        $(
            mod $scenario {
                use super::*;

                /// One for all classes: what they are compared with is played once.
                static ALONE: LazyLock<Simulation> =
                    LazyLock::new(|| simulation(scenarios::$scenario, 1));

                #[test]
                fn crashes() {
                    slice(&ALONE, &CRASHES);
                }
                #[test]
                fn answers() {
                    slice(&ALONE, &ANSWERS);
                }
                #[test]
                fn views() {
                    slice(&ALONE, &VIEWS);
                }
                #[test]
                fn rivals() {
                    slice(&ALONE, &RIVALS);
                }
                #[test]
                fn twins() {
                    slice(&simulation(scenarios::$scenario, 2), &TWINS);
                }
            }
        )*
    };
}

sweeps!(
    sign_up,
    vm_life,
    vm_edits,
    vm_deletion,
    deleted_while_filling,
    deleted_on_the_way,
    recreation,
    user_deletion,
    image_import,
    image_by_schedule,
    platform_exposure,
    one_name_for_two,
    suspension,
    vm_before_walls,
    vm_restart,
    vm_expiry,
    platform_life,
    drift,
);

/// Rows of a table of sweeps.
#[derive(Default)]
struct Table {
    runs: usize,
    injected: usize,
    seconds: f64,
    findings: Vec<String>,
}

impl Table {
    fn begin() -> Self {
        println!("| Scenario | Faults | Requests | Runs | Injected | Violations | Time |");
        println!("|---|---|---|---|---|---|---|");
        Self::default()
    }

    fn row(&mut self, scenario: &str, class: &str, summary: &Summary) {
        let seconds = summary.elapsed.as_secs_f64();
        println!(
            "| {scenario} | {class} | {} | {} | {} | {} | {seconds:.1} s |",
            summary.requests.iter().sum::<usize>(),
            summary.runs,
            summary.injected,
            summary.findings.len(),
        );
        self.runs += summary.runs;
        self.injected += summary.injected;
        self.seconds += seconds;
        let findings = summary.findings.iter();
        self.findings
            .extend(findings.map(|finding| format!("{scenario}, {class}: {finding}")));
    }

    fn end(self) {
        println!(
            "| all | | | {} | {} | {} | {:.1} s |",
            self.runs,
            self.injected,
            self.findings.len(),
            self.seconds
        );
        let shown: String = self.findings.iter().take(40).cloned().collect();
        assert!(
            self.findings.is_empty(),
            "{} findings:\n{shown}",
            self.findings.len()
        );
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// All of it, with a table. Only with `KITE_SWEEP=full`.
#[test]
fn everything() {
    if !is_full() {
        println!("skipped: KITE_SWEEP=full runs every fault at every request");
        return;
    }
    let mut table = Table::begin();
    for (name, scenario) in ALL {
        let simulations = [1, 2].map(|copies| simulation(*scenario, copies));
        for class in [&CRASHES, &ANSWERS, &VIEWS, &RIVALS, &TWINS] {
            let summary = run(&simulations[class.copies - 1], class, None, threads());
            table.row(name, class.name, &summary);
        }
    }
    table.end();
}

/// Two faults in one run. Only with `KITE_SWEEP_PAIRS`.
#[test]
fn pairs() {
    let Some(count) = number("KITE_SWEEP_PAIRS") else {
        println!("skipped: KITE_SWEEP_PAIRS=200 tries so many pairs in each scenario");
        return;
    };
    let seed = number("KITE_SWEEP_SEED").unwrap_or_default();
    let mut table = Table::begin();
    for (name, scenario) in ALL {
        let simulation = simulation(*scenario, 1);
        let sweep = simulation.sweep().faults(PAIRS).threads(threads());
        let summary = sweep.seeds([seed]).pairs(seed, count).run();
        table.row(name, "pairs", &summary);
    }
    table.end();
}

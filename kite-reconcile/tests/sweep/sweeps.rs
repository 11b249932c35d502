//! Each scenario with each class of faults. A plain run takes a sample of each,
//! `KITE_SWEEP=full` everything, `KITE_SWEEP=50` samples of fifty.
//! `KITE_SWEEP_PAIRS=200` tries so many pairs of faults in each scenario;
//! `KITE_SWEEP_SEED=7` other ones, and another order. `KITE_SWEEP_SCENARIOS` and
//! `KITE_SWEEP_CLASSES` pick some of them, separated by commas.

use std::{env, sync::LazyLock, time::Duration};

use kite_fake::{
    fault::{Fault, Plan},
    sim::{Simulation, Summary},
};

use crate::{
    circumstances, invariants, limits, moves, offers,
    scenarios::{self, Scenario},
    snapshots, volumes,
};

/// Runs for which it is not worth while to play a scenario in several orders.
const FEW: usize = 8;

/// Orders of which a few runs take one.
const ORDERS: u64 = 4;

/// Faults of one kind.
struct Class {
    name: &'static str,
    faults: &'static [Fault],
    /// How many copies of each controller run at once.
    copies: usize,
    /// Whether only the controller goes that a crash strikes, and not the process.
    is_apart: bool,
    /// In how many orders things happen: in turn first, or from that of
    /// `KITE_SWEEP_SEED` on. A sample of less than [`FEW`] runs takes one, which goes
    /// by the scenario.
    orders: u64,
    /// How many runs with a fault a plain run of the tests takes.
    sample: usize,
}

/// The process ends: all of its controllers.
const CRASHES: Class = Class {
    name: "crashes",
    faults: &[Fault::CrashBeforeSend, Fault::CrashAfterCommit],
    copies: 1,
    is_apart: false,
    orders: 1,
    sample: 2,
};

/// One controller ends, as where each has a process of its own, and the others go
/// on with what they know.
const LOSSES: Class = Class {
    name: "losses",
    faults: &[
        Fault::CrashBeforeSend,
        Fault::CrashAfterCommit,
        Fault::StaleRestart,
    ],
    copies: 1,
    is_apart: true,
    orders: 1,
    sample: 1,
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
    is_apart: false,
    orders: 1,
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
    is_apart: false,
    orders: 1,
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
    is_apart: false,
    orders: 1,
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
    is_apart: false,
    orders: 3,
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

/// A scenario with all that is asked of it.
pub fn simulation(scenario: Scenario, copies: usize) -> Simulation {
    invariants::always(scenario(copies))
        // A fault may cost some back-off; two copies also trip over each other.
        .timeout(Duration::from_secs(3600))
        .build()
}

/// A number that a name stands for.
fn number_of(name: &str) -> u64 {
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, mix) >> 8
}

/// A scenario to be swept.
struct Subject<'a> {
    name: &'static str,
    scenario: Scenario,
    /// One copy of everybody.
    alone: &'a Simulation,
}

impl Subject<'_> {
    fn sweep(&self, class: &Class, sample: Option<usize>, threads: usize) -> Summary {
        let other = match class {
            Class {
                copies: 1,
                is_apart: false,
                ..
            } => None,
            Class { copies: 1, .. } => Some(self.alone.apart()),
            _ => Some(simulation(self.scenario, class.copies)),
        };
        let mut sweep = other.as_ref().unwrap_or(self.alone).sweep();
        if class.copies > 1 {
            sweep = sweep.beside(self.alone);
        }
        let title = format!("{}, {}", self.name, class.name);
        let sweep = sweep
            .faults(class.faults)
            .threads(threads)
            .on_finding(|finding| eprintln!("{title}: {finding}"));
        let first = number("KITE_SWEEP_SEED").unwrap_or_default();
        let orders = first..first + class.orders;
        match sample {
            // Each order has a run without faults of its own.
            Some(sample) if sample < FEW => {
                let order = first + number_of(self.name) % ORDERS;
                sweep.seeds([order]).sample(number_of(&title), sample).run()
            }
            Some(sample) => sweep.seeds(orders).sample(first, sample).run(),
            None => sweep.seeds(orders).run(),
        }
    }
}

fn slice(subject: &Subject<'_>, class: &Class) {
    if is_full() {
        return;
    }
    let sample = asked_for().unwrap_or(class.sample);
    let summary = subject.sweep(class, Some(sample), 1);
    println!("{}: {summary}", class.name);
    assert!(summary.is_clean(), "{}: {summary}", class.name);
    assert!(summary.injected > 0, "{}: nothing went wrong", class.name);
}

macro_rules! sweeps {
    ($($file:ident::$scenario:ident),* $(,)?) => {
        /// All scenarios, by name.
        const ALL: &[(&str, Scenario)] = &[$((stringify!($scenario), $file::$scenario)),*];

        $(
            mod $scenario {
                use super::*;

                /// One for all classes: what they are compared with is played once.
                static ALONE: LazyLock<Simulation> =
                    LazyLock::new(|| simulation($file::$scenario, 1));

                fn slice_of(class: &Class) {
                    let subject = Subject {
                        name: stringify!($scenario),
                        scenario: $file::$scenario,
                        alone: &ALONE,
                    };
                    slice(&subject, class);
                }

                #[test]
                fn crashes() {
                    slice_of(&CRASHES);
                }
                #[test]
                fn losses() {
                    slice_of(&LOSSES);
                }
                #[test]
                fn answers() {
                    slice_of(&ANSWERS);
                }
                #[test]
                fn views() {
                    slice_of(&VIEWS);
                }
                #[test]
                fn rivals() {
                    slice_of(&RIVALS);
                }
                #[test]
                fn twins() {
                    slice_of(&TWINS);
                }
            }
        )*
    };
}

sweeps!(
    scenarios::sign_up,
    scenarios::vm_life,
    scenarios::vm_edits,
    scenarios::vm_deletion,
    scenarios::disk_deleted,
    scenarios::claim_deleted,
    scenarios::deleted_while_filling,
    scenarios::deleted_on_the_way,
    scenarios::recreation,
    scenarios::user_deletion,
    scenarios::namespace_deletion,
    scenarios::image_import,
    scenarios::image_by_schedule,
    scenarios::platform_exposure,
    scenarios::one_name_for_two,
    scenarios::suspension,
    scenarios::vm_before_network_policies,
    scenarios::vm_restart,
    scenarios::vm_expiry,
    scenarios::platform_life,
    scenarios::drift,
    circumstances::idle_stop,
    circumstances::vm_by_route,
    circumstances::windows_vm,
    circumstances::image_replaced,
    circumstances::over_quota,
    circumstances::two_ask_for_the_last,
    circumstances::platform_again,
    limits::expiry_without_grace,
    limits::vm_resize,
    moves::vm_resize_by_default,
    limits::certificates,
    limits::images_of_what_is_there,
    offers::offer_claimed,
    offers::offer_claimed_in_vain,
    offers::offer_given_back,
    offers::offer_for_two,
    offers::offer_expired,
    snapshots::snapshot_life,
    snapshots::snapshot_given_up,
    snapshots::snapshot_kept,
    snapshots::snapshots_of_one_who_goes,
    snapshots::snapshot_restored,
    snapshots::snapshot_restored_in_vain,
    snapshots::snapshot_of_another,
    snapshots::snapshots_by_schedule,
    volumes::volume_handed_on,
    volumes::volumes_of_one_who_goes,
    volumes::volume_that_outlives_its_account,
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
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    number("KITE_SWEEP_THREADS").unwrap_or(all)
}

/// Those of `all` that a variable picks by their names; all if it is not set.
fn picked<T: Copy>(variable: &str, all: &[(&'static str, T)]) -> Vec<(&'static str, T)> {
    let Ok(wanted) = env::var(variable) else {
        return all.to_vec();
    };
    let wanted = wanted.split(',').map(str::trim).filter(|it| !it.is_empty());
    let pick = |name: &str| {
        let found = all.iter().find(|(known, _)| *known == name);
        *found.unwrap_or_else(|| {
            let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
            panic!(
                "{variable}: there is no {name:?}; there are {}",
                known.join(", ")
            )
        })
    };
    wanted.map(pick).collect()
}

const CLASSES: &[(&str, &Class)] = &[
    (CRASHES.name, &CRASHES),
    (LOSSES.name, &LOSSES),
    (ANSWERS.name, &ANSWERS),
    (VIEWS.name, &VIEWS),
    (RIVALS.name, &RIVALS),
    (TWINS.name, &TWINS),
];

/// All of it, with a table. Only with `KITE_SWEEP=full`; or samples of it, with
/// `KITE_SWEEP_TABLE=60`.
#[test]
fn everything() {
    let sample = number("KITE_SWEEP_TABLE");
    if !is_full() && sample.is_none() {
        println!("skipped: KITE_SWEEP=full runs every fault at every request");
        return;
    }
    let classes = picked("KITE_SWEEP_CLASSES", CLASSES);
    let mut table = Table::begin();
    for (name, scenario) in picked("KITE_SWEEP_SCENARIOS", ALL) {
        let alone = &simulation(scenario, 1);
        let subject = Subject {
            name,
            scenario,
            alone,
        };
        for (_, class) in &classes {
            let summary = subject.sweep(class, sample, threads());
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
    for (name, scenario) in picked("KITE_SWEEP_SCENARIOS", ALL) {
        let simulation = simulation(scenario, 1);
        let sweep = simulation.sweep().faults(PAIRS).threads(threads());
        let sweep = sweep.on_finding(|finding| eprintln!("{name}, pairs: {finding}"));
        let summary = sweep.seeds([seed]).pairs(seed, count).run();
        table.row(name, "pairs", &summary);
    }
    table.end();
}

/// What a finding of `pairs` printed, once more and with its trace: its scenario,
/// the place and name of both faults, and the seed, in `KITE_SWEEP_SHOW`.
#[test]
fn show() {
    let Ok(wanted) = env::var("KITE_SWEEP_SHOW") else {
        println!("skipped: KITE_SWEEP_SHOW=vm_life,7,CrashAfterCommit,9,Conflict,0 shows a run");
        return;
    };
    let words: Vec<&str> = wanted.split(',').map(str::trim).collect();
    let (scenario, rest) = words.split_first().expect("a scenario");
    let (seed, faults) = rest.split_last().expect("a seed");
    let (_, scenario) = *ALL
        .iter()
        .find(|(name, _)| name == scenario)
        .expect("known");
    let mut plan = Plan::none();
    for (at, pair) in faults.chunks_exact(2).enumerate() {
        let number = pair[0].parse().expect("the number of a request");
        let named = |fault: &&Fault| format!("{fault:?}") == pair[1];
        let fault = *Fault::ALL.iter().find(named).expect("a fault");
        plan = match at {
            0 => plan.and_at(number, fault),
            _ => plan.and_from(number, fault),
        };
    }
    let seed = seed.parse().expect("a seed");
    let copies = number("KITE_SWEEP_COPIES").unwrap_or(1);
    let simulation = simulation(scenario, copies);
    let run = simulation.run(plan, seed);
    println!("{}", run.trace);
    match run.check(&simulation.reference(seed)) {
        Ok(()) => println!("nothing is wrong"),
        Err(finding) => println!("{finding}"),
    }
}

/// Else nothing would be asked of what is told of a guest at rest.
#[test]
fn a_guest_is_at_rest_in_snapshots_without_a_fault() {
    let run = simulation(snapshots::snapshot_life, 1).run(Plan::none(), 0);
    assert!(run.violations.is_empty(), "{:#?}", run.violations);
    let told = |state: &kite_fake::state::Snapshot| {
        let all = state
            .objects()
            .filter(|(kind, ..)| kind.plural == "kitesnapshots");
        let told = all.map(|(_, _, it)| it.value()["status"]["consistency"].clone());
        told.filter(|it| it == "Quiesced").count()
    };
    let most = run.states.iter().map(told).max();
    assert_eq!(most, Some(2));
}

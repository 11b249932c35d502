//! What came of a run, and how it differs from another.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::essence::{Essence, History, Ignored, differences};
use super::observer::{Disturbed, Lives};
use crate::fault::{Call, Fault, Injected, Plan};
use crate::state::Snapshot;

/// Which rule does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// What the scenario expects is so, and nothing stops it.
    Scenario,
    /// The world comes to rest.
    Settles,
    /// No reconcile panics.
    Panic,
    /// What the user of the simulation says holds at every step.
    Invariant,
    /// Who looks at a settled world once more changes nothing.
    SecondPass,
    /// At rest no object is left whose owners are all gone.
    Orphan,
    /// At rest the world looks as without faults.
    State,
    /// Objects are created and deleted as often as without faults.
    Lives,
    /// Each fault of the plan that was meant for a single request found it.
    Unfired,
}

/// Something that is wrong, in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Violation {
    /// Which rule does not hold.
    pub rule: Rule,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What went wrong by order.
    pub plan: Plan,
    /// What chose the order of steps.
    pub seed: u64,
    /// Every step, one line each, with the simulated time. The same plan and
    /// seed give the same text, in any process.
    pub trace: String,
    /// The requests of the participants, in order; the first has number 1.
    pub requests: Vec<Call>,
    /// What did go wrong.
    pub injected: Vec<Injected>,
    /// What is wrong with this run by itself.
    pub violations: Vec<Violation>,
    /// How often each object came and went; generated names are written with a
    /// star. Empty if they are not to be compared.
    pub lives: BTreeMap<String, Lives>,
    /// The world each time that the scenario let it settle, and at the end.
    pub states: Vec<Snapshot>,
    /// The cluster's revision at the end.
    pub revision: u64,
    /// Whether the world was settled at the end.
    pub is_settled: bool,
    /// How long it took, in simulated time.
    pub elapsed: Duration,
    pub(super) essences: Vec<Essence>,
    /// Fields that are not compared where rivals replaced or removed objects.
    pub(super) history: Arc<Vec<History>>,
    /// What rivals replaced or removed.
    pub(super) disturbed: Disturbed,
}

impl Run {
    pub(super) fn failed(plan: Plan, seed: u64, why: String) -> Self {
        Self {
            plan,
            seed,
            trace: String::new(),
            requests: Vec::new(),
            injected: Vec::new(),
            violations: vec![Violation {
                rule: Rule::Scenario,
                text: why,
            }],
            lives: BTreeMap::new(),
            states: Vec::new(),
            revision: 0,
            is_settled: false,
            elapsed: Duration::ZERO,
            essences: Vec::new(),
            history: Arc::default(),
            disturbed: Disturbed::default(),
        }
    }

    /// How this run came out otherwise than `reference`: objects that are
    /// missing, extra or different, each time that the world was settled, and
    /// objects that were created or deleted more or less often; but for those that
    /// a rival deleted, and what belonged to them.
    pub fn compare(&self, reference: &Self) -> Vec<Violation> {
        let mut all = Vec::new();
        let count = reference.essences.len();
        let past = self.history.iter();
        let past = past.filter(|past| self.disturbed.kinds.contains(&past.of));
        let past: Vec<&Ignored> = past.map(|past| &past.field).collect();
        for (at, expected) in reference.essences.iter().enumerate() {
            let Some(found) = self.essences.get(at) else {
                break;
            };
            let when = if at + 1 == count {
                "at the end".to_owned()
            } else {
                format!("when the world is settled for the {} time", ordinal(at + 1))
            };
            let lines = differences(expected, found, &past);
            all.extend(lines.into_iter().map(|line| Violation {
                rule: Rule::State,
                text: format!("{when}, {line}"),
            }));
        }
        all.extend(self.other_lives(reference, &past));
        all
    }

    fn other_lives(&self, reference: &Self, past: &[&Ignored]) -> Vec<Violation> {
        let none = Lives::default();
        let mut names: Vec<&String> = self.lives.keys().chain(reference.lives.keys()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| !name.starts_with("Event "));
        // A rival takes lives by itself, and what it takes others take with it.
        names.retain(|name| !self.disturbed.slots.contains(*name));
        let of_the_past = |name: &str| {
            let kind = name.split(' ').next();
            let mut kinds = past.iter().filter(|field| field.pointer.is_empty());
            kinds.any(|field| Some(field.kind.as_str()) == kind)
        };
        names.retain(|name| !of_the_past(name));
        let mut all = Vec::new();
        for name in names {
            let found = *self.lives.get(name).unwrap_or(&none);
            let expected = *reference.lives.get(name).unwrap_or(&none);
            if found == expected {
                continue;
            }
            let again = if found.created > expected.created && found.deleted > expected.deleted {
                ": it was deleted and created again"
            } else {
                ""
            };
            all.push(Violation {
                rule: Rule::Lives,
                text: format!(
                    "{name} was created {} and deleted {}, without faults {} and {}{again}",
                    times(found.created),
                    times(found.deleted),
                    times(expected.created),
                    times(expected.deleted),
                ),
            });
        }
        all
    }

    /// All that is wrong: with this run by itself, and compared with
    /// `reference`.
    ///
    /// # Errors
    /// The finding, with the line of code that shows it again.
    pub fn check(&self, reference: &Self) -> Result<(), Box<Finding>> {
        let mut violations = self.violations.clone();
        // Who did not come to rest, or to the end, differs anyway.
        let is_complete = self.essences.len() == reference.essences.len();
        if is_complete {
            violations.extend(self.compare(reference));
        } else if violations.is_empty() {
            violations.push(Violation {
                rule: Rule::Scenario,
                text: "the scenario did not come to its end".to_owned(),
            });
        }
        if violations.is_empty() {
            return Ok(());
        }
        Err(Box::new(Finding {
            plan: self.plan.clone(),
            seed: self.seed,
            injected: self.injected.clone(),
            violations,
        }))
    }
}

fn times(count: u32) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    }
}

fn ordinal(n: usize) -> String {
    match n {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}

/// A run in which something is wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What went wrong by order.
    pub plan: Plan,
    /// What chose the order of steps.
    pub seed: u64,
    /// What did go wrong.
    pub injected: Vec<Injected>,
    /// What is wrong.
    pub violations: Vec<Violation>,
}

impl Finding {
    /// The fault, if there was exactly one.
    pub fn fault(&self) -> Option<Fault> {
        match self.injected.as_slice() {
            [one] => Some(one.mode),
            _ => None,
        }
    }

    /// The line of code that shows it again.
    pub fn reproduce(&self) -> String {
        format!(
            "println!(\"{{}}\", simulation.run({}, {}).trace);",
            self.plan, self.seed
        )
    }
}

/// Most violations of a run that are printed.
const SHOWN: usize = 12;

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.injected.as_slice() {
            [] => writeln!(f, "without a fault, in the order of seed {}:", self.seed)?,
            all => {
                for injected in all {
                    writeln!(f, "{injected}:")?;
                }
            }
        }
        for violation in self.violations.iter().take(SHOWN) {
            writeln!(f, "  {violation}")?;
        }
        if let Some(more) = self.violations.len().checked_sub(SHOWN).filter(|n| *n > 0) {
            writeln!(f, "  and {more} more")?;
        }
        writeln!(f, "  {}", self.reproduce())
    }
}

impl std::error::Error for Finding {}

//! What a run found.

use std::fmt;

use super::Behaviour;

/// How a behaviour fared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not, and why one thinks so.
    Fails(String),
    /// It was not tried, or not to the end, and why.
    Skipped(String),
}

/// One behaviour and how it fared.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// Which one.
    pub behaviour: Behaviour,
    /// How it fared.
    pub verdict: Verdict,
}

/// What a run found. Its text has a line for each behaviour that fails or was
/// skipped, what is left over, and the count; with `{:#}` those that hold, too.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// The behaviours in the order of the table.
    pub outcomes: Vec<Outcome>,
    /// Paths of what could not be removed.
    pub left_over: Vec<String>,
}

impl Report {
    /// Whether something was checked, nothing failed, and nothing is left over.
    /// Behaviours that were [`skipped`](Self::skipped) do not count: whoever
    /// expects all to be checked looks at them as well.
    pub fn holds(&self) -> bool {
        self.held() > 0 && self.failed().next().is_none() && self.left_over.is_empty()
    }

    /// The behaviours that do not hold, with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&Behaviour, &str)> {
        self.outcomes.iter().filter_map(|o| match &o.verdict {
            Verdict::Fails(why) => Some((&o.behaviour, why.as_str())),
            _ => None,
        })
    }

    /// The behaviours that were skipped, with the reason.
    pub fn skipped(&self) -> impl Iterator<Item = (&Behaviour, &str)> {
        self.outcomes.iter().filter_map(|o| match &o.verdict {
            Verdict::Skipped(why) => Some((&o.behaviour, why.as_str())),
            _ => None,
        })
    }

    /// How many behaviours hold.
    pub fn held(&self) -> usize {
        let holds = |o: &&Outcome| o.verdict == Verdict::Holds;
        self.outcomes.iter().filter(holds).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Outcome { behaviour, verdict } in &self.outcomes {
            let what = behaviour.what;
            match verdict {
                Verdict::Holds if f.alternate() => writeln!(f, "holds    {behaviour:?}: {what}")?,
                Verdict::Holds => {}
                Verdict::Skipped(why) => writeln!(f, "skipped  {behaviour:?}: {why}")?,
                Verdict::Fails(why) => {
                    writeln!(f, "FAILS    {behaviour:?}: {what}\n         {why}")?;
                }
            }
        }
        for path in &self.left_over {
            writeln!(f, "left over: {path}")?;
        }
        let (held, all) = (self.held(), self.outcomes.len());
        write!(f, "{held} of {all} behaviours hold")?;
        match self.skipped().count() {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} were skipped"),
        }
    }
}

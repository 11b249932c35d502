//! What a look at a cluster found.

use std::fmt;

use serde::Serialize;

use super::{clients, exposure};

/// How it stands with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// As it should be.
    Fit,
    /// It cannot be told from here, or not yet.
    Unknown,
    /// Kite works, but not all of it, or not as well.
    Warning,
    /// Kite does not work like this.
    Unfit,
}

impl State {
    /// What stands before a line of text.
    fn mark(self) -> &'static str {
        match self {
            Self::Fit => "ok",
            Self::Unknown => "?",
            Self::Warning => "warning",
            Self::Unfit => "FAILED",
        }
    }
}

/// How it stands with one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in camel case: scripts go by it.
    pub check: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub message: String,
    /// What to do about it; for what is not [`State::Fit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// All is well.
    pub(super) fn fit(check: &'static str, message: impl Into<String>) -> Self {
        Self {
            check,
            state: State::Fit,
            message: message.into(),
            remedy: None,
        }
    }

    /// Something is not, with what to do.
    pub(super) fn of(
        check: &'static str,
        state: State,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            check,
            state,
            message: message.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// All that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The worst of the findings.
    pub state: State,
    /// In the order in which to mend what is wrong.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(findings: Vec<Finding>) -> Self {
        let worst = findings.iter().map(|finding| finding.state).max();
        Self {
            state: worst.unwrap_or(State::Unknown),
            findings,
        }
    }

    /// Whether Kite can work on this cluster.
    pub fn is_fit(&self) -> bool {
        self.state != State::Unfit
    }

    /// Whether the cluster answered at all.
    pub fn was_looked_at(&self) -> bool {
        self.findings.len() > 1
    }

    /// What keeps Kite from working that no installation brings with it;
    /// `with_class` says whether it brings the `StorageClass`.
    pub fn before_install(&self, with_class: bool) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| {
            let counts = match finding.check {
                "apiServer" | "kubevirt" | "cdi" | "nodes" => true,
                "storageClass" | "storageProfile" => !with_class,
                _ => false,
            };
            counts && finding.state == State::Unfit
        })
    }

    /// What people would miss of an installation that goes on all the same: how they
    /// reach the page, their VMs and the gateway, and whether that can tell them apart.
    pub fn to_look_at(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| {
            let is_way_in =
                exposure::CHECKS.contains(&finding.check) || finding.check == clients::CHECK;
            is_way_in && matches!(finding.state, State::Unfit | State::Warning)
        })
    }

    /// What was found of `check`.
    pub fn find(&self, check: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.check == check)
    }
}

/// As text for people: a line for each finding, and one for each remedy.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.findings.iter().map(|it| it.check.len()).max();
        let width = width.unwrap_or_default();
        for finding in &self.findings {
            let (mark, check) = (finding.state.mark(), finding.check);
            writeln!(f, "{mark:<7}  {check:<width$}  {}", finding.message)?;
            if let Some(remedy) = &finding.remedy {
                writeln!(f, "{:<7}  {:<width$}  -> {remedy}", "", "")?;
            }
        }
        let count = |state| self.findings.iter().filter(|it| it.state == state).count();
        let (unfit, warnings) = (count(State::Unfit), count(State::Warning));
        match (unfit, warnings, count(State::Unknown)) {
            (0, 0, 0) => write!(f, "The cluster is fit for Kite."),
            (0, 0, unknown) => write!(f, "Nothing is amiss; {unknown} could not be told."),
            (0, warnings, 0) => write!(f, "Kite works on this cluster; {warnings} to look at."),
            (0, warnings, unknown) => write!(
                f,
                "Nothing keeps Kite from working; {warnings} to look at, {unknown} could not be \
                 told."
            ),
            (unfit, _, _) => write!(f, "The cluster is not fit for Kite yet: {unfit} to mend."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_counts_and_each_remedy_is_told() {
        let fit = Finding::fit("one", "is there");
        let unknown = Finding::of("two", State::Unknown, "nobody knows", "ask");
        let report = Report::new(vec![fit.clone(), unknown.clone()]);
        assert!(report.is_fit());
        assert!(
            report
                .to_string()
                .ends_with("Nothing is amiss; 1 could not be told.")
        );
        assert_eq!(report.state, State::Unknown);
        let unfit = Finding::of("three", State::Unfit, "is missing", "install it");
        let report = Report::new(vec![fit, unfit, unknown]);
        assert!(!report.is_fit());
        let text = report.to_string();
        assert!(text.contains("FAILED   three  is missing\n"), "{text}");
        assert!(text.contains("-> install it"), "{text}");
        assert!(text.ends_with("not fit for Kite yet: 1 to mend."), "{text}");
    }
}

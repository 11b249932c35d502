//! Tables of who can do what, of which `docs/interop.md` has a copy.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

/// What a client may be able to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Feature {
    Key,
    Password,
    Interactive,
    Shell,
    Exec,
    Signal,
    Stderr,
    Sftp,
    Scp,
    OldScp,
    Rsync,
    Git,
    Local,
    Remote,
    Dynamic,
    Agent,
    Channels,
}

/// What there is a column for.
pub trait Column: Copy + PartialEq + 'static {
    /// What the rows are.
    const ROWS: &'static str;
    /// All, with their titles.
    const ALL: &'static [(Self, &'static str)];

    fn title(self) -> &'static str {
        let of = Self::ALL.iter().find(|(column, _)| *column == self);
        of.map_or("", |(_, title)| title)
    }
}

impl Column for Feature {
    const ROWS: &'static str = "client";
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Key, "key"),
        (Self::Password, "password"),
        (Self::Interactive, "kbd-int"),
        (Self::Shell, "shell"),
        (Self::Exec, "exec"),
        (Self::Signal, "signal"),
        (Self::Stderr, "stderr"),
        (Self::Sftp, "sftp"),
        (Self::Scp, "scp"),
        (Self::OldScp, "scp -O"),
        (Self::Rsync, "rsync"),
        (Self::Git, "git"),
        (Self::Local, "-L"),
        (Self::Remote, "-R"),
        (Self::Dynamic, "-D"),
        (Self::Agent, "agent"),
        (Self::Channels, "20 ch."),
    ];
}

/// What is in a cell: what went well, or why it did not.
pub type Outcome = Result<String, String>;

/// Nothing to add.
#[allow(clippy::unnecessary_wraps, reason = "it is said where an outcome is")]
pub fn fine() -> Outcome {
    Ok("ok".to_owned())
}

/// One of those that are tried.
pub struct Row<C = Feature> {
    name: &'static str,
    /// Its version, or why there is none.
    version: Result<String, String>,
    cells: Vec<(C, Outcome, Duration)>,
}

impl<C: Column> Row<C> {
    pub fn new(name: &'static str, version: String) -> Self {
        Self {
            name,
            version: Ok(version),
            cells: Vec::new(),
        }
    }

    /// One that is not installed.
    pub fn skipped(name: &'static str, why: impl Into<String>) -> Self {
        Self {
            name,
            version: Err(why.into()),
            cells: Vec::new(),
        }
    }

    /// Fills a cell.
    pub async fn cell(&mut self, column: C, outcome: impl Future<Output = Outcome>) {
        let started = std::time::Instant::now();
        let outcome = outcome.await;
        self.cells.push((column, outcome, started.elapsed()));
    }

    fn shown(&self, column: C) -> &str {
        match self.cells.iter().find(|(c, ..)| *c == column) {
            None => "–",
            Some((_, Ok(text), _)) => text,
            Some((_, Err(_), _)) => "FAILED",
        }
    }

    /// Its line of the table; `None` if it was not tried.
    fn line(&self) -> Option<Vec<String>> {
        let version = self.version.as_ref().ok()?;
        let mut line = vec![format!("{} {version}", self.name).trim().to_owned()];
        line.extend(C::ALL.iter().map(|(c, _)| self.shown(*c).to_owned()));
        Some(line)
    }
}

/// The titles of a table.
fn titles<C: Column>() -> Vec<String> {
    let titles = C::ALL.iter().map(|(_, title)| *title);
    std::iter::once(C::ROWS)
        .chain(titles)
        .map(str::to_owned)
        .collect()
}

/// What is wrong, one line for each failure; who is missing counts where all are
/// required, and so does a line that the page does not have.
fn failures<C: Column>(rows: &[Row<C>], required: bool) -> Vec<String> {
    let mut failures = Vec::new();
    for row in rows {
        match &row.version {
            Err(why) if required => {
                failures.push(format!("{}: missing, but required: {why}", row.name));
            }
            _ => {}
        }
        for (column, outcome, _) in &row.cells {
            if let Err(reason) = outcome {
                failures.push(format!("{}, {}: {reason}", row.name, column.title()));
            }
        }
    }
    if required {
        failures.extend(stale(rows));
    }
    failures
}

/// Lines that `docs/interop.md` has otherwise. Versions may differ there, and what this
/// machine does not let a client do.
fn stale<C: Column>(rows: &[Row<C>]) -> Vec<String> {
    let page = include_str!("../../../../docs/interop.md");
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim().trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let page: Vec<_> = page.lines().map(cells).collect();
    let mut stale = Vec::new();
    if !page.contains(&titles::<C>()) {
        stale.push(format!("docs/interop.md: no table {:?}", titles::<C>()));
    }
    for row in rows {
        let Some(line) = row.line() else { continue };
        let is_it = |told: &Vec<String>| {
            let same = |(told, found): (&String, &String)| told == found || found.starts_with("– ");
            told[0].starts_with(row.name)
                && told.len() == line.len()
                && told.iter().zip(&line).skip(1).all(same)
        };
        if !page.iter().any(is_it) {
            stale.push(format!(
                "docs/interop.md: no such line: {}",
                line.join(" | ")
            ));
        }
    }
    stale
}

/// The table as Markdown, so that it reads the same in a log and on a page.
fn render<C: Column>(rows: &[Row<C>]) -> String {
    let titles = titles::<C>();
    let rule = vec![String::new(); titles.len()];
    let mut lines = vec![titles, rule];
    let mut apart = String::new();
    for row in rows {
        if let Err(why) = &row.version {
            let _ = writeln!(apart, "{}: skipped: {why}", row.name);
        }
        lines.extend(row.line());
    }
    let width = |column: usize| {
        let of = |line: &Vec<String>| line[column].chars().count();
        lines.iter().map(of).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            let _ = match number {
                1 => write!(text, "|{}", "-".repeat(width + 2)),
                _ => write!(text, "| {cell:<width$} "),
            };
        }
        text.push_str("|\n");
    }
    text + &apart
}

/// Where the time went: the slowest cells.
fn slowest<C: Column>(rows: &[Row<C>]) -> String {
    let mut all: Vec<_> = rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row.name, cell)))
        .collect();
    all.sort_by_key(|(_, (_, _, took))| std::cmp::Reverse(*took));
    let mut text = "slowest:".to_owned();
    // Cells that were filled at once took no time here.
    all.retain(|(_, (_, _, took))| took.as_millis() > 0);
    for (name, (column, _, took)) in all.iter().take(8) {
        let _ = write!(
            text,
            " {name} {} {:.1} s;",
            column.title(),
            took.as_secs_f64()
        );
    }
    text
}

/// Prints a table with what failed, and fails if anything did.
pub fn conclude<C: Column>(rows: &[Row<C>], began: std::time::Instant, required: bool) {
    let failures = failures(rows, required);
    let told = format!(
        "\n{}{}\nin all {:.0} s\n{}\n",
        render(rows),
        slowest(rows),
        began.elapsed().as_secs_f64(),
        failures.join("\n"),
    );
    // Not by a macro: the test's harness would keep it for itself.
    std::io::stderr().write_all(told.as_bytes()).unwrap();
    assert!(failures.is_empty(), "{} cells failed", failures.len());
}

//! The table client × feature.

use std::fmt::Write as _;
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
    Local,
    Remote,
    Dynamic,
    Agent,
    Channels,
}

impl Feature {
    const ALL: [(Self, &'static str); 16] = [
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
        (Self::Local, "-L"),
        (Self::Remote, "-R"),
        (Self::Dynamic, "-D"),
        (Self::Agent, "agent"),
        (Self::Channels, "20 ch."),
    ];

    pub fn title(self) -> &'static str {
        let of = Self::ALL.iter().find(|(feature, _)| *feature == self);
        of.map_or("", |(_, title)| title)
    }
}

/// What is in a cell: what went well, or why it did not.
pub type Outcome = Result<String, String>;

/// Nothing to add.
#[allow(clippy::unnecessary_wraps, reason = "it is said where an outcome is")]
pub fn fine() -> Outcome {
    Ok("ok".to_owned())
}

/// One client.
pub struct Row {
    client: &'static str,
    /// Its version, or why there is none.
    version: Result<String, String>,
    cells: Vec<(Feature, Outcome, Duration)>,
}

impl Row {
    pub fn new(client: &'static str, version: String) -> Self {
        Self {
            client,
            version: Ok(version),
            cells: Vec::new(),
        }
    }

    /// A client that is not installed.
    pub fn skipped(client: &'static str, why: impl Into<String>) -> Self {
        Self {
            client,
            version: Err(why.into()),
            cells: Vec::new(),
        }
    }

    /// Fills a cell.
    pub async fn cell(&mut self, feature: Feature, outcome: impl Future<Output = Outcome>) {
        let started = std::time::Instant::now();
        let outcome = outcome.await;
        self.cells.push((feature, outcome, started.elapsed()));
    }

    fn shown(&self, feature: Feature) -> &str {
        match self.cells.iter().find(|(f, ..)| *f == feature) {
            None => "–",
            Some((_, Ok(text), _)) => text,
            Some((_, Err(_), _)) => "FAILED",
        }
    }
}

/// What is wrong, one line for each failure; clients that are missing count where
/// they are required.
pub fn failures(rows: &[Row], required: bool) -> Vec<String> {
    let mut failures = Vec::new();
    for row in rows {
        match &row.version {
            Err(why) if required => {
                failures.push(format!("{}: missing, but required: {why}", row.client));
            }
            _ => {}
        }
        for (feature, outcome, _) in &row.cells {
            if let Err(reason) = outcome {
                failures.push(format!("{}, {}: {reason}", row.client, feature.title()));
            }
        }
    }
    failures
}

/// The table as Markdown, so that it reads the same in a log and on a page.
pub fn render(rows: &[Row]) -> String {
    let mut lines: Vec<Vec<String>> = vec![vec!["client".to_owned()], vec![String::new()]];
    for (_, title) in Feature::ALL {
        lines[0].push(title.to_owned());
        lines[1].push(String::new());
    }
    let mut apart = String::new();
    for row in rows {
        match &row.version {
            Ok(version) => {
                let mut line = vec![format!("{} {version}", row.client)];
                line.extend(Feature::ALL.map(|(f, _)| row.shown(f).to_owned()));
                lines.push(line);
            }
            Err(why) => {
                let _ = writeln!(apart, "{}: skipped: {why}", row.client);
            }
        }
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
pub fn slowest(rows: &[Row]) -> String {
    let mut all: Vec<_> = rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row.client, cell)))
        .collect();
    all.sort_by_key(|(_, (_, _, took))| std::cmp::Reverse(*took));
    let mut text = "slowest:".to_owned();
    for (client, (feature, _, took)) in all.iter().take(8) {
        let _ = write!(
            text,
            " {client} {} {:.1} s;",
            feature.title(),
            took.as_secs_f64()
        );
    }
    text
}

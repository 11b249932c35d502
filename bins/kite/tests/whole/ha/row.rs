//! What was noticed of one fault, as a row of a table.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::{Play, fault::Fault, notes::What};

/// How many went wrong of how many, and when it last did.
#[derive(Default)]
struct Count {
    all: usize,
    bad: usize,
    last: Duration,
}

impl Count {
    fn add(&mut self, is_good: bool, after: Duration) {
        self.all += 1;
        if !is_good {
            self.bad += 1;
            self.last = after;
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.bad, self.all)?;
        if self.bad > 0 {
            write!(f, ", the last after {}", seconds(self.last))?;
        }
        Ok(())
    }
}

pub struct Row {
    fault: Fault,
    /// Until a new VM ran that was asked for right after.
    runs: Duration,
    taken: Vec<(Duration, Option<Duration>)>,
    attempts: Count,
    requests: Count,
    longest: Duration,
    logins: Count,
    /// Long sessions at the replica that was struck, and those that were cut.
    struck: usize,
    cuts: Vec<Duration>,
    reopened: Duration,
    echo: Duration,
    streams: usize,
    streams_back: Duration,
    ended: Option<Duration>,
    tidy: Option<Duration>,
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

impl Row {
    pub const HEAD: &str = "\
| What is taken away | A new VM runs after | Requests: attempts that failed | failed for good | the longest | SSH logins that failed | Long sessions cut | Longest wait for an echo | Streams of news cut | Records are right after |
|---|---|---|---|---|---|---|---|---|---|";

    pub fn of(
        fault: Fault,
        play: &Play,
        start: Instant,
        struck: usize,
        runs: Duration,
        ended: Option<Duration>,
        tidy: Option<Duration>,
    ) -> Self {
        let mut row = Self {
            fault,
            runs,
            taken: play.watched.taken_since(start),
            attempts: Count::default(),
            requests: Count::default(),
            longest: Duration::ZERO,
            logins: Count::default(),
            struck,
            cuts: Vec::new(),
            reopened: Duration::ZERO,
            echo: Duration::ZERO,
            streams: 0,
            streams_back: Duration::ZERO,
            ended,
            tidy,
        };
        for (at, what) in play.notes.since(start) {
            let after = at - start;
            match what {
                What::Attempt { is_good } => row.attempts.add(is_good, after),
                What::Request { is_good, took } => {
                    row.requests.add(is_good, after);
                    row.longest = row.longest.max(took);
                }
                What::Login { is_good } => row.logins.add(is_good, after),
                What::Cut => row.cuts.push(after),
                What::Reopened(took) => row.reopened = row.reopened.max(took),
                What::Echo(took) => row.echo = row.echo.max(took),
                What::StreamCut => row.streams += 1,
                What::StreamBack(took) => row.streams_back = row.streams_back.max(took),
                What::Wrong(text) => eprintln!("WRONG after {}: {text}", seconds(after)),
            }
        }
        row.assert_sane();
        row
    }

    /// What must not be, however slow the machine is.
    fn assert_sane(&self) {
        let fault = self.fault;
        assert_eq!(self.requests.bad, 0, "{fault:?}: requests failed for good");
        let most = match fault {
            Fault::KillGateway | Fault::EndGateway => self.struck,
            _ => 0,
        };
        let cut = self.cuts.len();
        assert!(
            cut <= most,
            "{fault:?}: {cut} sessions were cut, {most} at most"
        );
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {}", self.fault.title())?;
        if let Some(ended) = self.ended {
            write!(f, " (ended after {})", seconds(ended))?;
        }
        write!(f, " | {}", seconds(self.runs))?;
        for (after, _) in &self.taken {
            write!(f, ", the Lease was taken after {}", seconds(*after))?;
        }
        write!(f, " | {} | {}", self.attempts, self.requests)?;
        write!(f, " | {} | {} | ", seconds(self.longest), self.logins)?;
        match self.cuts.iter().max() {
            None => write!(f, "none")?,
            Some(last) => {
                let (cut, last) = (self.cuts.len(), seconds(*last));
                write!(
                    f,
                    "{cut}, the last after {last}; back within {}",
                    seconds(self.reopened)
                )?;
            }
        }
        write!(f, " | {} | ", seconds(self.echo))?;
        match self.streams {
            0 => write!(f, "none")?,
            cut => write!(f, "{cut}, back within {}", seconds(self.streams_back))?,
        }
        match self.tidy {
            None => write!(f, " | – |"),
            Some(after) => write!(f, " | {} |", seconds(after)),
        }
    }
}

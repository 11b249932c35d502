//! [`Verifier`]: what finds that lines were changed, moved or taken out.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    io::{self, BufRead},
};

use serde::Deserialize;

use crate::chain::{BEGINS, ENDS, Hash, LOST, Link};

/// Something about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remark {
    /// The file, as it was called.
    pub file: String,
    /// The line, counted from 1.
    pub line: u64,
    /// What there is to say.
    pub text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// What came of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// What is not as it was written.
    pub faults: Vec<Remark>,
    /// What cannot be known, and what is worth knowing.
    pub notes: Vec<Remark>,
    /// Lines with a record.
    pub records: u64,
    /// How often a process began to write, or was writing already.
    pub streams: usize,
    /// The hash of the last line.
    pub last: Option<Hash>,
}

/// Reads files in the order in which they were written.
#[derive(Debug, Default)]
pub struct Verifier {
    streams: HashMap<String, Known>,
    /// The line before, whatever it is.
    before: Option<Line>,
    /// That one is no record, which is forgiven if a process began after it.
    broken: Option<Line>,
    /// Lines from before there were chains.
    unchained: u64,
    /// The first of these that has a record behind or within something else.
    collected: Option<Line>,
    wanted: HashSet<Hash>,
    faults: Vec<Remark>,
    notes: Vec<Remark>,
    records: u64,
}

/// A line that was read.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) file: String,
    pub(crate) number: u64,
    pub(crate) hash: Hash,
}

impl Line {
    /// What stands for a line where there is none.
    pub(crate) fn nowhere() -> Self {
        Self {
            file: "-".to_owned(),
            number: 0,
            hash: Hash::none(),
        }
    }

    pub(crate) fn remark(&self, text: impl Into<String>) -> Remark {
        Remark {
            file: self.file.clone(),
            line: self.number,
            text: text.into(),
        }
    }
}

/// How far a stream was read.
#[derive(Debug)]
struct Known {
    last: Line,
    n: u64,
    is_over: bool,
}

/// What of a record is looked at.
#[derive(Deserialize)]
pub(crate) struct Chained {
    pub(crate) chain: Link,
    #[serde(default)]
    pub(crate) event: String,
    #[serde(default)]
    pub(crate) process: String,
    #[serde(default)]
    pub(crate) server: Option<String>,
    #[serde(default)]
    pub(crate) records: u64,
}

impl Verifier {
    /// Also finds out whether a line with this hash is there.
    pub fn want(&mut self, hash: Hash) {
        self.wanted.insert(hash);
    }

    /// Reads what is next. `name` is what remarks call it.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn file(&mut self, name: &str, mut text: impl BufRead) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut number = 0;
        while text.read_until(b'\n', &mut bytes)? > 0 {
            number += 1;
            let whole = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            if !whole.trim_ascii().is_empty() {
                let line = Line {
                    file: name.to_owned(),
                    number,
                    hash: Hash::of(whole),
                };
                self.line(line, whole);
            }
            bytes.clear();
        }
        Ok(())
    }

    fn line(&mut self, line: Line, text: &[u8]) {
        self.wanted.remove(&line.hash);
        match serde_json::from_slice::<Chained>(text) {
            Ok(record) => {
                self.records += 1;
                self.record(&line, record);
            }
            Err(_) if self.records == 0 && self.broken.is_none() => {
                self.unchained += 1;
                if self.collected.is_none() && holds_chain(text) {
                    self.collected = Some(line.clone());
                }
            }
            Err(_) => {
                self.blame_broken();
                self.broken = Some(line.clone());
            }
        }
        self.before = Some(line);
    }

    fn record(&mut self, line: &Line, record: Chained) {
        let Chained {
            chain: Link { stream, n, after },
            event,
            process,
            records,
            ..
        } = record;
        let is_over = event == ENDS;
        if event == LOST {
            let text = format!("{records} records before this one could not be written");
            self.faults.push(line.remark(text));
        }
        let is_new = !self.streams.contains_key(&stream);
        if n == 0 && event == BEGINS && is_new {
            self.beginning(line, &after, &process);
        } else {
            self.blame_broken();
            match self.streams.get(&stream) {
                Some(known) => {
                    let told = continuing(known, line, n, &after);
                    self.faults.extend(told);
                }
                None if self.before.is_none() => self.notes.push(line.remark(
                    "goes on from a line that is in none of the files: nothing is known of \
                     what was before",
                )),
                None => self.faults.push(line.remark(format!(
                    "is number {n} of a stream of which nothing is before it: lines were \
                     taken out, or the files are not named in the order in which they were \
                     written"
                ))),
            }
        }
        let known = Known {
            last: line.clone(),
            n,
            is_over,
        };
        self.streams.insert(stream, known);
    }

    /// A process begins to write: it has named the line before.
    fn beginning(&mut self, line: &Line, after: &Hash, process: &str) {
        match &self.before {
            None if *after == Hash::none() => {}
            None => self.notes.push(line.remark(
                "a process began here after a line that is in none of the files: nothing is \
                 known of what was before",
            )),
            Some(before) if before.hash == *after => {
                if let Some(broken) = self.broken.take() {
                    self.notes
                        .push(broken.remark("is no record: the process ended while it wrote it"));
                }
            }
            Some(_) => self.faults.push(line.remark(format!(
                "{process} began to write after another line than the one that is before it \
                 now: lines were changed or taken out just before"
            ))),
        }
        self.blame_broken();
        if self.unchained > 0 && self.streams.is_empty() {
            let count = self.unchained;
            self.notes.push(line.remark(format!(
                "{count} lines before this one have no chain, as an older Kite wrote them: \
                 only the last of them is known to be as it was"
            )));
        }
    }

    fn blame_broken(&mut self) {
        if let Some(broken) = self.broken.take() {
            self.faults.push(broken.remark("is no record with a chain"));
        }
    }

    /// What is to be said of all of it.
    pub fn finish(mut self) -> Verdict {
        self.blame_broken();
        if let Some(last) = &self.before {
            if self.records == 0 {
                let text = "none of the lines has a chain: nothing can be said of them";
                self.notes.push(last.remark(text));
                // Said as a note it would be success, each time that nothing is looked at.
                self.faults.extend(self.collected.iter().map(|line| {
                    line.remark(
                        "has a record behind or within something else, as in the log of a pod: \
                         verify it with --collected",
                    )
                }));
            }
            let of_last = self.streams.values().find(|it| it.last.hash == last.hash);
            let text = match of_last {
                Some(known) if !known.is_over => {
                    "the last process has not said that it ended: it still writes, was \
                     killed, or lines were cut off after this one, and that this one is as \
                     it was is not known either. Keep its hash to know later"
                }
                _ => {
                    "whether later lines were cut off, and whether this one is as it was, is \
                     not known. Keep its hash to know later"
                }
            };
            if self.records > 0 {
                self.notes.push(last.remark(text));
            }
        }
        let end = self.before.clone().unwrap_or_else(Line::nowhere);
        self.faults.extend(missing(&self.wanted, &end));
        Verdict {
            faults: self.faults,
            notes: self.notes,
            records: self.records,
            streams: self.streams.len(),
            last: self.before.map(|line| line.hash),
        }
    }
}

/// Whether a line that is no record has one within it, also as a text in JSON.
fn holds_chain(line: &[u8]) -> bool {
    [br#""chain":{"#.as_slice(), br#"\"chain\":{"#.as_slice()]
        .into_iter()
        .any(|it| line.windows(it.len()).any(|part| part == it))
}

/// What is to be said of lines that had to be there and are not, up to `end`.
pub(crate) fn missing(wanted: &HashSet<Hash>, end: &Line) -> Vec<Remark> {
    let mut wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
    wanted.sort();
    let told = wanted.into_iter().map(|hash| {
        let text = format!("no line up to here has the hash {hash}: it was cut off or changed");
        end.remark(text)
    });
    told.collect()
}

/// What is wrong with a line that goes on from `known`.
fn continuing(known: &Known, line: &Line, n: u64, after: &Hash) -> Option<Remark> {
    let expected = known.n + 1;
    if n > expected {
        let count = n - expected;
        return Some(line.remark(format!(
            "{count} records are missing before this one (number {n}, after {})",
            known.n
        )));
    }
    if n < expected {
        return Some(line.remark(format!(
            "is number {n} and comes after number {}: lines were moved, or it is there twice",
            known.n
        )));
    }
    if *after != known.last.hash {
        return Some(
            known
                .last
                .remark("was changed: the record after it was written after another one"),
        );
    }
    known
        .is_over
        .then(|| line.remark("comes after the end of its stream"))
}

//! [`Collected`]: what finds the same in records out of logs that something else collects.
//!
//! There they stand among other lines and behind what a collector writes before them; lines
//! of several processes are mixed, some are there twice, and some before others. So each
//! stream is put in order by its numbers before it is looked at.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::{self, BufRead},
};

use serde_json::{Map, Value};

use crate::{
    chain::{BEGINS, ENDS, Hash, LOST},
    verify::{Chained, Line, Remark, Verdict, missing},
};

/// Fields in which collectors keep a line as it was.
const WRAPPED_IN: [&str; 5] = ["log", "message", "line", "body", "MESSAGE"];

/// Reads logs in any order.
///
/// ```
/// use kite_audit::Collected;
///
/// let log = "2026-01-01T00:00:00Z the server listens\n";
/// let mut collected = Collected::default();
/// collected.file("pod.log", log.as_bytes())?;
/// // Lines of others are passed over.
/// assert_eq!(collected.finish().records, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Collected {
    streams: HashMap<String, Stream>,
    wanted: HashSet<Hash>,
    faults: Vec<Remark>,
    records: u64,
}

/// What was found of a stream, by its numbers.
#[derive(Debug)]
struct Stream {
    /// How many others were found before it.
    place: usize,
    found: BTreeMap<u64, Found>,
    /// Who writes it, if that is known.
    who: Option<String>,
}

#[derive(Debug)]
struct Found {
    line: Line,
    after: Hash,
    is_beginning: bool,
    is_end: bool,
    /// How many records before it could not be written.
    lost: u64,
}

impl Collected {
    /// Also finds out whether a line with this hash is there.
    pub fn want(&mut self, hash: Hash) {
        self.wanted.insert(hash);
    }

    /// Reads a log. `name` is what remarks call it.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn file(&mut self, name: &str, mut text: impl BufRead) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut number = 0;
        while text.read_until(b'\n', &mut bytes)? > 0 {
            number += 1;
            if let Some((record, hash)) = record_in(&bytes) {
                let line = Line {
                    file: name.to_owned(),
                    number,
                    hash,
                };
                self.record(line, record);
            }
            bytes.clear();
        }
        Ok(())
    }

    fn record(&mut self, line: Line, record: Chained) {
        self.wanted.remove(&line.hash);
        let place = self.streams.len();
        let stream = self.streams.entry(record.chain.stream);
        let stream = stream.or_insert_with(|| Stream {
            place,
            found: BTreeMap::new(),
            who: None,
        });
        let n = record.chain.n;
        if let Some(known) = stream.found.get(&n) {
            // Collectors deliver what they are not sure of once more.
            if known.line.hash != line.hash {
                let (file, at) = (&known.line.file, known.line.number);
                self.faults.push(line.remark(format!(
                    "is number {n} of its stream, and so is another line ({file}:{at}): one of \
                     them was changed"
                )));
            }
            return;
        }
        self.records += 1;
        let is_beginning = n == 0 && record.event == BEGINS;
        if is_beginning {
            stream.who = Some(match record.server {
                Some(server) => format!("{} in {server}", record.process),
                None => record.process,
            });
        }
        let found = Found {
            line,
            after: record.chain.after,
            is_beginning,
            is_end: record.event == ENDS,
            lost: if record.event == LOST {
                record.records
            } else {
                0
            },
        };
        stream.found.insert(n, found);
    }

    /// What is to be said of all of it.
    pub fn finish(mut self) -> Verdict {
        let mut notes = Vec::new();
        let mut streams: Vec<_> = self.streams.into_values().collect();
        streams.sort_by_key(|it| it.place);
        for stream in &streams {
            stream.look(&mut self.faults, &mut notes);
        }
        if streams.is_empty() {
            self.faults.push(Line::nowhere().remark(
                "no line has a record with a chain: is it the log of a process that writes its \
                 audit log there, with each line as it was?",
            ));
        } else {
            notes.push(Line::nowhere().remark(
                "whether there were others that began to write, of which no line is here, is \
                 not known",
            ));
        }
        self.faults.extend(missing(&self.wanted, &Line::nowhere()));
        Verdict {
            faults: self.faults,
            notes,
            records: self.records,
            streams: streams.len(),
            // Each stream has one, which its note tells.
            last: None,
        }
    }
}

impl Stream {
    fn look(&self, faults: &mut Vec<Remark>, notes: &mut Vec<Remark>) {
        let mut before: Option<(u64, &Found)> = None;
        for (&n, found) in &self.found {
            let line = &found.line;
            if found.lost > 0 {
                let count = found.lost;
                faults.push(line.remark(format!(
                    "{count} records before this one could not be written"
                )));
            }
            match before {
                None if found.is_beginning => {}
                None => notes.push(line.remark(format!(
                    "is number {n} of its stream, and the first that is here: nothing is known \
                     of what was before"
                ))),
                Some((known, found_before)) => {
                    faults.extend(between(known, found_before, n, found));
                }
            }
            before = Some((n, found));
        }
        let Some((_, last)) = before else {
            return;
        };
        let who = self.who.as_deref().unwrap_or("somebody");
        let (count, hash) = (self.found.len(), &last.line.hash);
        let end = if last.is_end {
            "has said that it ended"
        } else {
            "has not said that it ended: it still writes, was killed, or lines were cut off \
             after this one"
        };
        notes.push(last.line.remark(format!(
            "the last of {count} records of {who}, which {end}. Whether it is as it was is not \
             known: keep its hash to know later, {hash}"
        )));
    }
}

/// What is wrong with number `n` of a stream, which comes after number `known`.
fn between(known: u64, before: &Found, n: u64, found: &Found) -> Option<Remark> {
    let count = n - known - 1;
    if count > 0 {
        return Some(found.line.remark(format!(
            "{count} records are missing before this one (number {n}, after {known})"
        )));
    }
    if found.after != before.line.hash {
        return Some(
            before
                .line
                .remark("was changed: the record after it was written after another one"),
        );
    }
    before
        .is_end
        .then(|| found.line.remark("comes after the end of its stream"))
}

/// The record in a line of a log, and its hash as it was written.
fn record_in(line: &[u8]) -> Option<(Chained, Hash)> {
    let line = line.trim_ascii_end();
    let braces = line.iter().enumerate().filter(|(_, byte)| **byte == b'{');
    // What stands before it tells of the pod, the time and such; that may be in braces.
    let mut texts = braces.take(2).filter_map(|(at, _)| line.get(at..));
    let first = texts.next()?;
    for text in [first].into_iter().chain(texts) {
        if let Ok(record) = serde_json::from_slice::<Chained>(text) {
            return Some((record, Hash::of(text)));
        }
    }
    let fields: Map<String, Value> = serde_json::from_slice(first).ok()?;
    WRAPPED_IN.iter().find_map(|field| {
        let text = fields.get(*field)?.as_str()?.trim_end();
        let record = serde_json::from_str::<Chained>(text).ok()?;
        Some((record, Hash::of(text.as_bytes())))
    })
}

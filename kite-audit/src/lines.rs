//! [`Lines`]: what writes records.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde::Serialize;

use crate::{
    chain::{self, Chain, Hash, Process},
    file::{Kept, Out, Plain},
};

/// Records that wait for a slow disk; more are lost, and that is logged and written down.
const WAITING: usize = 8192;
/// How soon it is written down that records were lost, when there are no others.
const SOON: Duration = Duration::from_secs(1);

/// Why a file cannot be written to.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenError {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "{path} cannot be written to: {}", self.error)
    }
}

impl std::error::Error for OpenError {}

/// Writes each record as one line of JSON, with the hash of the line before, on a thread
/// of its own. All clones write to the same place. Whatever was taken is written when the
/// last of them is dropped.
#[derive(Clone, Debug)]
pub struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lines: Option<SyncSender<String>>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    /// Adds to the file at `path`, which no other process may write to, and begins a new
    /// one there when somebody renames it.
    ///
    /// # Errors
    ///
    /// When it cannot be read and written, or no thread can be had.
    pub fn to_file(path: &Path, process: &Process) -> Result<Self, OpenError> {
        let wrong = |error| OpenError {
            path: path.to_owned(),
            error,
        };
        let (file, last) = Kept::open(path).map_err(wrong)?;
        Self::begin(file, last, process).map_err(wrong)
    }

    /// Writes to anything that takes bytes, such as standard output.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub fn to(out: impl io::Write + Send + 'static, process: &Process) -> io::Result<Self> {
        Self::begin(Plain::new(out), None, process)
    }

    fn begin(out: impl Out + 'static, before: Option<Hash>, process: &Process) -> io::Result<Self> {
        let (lines, records) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = Writer {
            out,
            chain: Chain::new(before),
            lost: Arc::clone(&lost),
        };
        let first = chain::begins(process);
        let thread = std::thread::Builder::new()
            .name("kite-audit".to_owned())
            .spawn(move || {
                writer.write(&first);
                writer.run(&records);
                writer.write(&chain::ends());
            })?;
        Ok(Self(Arc::new(Shared {
            lines: Some(lines),
            lost,
            thread: Some(thread),
        })))
    }

    /// Takes a record, which has to be an object of JSON. Does not wait.
    pub fn record(&self, record: &impl Serialize) {
        let record = match serde_json::to_string(record) {
            Ok(record) => record,
            Err(error) => {
                tracing::error!(%error, "an audit record cannot be written as JSON");
                self.0.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        let Some(lines) = &self.0.lines else {
            return;
        };
        if let Err(TrySendError::Full(record) | TrySendError::Disconnected(record)) =
            lines.try_send(record)
        {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
            // The log has it, then.
            tracing::error!(record, "an audit record could not be written");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            // It only ends by having written everything.
            let _ = thread.join();
        }
    }
}

struct Writer<O> {
    out: O,
    chain: Chain,
    lost: Arc<AtomicU64>,
}

impl<O: Out> Writer<O> {
    fn run(&mut self, records: &Receiver<String>) {
        loop {
            match records.recv_timeout(SOON) {
                Ok(record) => {
                    self.tell_lost();
                    self.write(&record);
                }
                Err(RecvTimeoutError::Timeout) => self.tell_lost(),
                Err(RecvTimeoutError::Disconnected) => return self.tell_lost(),
            }
        }
    }

    fn tell_lost(&mut self) {
        let count = self.lost.swap(0, Ordering::Relaxed);
        if count > 0 && !self.add(&chain::lost(count)) {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn write(&mut self, record: &str) {
        if !self.add(record) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            tracing::error!(record, "an audit record could not be written");
        }
    }

    /// Whether it was written.
    fn add(&mut self, record: &str) -> bool {
        let Some(line) = self.chain.line(record) else {
            return false;
        };
        match self.out.add(&line) {
            Ok(()) => {
                self.chain.advance(&line);
                true
            }
            Err(error) => {
                tracing::error!(%error, "the audit log cannot be written to");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::Verifier;

    #[derive(Clone, Default)]
    struct Taken {
        bytes: Arc<Mutex<Vec<u8>>>,
        is_full: Arc<Mutex<bool>>,
    }

    impl Out for Taken {
        fn add(&mut self, line: &str) -> io::Result<()> {
            if *self.is_full.lock() {
                return Err(io::Error::other("no space is left"));
            }
            let mut bytes = self.bytes.lock();
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            Ok(())
        }
    }

    fn process() -> Process {
        Process {
            name: "test".to_owned(),
            version: "1".to_owned(),
            server: Some("here".to_owned()),
        }
    }

    #[test]
    fn lines_are_there_in_order_when_the_last_clone_is_dropped() {
        let out = Taken::default();
        let lines = Lines::begin(out.clone(), None, &process()).unwrap();
        let other = lines.clone();
        for n in 0..100 {
            lines.record(&json!({"n": n, "text": "closed\nby the user"}));
        }
        drop(lines);
        other.record(&json!({"n": 100}));
        drop(other);
        let text = String::from_utf8(out.bytes.lock().clone()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 103);
        assert_eq!(lines[0]["event"], "audit_begins");
        assert_eq!(lines[0]["process"], "test");
        assert_eq!(lines[102]["event"], "audit_ends");
        for (n, line) in lines[1..102].iter().enumerate() {
            assert_eq!(line["n"], n);
        }
        let mut verifier = Verifier::default();
        verifier.file("a", text.as_bytes()).unwrap();
        let verdict = verifier.finish();
        assert_eq!((verdict.faults.len(), verdict.records), (0, 103));
    }

    #[test]
    fn what_could_not_be_written_is_told_when_it_can() {
        let out = Taken::default();
        let mut writer = Writer {
            out: out.clone(),
            chain: Chain::new(None),
            lost: Arc::default(),
        };
        writer.write(&chain::begins(&process()));
        *out.is_full.lock() = true;
        writer.write("{}");
        writer.write("{}");
        writer.tell_lost();
        *out.is_full.lock() = false;
        writer.tell_lost();
        writer.write(r#"{"after":true}"#);
        let text = String::from_utf8(out.bytes.lock().clone()).unwrap();
        let mut verifier = Verifier::default();
        verifier.file("a", text.as_bytes()).unwrap();
        let verdict = verifier.finish();
        let faults: Vec<_> = verdict.faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("a:2: 2 records"), "{faults:?}");
    }
}

//! Where records go.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::Record;

/// Records that wait for a slow disk; more are lost, and that is logged.
const WAITING: usize = 8192;

/// Takes records. Must not wait: hand over to a task where that takes time.
pub trait AuditSink: Send + Sync + 'static {
    /// Takes one record.
    fn record(&self, record: &Record);
}

/// All of them take each record.
impl AuditSink for Vec<Box<dyn AuditSink>> {
    fn record(&self, record: &Record) {
        for sink in self {
            sink.record(record);
        }
    }
}

/// Writes each record as one line of JSON to the log, under the target
/// `kite_gateway::audit`.
#[derive(Clone, Copy, Default, Debug)]
pub struct LogSink;

impl AuditSink for LogSink {
    fn record(&self, record: &Record) {
        if let Some(json) = json(record) {
            tracing::info!(target: "kite_gateway::audit", record = %json, "audit");
        }
    }
}

/// Writes each record as one line of JSON to a file or anything else that takes
/// bytes, on a thread of its own. Whatever was taken is written when this is
/// dropped.
#[derive(Debug)]
pub struct JsonLines {
    lines: Option<SyncSender<String>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl JsonLines {
    /// Writes to `out`.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub fn new(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("kite-audit".to_owned())
            .spawn(move || write(&receiver, out))?;
        Ok(Self {
            lines: Some(lines),
            thread: Some(thread),
        })
    }
}

impl AuditSink for JsonLines {
    fn record(&self, record: &Record) {
        let (Some(mut line), Some(lines)) = (json(record), &self.lines) else {
            return;
        };
        line.push('\n');
        if let Err(TrySendError::Full(line) | TrySendError::Disconnected(line)) =
            lines.try_send(line)
        {
            // The log has it, then.
            tracing::error!(record = line, "an audit record could not be written");
        }
    }
}

impl Drop for JsonLines {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            // It only ends by having written everything.
            let _ = thread.join();
        }
    }
}

fn write(lines: &Receiver<String>, mut out: impl Write) {
    // The last line may have been written in part, and must not swallow the next.
    let mut broken = false;
    while let Ok(line) = lines.recv() {
        let ending: &[u8] = if broken { b"\n" } else { b"" };
        let written = out
            .write_all(ending)
            .and_then(|()| out.write_all(line.as_bytes()))
            .and_then(|()| out.flush());
        broken = written.is_err();
        if let Err(error) = written {
            tracing::error!(%error, record = line, "an audit record could not be written");
        }
    }
}

fn json(record: &Record) -> Option<String> {
    serde_json::to_string(record)
        .inspect_err(|error| {
            tracing::error!(%error, "an audit record cannot be written as JSON");
        })
        .ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use jiff::Timestamp;
    use parking_lot::Mutex;

    use super::super::Event;
    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(buf);
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_there_in_order_when_it_is_dropped() {
        let out = Shared::default();
        let all: Vec<Box<dyn AuditSink>> = vec![
            Box::new(LogSink),
            Box::new(JsonLines::new(out.clone()).unwrap()),
        ];
        for connection in 0..100 {
            all.record(&Record {
                time: Timestamp::UNIX_EPOCH,
                connection,
                peer: "192.0.2.1:5".parse().unwrap(),
                event: Event::Connection {
                    client: None,
                    login: None,
                    seconds: 1.5,
                    ended: "closed\nby the user".to_owned(),
                },
            });
        }
        drop(all);
        let text = String::from_utf8(out.0.lock().clone()).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 100);
        for (number, line) in lines.iter().enumerate() {
            assert_eq!(line["connection"], number);
            assert_eq!(line["ended"], "closed\nby the user");
        }
    }
}

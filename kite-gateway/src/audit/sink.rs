//! Where records go.

use kite_audit::Lines;

use super::Record;

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
        match serde_json::to_string(record) {
            Ok(json) => tracing::info!(target: "kite_gateway::audit", record = %json, "audit"),
            Err(error) => tracing::error!(%error, "an audit record cannot be written as JSON"),
        }
    }
}

/// Writes each record as one line of a file, with the hash of the line before.
impl AuditSink for Lines {
    fn record(&self, record: &Record) {
        Self::record(self, record);
    }
}

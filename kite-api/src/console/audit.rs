//! Who was at which console: one record when it is open, one when it has ended.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

use super::ConsoleKind;

/// One audit record.
#[derive(Clone, Debug, Serialize)]
pub struct ConsoleRecord {
    /// When it was written.
    pub time: Timestamp,
    /// Number of the console in this process, to join records by.
    pub console: u64,
    /// Where the person is, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The account.
    pub user: String,
    /// Namespace of the VM.
    pub namespace: String,
    /// Its name.
    pub vm: String,
    /// Its uid.
    pub uid: String,
    /// The account that it belongs to.
    pub owner: String,
    /// What of it was opened.
    pub kind: ConsoleKind,
    /// What happened.
    #[serde(flatten)]
    pub event: ConsoleEvent,
}

/// What a record tells.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ConsoleEvent {
    /// The console is open.
    ConsoleOpened,
    /// What is done in it is recorded from its beginning.
    ConsoleRecorded {
        /// Name of the recording.
        recording: String,
    },
    /// It was refused.
    ConsoleRefused {
        /// What the person was told.
        why: String,
    },
    /// It has ended.
    ConsoleEnded {
        /// Bytes from the person to the VM.
        bytes_up: u64,
        /// Bytes from the VM to the person.
        bytes_down: u64,
        /// How long it was open.
        seconds: f64,
        /// Why it ended.
        ended: String,
        /// The close code that says so.
        code: u16,
    },
}

/// Takes records. Must not wait: hand over to a task where that takes time.
pub trait ConsoleAudit: Send + Sync + 'static {
    /// Takes one record.
    fn record(&self, record: &ConsoleRecord);
}

/// Writes each record as one line of JSON to the log, under the target
/// `kite_api::audit`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogConsoles;

impl ConsoleAudit for LogConsoles {
    fn record(&self, record: &ConsoleRecord) {
        match serde_json::to_string(record) {
            Ok(json) => tracing::info!(target: "kite_api::audit", record = %json, "audit"),
            Err(error) => tracing::error!(%error, "an audit record cannot be written as JSON"),
        }
    }
}

//! One record per login, channel and connection: who, from where, to what, how
//! much, how long, and why it ended.

use std::net::SocketAddr;

use jiff::Timestamp;
use serde::Serialize;

use crate::route::{LoginName, VmKey};

/// One audit record.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// When it was written.
    pub time: Timestamp,
    /// Number of the connection in this process, to join records by.
    pub connection: u64,
    /// Where the client connected from.
    pub peer: SocketAddr,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What a record tells.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A login was decided.
    Login {
        /// The name; absent when what was sent could not be one.
        #[serde(skip_serializing_if = "Option::is_none")]
        login: Option<LoginName>,
        /// `password`, `publickey` or `keyboard-interactive`.
        method: &'static str,
        /// Whether it was let in.
        accepted: bool,
        /// Whether it was right, and more is needed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
        /// The machine that the name leads to.
        #[serde(skip_serializing_if = "Option::is_none")]
        vm: Option<VmKey>,
    },
    /// A terminal session begins to be recorded.
    Recording {
        /// The login name.
        login: LoginName,
        /// The machine.
        vm: VmKey,
        /// Name of the recording.
        name: String,
    },
    /// A channel ended, or was refused.
    Channel {
        /// The login name.
        login: LoginName,
        /// The machine.
        vm: VmKey,
        /// `session`, `direct-tcpip`, ...
        kind: &'static str,
        /// The command, subsystem or destination.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// Bytes from the user to the machine.
        bytes_up: u64,
        /// Bytes from the machine to the user.
        bytes_down: u64,
        /// How long it was open.
        seconds: f64,
        /// Why it ended.
        ended: String,
    },
    /// A connection ended.
    Connection {
        /// The client's version string.
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        /// The login name, if it logged in.
        #[serde(skip_serializing_if = "Option::is_none")]
        login: Option<LoginName>,
        /// How long it was there.
        seconds: f64,
        /// Why it ended.
        ended: String,
    },
}

/// Takes records. Must not wait: hand over to a task where that takes time.
pub trait AuditSink: Send + Sync + 'static {
    /// Takes one record.
    fn record(&self, record: &Record);
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

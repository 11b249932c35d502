//! Terminals inside VMs. The API cannot log in to a VM; the process that serves it
//! can have it done by the SSH gateway's library, or in a way of its own.

use std::net::IpAddr;

use async_trait::async_trait;
use kite_core::cluster::ObjectKey;
use kite_rest::{Problem, ProblemKind};

use super::stream::{ConsoleStream, TerminalSize};

/// Who wants a terminal of which VM. That they may have it is decided already.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TerminalRequest {
    /// The VM.
    pub vm: ObjectKey,
    /// Its uid: another VM of the name must not be entered.
    pub uid: String,
    /// The account that asks.
    pub user: String,
    /// Where it asks from, as far as known.
    pub from: Option<IpAddr>,
    /// The terminal's size.
    pub size: TerminalSize,
}

/// Why there is no terminal. The texts are for the person who asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// The VM cannot be entered now; somebody has to do something, or wait.
    #[error("{0}")]
    NotRunning(String),
    /// It could not be reached, or did not let us in.
    #[error("{0}")]
    Unavailable(String),
}

impl From<TerminalError> for Problem {
    fn from(error: TerminalError) -> Self {
        match error {
            TerminalError::NotRunning(why) => Self::new(ProblemKind::Conflict, why),
            TerminalError::Unavailable(why) => Self::new(ProblemKind::Unavailable, why),
        }
    }
}

/// Opens terminals in VMs: see
/// [`ApiStateBuilder::terminals`](crate::ApiStateBuilder::terminals).
#[async_trait]
pub trait Terminals: Send + Sync + 'static {
    /// Logs in to the VM and starts a shell in a terminal.
    ///
    /// # Errors
    /// A [`TerminalError`] that says what stands in the way.
    async fn open(&self, request: TerminalRequest) -> Result<ConsoleStream, TerminalError>;

    /// Whether terminals are recorded, as people are told before they open one. Of one
    /// that is open, [`ConsoleStream::recording`] says so.
    fn are_recorded(&self) -> bool {
        false
    }
}

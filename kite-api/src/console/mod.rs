//! What consoles in the browser are made of: the serial line, the screen and a terminal of a
//! VM over a WebSocket.
//!
//! ```text
//! POST vms/{name}/console ─► ticket ─► first message of /api/v1/console ─► Input, Output
//!                                                                            │
//!                 KubeVirt's subresources (Serial, Vnc) ◄────────────────────┤
//!                 Terminals, which the process gives (Terminal) ◄────────────┘
//! ```
//!
//! | Module | What |
//! |---|---|
//! | `tickets` | what a ticket is for |
//! | `end` | close codes, and what is told before |
//! | `stream` | what a console is to the socket |
//! | `terminal` | terminals, from whoever can log in to VMs |
//! | `place` | how many there may be |
//! | `audit` | what is told of it |

mod audit;
mod end;
mod place;
mod stream;
mod terminal;
mod tickets;

use std::{sync::Arc, time::Duration};

use kite_rest::{Problem, ProblemKind};
use kube::Client as KubeClient;
use prometheus_client::encoding::EncodeLabelValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    audit::{ConsoleAudit, ConsoleEvent, ConsoleRecord, LogConsoles},
    stream::{ConsoleEnded, ConsoleInput, ConsoleOutput, ConsoleStream, TerminalSize},
    terminal::{TerminalError, TerminalRequest, Terminals},
};
pub(crate) use self::{
    end::{Cause, End, Wish},
    place::{Guest, Place, Places},
    tickets::{Grant, MOST_WAITING, MemoryTickets, too_many},
};

/// Most bytes of one message of a client: what is pasted has to be cut in pieces.
pub(crate) const MESSAGE_LIMIT: usize = 256 * 1024;
/// Bytes that a console holds at most: a message each way.
pub(crate) const CONSOLE_MEMORY: usize = 2 * MESSAGE_LIMIT;

/// What of a VM is shown.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    EncodeLabelValue,
)]
#[non_exhaustive]
pub enum ConsoleKind {
    /// The serial line.
    Serial,
    /// The screen, by VNC (RFC 6143).
    Vnc,
    /// A terminal inside, as by `ssh`.
    Terminal,
}

impl ConsoleKind {
    /// Its name, as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serial => "Serial",
            Self::Vnc => "Vnc",
            Self::Terminal => "Terminal",
        }
    }
}

/// Bounds of consoles, of one replica each.
#[derive(Clone, Debug)]
pub struct ConsoleLimits {
    /// Open at a time by one account (8).
    pub per_user: usize,
    /// Open at a time on one VM (8). A new serial line or screen takes the place of
    /// the one before all the same.
    pub per_vm: usize,
    /// Open at a time (512).
    pub total: usize,
    /// One over which nothing goes either way for so long ends (30 minutes).
    pub idle: Duration,
    /// None lasts longer (12 hours).
    pub longest: Duration,
    /// How long a ticket is good (30 seconds).
    pub ticket: Duration,
    /// Only what is recorded is opened: terminals where they are, and no serial lines or
    /// screens (no).
    pub only_recorded: bool,
}

impl Default for ConsoleLimits {
    fn default() -> Self {
        Self {
            per_user: 8,
            per_vm: 8,
            total: 512,
            idle: Duration::from_secs(30 * 60),
            longest: Duration::from_secs(12 * 3600),
            ticket: Duration::from_secs(30),
            only_recorded: false,
        }
    }
}

/// What consoles need of the process.
pub(crate) struct Consoles {
    pub(crate) client: KubeClient,
    pub(crate) limits: ConsoleLimits,
    pub(crate) tickets: MemoryTickets,
    pub(crate) places: Arc<Places>,
    pub(crate) terminals: Option<Arc<dyn Terminals>>,
    pub(crate) audit: Arc<dyn ConsoleAudit>,
}

impl Consoles {
    /// Refuses what is not offered here.
    pub(crate) fn check(&self, kind: ConsoleKind) -> Result<(), Problem> {
        let is_recorded = match (kind, &self.terminals) {
            (ConsoleKind::Terminal, None) => return Err(no_terminals()),
            (ConsoleKind::Terminal, Some(terminals)) => terminals.are_recorded(),
            (ConsoleKind::Serial | ConsoleKind::Vnc, _) => false,
        };
        if self.limits.only_recorded && !is_recorded {
            return Err(unrecorded());
        }
        Ok(())
    }
}

pub(crate) fn no_terminals() -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        "terminals in the browser are not set up here: use ssh, or the serial console",
    )
}

fn unrecorded() -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        "sessions have to be recorded here, and this one cannot be: use ssh, or a terminal in \
         the browser where that is recorded",
    )
}

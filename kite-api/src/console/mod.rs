//! Consoles in the browser: the serial line, the screen and a terminal of a VM
//! over a WebSocket.
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
//! | `ticket` | single-use tickets, good on every replica |
//! | `socket` | the WebSocket: first message, both ways |
//! | `end` | close codes, and what is told before |
//! | `stream` | what a console is to the socket |
//! | `subresource` | serial lines and screens, from `KubeVirt` |
//! | `terminal` | terminals, from whoever can log in to VMs |
//! | `place`, `watch` | how many there may be, and what ends one |
//! | `audit`, `activity` | what is told of it |

mod activity;
mod audit;
mod end;
mod place;
mod socket;
mod stream;
mod subresource;
mod terminal;
mod ticket;
mod watch;

use std::{sync::Arc, time::Duration};

use aide::axum::{ApiRouter, routing::post_with};
use axum::{
    extract::{Path, Query, State, WebSocketUpgrade},
    response::Response,
    routing::get,
};
use http::HeaderMap;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::ObjectKey,
    crd::{PowerState, VmPhase},
};
use kite_rest::{Created, Form, Input, Named, OneOf, Problem, ProblemKind, Sent};
use kube::{Client as KubeClient, ResourceExt as _};
use prometheus_client::encoding::EncodeLabelValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::{
    audit::{ConsoleAudit, ConsoleEvent, ConsoleRecord, LogConsoles},
    stream::{ConsoleEnded, ConsoleInput, ConsoleOutput, ConsoleStream, TerminalSize},
    terminal::{TerminalError, TerminalRequest, Terminals},
};
pub(crate) use self::{place::Places, ticket::MemoryTickets};

use crate::{
    auth::{Caller, Client, check_socket_origin},
    openapi::about,
    policy::Action,
    state::ApiState,
    vms::{Found, Owner, find},
};

/// Most bytes of one message of a client: what is pasted has to be cut in pieces.
const MESSAGE_LIMIT: usize = 256 * 1024;
/// Bytes that are read ahead of a WebSocket.
const READ_AHEAD: usize = 16 * 1024;
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
    fn check(&self, kind: ConsoleKind) -> Result<(), Problem> {
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

/// The paths of consoles. The WebSocket is none that OpenAPI could describe.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    use ProblemKind::{Conflict, NotFound, TooManyRequests};
    ApiRouter::new()
        .api_route(
            "/vms/{name}/console",
            post_with(
                create,
                about(
                    "vms",
                    "openConsole",
                    "Get a ticket for a console, to be shown in the first message of the \
                     WebSocket /api/v1/console",
                    &[NotFound, Conflict, TooManyRequests],
                ),
            ),
        )
        .route("/console", get(connect))
}

/// The right to open one console.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleTicket")]
pub(crate) struct TicketView {
    /// To be sent as the first message: good once, for this session.
    ticket: String,
    /// Until then it is good.
    expires_at: Time,
}

/// What of the VM is to be opened.
pub(crate) struct Wanted {
    kind: ConsoleKind,
}

impl Input for Wanted {
    const NAME: &'static str = "NewConsole";
    const MEANING: &'static [(&'static str, &'static str)] = &[(
        "kind",
        "The serial line, the screen (VNC), or a terminal inside as by ssh.",
    )];

    fn example() -> Option<Value> {
        Some(json!({"kind": "Serial"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let OneOf(kind) = form.required("kind")?;
        Some(Self { kind })
    }
}

/// `POST /api/v1/vms/{name}/console`
async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    Sent { input, mut form }: Sent<Wanted>,
) -> Result<Created<TicketView>, Problem> {
    let Found { vm, owner, whose } = find(&state, &caller, &name, owner.as_deref()).await?;
    caller.require(Action::OpenConsole, whose)?;
    let Wanted { kind } = form.finish_with(input)?;
    if vm.metadata.deletion_timestamp.is_some() {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the VM is being deleted: there is nothing to look at any more",
        ));
    }
    let phase = vm.status.as_ref().and_then(|status| status.phase);
    let is_off = matches!(phase, None | Some(VmPhase::Stopped));
    if is_off && vm.spec.power_state == PowerState::Off {
        return Err(not_running());
    }
    state.consoles().check(kind)?;
    let key = ObjectKey::of(vm.as_ref());
    let lifetime = state.consoles().limits.ticket;
    let grant = ticket::Grant {
        namespace: key.namespace.unwrap_or_default(),
        vm: key.name,
        uid: vm.uid().unwrap_or_default(),
        owner: owner.name_any(),
        kind,
        expires_at: Timestamp::now() + lifetime,
    };
    let expires_at = Time(grant.expires_at);
    let ticket = ticket::issue(&state, &caller, grant).await?;
    Ok(Created::new(TicketView { ticket, expires_at }).at("/api/v1/console"))
}

/// `GET /api/v1/console`, a WebSocket.
async fn connect(
    State(state): State<ApiState>,
    caller: Caller,
    client: Client,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    check_socket_origin(&state, &caller, &headers)?;
    let guest = state.consoles().places.knock(&state.consoles().limits)?;
    let share = state.streams().take(&caller.name(), CONSOLE_MEMORY)?;
    let upgrade = upgrade
        .read_buffer_size(READ_AHEAD)
        // What is written is sent at once.
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MESSAGE_LIMIT)
        .max_message_size(MESSAGE_LIMIT)
        .max_frame_size(MESSAGE_LIMIT);
    let span = tracing::Span::current();
    Ok(upgrade.on_upgrade(move |socket| {
        let visit = socket::Visit {
            state,
            principal: caller.0,
            address: client.address,
            _guest: guest,
            _share: share,
        };
        tracing::Instrument::instrument(visit.serve(socket), span)
    }))
}

fn not_running() -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        "the VM does not run: start it, then open the console again",
    )
}

fn no_terminals() -> Problem {
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

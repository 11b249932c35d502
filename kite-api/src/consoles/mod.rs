//! The handlers of consoles in the browser ([`console`](crate::console)).
//!
//! | Module | What |
//! |---|---|
//! | `ticket` | single-use tickets, good on every replica |
//! | `socket` | the WebSocket: first message, both ways |
//! | `subresource` | serial lines and screens, from `KubeVirt` |
//! | `watch` | what ends one |
//! | `activity` | that the VM is used |

mod activity;
mod socket;
mod subresource;
mod ticket;
mod watch;

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
    crd::{KiteVirtualMachine, PowerState, VmPhase},
};
use kite_identity::{Caller, Client, check_socket_origin};
use kite_rest::{Created, Form, Input, Named, OneOf, Problem, ProblemKind, Sent, openapi::about};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    console::{CONSOLE_MEMORY, ConsoleKind, Grant, MESSAGE_LIMIT},
    owned::{Found, Owner, find},
    policy::Action,
    state::ApiState,
};

/// Bytes that are read ahead of a WebSocket.
const READ_AHEAD: usize = 16 * 1024;
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
    let Found {
        object: vm,
        owner,
        whose,
    } = find::<KiteVirtualMachine>(&state, &caller, &name, owner.as_deref()).await?;
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
    let grant = Grant {
        namespace: key.namespace.unwrap_or_default(),
        vm: key.name,
        uid: vm.uid().unwrap_or_default(),
        owner: owner.name_any(),
        kind,
        expires_at: Timestamp::now() + lifetime,
    };
    let expires_at = Time(grant.expires_at);
    let ticket = ticket::issue(&state, &caller, grant).await?;
    Ok(Created::new(TicketView { ticket, expires_at }).with_location("/api/v1/console"))
}

/// `GET /api/v1/console`, a WebSocket.
async fn connect(
    State(state): State<ApiState>,
    caller: Caller,
    client: Client,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    check_socket_origin(state.accounts(), &caller, &headers)?;
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
            address: client.address(),
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

//! Serial lines and screens, from `KubeVirt`'s subresources `console` and `vnc`: a
//! WebSocket whose binary messages are the bytes, as `virtctl` opens it.

use std::time::Duration;

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kite_core::kubevirt::SUBRESOURCES;
use kite_rest::{Problem, ProblemKind};
use kube::{client::Body, core::Status};
use rand::TryRng as _;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};

use crate::{
    console::{
        ConsoleEnded, ConsoleInput, ConsoleKind, ConsoleOutput, ConsoleStream, Grant, TerminalSize,
    },
    state::ApiState,
};

/// The subprotocol without channels: each binary message is bytes of the stream.
const PLAIN: &str = "plain.kubevirt.io";
/// Most bytes of a message of the cluster; `KubeVirt` sends a few KiB at a time.
const MESSAGE_LIMIT: usize = crate::console::MESSAGE_LIMIT;
/// Most bytes of a refusal.
const REFUSAL_LIMIT: usize = 64 * 1024;
/// How long the cluster may take to say yes or no.
const PATIENCE: Duration = Duration::from_secs(15);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Opens the serial line or the screen.
pub(super) async fn open(state: &ApiState, grant: &Grant) -> Result<ConsoleStream, Problem> {
    match tokio::time::timeout(PATIENCE, ask(state, grant)).await {
        Ok(opened) => opened,
        Err(_) => Err(unavailable("the cluster does not answer")),
    }
}

async fn ask(state: &ApiState, grant: &Grant) -> Result<ConsoleStream, Problem> {
    let verb = match grant.kind {
        ConsoleKind::Serial => "console",
        ConsoleKind::Vnc | ConsoleKind::Terminal => "vnc",
    };
    let Grant { namespace, vm, .. } = grant;
    let path =
        format!("/apis/{SUBRESOURCES}/namespaces/{namespace}/virtualmachineinstances/{vm}/{verb}");
    let mut nonce = [0; 16];
    let random = rand::rngs::SysRng.try_fill_bytes(&mut nonce);
    random.map_err(|error| internal(&error.to_string()))?;
    let key = STANDARD.encode(nonce);
    let request = Request::get(path)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key)
        .header(header::SEC_WEBSOCKET_PROTOCOL, PLAIN)
        .body(Body::empty())
        .map_err(|error| internal(&error.to_string()))?;
    let response = state.consoles().client.send(request).await;
    let response = response.map_err(|error| {
        tracing::warn!(vm, %error, "a console cannot be asked for");
        unavailable("the cluster does not answer at the moment")
    })?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refused(response, grant).await);
    }
    if !agreed(response.headers(), &key) {
        return Err(internal("the cluster agreed to another protocol"));
    }
    let upgraded = hyper::upgrade::on(response).await;
    let upgraded = upgraded.map_err(|error| unavailable(&error.to_string()))?;
    let config = WebSocketConfig::default()
        .read_buffer_size(super::READ_AHEAD)
        .max_message_size(Some(MESSAGE_LIMIT))
        .max_frame_size(Some(MESSAGE_LIMIT))
        // Nothing is kept back: what was typed is to be seen.
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MESSAGE_LIMIT);
    let socket =
        WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await;
    let (input, output) = socket.split();
    Ok(ConsoleStream {
        input: Box::new(Input(input)),
        output: Box::new(Output(output)),
        recording: None,
    })
}

/// Whether the cluster took up what was offered with `key`.
fn agreed(headers: &HeaderMap, key: &str) -> bool {
    let says = |name: HeaderName, wanted: &str| {
        let value = headers.get(name);
        value.is_some_and(|value| value.as_bytes() == wanted.as_bytes())
    };
    let accept = derive_accept_key(key.as_bytes());
    says(header::SEC_WEBSOCKET_ACCEPT, &accept) && says(header::SEC_WEBSOCKET_PROTOCOL, PLAIN)
}

/// What `KubeVirt` refuses, in words for the person who asked.
async fn refused(response: Response<Body>, grant: &Grant) -> Problem {
    let code = response.status();
    let body = Limited::new(response.into_body(), REFUSAL_LIMIT);
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let body = body.unwrap_or_default();
    let message = serde_json::from_slice::<Status>(&body).map_or_else(
        |_| String::from_utf8_lossy(&body).into_owned(),
        |it| it.message,
    );
    let vm = &grant.vm;
    tracing::info!(vm, code = code.as_u16(), message, "a console was refused");
    let conflict = |why: &str| Problem::new(ProblemKind::Conflict, why);
    match code {
        StatusCode::NOT_FOUND => super::not_running(),
        StatusCode::BAD_REQUEST if message.contains("not running") => super::not_running(),
        StatusCode::BAD_REQUEST if message.contains("No serial consoles") => {
            conflict("the VM has no serial console")
        }
        StatusCode::BAD_REQUEST if message.contains("No graphics devices") => {
            conflict("the VM has no screen")
        }
        StatusCode::BAD_REQUEST | StatusCode::CONFLICT => {
            conflict(&format!("the VM cannot be looked at now: {message}"))
        }
        StatusCode::SERVICE_UNAVAILABLE if message.contains("Active VNC") => {
            conflict("somebody else is looking at the screen, and stays")
        }
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            tracing::error!(message, "Kite's own account may not open consoles");
            Problem::new(
                ProblemKind::Internal,
                "the cluster refuses consoles to Kite itself: the operator must mend Kite's \
                 rights (RBAC)",
            )
        }
        _ => unavailable("the cluster cannot open the console at the moment"),
    }
}

fn unavailable(why: &str) -> Problem {
    Problem::new(
        ProblemKind::Unavailable,
        format!("{why}: try again shortly"),
    )
    .retry_after(Duration::from_secs(2))
}

fn internal(error: &str) -> Problem {
    tracing::error!(error, "a console cannot be opened");
    Problem::new(
        ProblemKind::Internal,
        "the console cannot be opened: the operator finds the cause in the log under this \
         request's id",
    )
}

struct Input(SplitSink<Socket, Message>);

#[async_trait]
impl ConsoleInput for Input {
    async fn write(&mut self, data: Bytes) -> Result<(), ConsoleEnded> {
        let sent = self.0.send(Message::Binary(data)).await;
        sent.map_err(|error| ConsoleEnded::Lost(error.to_string()))
    }

    async fn resize(&mut self, _: TerminalSize) {}
}

struct Output(SplitStream<Socket>);

#[async_trait]
impl ConsoleOutput for Output {
    async fn next(&mut self) -> Result<Bytes, ConsoleEnded> {
        loop {
            return match self.0.next().await {
                Some(Ok(Message::Binary(bytes))) => Ok(bytes),
                Some(Ok(Message::Text(text))) => Ok(text.into()),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                // A viewer that has to give way is cut off as one whose VM ended is.
                Some(Ok(Message::Close(_)) | Err(_)) | None => Err(ConsoleEnded::Closed),
            };
        }
    }
}

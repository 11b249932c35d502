//! `portforward` of instances: a WebSocket to a port of the guest.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use kube::api::ListParams;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::Ask;
use crate::actors::kind::POD;
use crate::actors::kubevirt::launcher;
use crate::actors::objects::text;
use crate::actors::services::HOST_PORTS;
use crate::service::ResponseBody;
use crate::status::Status;

/// The subprotocol in which each binary message is bytes of the stream.
const PLAIN: &str = "plain.kubevirt.io";
/// Bytes of the guest in one message.
const CHUNK: usize = 32 * 1024;

/// Answers the upgrade and carries bytes until either side ends.
pub(super) async fn open(
    ask: &Ask<'_>,
    request: &mut Request<Bytes>,
    port: &str,
) -> Result<Response<ResponseBody>, Status> {
    ask.wants(&Method::GET)?;
    let (port, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    let Ok(port) = port.parse::<u16>() else {
        return Err(Status::bad_request(format!("invalid port {port:?}")));
    };
    if protocol != "tcp" {
        let what = format!("virtualmachineinstances/portforward over {protocol} of KubeVirt");
        return Err(Status::unsupported(&what));
    }
    let instance = ask.object().await?;
    if text(&instance, "/status/phase") != "Running" {
        return Err(ask.conflict("VMI is not running"));
    }
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY).cloned();
    let upgrade = request
        .extensions_mut()
        .remove::<hyper::upgrade::OnUpgrade>();
    let (Some(key), Some(upgrade)) = (key, upgrade) else {
        let why = "unable to upgrade: it must be asked for over a connection, by WebSocket";
        return Err(Status::bad_request(why));
    };
    let address = address(ask, &instance, port).await?;
    let guest = TcpStream::connect(&address)
        .await
        .map_err(|error| Status::internal(format!("dialing VM: dial tcp {address}: {error}")))?;
    tokio::spawn(async move {
        match upgrade.await {
            Ok(connection) => carry(TokioIo::new(connection), guest).await,
            Err(error) => tracing::debug!(%error, "an upgrade failed"),
        }
    });
    Ok(switching(request, &key))
}

/// Where a port of the guest really is.
async fn address(
    ask: &Ask<'_>,
    instance: &kube::api::DynamicObject,
    port: u16,
) -> Result<String, Status> {
    let api = POD.api(&ask.of.client, ask.key.namespace.as_deref());
    let selector = launcher::selector(&ask.key.name);
    let pods = api.list(&ListParams::default().labels(&selector)).await;
    let pods = pods.map_err(|error| super::refused(&error))?.items;
    let pod = launcher::current(instance, &pods);
    let ports = pod.and_then(|pod| pod.metadata.annotations.as_ref()?.get(HOST_PORTS));
    let real = ports.and_then(|ports| {
        let mut pairs = ports.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(of, at)| (of.parse() == Ok(port)).then_some(at))
    });
    match (pod, real) {
        (Some(pod), Some(real)) => Ok(format!("{}:{real}", text(pod, "/status/podIP"))),
        _ => Err(Status::internal(format!(
            "dialing VM: nothing listens on port {port} of the guest"
        ))),
    }
}

fn switching(request: &Request<Bytes>, key: &HeaderValue) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = derive_accept_key(key.as_bytes());
    let headers = response.headers_mut();
    let word = HeaderValue::from_static;
    headers.insert(header::CONNECTION, word("Upgrade"));
    headers.insert(header::UPGRADE, word("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    let offered = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let offered = offered.iter().filter_map(|value| value.to_str().ok());
    let plain = offered
        .flat_map(|value| value.split(','))
        .any(|p| p.trim() == PLAIN);
    if plain {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, word(PLAIN));
    }
    response
}

/// Carries bytes both ways until either side ends.
async fn carry<S>(connection: S, mut guest: TcpStream)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut client = WebSocketStream::from_raw_socket(connection, Role::Server, None).await;
    let mut buffer = vec![0; CHUNK];
    loop {
        tokio::select! {
            read = guest.read(&mut buffer) => {
                let Ok(read @ 1..) = read else { break };
                let bytes = Bytes::copy_from_slice(&buffer[..read]);
                if client.send(Message::Binary(bytes)).await.is_err() {
                    return;
                }
            }
            message = client.next() => {
                let bytes = match message {
                    Some(Ok(Message::Binary(bytes))) => bytes,
                    Some(Ok(Message::Text(text))) => Bytes::from(text),
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                };
                if guest.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        }
    }
    // The other side may be gone already.
    let _ = client.close(None).await;
}

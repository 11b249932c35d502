//! What all streams of bytes share: the WebSocket, and carrying bytes over it.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use kite_fake::service::ResponseBody;
use kite_fake::status::Status;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// The subprotocol in which each binary message is bytes of the stream.
const PLAIN: &str = "plain.kubevirt.io";
/// Bytes of the guest in one message.
const CHUNK: usize = 32 * 1024;

/// A client's side of a stream.
pub(super) type Client = WebSocketStream<TokioIo<Upgraded>>;

/// A request for a WebSocket.
pub(super) struct Upgrade {
    key: HeaderValue,
    /// The client offers to speak [`PLAIN`].
    plain: bool,
    connection: OnUpgrade,
}

impl Upgrade {
    /// Reads it from a request.
    pub(super) fn of(request: &mut Request<Bytes>) -> Result<Self, Status> {
        let key = request.headers().get(header::SEC_WEBSOCKET_KEY).cloned();
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        let (Some(key), Some(upgrade)) = (key, upgrade) else {
            let why = "unable to upgrade: it must be asked for over a connection, by WebSocket";
            return Err(Status::bad_request(why));
        };
        let offered = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL);
        let offered = offered.iter().filter_map(|value| value.to_str().ok());
        let plain = offered
            .flat_map(|value| value.split(','))
            .any(|p| p.trim() == PLAIN);
        Ok(Self {
            key,
            plain,
            connection: upgrade,
        })
    }

    /// The answer, behind which `work` gets the WebSocket.
    pub(super) fn answer<F>(
        self,
        work: impl FnOnce(Client) -> F + Send + 'static,
    ) -> Response<ResponseBody>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self {
            key,
            plain,
            connection,
        } = self;
        tokio::spawn(async move {
            match connection.await {
                Ok(connection) => {
                    let connection = TokioIo::new(connection);
                    let client = WebSocketStream::from_raw_socket(connection, Role::Server, None);
                    work(client.await).await;
                }
                Err(error) => tracing::debug!(%error, "an upgrade failed"),
            }
        });
        let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        let fixed = HeaderValue::from_static;
        headers.insert(header::CONNECTION, fixed("Upgrade"));
        headers.insert(header::UPGRADE, fixed("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        if plain {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, fixed(PLAIN));
        }
        response
    }
}

/// Carries bytes both ways until either side ends. The ways do not wait for each
/// other: a guest that draws may be slow to read what is typed.
pub(super) async fn carry(client: Client, guest: impl AsyncRead + AsyncWrite + Send) {
    let (mut to_client, mut from_client) = client.split();
    let (mut from_guest, mut to_guest) = tokio::io::split(guest);
    let down = async {
        let mut buffer = vec![0; CHUNK];
        while let Ok(read @ 1..) = from_guest.read(&mut buffer).await {
            let bytes = Bytes::copy_from_slice(&buffer[..read]);
            if to_client.send(Message::Binary(bytes)).await.is_err() {
                break;
            }
        }
    };
    let up = async {
        while let Some(Ok(message)) = from_client.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => Bytes::from(text),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
                Message::Close(_) => break,
            };
            if to_guest.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = down => {}
        () = up => {}
    }
    // The other side may be gone already.
    let _ = to_client.close().await;
}

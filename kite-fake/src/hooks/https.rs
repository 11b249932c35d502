//! Calls over HTTPS. Each has a connection of its own: what listens there may be another
//! the next time.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::call::{HookCall, Said};
use super::caller::with_port;
use super::local::{replied, request};
use super::trust;

/// Makes a call; whoever waits for it sets the limit.
pub(super) async fn call(call: &HookCall) -> Said {
    let at = match &call.place.endpoint {
        Some(endpoint) => endpoint.clone()?,
        None => with_port(&call.place.authority),
    };
    let connector = TlsConnector::from(trust::config(&call.authorities)?);
    let name = ServerName::try_from(call.place.server_name.clone())
        .map_err(|_| format!("invalid server name {:?}", call.place.server_name))?;
    let plain = TcpStream::connect(&at)
        .await
        .map_err(|error| dial(&at, &error))?;
    let stream = connector
        .connect(name, plain)
        .await
        .map_err(|error| trust::told(&error, &call.place.server_name))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| lost(&error))?;
    let driver = tokio::spawn(connection);
    let said = match sender.send_request(request(call)?).await {
        Ok(response) => replied(response).await,
        Err(error) => Err(lost(&error)),
    };
    driver.abort();
    said
}

/// Why no connection came to be.
fn dial(at: &str, error: &io::Error) -> String {
    let host = at.rsplit_once(':').map_or(at, |(host, _)| host);
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {at}: connect: connection refused")
        }
        io::ErrorKind::HostUnreachable => format!("dial tcp {at}: connect: no route to host"),
        io::ErrorKind::NetworkUnreachable => {
            format!("dial tcp {at}: connect: network is unreachable")
        }
        // Names are looked up by the system, whose words differ.
        _ if error.raw_os_error().is_none() => format!("dial tcp: lookup {host}: no such host"),
        _ => format!("dial tcp {at}: {error}"),
    }
}

/// Why a connection ended too soon.
fn lost(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        "EOF".to_owned()
    } else {
        error.to_string()
    }
}

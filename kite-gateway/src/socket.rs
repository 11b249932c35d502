//! Options of TCP sockets.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Idle time before the first probe: below the idle limits of common load
/// balancers (60 s for some, 350 s for others), so that idle sessions stay up.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// No Nagle delay, and keepalive probes. Failing to set them is no reason to
/// refuse a connection.
pub(crate) fn tune(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "cannot set TCP keepalive");
    }
}

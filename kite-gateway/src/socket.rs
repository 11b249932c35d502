//! Options of TCP sockets, and of listeners.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

/// Idle time before the first probe: below the idle limits of common load
/// balancers (60 s for some, 350 s for others), so that idle sessions stay up.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How many connections may wait to be accepted: as many as the kernel lets them, which
/// caps this at `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// Lets as many connections wait as the kernel allows. A listener of `tokio` or of the
/// standard library has 128: a burst of strangers fills that, and whoever comes next
/// waits for retransmissions, a second or more.
pub(crate) fn deepen(listener: &TcpListener) {
    // Listening again on a socket that listens changes its backlog and nothing else.
    if let Err(error) = SockRef::from(listener).listen(BACKLOG) {
        tracing::warn!(%error, "cannot have more connections wait to be accepted");
    }
}

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

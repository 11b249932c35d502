//! Listening addresses: taken before anything else starts, so that a port in
//! use ends the program with one line and nothing half-started.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context as _;
use tokio::net::TcpListener;

/// Takes `address`, which the option `option` gave. Port 0 picks a free one.
pub(crate) async fn bind(option: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "{option} {address} cannot be listened on; choose another port, or 0 for a free one"
        )
    })
}

/// Where a client on this machine connects to reach a server that listens on
/// `address`: loopback, if that is every address.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

//! Listening addresses: taken before anything else starts, so that a port in
//! use ends the program with one line and nothing half-started.

use std::net::SocketAddr;

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

//! The server on a socket: loopback HTTP, for `kubectl` and other processes.

use std::io;
use std::net::SocketAddr;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::cluster::FakeCluster;

/// A listening server. Dropping it does not stop it; [`FakeCluster::shut_down`] does.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Served {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://<address>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until the server has ended.
    pub async fn ended(self) {
        if self.task.await.is_err() {
            tracing::warn!("the API server's accept loop was aborted");
        }
    }
}

impl FakeCluster {
    /// Serves HTTP/1.1 and HTTP/2 (without TLS) on `address`; port 0 picks one.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn serve(&self, address: SocketAddr) -> io::Result<Served> {
        self.serve_on(TcpListener::bind(address).await?)
    }

    /// Serves on a listener that is bound already. Needs a running tokio runtime.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn serve_on(&self, listener: TcpListener) -> io::Result<Served> {
        let address = listener.local_addr()?;
        let cluster = self.clone();
        let task = tokio::spawn(async move { accept(cluster, listener).await });
        Ok(Served { address, task })
    }
}

async fn accept(cluster: FakeCluster, listener: TcpListener) {
    let stop = cluster.stopped().clone();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    continue;
                }
            },
        };
        let service = TowerToHyperService::new(cluster.public_service());
        let stop = stop.clone();
        tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            tokio::pin!(connection);
            tokio::select! {
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "a connection ended");
                    }
                }
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let grace = std::time::Duration::from_millis(500);
                    if tokio::time::timeout(grace, connection).await.is_err() {
                        tracing::debug!("a connection did not end in time");
                    }
                }
            }
        });
    }
}

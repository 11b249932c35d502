//! The server on a socket, for `kubectl` and other processes: plain HTTP on loopback, or
//! HTTPS with a certificate authority of its own (feature `tls`).

#[cfg(feature = "tls")]
mod tls;

use std::io;
use std::net::SocketAddr;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cluster::FakeCluster;
pub use crate::endpoint::Endpoint;
use crate::service::FakeService;

/// A listening server. Dropping it does not stop it; [`FakeCluster::shut_down`] does.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    authority: Option<String>,
    task: JoinHandle<()>,
}

impl Served {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://<address>` or `https://<address>`.
    pub fn url(&self) -> String {
        let scheme = match self.authority {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    /// The certificate authority that clients trust, in PEM; `None` without TLS.
    pub fn certificate_authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Waits until the server has ended.
    pub async fn ended(self) {
        if self.task.await.is_err() {
            tracing::warn!("the API server's accept loop was aborted");
        }
    }
}

impl From<&Served> for Endpoint {
    fn from(served: &Served) -> Self {
        Self {
            url: served.url(),
            authority: served.authority.clone(),
        }
    }
}

/// What is done with a connection before it is served.
#[derive(Clone)]
enum Transport {
    Plain,
    #[cfg(feature = "tls")]
    Tls(tokio_rustls::TlsAcceptor),
}

impl FakeCluster {
    /// Serves HTTP/1.1 and HTTP/2 (without TLS) on `address`; port 0 picks one. Who sends
    /// no credentials is the administrator unless RBAC is on, for `kubectl` sends none
    /// without TLS.
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
        self.listen(listener, Transport::Plain, None)
    }

    /// Serves HTTPS on `address`; port 0 picks one. The certificate is of an authority
    /// that is made for it, and good for `localhost` and the address. Clients send their
    /// tokens over TLS, and who sends no credentials is nobody.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let cluster = kite_fake::FakeCluster::builder().build()?;
    /// let served = cluster.serve_tls(([127, 0, 0, 1], 0).into()).await?;
    /// assert!(served.url().starts_with("https://"));
    /// assert!(cluster.kubeconfig(&served).contains("certificate-authority-data"));
    /// # cluster.shut_down();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The address cannot be bound, or no certificate can be made.
    #[cfg(feature = "tls")]
    pub async fn serve_tls(&self, address: SocketAddr) -> io::Result<Served> {
        self.serve_tls_on(TcpListener::bind(address).await?)
    }

    /// The same on a listener that is bound already. Needs a running tokio runtime.
    ///
    /// # Errors
    /// The listener has no address, or no certificate can be made.
    #[cfg(feature = "tls")]
    pub fn serve_tls_on(&self, listener: TcpListener) -> io::Result<Served> {
        let (acceptor, authority) = tls::acceptor(listener.local_addr()?.ip())?;
        self.listen(listener, Transport::Tls(acceptor), Some(authority))
    }

    fn listen(
        &self,
        listener: TcpListener,
        transport: Transport,
        authority: Option<String>,
    ) -> io::Result<Served> {
        let address = listener.local_addr()?;
        let cluster = self.clone();
        let task = tokio::spawn(async move { accept(cluster, listener, transport).await });
        Ok(Served {
            address,
            authority,
            task,
        })
    }
}

async fn accept(cluster: FakeCluster, listener: TcpListener, transport: Transport) {
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
        tokio::spawn(begin(
            cluster.clone(),
            stream,
            transport.clone(),
            stop.clone(),
        ));
    }
}

async fn begin(
    cluster: FakeCluster,
    stream: TcpStream,
    transport: Transport,
    stop: CancellationToken,
) {
    match transport {
        Transport::Plain => serve(stream, cluster.public_service(), stop).await,
        #[cfg(feature = "tls")]
        Transport::Tls(acceptor) => {
            // Who does not go on with the handshake is let go of.
            match tokio::time::timeout(tls::HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => serve(stream, FakeService::new(cluster, None), stop).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            }
        }
    }
}

async fn serve<S>(stream: S, service: FakeService, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(service);
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
}

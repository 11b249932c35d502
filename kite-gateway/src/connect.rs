//! How the gateway reaches a machine's sshd.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use kite_ssh_relay::io::Eager;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::route::Target;
use crate::socket;

/// A byte stream to a machine's sshd.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Why a machine cannot be reached; its owner gets to read it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody said yet where its sshd is.
    #[error("its address is not known yet")]
    NoAddress,
    /// No address answered.
    #[error("{address} does not answer: {error}")]
    Unreachable {
        /// The last address that was tried.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
}

/// Opens byte streams to machines.
#[async_trait]
pub trait Connector: Send + Sync + 'static {
    /// Opens a stream to the machine's sshd. The gateway gives up on its own
    /// after the configured time.
    ///
    /// # Errors
    /// A [`ConnectError`] that says why nobody gets there.
    async fn connect(&self, target: &Target) -> Result<Box<dyn Stream>, ConnectError>;
}

/// Connects by TCP to the first address that answers.
#[derive(Clone, Copy, Debug)]
pub struct TcpConnector {
    /// How long one address is tried.
    pub attempt: Duration,
}

impl Default for TcpConnector {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(5),
        }
    }
}

#[async_trait]
impl Connector for TcpConnector {
    async fn connect(&self, target: &Target) -> Result<Box<dyn Stream>, ConnectError> {
        let mut failure = ConnectError::NoAddress;
        for &address in &target.addresses {
            let connecting = tokio::time::timeout(self.attempt, TcpStream::connect(address));
            match connecting.await {
                Ok(Ok(stream)) => {
                    socket::tune(&stream);
                    return Ok(Box::new(Eager::new(stream)));
                }
                Ok(Err(error)) => failure = ConnectError::Unreachable { address, error },
                Err(_) => {
                    let error = io::ErrorKind::TimedOut.into();
                    failure = ConnectError::Unreachable { address, error };
                }
            }
        }
        Err(failure)
    }
}

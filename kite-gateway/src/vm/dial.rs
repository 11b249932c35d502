//! Entering a machine: connect, check its host key, log in.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use russh::client::{self, Handle};
use russh::keys::{Algorithm, HashAlg, PublicKey};
use russh::{Disconnect, Limits, Preferred, SshId, cipher, kex, mac};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::enter::log_in;
use super::handler::VmHandler;
use super::incoming::Incoming;
use super::mailboxes::Mailboxes;
use super::requests::Replies;
use crate::config::Config;
use crate::connect::{ConnectError, Connector};
use crate::flow::Throttled;
use crate::route::Target;
use crate::secret::Secret;

/// The window that a machine gets; the queue towards the user bounds the rest.
const WINDOW: u32 = 2 * 1024 * 1024;
/// How long a goodbye may take before the line is cut.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why a machine cannot be entered; its owner gets to read it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(
        "its host key is not the expected one: expected {expected}, got {shown}; \
         if the machine was reinstalled on purpose, its key Secret must say so"
    )]
    HostKey { expected: String, shown: String },
    #[error("it does not accept the gateway's key for the user {0}")]
    Refused(String),
    #[error("it does not take the password of {0} any more")]
    Password(String),
    #[error("it asks the user {0} for more than a password, which the gateway cannot pass on")]
    MoreThanPassword(String),
    #[error("it lets in by password only, and the login was by something else")]
    NoPassword,
    #[error("it did not answer in time")]
    Timeout,
    #[error("its sshd broke off: {0}")]
    Ssh(String),
}

impl From<russh::Error> for DialError {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error.to_string())
    }
}

impl DialError {
    /// All words for metrics.
    pub(crate) const KINDS: [&str; 5] = ["connect", "host_key", "refused", "timeout", "ssh"];

    /// A word for metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::HostKey { .. } => "host_key",
            Self::Refused(_) | Self::Password(_) | Self::MoreThanPassword(_) | Self::NoPassword => {
                "refused"
            }
            Self::Timeout => "timeout",
            Self::Ssh(_) => "ssh",
        }
    }
}

/// A connection to a machine that let the gateway in.
pub(crate) struct VmConnection {
    /// For opening its channel.
    pub(crate) handle: Handle<VmHandler>,
    /// Who waits for answers on that channel.
    pub(crate) replies: Replies,
    /// Channels that the machine opens.
    pub(crate) incoming: mpsc::UnboundedReceiver<Incoming>,
    cut: CancellationToken,
}

impl VmConnection {
    /// Says goodbye, then cuts the line.
    pub(crate) async fn end(self) {
        let goodbye = self.handle.disconnect(Disconnect::ByApplication, "", "");
        // A machine that does not take it is cut off all the same.
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        let Self { handle, cut, .. } = self;
        // By now the machine hangs up; if not, the line is cut.
        let _ = tokio::time::timeout(GOODBYE, handle).await;
        cut.cancel();
    }
}

/// Opens connections to machines.
pub(crate) struct Dialer {
    connector: Arc<dyn Connector>,
    deadline: Duration,
    limits: Limits,
}

impl Dialer {
    pub(crate) fn new(connector: Arc<dyn Connector>, config: &Config) -> Self {
        Self {
            connector,
            deadline: config.connect_deadline,
            limits: config.limits(),
        }
    }

    /// Enters the machine, with the user's `password` where it wants that. What it
    /// sends goes to `mailboxes`; `cut` breaks the line.
    pub(crate) async fn dial(
        &self,
        target: &Target,
        password: Option<&Secret>,
        mailboxes: Arc<Mailboxes>,
        cut: CancellationToken,
    ) -> Result<VmConnection, DialError> {
        // Without a connection to hand on, nothing may be left behind.
        let guard = cut.clone().drop_guard();
        let entered =
            tokio::time::timeout(self.deadline, self.enter(target, password, mailboxes, cut)).await;
        let connection = entered.unwrap_or(Err(DialError::Timeout))?;
        guard.disarm();
        Ok(connection)
    }

    async fn enter(
        &self,
        target: &Target,
        password: Option<&Secret>,
        mailboxes: Arc<Mailboxes>,
        cut: CancellationToken,
    ) -> Result<VmConnection, DialError> {
        let stream = self.connector.connect(target).await?;
        let stream = Throttled::new(stream, &cut, Arc::clone(&mailboxes) as _);
        let (incoming, receiver) = mpsc::unbounded_channel();
        let shown = Arc::new(Mutex::new(None));
        let replies = Replies::default();
        let handler = VmHandler {
            mailboxes,
            replies: replies.clone(),
            incoming,
            expected: target.host_key.clone(),
            shown: Arc::clone(&shown),
        };
        let config = Arc::new(ssh_config(&target.host_key, self.limits.clone()));
        let connected = client::connect_stream(config, stream, handler).await;
        let shown = shown.lock().take();
        let mut handle = match (connected, shown) {
            (Ok(handle), _) => handle,
            (Err(_), Some(shown)) => {
                return Err(DialError::HostKey {
                    expected: fingerprint(&target.host_key),
                    shown: fingerprint(&shown),
                });
            }
            (Err(error), None) => return Err(error.into()),
        };
        log_in(&mut handle, target, password).await?;
        Ok(VmConnection {
            handle,
            replies,
            incoming: receiver,
            cut,
        })
    }
}

pub(crate) fn fingerprint(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

fn key_algorithms(key: &PublicKey) -> Vec<Algorithm> {
    match key.algorithm() {
        Algorithm::Rsa { .. } => [HashAlg::Sha512, HashAlg::Sha256]
            .map(|hash| Algorithm::Rsa { hash: Some(hash) })
            .to_vec(),
        other => vec![other],
    }
}

fn ssh_config(host_key: &PublicKey, limits: Limits) -> client::Config {
    client::Config {
        client_id: SshId::Standard("SSH-2.0-Kite".into()),
        window_size: WINDOW,
        inactivity_timeout: None,
        // Probes of the SSH kind would fail while a throttled stream is not
        // read; TCP's own keepalive finds dead machines.
        keepalive_interval: None,
        nodelay: true,
        limits,
        preferred: Preferred {
            // A machine has several host keys and shows the first that both
            // sides know: ask for the kind that is expected.
            key: Cow::Owned(key_algorithms(host_key)),
            // Inside the cluster the cheapest strong algorithms come first. None is of the
            // classic kind: a VM, too, could stop the gateway by its cost.
            kex: Cow::Borrowed(&[
                kex::CURVE25519,
                kex::CURVE25519_PRE_RFC_8731,
                kex::MLKEM768X25519_SHA256,
                kex::EXTENSION_SUPPORT_AS_CLIENT,
                kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
            ]),
            cipher: Cow::Borrowed(&[
                cipher::AES_128_GCM,
                cipher::AES_256_GCM,
                cipher::CHACHA20_POLY1305,
                cipher::AES_256_CTR,
                cipher::AES_128_CTR,
            ]),
            mac: Cow::Borrowed(&[mac::HMAC_SHA256_ETM, mac::HMAC_SHA512_ETM]),
            ..Preferred::DEFAULT
        },
        ..client::Config::default()
    }
}

//! Entering a machine for a terminal: connect, see that the host key is the expected one, log
//! in by the gateway's key.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use russh::client::{self, Handle};
use russh::keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{Disconnect, Limits, Preferred, SshId, cipher, kex, mac};

use crate::config::Config;
use crate::connect::Connector;
use crate::machine::{DialError, fingerprint};
use crate::route::{Credential, Target};

/// The window that a machine gets.
const WINDOW: u32 = 256 * 1024;
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Sees to the host key, and takes nothing that a machine opens.
pub(super) struct Handler {
    expected: PublicKey,
    /// The host key that was shown when it was not the expected one.
    shown: Arc<Mutex<Option<PublicKey>>>,
}

impl client::Handler for Handler {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let key = key.public_key();
        let known = key.key_data() == self.expected.key_data();
        if !known {
            *self.shown.lock() = Some(key);
        }
        Ok(known)
    }
}

/// Opens connections to machines.
pub(super) struct Dialer {
    connector: Arc<dyn Connector>,
    deadline: Duration,
    limits: Limits,
}

impl Dialer {
    pub(super) fn new(connector: Arc<dyn Connector>, config: &Config) -> Self {
        Self {
            connector,
            deadline: config.connect_deadline,
            limits: config.limits(),
        }
    }

    /// Enters the machine.
    pub(super) async fn dial(&self, target: &Target) -> Result<Handle<Handler>, DialError> {
        let entered = tokio::time::timeout(self.deadline, self.enter(target)).await;
        entered.unwrap_or(Err(DialError::Timeout))
    }

    async fn enter(&self, target: &Target) -> Result<Handle<Handler>, DialError> {
        let stream = self.connector.connect(target).await?;
        let shown = Arc::new(Mutex::new(None));
        let handler = Handler {
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
        let user = &target.user;
        let Credential::Key(key) = &target.credential else {
            return Err(DialError::NoPassword);
        };
        let hash = key.algorithm().is_rsa().then_some(HashAlg::Sha512);
        let key = PrivateKeyWithHashAlg::new(Arc::clone(key), hash);
        if handle.authenticate_publickey(user, key).await?.success() {
            Ok(handle)
        } else {
            end(&handle).await;
            Err(DialError::Refused(user.clone()))
        }
    }
}

/// Says goodbye. A machine that does not take it is cut off when its handle goes.
pub(super) async fn end(handle: &Handle<Handler>) {
    let goodbye = handle.disconnect(Disconnect::ByApplication, "", "");
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
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
        // Pieces of what is printed that wait for whoever reads it.
        channel_buffer_size: 8,
        inactivity_timeout: None,
        // TCP's own keepalive finds dead machines.
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

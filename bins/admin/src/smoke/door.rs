//! The SSH gateway, as somebody who logs in meets it.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use russh::{
    ChannelMsg, Disconnect, client,
    keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate},
};
use tokio::{net::TcpStream, time::timeout};

/// Longest time to be connected.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest time for keys to be agreed on.
const GREET: Duration = Duration::from_secs(15);
/// Longest time for a login with its command: the gateway enters the VM meanwhile.
const LOG_IN: Duration = Duration::from_secs(60);
/// Most bytes of a command's output that are looked at.
const MOST_BYTES: usize = 64 * 1024;

/// Where the gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("{text:?} is no HOST:PORT, such as ssh.example.org:22 or [::1]:2222");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !is_bracketed) {
            return Err(wrong());
        }
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.parse().map_err(|_| wrong())?,
        })
    }
}

/// How the gateway is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKey {
    /// By its whole public key.
    Key(Box<PublicKey>),
    /// By the fingerprint, such as `SHA256:…`.
    Fingerprint(String),
}

impl HostKey {
    fn fits(&self, shown: &PublicKey) -> bool {
        match self {
            Self::Key(key) => key.key_data() == shown.key_data(),
            Self::Fingerprint(text) => *text == fingerprint(shown),
        }
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => f.write_str(&fingerprint(key)),
            Self::Fingerprint(text) => f.write_str(text),
        }
    }
}

impl FromStr for HostKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("SHA256:") {
            return Ok(Self::Fingerprint(text.to_owned()));
        }
        PublicKey::from_openssh(text)
            .map(|key| Self::Key(Box::new(key)))
            .map_err(|error| {
                format!("it is neither a fingerprint like SHA256:… nor a public key: {error}")
            })
    }
}

fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// Why somebody did not come in.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("nobody answers at {0}: {1}")]
    Silent(Address, String),
    #[error("{0} has the host key {1}, and not {2}")]
    Stranger(Address, String, String),
    #[error("{0} does not take the key of {1}")]
    Rejected(Address, String),
    #[error("{0}: {1}")]
    Broken(Address, String),
    #[error("the command ended with status {0:?}, and said {1:?}")]
    Command(Option<u32>, String),
}

/// The gateway, and how it is known.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) address: Address,
    /// Any of these is right; where there are none, every key is.
    pub(super) expected: Vec<HostKey>,
}

/// Takes the host key, if it is the right one.
struct Greeter {
    expected: Vec<HostKey>,
    shown: Arc<std::sync::OnceLock<PublicKey>>,
}

impl client::Handler for Greeter {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        let key = key.public_key();
        let is_right = self.expected.is_empty() || self.expected.iter().any(|it| it.fits(&key));
        let _ = self.shown.set(key);
        Ok(is_right)
    }
}

impl Door {
    /// Comes as far as the host key. Gives its fingerprint, and the door as it is known
    /// from then on: by that key alone.
    pub(super) async fn knock(&self) -> Result<(String, Self), Refusal> {
        let (handle, shown) = self.greet().await?;
        // Nobody waits for the answer.
        let _ = handle.disconnect(Disconnect::ByApplication, "", "").await;
        let pinned = Self {
            address: self.address.clone(),
            expected: vec![HostKey::Key(Box::new(shown.clone()))],
        };
        Ok((fingerprint(&shown), pinned))
    }

    async fn greet(&self) -> Result<(client::Handle<Greeter>, PublicKey), Refusal> {
        let address = &self.address;
        let silent = |why: String| Refusal::Silent(address.clone(), why);
        let connected = TcpStream::connect((address.host.as_str(), address.port));
        let stream = match timeout(CONNECT, connected).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(silent(error.to_string())),
            Err(_) => return Err(silent(format!("no answer within {CONNECT:?}"))),
        };
        let shown = Arc::<std::sync::OnceLock<PublicKey>>::default();
        let greeter = Greeter {
            expected: self.expected.clone(),
            shown: Arc::clone(&shown),
        };
        let hello = client::connect_stream(Arc::default(), stream, greeter);
        let hello = timeout(GREET, hello).await;
        match (hello, shown.get()) {
            (Ok(Ok(handle)), Some(shown)) => Ok((handle, shown.clone())),
            (Ok(Err(russh::Error::UnknownKey)), Some(shown)) => {
                let expected: Vec<_> = self.expected.iter().map(HostKey::to_string).collect();
                let expected = expected.join(" or ");
                let shown = fingerprint(shown);
                Err(Refusal::Stranger(address.clone(), shown, expected))
            }
            (Ok(Ok(_)), None) => Err(self.broken("it showed no host key")),
            (Ok(Err(error)), _) => Err(self.broken(&error.to_string())),
            (Err(_), _) => Err(self.broken(&format!("it says nothing within {GREET:?}"))),
        }
    }

    /// Logs in as `login`, and gives what `command` prints there.
    pub(super) async fn run(
        &self,
        login: &str,
        key: Arc<PrivateKey>,
        command: &str,
    ) -> Result<String, Refusal> {
        let (mut handle, _) = self.greet().await?;
        let ran = timeout(LOG_IN, self.run_on(&mut handle, login, key, command)).await;
        let _ = handle.disconnect(Disconnect::ByApplication, "", "").await;
        ran.unwrap_or_else(|_| Err(self.broken(&format!("nothing within {LOG_IN:?}"))))
    }

    async fn run_on(
        &self,
        handle: &mut client::Handle<Greeter>,
        login: &str,
        key: Arc<PrivateKey>,
        command: &str,
    ) -> Result<String, Refusal> {
        let broken = |error: russh::Error| self.broken(&error.to_string());
        let key = PrivateKeyWithHashAlg::new(key, None);
        let result = handle.authenticate_publickey(login, key).await;
        if !result.map_err(broken)?.success() {
            return Err(Refusal::Rejected(self.address.clone(), login.to_owned()));
        }
        let mut channel = handle.channel_open_session().await.map_err(broken)?;
        channel.exec(true, command).await.map_err(broken)?;
        let (mut output, mut status) = (Vec::new(), None);
        while let Some(message) = channel.wait().await {
            match message {
                ChannelMsg::Data { data } | ChannelMsg::ExtendedData { data, .. }
                    if output.len() < MOST_BYTES =>
                {
                    output.extend_from_slice(&data);
                }
                ChannelMsg::ExitStatus { exit_status } => status = Some(exit_status),
                _ => {}
            }
        }
        let output = String::from_utf8_lossy(&output).trim().to_owned();
        match status {
            Some(0) => Ok(output),
            status => Err(Refusal::Command(status, output)),
        }
    }

    fn broken(&self, why: &str) -> Refusal {
        Refusal::Broken(self.address.clone(), why.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, host, port) in [
            ("ssh.example.org:22", "ssh.example.org", 22),
            ("192.0.2.1:2222", "192.0.2.1", 2222),
            ("[2001:db8::1]:22", "2001:db8::1", 22),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
        for text in ["ssh.example.org", ":22", "2001:db8::1", "a:b", "a:70000"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}

//! The way into machines: connect, see that the host key is the expected one, log in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kite_ssh_relay::algorithm::Algorithm;
use kite_ssh_relay::io::{Connection, ConnectionError, Event, Workers};
use kite_ssh_relay::kex::Method;
use kite_ssh_relay::login::{self, Answered, LoginError};
use kite_ssh_relay::message::{Disconnect, Reason};
use kite_ssh_relay::sign::SigningKey;
use kite_ssh_relay::transport;
use parking_lot::Mutex;
use russh::keys::ssh_key::encoding::Encode as _;
use russh::keys::{PrivateKey, PublicKey};

use crate::config::Config;
use crate::connect::Connector;
use crate::machine::{DialError, fingerprint};
use crate::route::{Credential, Target};

/// Rounds of questions that a machine may ask: one for the password, and some
/// without a question, which PAM sends to tell something.
const ROUNDS: usize = 4;
/// How long a goodbye may take before the line is cut.
const GOODBYE: Duration = Duration::from_secs(1);
/// What machines' servers take for an OpenSSH client of its time, which they tell when a
/// session's end is not read any more.
const VERSION: &str = "SSH-2.0-OpenSSH_9.9 Kite";
/// Inside the cluster the cheapest strong exchanges come first.
const METHODS: [Method; 4] = [
    Method::Curve25519,
    Method::MlKem768X25519,
    Method::NistP256,
    Method::NistP384,
];

impl From<ConnectionError> for DialError {
    fn from(error: ConnectionError) -> Self {
        Self::Ssh(error.to_string())
    }
}

impl From<LoginError> for DialError {
    fn from(error: LoginError) -> Self {
        Self::Ssh(error.to_string())
    }
}

impl From<transport::TransportError> for DialError {
    fn from(error: transport::TransportError) -> Self {
        Self::Ssh(error.to_string())
    }
}

/// Enters machines.
pub(crate) struct Entrance {
    connector: Arc<dyn Connector>,
    deadline: Duration,
    rekey_after: u64,
    workers: Workers,
    /// One for each algorithm of host keys.
    configs: Mutex<HashMap<&'static [Algorithm], Arc<transport::Config>>>,
}

impl Entrance {
    pub(crate) fn new(connector: Arc<dyn Connector>, config: &Config, workers: Workers) -> Self {
        Self {
            connector,
            deadline: config.connect_deadline,
            rekey_after: config.rekey_after(),
            workers,
            configs: Mutex::default(),
        }
    }

    /// Enters the machine, with the user's `password` where it wants that.
    pub(crate) async fn enter(
        &self,
        target: &Target,
        password: Option<&[u8]>,
        banner: &mut (dyn FnMut(Vec<u8>) + Send),
    ) -> Result<Connection, DialError> {
        let entered = tokio::time::timeout(self.deadline, self.go(target, password, banner)).await;
        entered.unwrap_or(Err(DialError::Timeout))
    }

    async fn go(
        &self,
        target: &Target,
        password: Option<&[u8]>,
        banner: &mut (dyn FnMut(Vec<u8>) + Send),
    ) -> Result<Connection, DialError> {
        let stream = self.connector.connect(target).await?;
        let config = self.config(&target.host_key);
        let mut machine = Connection::start(config, stream, self.workers.clone())?;
        let mut expected = Vec::new();
        // A vector takes whatever is written.
        let _ = target.host_key.key_data().encode(&mut expected);
        loop {
            match machine.next().await? {
                Event::HostKey(shown) if shown == expected => machine.trust()?,
                Event::HostKey(shown) => {
                    let shown = PublicKey::from_bytes(&shown);
                    let shown = shown.map_or_else(|_| "another".to_owned(), |it| fingerprint(&it));
                    let why = Disconnect::new(Reason::HOST_KEY_NOT_VERIFIABLE, "");
                    machine.end(&why, GOODBYE).await;
                    return Err(DialError::HostKey {
                        expected: fingerprint(&target.host_key),
                        shown,
                    });
                }
                Event::Keyed => break,
                // None comes before.
                Event::Message { .. } => {}
            }
        }
        let (login, first) = login::Client::start(target.user.as_bytes());
        machine.send(&first, &[])?;
        let mut knock = Knock {
            machine,
            login,
            banner,
        };
        match knock.log_in(target, password).await {
            Ok(()) => Ok(knock.machine),
            Err(error) => {
                let why = Disconnect::new(Reason::BY_APPLICATION, "");
                knock.machine.end(&why, GOODBYE).await;
                Err(error)
            }
        }
    }

    /// A machine has several host keys and shows the first that both sides know: only the
    /// kind that is expected is asked for.
    fn config(&self, host_key: &PublicKey) -> Arc<transport::Config> {
        let kinds = Algorithm::of(host_key.key_data());
        let mut configs = self.configs.lock();
        let config = configs.entry(kinds).or_insert_with(|| {
            let config = transport::Config::client(VERSION, kinds.to_vec());
            Arc::new(transport::Config {
                methods: METHODS.to_vec(),
                rekey_after: Some(self.rekey_after),
                ..config
            })
        });
        Arc::clone(config)
    }
}

/// A login at a machine.
struct Knock<'a> {
    machine: Connection,
    login: login::Client,
    banner: &'a mut (dyn FnMut(Vec<u8>) + Send),
}

impl Knock<'_> {
    /// The machine's next answer; its words go to the user.
    async fn answer(&mut self) -> Result<Answered, DialError> {
        loop {
            let Event::Message { sequence } = self.machine.next().await? else {
                continue;
            };
            match self.login.take(self.machine.message())? {
                Answered::Banner(words) => (self.banner)(words),
                Answered::Unimplemented => self.machine.unimplemented(sequence)?,
                answered => return Ok(answered),
            }
        }
    }

    async fn log_in(&mut self, target: &Target, password: Option<&[u8]>) -> Result<(), DialError> {
        let Answered::Ready = self.answer().await? else {
            return Err(DialError::Ssh("it answers what was not asked".to_owned()));
        };
        match &target.credential {
            Credential::Key(key) => self.by_key(&target.user, key).await,
            Credential::UsersPassword => {
                let password = password.ok_or(DialError::NoPassword)?;
                self.by_password(&target.user, password).await
            }
        }
    }

    async fn by_key(&mut self, user: &str, key: &PrivateKey) -> Result<(), DialError> {
        let key = SigningKey::new(key).map_err(|error| DialError::Ssh(error.to_string()))?;
        let transport = self.machine.transport();
        let session = transport.session_id().unwrap_or_default();
        let known = transport.peer_algorithms();
        let verifies = |it: &&Algorithm| known.is_none_or(|known| known.contains(it));
        let algorithm = key.algorithms().iter().find(verifies);
        let algorithm = algorithm.or_else(|| key.algorithms().first());
        let algorithm = *algorithm.ok_or_else(|| DialError::Refused(user.to_owned()))?;
        let tries = self.login.key(session, &key, algorithm)?;
        self.machine.send(&tries, &[])?;
        match self.answer().await? {
            Answered::Success => Ok(()),
            _ => Err(DialError::Refused(user.to_owned())),
        }
    }

    async fn by_password(&mut self, user: &str, password: &[u8]) -> Result<(), DialError> {
        let tries = self.login.password(password)?;
        self.machine.send(&tries, &[])?;
        let has = |methods: &[Vec<u8>], name: &str| methods.iter().any(|it| it == name.as_bytes());
        match self.answer().await? {
            Answered::Success => Ok(()),
            Answered::Failure { in_part: true, .. } | Answered::ChangePassword => {
                Err(DialError::MoreThanPassword(user.to_owned()))
            }
            // Only a machine that does not know the method at all is asked by the
            // other one: it would count one wrong password twice.
            Answered::Failure { methods, .. }
                if !has(&methods, "password") && has(&methods, "keyboard-interactive") =>
            {
                self.by_questions(user, password).await
            }
            _ => Err(DialError::Password(user.to_owned())),
        }
    }

    /// Keyboard-interactive, where it comes down to one hidden question.
    async fn by_questions(&mut self, user: &str, password: &[u8]) -> Result<(), DialError> {
        let asks = self.login.interactive()?;
        self.machine.send(&asks, &[])?;
        let mut answered = false;
        for _ in 0..ROUNDS {
            let answers = match self.answer().await? {
                Answered::Success => return Ok(()),
                Answered::Failure { in_part: false, .. } => {
                    return Err(DialError::Password(user.to_owned()));
                }
                Answered::Questions(asked) => match &asked.questions[..] {
                    [] => self.login.answers(&[])?,
                    [question] if !question.echo && !answered => {
                        answered = true;
                        self.login.answers(&[password])?
                    }
                    _ => break,
                },
                _ => break,
            };
            self.machine.send(&answers, &[])?;
        }
        Err(DialError::MoreThanPassword(user.to_owned()))
    }
}

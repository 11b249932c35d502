//! The proxy itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kite_ssh_relay::io::{Connection, ConnectionError, Eager, Event, Workers};
use kite_ssh_relay::login::{self, Answered, Asked, LoginError, Methods, Prompt, Request};
use kite_ssh_relay::message::{Disconnect, Reason};
use kite_ssh_relay::relay::{Ended, Everything, Held, Settings, hold, relay};
use kite_ssh_relay::sign::SigningKey;
use kite_ssh_relay::transport::{Config, TransportError};
use ssh_key::public::KeyData;
use tokio::net::{TcpListener, TcpStream};

/// What a proxy knows.
pub struct Proxy {
    /// Towards users.
    pub to_user: Arc<Config>,
    /// Towards the server.
    pub to_server: Arc<Config>,
    /// What users are told of.
    pub settings: Settings,
    /// The key that lets a user in.
    pub user_key: KeyData,
    /// The password that does.
    pub password: Vec<u8>,
    /// The key that lets the proxy in.
    pub server_user: SigningKey,
    /// The host key of the server, as messages carry it.
    pub server_host_key: Vec<u8>,
    /// Where the server is.
    pub server: SocketAddr,
    /// How long the server takes to be there.
    pub late: Duration,
    /// Where keys are exchanged.
    pub workers: Workers,
}

/// Why somebody is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A connection ends.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A login breaks the protocol.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The server has another host key, or does not let the proxy in.
    #[error("the server {0}")]
    Server(&'static str),
}

impl From<TransportError> for ServeError {
    fn from(error: TransportError) -> Self {
        Self::Connection(error.into())
    }
}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> Self {
        Self::Connection(error.into())
    }
}

const METHODS: Methods = Methods {
    key: true,
    password: true,
    interactive: true,
};

/// How long a peer may take to read why its connection ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// Serves whoever comes, for ever.
pub async fn serve(listener: TcpListener, proxy: Arc<Proxy>) {
    while let Ok((stream, _)) = listener.accept().await {
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            match proxy.user(stream).await {
                Ok(ended) => eprintln!("proxy: {ended}"),
                Err(error) => eprintln!("proxy: {error}"),
            }
        });
    }
}

impl Proxy {
    async fn user(&self, stream: TcpStream) -> Result<Ended, ServeError> {
        stream.set_nodelay(true)?;
        let config = Arc::clone(&self.to_user);
        let mut user = Connection::start(config, Eager::new(stream), self.workers.clone())?;
        let name = match self.log_in(&mut user).await {
            Ok(name) => name,
            Err(error) => return Err(goodbye(user, error).await),
        };
        // The user may go on while the server comes.
        let mut held = Held::default();
        match hold(&mut user, &mut held, self.enter(&name)).await? {
            Ok(server) => {
                let never = std::future::pending();
                let mut rules = Everything;
                Ok(relay(user, server, held, &self.settings, &mut rules, never).await)
            }
            Err(error) => Err(goodbye(user, error).await),
        }
    }

    /// Lets a user in; the name that they log in to.
    async fn log_in(&self, user: &mut Connection) -> Result<Vec<u8>, ServeError> {
        let mut login = None;
        loop {
            match user.next().await? {
                Event::HostKey(_) => {}
                Event::Keyed => {
                    let transport = user.transport();
                    let session = transport.session_id().unwrap_or_default();
                    let host_key = transport.host_key().unwrap_or_default();
                    login = Some(login::Server::new(session, host_key));
                }
                Event::Message { sequence } => {
                    let Some(login) = &mut login else { continue };
                    match login.take(user.message())? {
                        Asked::Reply(reply) => user.send(&reply, &[])?,
                        Asked::Nothing => {}
                        Asked::Unimplemented => user.unimplemented(sequence)?,
                        Asked::Request {
                            user: name,
                            request,
                        } => {
                            let answer = self.decide(login, request).await?;
                            user.send(&answer, &[])?;
                            if login.is_done() {
                                return Ok(name);
                            }
                        }
                    }
                }
            }
        }
    }

    async fn decide(
        &self,
        login: &mut login::Server,
        request: Request,
    ) -> Result<Vec<u8>, LoginError> {
        let is_right = |password: &[u8]| {
            // One that takes as long for a wrong password as for the right one.
            aws_lc_rs::constant_time::verify_slices_are_equal(password, &self.password).is_ok()
        };
        match request {
            Request::Probe(offered) if offered.key == self.user_key => login.try_key(),
            Request::Key(offered, proof) if offered.key == self.user_key => {
                let verified = self.workers.run(move || proof.verify()).await;
                match verified.ok().flatten() {
                    Some(Ok(verified)) => {
                        login.verified(&verified)?;
                        login.accept()
                    }
                    _ => login.reject(METHODS),
                }
            }
            Request::Password(password) if is_right(&password) => login.accept(),
            Request::Interactive => {
                let prompt = Prompt {
                    text: "Password: ".into(),
                    echo: false,
                };
                login.ask("", &[prompt])
            }
            Request::Answers(answers) if matches!(&answers[..], [it] if is_right(it)) => {
                login.accept()
            }
            _ => login.reject(METHODS),
        }
    }

    /// Logs in to the server.
    async fn enter(&self, name: &[u8]) -> Result<Connection, ServeError> {
        tokio::time::sleep(self.late).await;
        let stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        let config = Arc::clone(&self.to_server);
        let mut server = Connection::start(config, Eager::new(stream), self.workers.clone())?;
        let (mut login, first) = login::Client::start(name);
        loop {
            match server.next().await? {
                Event::HostKey(key) if key == self.server_host_key => server.trust()?,
                Event::HostKey(_) => return Err(ServeError::Server("has another host key")),
                Event::Keyed => server.send(&first, &[])?,
                Event::Message { sequence } => match login.take(server.message())? {
                    Answered::Ready => {
                        let session = server.transport().session_id().unwrap_or_default();
                        let algorithm = self.server_user.algorithms()[0];
                        let tries = login.key(session, &self.server_user, algorithm)?;
                        server.send(&tries, &[])?;
                    }
                    Answered::Success => return Ok(server),
                    Answered::Unimplemented => server.unimplemented(sequence)?,
                    Answered::Banner(_) => {}
                    Answered::Failure { .. }
                    | Answered::Questions(_)
                    | Answered::ChangePassword => {
                        return Err(ServeError::Server("does not take the proxy's key"));
                    }
                },
            }
        }
    }
}

/// Tells a user why they are not served.
async fn goodbye(user: Connection, error: ServeError) -> ServeError {
    let reason = match &error {
        ServeError::Login(error) => error.reason(),
        _ => Reason::BY_APPLICATION,
    };
    let told = Disconnect::new(reason, error.to_string());
    user.end(&told, PATIENCE).await;
    error
}

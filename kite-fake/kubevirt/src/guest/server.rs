//! The guest's sshd.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use russh::keys::PublicKey;
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handler, Msg, PublicKeyOffer, Response, Session as SshSession,
    VerifiedPublicKey,
};
use russh::{Channel, ChannelId, ChannelWriteHalf, MethodKind, MethodSet, Pty, Sig, SshId};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::config::{GuestConfig, GuestError, Passwords};
use super::console::Consoles;
use super::cut::Cut;
use super::inlet::Inlet;
use super::session::{Session, Work};
use super::shell::{Machine, Shell};

/// The window that a client gets on each channel, in bytes.
const WINDOW: u32 = 2 * 1024 * 1024;
/// Channels that one connection may have open.
const MAX_CHANNELS: usize = 64;

/// Starts guests.
#[derive(Debug)]
pub struct Guest;

/// A running guest; dropping it pulls the plug.
#[derive(Debug)]
pub struct GuestHandle {
    address: SocketAddr,
    host_key: PublicKey,
    consoles: Consoles,
    plug: DropGuard,
    accepting: tokio::task::JoinHandle<()>,
}

impl Guest {
    /// Boots a guest: its sshd listens when this returns.
    ///
    /// # Errors
    ///
    /// [`GuestError::Listen`] when the port cannot be had.
    pub async fn start(config: GuestConfig) -> Result<GuestHandle, GuestError> {
        let listen_error = |error| GuestError::Listen {
            address: config.listen,
            error,
        };
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let host_key = config.host_key.public_key().clone();
        let machine = Machine {
            hostname: config.hostname.clone(),
            user: config.user.clone(),
            disk: config.home.clone(),
        };
        // A full disk has no room for a home; the shell says so on each command.
        let _ = machine.disk.create_dir_all(&machine.home_dir());
        let token = CancellationToken::new();
        let consoles = Consoles::of(machine.clone(), token.clone());
        let shared = Arc::new(Shared {
            ssh: Arc::new(ssh_config(&config)),
            authorized_keys: config.authorized_keys,
            passwords: config.passwords,
            machine,
            token: token.clone(),
        });
        let accepting = tokio::spawn(accept(listener, shared));
        Ok(GuestHandle {
            address,
            host_key,
            consoles,
            plug: token.drop_guard(),
            accepting,
        })
    }
}

impl GuestHandle {
    /// Where the guest's sshd listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key by which clients know the guest.
    pub fn host_key(&self) -> &PublicKey {
        &self.host_key
    }

    /// Its serial line and screen, which end with it.
    pub fn consoles(&self) -> Consoles {
        self.consoles.clone()
    }

    /// Pulls the plug: connections break, the port is free when this returns.
    /// The disk ([`GuestConfig::home`]) stays with whoever holds it.
    pub async fn stop(self) {
        drop(self.plug);
        // The task ends by the token; that it panicked would be no news here.
        let _ = self.accepting.await;
    }
}

struct Shared {
    ssh: Arc<Config>,
    authorized_keys: Vec<PublicKey>,
    passwords: Passwords,
    machine: Machine,
    token: CancellationToken,
}

fn ssh_config(config: &GuestConfig) -> Config {
    let mut methods = MethodSet::from(&[MethodKind::PublicKey][..]);
    match &config.passwords {
        Passwords::Refused => {}
        Passwords::Plain(_) => methods.push(MethodKind::Password),
        Passwords::Asked(_) => methods.push(MethodKind::KeyboardInteractive),
    }
    Config {
        server_id: SshId::Standard("SSH-2.0-KiteGuest".into()),
        methods,
        keys: vec![config.host_key.clone()],
        auth_rejection_time: Duration::ZERO,
        auth_rejection_time_initial: Some(Duration::ZERO),
        inactivity_timeout: None,
        window_size: WINDOW,
        nodelay: true,
        ..Config::default()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let stream = tokio::select! {
            () = shared.token.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "guest cannot accept a connection");
                    // Most often too many open files: give others time to close some.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        tokio::spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "guest cannot set TCP_NODELAY");
    }
    let connection = Connection {
        channels: HashMap::new(),
        gone: Gone(shared.token.child_token()),
        shared: Arc::clone(&shared),
    };
    let stream = Cut::new(stream, &shared.token);
    match russh::server::run_stream(Arc::clone(&shared.ssh), stream, connection).await {
        Ok(session) => {
            if let Err(error) = session.await {
                tracing::debug!(%error, "guest connection ended");
            }
        }
        Err(error) => tracing::debug!(%error, "guest handshake failed"),
    }
}

/// A session channel before and while its work runs.
struct Chan {
    inlet: Inlet,
    writer: Arc<ChannelWriteHalf<Msg>>,
    shell: Option<Shell>,
    pty: bool,
    cancel: CancellationToken,
}

struct Connection {
    shared: Arc<Shared>,
    channels: HashMap<ChannelId, Chan>,
    gone: Gone,
}

/// Ends the work of all channels when the connection is dropped.
struct Gone(CancellationToken);

impl Gone {
    fn child_token(&self) -> CancellationToken {
        self.0.child_token()
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Connection {
    fn authorized(&self, user: &str, key: &PublicKey) -> Auth {
        let known = self
            .shared
            .authorized_keys
            .iter()
            .any(|k| k.key_data() == key.key_data());
        if known && user == self.shared.machine.user {
            Auth::Accept
        } else {
            Auth::reject()
        }
    }

    fn fits(&self, user: &str, password: &str, right: Option<&str>) -> Auth {
        if right == Some(password) && user == self.shared.machine.user {
            Auth::Accept
        } else {
            Auth::reject()
        }
    }

    /// Starts the channel's one piece of work; a second request fails.
    fn start(
        &mut self,
        id: ChannelId,
        work: Option<Work>,
        session: &mut SshSession,
    ) -> Result<(), russh::Error> {
        let (Some(work), Some(chan)) = (work, self.channels.get_mut(&id)) else {
            return session.channel_failure(id);
        };
        let Some(shell) = chan.shell.take() else {
            return session.channel_failure(id);
        };
        let running = Session {
            id,
            handle: session.handle(),
            writer: Arc::clone(&chan.writer),
            outlet: chan.inlet.outlet(),
            shell,
            pty: chan.pty,
            cancel: chan.cancel.clone(),
        };
        tokio::spawn(running.run(work));
        session.channel_success(id)
    }
}

impl Handler for Connection {
    type Error = russh::Error;

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.authorized(user, offer.public_key))
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.authorized(user, key.public_key))
    }

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, Self::Error> {
        let right = match &self.shared.passwords {
            Passwords::Plain(right) => Some(right.as_str()),
            Passwords::Refused | Passwords::Asked(_) => None,
        };
        Ok(self.fits(user, password, right))
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        user: &str,
        _submethods: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, Self::Error> {
        let Passwords::Asked(right) = &self.shared.passwords else {
            return Ok(Auth::reject());
        };
        let Some(mut response) = response else {
            return Ok(Auth::Partial {
                name: "".into(),
                instructions: "".into(),
                prompts: vec![("Password: ".into(), false)].into(),
            });
        };
        let answer = response.next().unwrap_or_default();
        Ok(self.fits(user, &String::from_utf8_lossy(&answer), Some(right)))
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        self.channels.retain(|_, chan| !chan.cancel.is_cancelled());
        if self.channels.len() >= MAX_CHANNELS {
            reply
                .reject(russh::ChannelOpenFailure::ResourceShortage)
                .await;
            return Ok(());
        }
        let (reader, writer) = channel.split();
        // Data comes by the callbacks below; an unread half would fill up and
        // stop the whole connection.
        drop(reader);
        self.channels.insert(
            writer.id(),
            Chan {
                inlet: Inlet::default(),
                writer: Arc::new(writer),
                shell: Some(Shell::new(self.shared.machine.clone())),
                pty: false,
                cancel: self.gone.child_token(),
            },
        );
        reply.accept().await;
        Ok(())
    }

    async fn pty_request(
        &mut self,
        id: ChannelId,
        term: &str,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        _modes: &[(Pty, u32)],
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        match self.channels.get_mut(&id) {
            Some(Chan {
                shell: Some(shell),
                pty,
                ..
            }) => {
                *pty = true;
                shell.set_var("TERM", term.to_owned());
                session.channel_success(id)
            }
            _ => session.channel_failure(id),
        }
    }

    async fn env_request(
        &mut self,
        id: ChannelId,
        name: &str,
        value: &str,
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        match self.channels.get_mut(&id) {
            Some(Chan {
                shell: Some(shell), ..
            }) => {
                shell.set_var(name, value.to_owned());
                session.channel_success(id)
            }
            _ => session.channel_failure(id),
        }
    }

    async fn window_change_request(
        &mut self,
        id: ChannelId,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        session.channel_success(id)
    }

    async fn shell_request(
        &mut self,
        id: ChannelId,
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        self.start(id, Some(Work::Shell), session)
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        let command = String::from_utf8_lossy(command).into_owned();
        self.start(id, Some(Work::Exec(command)), session)
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        name: &str,
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        let work = (name == "sftp").then_some(Work::Sftp);
        self.start(id, work, session)
    }

    async fn signal(
        &mut self,
        id: ChannelId,
        signal: Sig,
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        if let Some(chan) = self.channels.get(&id)
            && matches!(
                signal,
                Sig::TERM | Sig::KILL | Sig::INT | Sig::HUP | Sig::QUIT
            )
        {
            session.exit_signal_request(id, signal, false, "", "")?;
            chan.cancel.cancel();
        }
        Ok(())
    }

    async fn data(
        &mut self,
        id: ChannelId,
        data: &[u8],
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        if let Some(chan) = self.channels.get(&id)
            && !chan.inlet.push(data)
        {
            tracing::warn!(channel = %id, "guest channel ended: far more data than its window");
            chan.cancel.cancel();
            session.close(id)?;
        }
        Ok(())
    }

    async fn channel_eof(
        &mut self,
        id: ChannelId,
        _session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        if let Some(chan) = self.channels.get(&id) {
            chan.inlet.end();
        }
        Ok(())
    }

    async fn channel_close(
        &mut self,
        id: ChannelId,
        _session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        if let Some(chan) = self.channels.remove(&id) {
            chan.inlet.end();
            chan.cancel.cancel();
        }
        Ok(())
    }

    fn adjust_window(&mut self, id: ChannelId, _current: u32) -> u32 {
        self.channels
            .get(&id)
            .map_or(WINDOW, |chan| chan.inlet.window(WINDOW))
    }
}

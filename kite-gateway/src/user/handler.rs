//! Takes what a user sends. Nothing here waits for anything but the decision on
//! a login and, for a moment, the machine's answer to a channel request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use russh::server::{
    Auth, ChannelOpenHandle, Handle, Handler, Msg, PublicKeyOffer, Response, Session,
    VerifiedPublicKey,
};
use russh::{Channel, ChannelId, ChannelOpenFailure, Pty, Sig};
use tokio::time::Instant;

use super::bridge::{Bridge, Kind};
use super::conn::Conn;
use super::forwards::{Forwards, Listen};
use super::link::Link;
use super::login::{INTERACTIVE, Proven, ask_for_password, reject};
use super::progress::Progress;
use crate::audit::Purpose;
use crate::auth::{Proof, Verdict};
use crate::flow::{Item, Pace, Windows};
use crate::recording::{Recordings, Terminal};
use crate::secret::Secret;
use crate::vm::{Request, Requests};

/// A queue that is longer than this ends its channel: no window allows it.
const HARD_CAP: usize = 32 * 1024 * 1024;
/// `SSH_OPEN_RESOURCE_SHORTAGE` (RFC 4254 §5.1).
const RESOURCE_SHORTAGE: u32 = 4;

/// The handler of one user's connection.
pub(crate) struct UserHandler {
    pub(super) conn: Arc<Conn>,
    accepted: Instant,
    pace: Arc<Pace>,
    progress: Arc<Progress>,
    pub(super) passwords: usize,
    offers: usize,
    /// What was proven so far, where more than one thing has to be.
    pub(super) proven: Option<Proven>,
    /// The password that the machine itself took.
    pub(super) relayed: Option<Secret>,
    windows: Windows,
    forwards: Forwards,
}

impl Drop for UserHandler {
    fn drop(&mut self) {
        self.conn.gone.cancel();
    }
}

impl UserHandler {
    pub(crate) fn new(conn: Arc<Conn>, pace: Arc<Pace>, progress: Arc<Progress>) -> Self {
        Self {
            conn,
            accepted: Instant::now(),
            pace,
            progress,
            passwords: 0,
            offers: 0,
            proven: None,
            relayed: None,
            windows: Windows::default(),
            forwards: Forwards::default(),
        }
    }

    /// Starts to bridge a channel; the bridge answers the request to open it.
    async fn open(
        &mut self,
        channel: Channel<Msg>,
        kind: Kind,
        detail: Option<String>,
        reply: ChannelOpenHandle,
        handle: Handle,
    ) {
        let paid = match self.conn.pay() {
            Ok(paid) => paid,
            Err(reason) => {
                let code = RESOURCE_SHORTAGE;
                reply
                    .reject(ChannelOpenFailure::Other { code, reason })
                    .await;
                return;
            }
        };
        // Data comes by the callbacks below; an unread half would fill up and
        // stop the whole connection.
        let (_, writer) = channel.split();
        let id = writer.id().into();
        let (requests, receiver) = Requests::new();
        let link = Arc::new(Link::new(
            requests,
            self.conn.gone.child_token(),
            &self.conn.shared.metrics,
            self.conn.share().cloned(),
            kind.purpose(),
            detail.as_deref(),
        ));
        self.conn.insert(id, Arc::clone(&link));
        let bridge = Bridge {
            conn: Arc::clone(&self.conn),
            kind,
            link,
            writer,
            handle,
            reply: Some(reply),
            requests: receiver,
            _paid: paid,
        };
        self.conn.shared.tasks.spawn(bridge.run());
    }

    /// Passes a request on that starts something, and notes what.
    async fn start(
        &mut self,
        id: ChannelId,
        request: Request,
        purpose: Purpose,
        text: &str,
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        let link = self.conn.link(id.into());
        if let Some(link) = &link {
            link.describe(purpose, text, false);
            let is_sftp = matches!(&request, Request::Subsystem(name) if name == "sftp");
            let recordings = self.conn.shared.recordings.as_ref();
            if !is_sftp
                && !link.is_local()
                && let Some(terminal) = recordings.and_then(Recordings::without_terminal)
            {
                // One that was asked for stays.
                let _ = link.terminal.set(terminal);
            }
        }
        let accepted = self.request(id, request, true, |_| {}, session).await?;
        if let Some(link) = link.filter(|_| accepted) {
            link.describe(purpose, text, true);
        }
        Ok(())
    }

    /// Passes a request on and its answer back. `granted` is called when the machine
    /// says yes, also when that is late.
    ///
    /// russh keeps one flag per channel for "an answer is wanted", so answers
    /// must be given before the next request is looked at: the machine's answer
    /// is waited for here, but only for a moment, as it holds up the connection.
    /// An answer that comes later is passed on as well, for what it is worth.
    async fn request(
        &mut self,
        id: ChannelId,
        request: Request,
        starts: bool,
        granted: fn(&Link),
        session: &mut Session,
    ) -> Result<bool, russh::Error> {
        let Some(link) = self.conn.link(id.into()) else {
            session.channel_failure(id)?;
            return Ok(false);
        };
        if link.is_local() {
            session.channel_success(id)?;
            if starts {
                link.start();
            }
            return Ok(true);
        }
        let Some(mut answer) = link.ask(request) else {
            session.channel_failure(id)?;
            return Ok(false);
        };
        let patience = self.conn.shared.config.request_patience;
        match tokio::time::timeout(patience, &mut answer).await {
            Ok(Ok(true)) => {
                granted(&link);
                session.channel_success(id)?;
                Ok(true)
            }
            Ok(_) => {
                session.channel_failure(id)?;
                Ok(false)
            }
            Err(_) => {
                let handle = session.handle();
                tokio::spawn(async move {
                    // Fails only when the user is gone.
                    let _ = match answer.await {
                        Ok(true) => {
                            granted(&link);
                            handle.channel_success(id).await
                        }
                        _ => handle.channel_failure(id).await,
                    };
                });
                Ok(false)
            }
        }
    }

    fn take(
        &mut self,
        id: ChannelId,
        item: Item,
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        let length = match &item {
            Item::Data(data) | Item::Extended(_, data) => data.len(),
            _ => 0,
        };
        self.windows.received(id.into(), length);
        self.conn.carries();
        let Some(link) = self.conn.link(id.into()) else {
            return Ok(());
        };
        if link.up.push(item) > HARD_CAP {
            tracing::warn!(
                connection = self.conn.number,
                channel = %id,
                "channel ended: the user sends more than its window allows"
            );
            link.gone.cancel();
            session.close(id)?;
        }
        Ok(())
    }
}

impl Handler for UserHandler {
    type Error = russh::Error;

    /// Comes with the first thing that a client asks for once keys are exchanged.
    async fn authentication_banner(&mut self) -> Result<Option<String>, Self::Error> {
        self.progress.is_keyed();
        Ok(None)
    }

    async fn auth_none(&mut self, _user: &str) -> Result<Auth, Self::Error> {
        Ok(reject())
    }

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, Self::Error> {
        Ok(self.check_password("password", user, password).await)
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        user: &str,
        _submethods: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, Self::Error> {
        let Some(mut response) = response else {
            return Ok(ask_for_password(""));
        };
        let answer = response.next().unwrap_or_default();
        let password = String::from_utf8_lossy(&answer).into_owned();
        Ok(self.check_password(INTERACTIVE, user, &password).await)
    }

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        // russh counts offers that are refused, and no others.
        self.offers += 1;
        if self.offers > self.conn.shared.config.max_auth_requests {
            return Ok(reject());
        }
        let (key, algorithm) = (offer.public_key, offer.algorithm);
        let (_, _, verdict) = self.check_key(user, key, algorithm).await;
        let is_right = verdict == Verdict::Accept;
        Ok(if is_right { Auth::Accept } else { reject() })
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        let (key, algorithm) = (key.public_key, key.algorithm);
        let (login, route, verdict) = self.check_key(user, key, algorithm).await;
        let proof = Proof::Key(Box::new(key.clone()));
        Ok(self.decide("publickey", login, route.as_deref(), verdict, proof))
    }

    async fn auth_succeeded(&mut self, session: &mut Session) -> Result<(), Self::Error> {
        let client = String::from_utf8_lossy(session.remote_sshid()).into_owned();
        // A connection logs in once.
        let _ = self.conn.client.set(client);
        self.conn.keep(session.handle());
        self.progress.is_logged_in();
        let metrics = &self.conn.shared.metrics;
        metrics
            .login_seconds
            .observe(self.accepted.elapsed().as_secs_f64());
        Ok(())
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.open(channel, Kind::Session, None, reply, session.handle())
            .await;
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        originator: &str,
        originator_port: u32,
        reply: ChannelOpenHandle,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let detail = format!("{host}:{port}");
        let kind = Kind::DirectTcpip {
            host: host.to_owned(),
            port,
            originator: originator.to_owned(),
            originator_port,
        };
        self.open(channel, kind, Some(detail), reply, session.handle())
            .await;
        Ok(())
    }

    async fn channel_open_direct_streamlocal(
        &mut self,
        channel: Channel<Msg>,
        path: &str,
        reply: ChannelOpenHandle,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let path = path.to_owned();
        let kind = Kind::DirectStreamlocal { path: path.clone() };
        self.open(channel, kind, Some(path), reply, session.handle())
            .await;
        Ok(())
    }

    async fn pty_request(
        &mut self,
        id: ChannelId,
        term: &str,
        columns: u32,
        rows: u32,
        width: u32,
        height: u32,
        modes: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        if let Some(link) = self.conn.link(id.into()) {
            link.interactive.store(true, Ordering::Relaxed);
            // Before the machine has said yes: it may do so when nobody waits any more.
            if self.conn.shared.recordings.is_some() && !link.is_local() {
                let terminal = Terminal {
                    term: term.to_owned(),
                    columns,
                    rows,
                };
                // A session has one terminal.
                let _ = link.terminal.set(terminal);
            }
        }
        let request = Request::Pty {
            term: term.to_owned(),
            columns,
            rows,
            width,
            height,
            modes: modes.to_vec(),
        };
        self.request(id, request, false, |_| {}, session)
            .await
            .map(drop)
    }

    async fn env_request(
        &mut self,
        id: ChannelId,
        name: &str,
        value: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let request = Request::Env(name.to_owned(), value.to_owned());
        self.request(id, request, false, |_| {}, session)
            .await
            .map(drop)
    }

    async fn shell_request(
        &mut self,
        id: ChannelId,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.start(id, Request::Shell, Purpose::Shell, "", session)
            .await
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let request = Request::Exec(command.to_vec());
        let purpose = Purpose::of_command(command);
        let text = String::from_utf8_lossy(command);
        self.start(id, request, purpose, &text, session).await
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let request = Request::Subsystem(name.to_owned());
        let text = format!("subsystem {name}");
        self.start(id, request, Purpose::of_subsystem(name), &text, session)
            .await
    }

    async fn window_change_request(
        &mut self,
        id: ChannelId,
        columns: u32,
        rows: u32,
        width: u32,
        height: u32,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if let Some(link) = self.conn.link(id.into()) {
            if let Some(recording) = link.recording.get() {
                recording.resized(columns, rows);
            }
            link.ask(Request::WindowChange {
                columns,
                rows,
                width,
                height,
            });
        }
        Ok(())
    }

    async fn signal(
        &mut self,
        id: ChannelId,
        signal: Sig,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if let Some(link) = self.conn.link(id.into()) {
            link.ask(Request::Signal(signal));
        }
        Ok(())
    }

    async fn data(
        &mut self,
        id: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.take(id, Item::Data(Bytes::copy_from_slice(data)), session)
    }

    async fn extended_data(
        &mut self,
        id: ChannelId,
        kind: u32,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let data = Bytes::copy_from_slice(data);
        self.take(id, Item::Extended(kind, data), session)
    }

    async fn channel_eof(
        &mut self,
        id: ChannelId,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if let Some(link) = self.conn.link(id.into()) {
            link.up.push(Item::Eof);
        }
        Ok(())
    }

    async fn channel_close(
        &mut self,
        id: ChannelId,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.windows.closed(id.into());
        self.conn.closed(id.into());
        Ok(())
    }

    async fn channel_open_confirmation(
        &mut self,
        id: ChannelId,
        _max_packet: u32,
        _window: u32,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        // A channel that the gateway opened towards the user: data may follow
        // before the task that opened it knows.
        self.conn.adopt(id.into());
        Ok(())
    }

    async fn agent_request(
        &mut self,
        id: ChannelId,
        session: &mut Session,
    ) -> Result<bool, Self::Error> {
        self.request(id, Request::Agent, false, Link::allow_agent, session)
            .await
    }

    async fn x11_request(
        &mut self,
        id: ChannelId,
        single: bool,
        protocol: &str,
        cookie: &str,
        screen: u32,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let request = Request::X11 {
            single,
            protocol: protocol.to_owned(),
            cookie: cookie.to_owned(),
            screen,
        };
        self.request(id, request, false, Link::allow_x11, session)
            .await
            .map(drop)
    }

    async fn tcpip_forward(
        &mut self,
        address: &str,
        port: &mut u32,
        _session: &mut Session,
    ) -> Result<bool, Self::Error> {
        let listen = Listen::Tcp(address.to_owned(), *port);
        match self.forwards.start(&self.conn, listen).await {
            Some(chosen) => {
                *port = chosen;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    async fn cancel_tcpip_forward(
        &mut self,
        address: &str,
        port: u32,
        _session: &mut Session,
    ) -> Result<bool, Self::Error> {
        let listen = Listen::Tcp(address.to_owned(), port);
        Ok(self.forwards.stop(&listen))
    }

    async fn streamlocal_forward(
        &mut self,
        path: &str,
        _session: &mut Session,
    ) -> Result<bool, Self::Error> {
        let listen = Listen::Socket(path.to_owned());
        Ok(self.forwards.start(&self.conn, listen).await.is_some())
    }

    async fn cancel_streamlocal_forward(
        &mut self,
        path: &str,
        _session: &mut Session,
    ) -> Result<bool, Self::Error> {
        Ok(self.forwards.stop(&Listen::Socket(path.to_owned())))
    }

    fn adjust_window(&mut self, id: ChannelId, target: u32) -> u32 {
        let conn = &self.conn;
        let next = self
            .windows
            .adjusted(id.into(), target, |number| conn.is_over(number));
        if conn.is_over(id.into()) == Some(true) {
            self.pace.rest();
        }
        next
    }
}

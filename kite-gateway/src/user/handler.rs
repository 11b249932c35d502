//! Takes what a user sends. Nothing here waits for anything but the decision on
//! a login and, for a moment, the machine's answer to a channel request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;
use russh::keys::PublicKey;
use russh::server::{
    Auth, ChannelOpenHandle, Handle, Handler, Msg, PublicKeyOffer, Response, Session,
    VerifiedPublicKey,
};
use russh::{Channel, ChannelId, ChannelOpenFailure, Pty, Sig};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::bridge::{Bridge, Kind};
use super::link::Link;
use super::serve::{Progress, Shared, methods};
use crate::audit::{Event, Record};
use crate::auth::Verdict;
use crate::flow::{Item, Pace, Windows};
use crate::metrics::{LoginLabels, Outcome};
use crate::route::{LoginName, Route, VmKey};
use crate::vm::{Request, Requests};

/// A queue that is longer than this ends its channel: no window allows it.
const HARD_CAP: usize = 32 * 1024 * 1024;
/// `SSH_OPEN_RESOURCE_SHORTAGE` (RFC 4254 §5.1).
const RESOURCE_SHORTAGE: u32 = 4;

/// The handler of one user's connection.
pub(crate) struct UserHandler {
    shared: Arc<Shared>,
    connection: u64,
    peer: SocketAddr,
    accepted: Instant,
    pace: Arc<Pace>,
    progress: Arc<Mutex<Progress>>,
    logged_in: CancellationToken,
    /// Who logged in, and to which machine.
    user: Option<(LoginName, VmKey)>,
    passwords: usize,
    channels: HashMap<ChannelId, Arc<Link>>,
    windows: Windows,
    gone: CancellationToken,
}

impl Drop for UserHandler {
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

impl UserHandler {
    pub(crate) fn new(
        shared: Arc<Shared>,
        connection: u64,
        peer: SocketAddr,
        pace: Arc<Pace>,
        progress: Arc<Mutex<Progress>>,
        logged_in: CancellationToken,
    ) -> Self {
        Self {
            shared,
            connection,
            peer,
            accepted: Instant::now(),
            pace,
            progress,
            logged_in,
            user: None,
            passwords: 0,
            channels: HashMap::new(),
            windows: Windows::default(),
            gone: CancellationToken::new(),
        }
    }

    fn route(&self, user: &str) -> (Option<LoginName>, Option<Arc<Route>>) {
        let login = LoginName::parse(user);
        let route = login.as_ref().and_then(|l| self.shared.routes.find(l));
        (login, route)
    }

    /// Writes a decision down and turns it into the answer.
    fn decide(
        &mut self,
        method: &'static str,
        login: Option<LoginName>,
        route: Option<&Route>,
        verdict: Verdict,
    ) -> Auth {
        let accepted = verdict == Verdict::Accept;
        let outcome = if accepted {
            Outcome::Accepted
        } else {
            Outcome::Rejected
        };
        self.shared
            .metrics
            .logins_total
            .get_or_create(&LoginLabels { method, outcome })
            .inc();
        self.shared.audit.record(&Record {
            time: jiff::Timestamp::now(),
            connection: self.connection,
            peer: self.peer,
            event: Event::Login {
                login: login.clone(),
                method,
                accepted,
                vm: route.map(|r| r.vm.clone()),
            },
        });
        match (verdict, login, route) {
            (Verdict::Accept, Some(login), Some(route)) => {
                self.progress.lock().login = Some(login.clone());
                self.user = Some((login, route.vm.clone()));
                Auth::Accept
            }
            _ => reject(),
        }
    }

    async fn check_password(&mut self, method: &'static str, user: &str, password: &str) -> Auth {
        self.passwords += 1;
        let (login, route) = self.route(user);
        // A name that cannot be one takes the same way as an unknown one.
        let name = login.clone().or_else(|| LoginName::parse("-"));
        let verdict = match name {
            Some(name) if self.passwords <= self.shared.config.max_password_attempts => {
                let authenticator = Arc::clone(&self.shared.authenticator);
                authenticator
                    .password(&name, route.as_deref(), password)
                    .await
            }
            _ => Verdict::Reject,
        };
        self.decide(method, login, route.as_deref(), verdict)
    }

    async fn check_key(
        &self,
        user: &str,
        key: &PublicKey,
    ) -> (Option<LoginName>, Option<Arc<Route>>, Verdict) {
        let (login, route) = self.route(user);
        let verdict = match &login {
            Some(name) => {
                let authenticator = &self.shared.authenticator;
                authenticator.public_key(name, route.as_deref(), key).await
            }
            None => Verdict::Reject,
        };
        (login, route, verdict)
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
        let Some((login, vm)) = self.user.clone() else {
            return;
        };
        let most = self.shared.config.max_channels;
        if self.channels.len() >= most {
            let reason = format!("kite: at most {most} channels on one connection");
            reply
                .reject(ChannelOpenFailure::Other {
                    code: RESOURCE_SHORTAGE,
                    reason,
                })
                .await;
            return;
        }
        let (reader, writer) = channel.split();
        // Data comes by the callbacks below; an unread half would fill up and
        // stop the whole connection.
        drop(reader);
        let (requests, receiver) = Requests::new();
        let link = Arc::new(Link::new(requests, self.gone.child_token(), detail));
        self.windows.opened(writer.id().into());
        self.channels.insert(writer.id(), Arc::clone(&link));
        let bridge = Bridge {
            shared: Arc::clone(&self.shared),
            connection: self.connection,
            peer: self.peer,
            login,
            vm,
            kind,
            link,
            writer,
            handle,
            reply,
            requests: receiver,
        };
        tokio::spawn(bridge.run());
    }

    /// Passes a request on and its answer back.
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
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        let Some(link) = self.channels.get(&id) else {
            return session.channel_failure(id);
        };
        if link.is_local() {
            session.channel_success(id)?;
            if starts {
                link.start();
            }
            return Ok(());
        }
        let mut answer = link.requests.send(request);
        match tokio::time::timeout(self.shared.config.request_patience, &mut answer).await {
            Ok(Ok(true)) => session.channel_success(id),
            Ok(_) => session.channel_failure(id),
            Err(_) => {
                let handle = session.handle();
                tokio::spawn(async move {
                    // Fails only when the user is gone.
                    let _ = match answer.await {
                        Ok(true) => handle.channel_success(id).await,
                        _ => handle.channel_failure(id).await,
                    };
                });
                Ok(())
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
        let Some(link) = self.channels.get(&id) else {
            return Ok(());
        };
        if link.up.push(item) > HARD_CAP {
            tracing::warn!(
                connection = self.connection,
                channel = %id,
                "channel ended: the VM does not read it and the user sends beyond the window"
            );
            link.gone.cancel();
            session.close(id)?;
        }
        Ok(())
    }
}

fn reject() -> Auth {
    Auth::Reject {
        proceed_with_methods: Some(methods()),
        partial_success: false,
    }
}

impl Handler for UserHandler {
    type Error = russh::Error;

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
            return Ok(Auth::Partial {
                name: "".into(),
                instructions: "".into(),
                prompts: vec![("Password: ".into(), false)].into(),
            });
        };
        let answer = response.next().unwrap_or_default();
        let password = String::from_utf8_lossy(&answer).into_owned();
        Ok(self
            .check_password("keyboard-interactive", user, &password)
            .await)
    }

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        let (_, _, verdict) = self.check_key(user, offer.public_key).await;
        Ok(match verdict {
            Verdict::Accept => Auth::Accept,
            Verdict::Reject => reject(),
        })
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        let (login, route, verdict) = self.check_key(user, key.public_key).await;
        Ok(self.decide("publickey", login, route.as_deref(), verdict))
    }

    async fn auth_succeeded(&mut self, session: &mut Session) -> Result<(), Self::Error> {
        let client = String::from_utf8_lossy(session.remote_sshid()).into_owned();
        self.progress.lock().client = Some(client);
        self.logged_in.cancel();
        self.shared
            .metrics
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
        if let Some(link) = self.channels.get(&id) {
            link.interactive.store(true, Ordering::Relaxed);
        }
        let request = Request::Pty {
            term: term.to_owned(),
            columns,
            rows,
            width,
            height,
            modes: modes.to_vec(),
        };
        self.request(id, request, false, session).await
    }

    async fn env_request(
        &mut self,
        id: ChannelId,
        name: &str,
        value: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let request = Request::Env(name.to_owned(), value.to_owned());
        self.request(id, request, false, session).await
    }

    async fn shell_request(
        &mut self,
        id: ChannelId,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.request(id, Request::Shell, true, session).await
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        if let Some(link) = self.channels.get(&id) {
            link.describe(&String::from_utf8_lossy(command));
        }
        let request = Request::Exec(command.to_vec());
        self.request(id, request, true, session).await
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        if let Some(link) = self.channels.get(&id) {
            link.describe(&format!("subsystem {name}"));
        }
        let request = Request::Subsystem(name.to_owned());
        self.request(id, request, true, session).await
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
        if let Some(link) = self.channels.get(&id) {
            link.requests.send(Request::WindowChange {
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
        if let Some(link) = self.channels.get(&id) {
            link.requests.send(Request::Signal(signal));
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
        if let Some(link) = self.channels.get(&id) {
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
        if let Some(link) = self.channels.remove(&id) {
            link.gone.cancel();
        }
        Ok(())
    }

    fn adjust_window(&mut self, id: ChannelId, target: u32) -> u32 {
        let channels = &self.channels;
        let over = |number: u32| {
            channels
                .iter()
                .any(|(id, link)| u32::from(*id) == number && link.up.is_over())
        };
        let next = self.windows.adjusted(id.into(), target, over);
        if self.channels.get(&id).is_some_and(|link| link.up.is_over()) {
            self.pace.rest();
        }
        next
    }
}

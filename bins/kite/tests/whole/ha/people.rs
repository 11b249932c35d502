//! People at SSH: those who stay and type, and those who come and go.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use russh::keys::PublicKeyOrCertificate;
use russh::{
    ChannelMsg, Disconnect,
    client::{self, AuthResult, Handle},
};
use tokio::{
    net::TcpStream,
    runtime,
    time::{interval, sleep, timeout},
};

use super::{
    balancer::Balancer,
    notes::{Notes, What},
};

/// The pause between two keystrokes.
const KEY: Duration = Duration::from_millis(100);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before somebody who was cut off tries again.
const AGAIN: Duration = Duration::from_millis(500);

/// Where people go, and what they know.
#[derive(Clone)]
pub struct People {
    pub gateways: Balancer,
    pub login: String,
    pub password: String,
    pub notes: Notes,
    /// The one host key, which does not depend on the replica.
    key: Arc<Mutex<Option<String>>>,
    /// At which replica each of those who stay is, while they are in.
    at: Arc<Mutex<Vec<Option<usize>>>>,
    /// The machine is there: from now on nobody may be refused.
    is_let_in: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

struct Known {
    people: People,
}

impl client::Handler for Known {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        let shown = key.public_key().to_openssh().unwrap_or_default();
        let mut known = self.people.key.lock().unwrap();
        let is_right = *known.get_or_insert_with(|| shown.clone()) == shown;
        if !is_right {
            let text = "another host key is shown".to_owned();
            self.people.notes.note(What::Wrong(text));
        }
        Ok(is_right)
    }
}

impl People {
    pub fn new(gateways: &Balancer, login: &str, password: &str, notes: &Notes) -> Self {
        Self {
            gateways: gateways.clone(),
            login: login.to_owned(),
            password: password.to_owned(),
            notes: notes.clone(),
            key: Arc::default(),
            at: Arc::default(),
            is_let_in: Arc::default(),
            stop: Arc::default(),
        }
    }

    /// So many who stay, and one after another who comes and goes.
    pub fn start(&self, runtime: &runtime::Handle, staying: usize, every: Duration) {
        self.at.lock().unwrap().resize(staying, None);
        for number in 0..staying {
            runtime.spawn(self.clone().stay(number));
        }
        let people = self.clone();
        runtime.spawn(async move {
            let mut ticks = interval(every);
            while !people.is_over() {
                ticks.tick().await;
                let people = people.clone();
                tokio::spawn(async move {
                    let came = timeout(PATIENCE, people.come_and_go()).await;
                    let is_good = matches!(came, Ok(Ok(())));
                    people.notes.note(What::Login { is_good });
                });
            }
        });
    }

    /// From now on nobody may be refused.
    pub fn let_in(&self) {
        self.is_let_in.store(true, Ordering::SeqCst);
    }

    /// No new ones; those who stay go.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// At which replica those are who are in.
    pub fn at(&self) -> Vec<Option<usize>> {
        self.at.lock().unwrap().clone()
    }

    async fn log_in(&self) -> Result<(Handle<Known>, SocketAddr), String> {
        let told = |error: russh::Error| error.to_string();
        let stream = TcpStream::connect(self.gateways.address).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        let own = stream.local_addr().map_err(|error| error.to_string())?;
        let people = self.clone();
        let config = Arc::new(client::Config::default());
        let connected = client::connect_stream(config, stream, Known { people }).await;
        let mut handle = connected.map_err(told)?;
        let entered = handle.authenticate_password(&self.login, &self.password);
        if let AuthResult::Failure {
            remaining_methods, ..
        } = entered.await.map_err(told)?
        {
            // A gateway that refuses says what may be tried. That the connection was cut
            // before an answer came is told by russh as a failure, too.
            if remaining_methods.is_empty() {
                return Err("cut off".to_owned());
            }
            if self.is_let_in.load(Ordering::SeqCst) {
                let text = "the right password was refused".to_owned();
                self.notes.note(What::Wrong(text));
            }
            return Err("refused".to_owned());
        }
        Ok((handle, own))
    }

    /// One login with a command.
    pub async fn come_and_go(&self) -> Result<(), String> {
        let told = |error: russh::Error| error.to_string();
        let (handle, _) = self.log_in().await?;
        let mut channel = handle.channel_open_session().await.map_err(told)?;
        channel.exec(true, "echo in").await.map_err(told)?;
        let mut said = Vec::new();
        while let Some(message) = channel.wait().await {
            if let ChannelMsg::Data { data } = message {
                said.extend_from_slice(&data);
            }
        }
        let _ = handle.disconnect(Disconnect::ByApplication, "", "").await;
        match said.as_slice() {
            b"in\n" => Ok(()),
            other => Err(String::from_utf8_lossy(other).into_owned()),
        }
    }

    /// Somebody who types all the time, and comes back whenever the line is cut.
    async fn stay(self, number: usize) {
        let mut cut: Option<Instant> = None;
        while !self.is_over() {
            let entered = timeout(PATIENCE, self.log_in()).await;
            if let Ok(Ok((handle, own))) = entered {
                if let Some(cut) = cut {
                    self.notes.note(What::Reopened(cut.elapsed()));
                }
                let place = self.gateways.taken_by(own);
                self.at.lock().unwrap()[number] = place;
                self.type_on(&handle).await;
                self.at.lock().unwrap()[number] = None;
                let _ = handle.disconnect(Disconnect::ByApplication, "", "").await;
                if self.is_over() {
                    return;
                }
                self.notes.note(What::Cut);
                cut = Some(Instant::now());
            }
            sleep(AGAIN).await;
        }
    }

    /// Until the line is cut.
    async fn type_on(&self, handle: &Handle<Known>) {
        let Ok(mut channel) = handle.channel_open_session().await else {
            return;
        };
        let _ = channel.request_pty(true, "xterm", 80, 24, 0, 0, &[]).await;
        let _ = channel.request_shell(true).await;
        let mut keys = interval(KEY);
        keys.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut pressed: Option<Instant> = None;
        let mut count = 0_u32;
        while !self.is_over() {
            tokio::select! {
                message = channel.wait() => match message {
                    Some(ChannelMsg::Data { .. }) => {
                        if let Some(pressed) = pressed.take() {
                            self.notes.note(What::Echo(pressed.elapsed()));
                        }
                    }
                    Some(ChannelMsg::Close | ChannelMsg::Eof) | None => return,
                    Some(_) => {}
                },
                // Who types waits for the echo.
                _ = keys.tick(), if pressed.is_none() => {
                    // A character, and back over it.
                    let key: &[u8] = if count.is_multiple_of(2) { b"x" } else { b"\x7f" };
                    count += 1;
                    pressed = Some(Instant::now());
                    if channel.data(key).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

//! What is attached to a guest beside the network: its serial line, with a login
//! prompt and the shell behind it, and its screen.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::home::Home;
use super::rfb;
use super::screen::Screen;
use super::session::{Work, on_terminal};
use super::shell::{Machine, Shell};
use super::stream::Output;
use super::tty::NewlineWriter;

/// Longest name or password that is typed at the prompt.
const MAX_ANSWER: usize = 256;

/// The serial line and the screen of a guest. Clones are of the same guest.
#[derive(Clone, Debug)]
pub struct Consoles {
    machine: Machine,
    screen: Arc<Screen>,
    plug: CancellationToken,
}

impl Consoles {
    /// Those of a machine without a network: `user` logs in, and its files are on
    /// `disk`.
    pub fn new(hostname: impl Into<String>, user: impl Into<String>, disk: Home) -> Self {
        let machine = Machine {
            hostname: hostname.into(),
            user: user.into(),
            disk,
        };
        // A full disk has no room for a home; the shell says so on each command.
        let _ = machine.disk.create_dir_all(&machine.home_dir());
        Self::of(machine, CancellationToken::new())
    }

    /// Those of a machine that ends when `plug` is pulled.
    pub(super) fn of(machine: Machine, plug: CancellationToken) -> Self {
        let screen = Arc::new(Screen::new(&machine.hostname));
        Self {
            machine,
            screen,
            plug,
        }
    }

    /// Serves the serial line until `stream` ends or the guest does. It is a login
    /// prompt, and after any password a shell; who goes is logged out.
    pub async fn serial(&self, stream: impl AsyncRead + AsyncWrite + Send + 'static) {
        let (mut typed, screen) = tokio::io::split(stream);
        let screen = Output::stream(NewlineWriter::new(screen));
        tokio::select! {
            // That the stream ended is no news.
            _ = self.log_in(&mut typed, &screen) => {}
            () = self.plug.cancelled() => {}
        }
    }

    /// Serves VNC (RFB 3.8) until `stream` ends or the guest does.
    pub async fn screen(&self, stream: impl AsyncRead + AsyncWrite + Send) {
        tokio::select! {
            ended = rfb::serve(&self.screen, stream) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a viewer of a guest's screen ended");
                }
            }
            () = self.plug.cancelled() => {}
        }
    }

    async fn log_in(
        &self,
        typed: &mut (impl AsyncRead + Unpin),
        screen: &Output,
    ) -> io::Result<()> {
        let Machine { hostname, user, .. } = &self.machine;
        let welcome = format!(
            "\n{hostname}: the serial line of a Kite demo guest. Log in as {user} with any \
             password.\n"
        );
        screen.write(welcome.as_bytes()).await?;
        loop {
            screen
                .write(format!("\n{hostname} login: ").as_bytes())
                .await?;
            let Some(name) = answer(typed, screen, true).await? else {
                continue;
            };
            if name.is_empty() {
                continue;
            }
            screen.write(b"Password: ").await?;
            let Some(password) = answer(typed, screen, false).await? else {
                continue;
            };
            if password.is_empty() || name != *user {
                screen.write(b"\nLogin incorrect\n").await?;
                continue;
            }
            let mut shell = Shell::new(self.machine.clone());
            shell.set_var("TERM", "vt220".to_owned());
            on_terminal(&mut shell, &mut *typed, screen.clone(), Work::Shell).await;
        }
    }
}

/// What is typed up to Enter, and shown if it may be; `None` after Ctrl-C and
/// Ctrl-D.
async fn answer(
    typed: &mut (impl AsyncRead + Unpin),
    screen: &Output,
    echo: bool,
) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let byte = typed.read_u8().await?;
        match byte {
            b'\r' | b'\n' => {
                screen.write(b"\n").await?;
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            3 | 4 => {
                screen.write(b"\n").await?;
                return Ok(None);
            }
            8 | 127 => {
                let was_there = line.pop().is_some();
                if was_there && echo {
                    screen.write(b"\x08 \x08").await?;
                }
            }
            byte if byte >= b' ' && line.len() < MAX_ANSWER => {
                line.push(byte);
                if echo {
                    screen.write(&[byte]).await?;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn until(stream: &mut tokio::io::DuplexStream, text: &str) -> String {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            seen.push(stream.read_u8().await.unwrap());
        }
        String::from_utf8(seen).unwrap()
    }

    #[tokio::test]
    async fn one_logs_in_works_and_logs_out() {
        let consoles = Consoles::new("web", "ann", Home::default());
        let (mut ours, theirs) = tokio::io::duplex(1024);
        let serving = {
            let consoles = consoles.clone();
            tokio::spawn(async move { consoles.serial(theirs).await })
        };
        until(&mut ours, "web login: ").await;
        ours.write_all(b"eve\rsecret\r").await.unwrap();
        let refused = until(&mut ours, "login: ").await;
        assert!(refused.contains("Login incorrect"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
        ours.write_all(b"amn\x7f\x7fnn\rx\r").await.unwrap();
        until(&mut ours, "ann@web:~$ ").await;
        ours.write_all(b"echo one $TERM\r").await.unwrap();
        until(&mut ours, "one vt220\r\n").await;
        ours.write_all(b"exit\r").await.unwrap();
        until(&mut ours, "web login: ").await;
        drop(ours);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn the_line_ends_with_the_guest() {
        let plug = CancellationToken::new();
        let machine = Machine {
            hostname: "web".to_owned(),
            user: "ann".to_owned(),
            disk: Home::default(),
        };
        let consoles = Consoles::of(machine, plug.clone());
        let (mut ours, theirs) = tokio::io::duplex(1024);
        let serving = tokio::spawn(async move { consoles.serial(theirs).await });
        until(&mut ours, "login: ").await;
        plug.cancel();
        serving.await.unwrap();
    }
}

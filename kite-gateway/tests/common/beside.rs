//! What somebody who is logged in, and others who log in, notice of a flood: how long
//! keystrokes and logins take beside it, against the same beside nobody. The flood is a
//! process of its own.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use russh::client;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Bed, PATIENCE, Session, Trusting, text};

/// Where the flood is told whom to flood, and how.
pub const WHOM: &str = "KITE_TEST_FLOOD";

/// The test `flood` of this binary, in another process.
pub struct Flood {
    child: Child,
    stdin: ChildStdin,
    lines: UnboundedReceiver<String>,
}

impl Flood {
    /// Starts it; by [`WHOM`] it reads what it is `told`.
    pub fn start(told: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "flood", "--ignored", "--nocapture"])
            .env(WHOM, told)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let (say, lines) = unbounded_channel();
        // Who is not heard out ends: after a minute the test harness says that it still runs.
        tokio::spawn(async move {
            while let Ok(Some(line)) = said.next_line().await {
                let _ = say.send(line);
            }
        });
        Self {
            child,
            stdin,
            lines,
        }
    }

    /// Waits for a line with `begins`; gives what follows that.
    pub async fn line(&mut self, begins: &str) -> String {
        let hearing = async {
            while let Some(line) = self.lines.recv().await {
                if let Some((_, said)) = line.split_once(begins) {
                    return said.to_owned();
                }
            }
            panic!("the flood ends, and has not said {begins:?}");
        };
        let heard = tokio::time::timeout(PATIENCE, hearing).await;
        heard.unwrap_or_else(|_| panic!("the flood does not say {begins:?}"))
    }

    /// Has it do what comes next.
    pub async fn go_on(&mut self) {
        self.stdin.write_all(b"\n").await.unwrap();
    }

    /// Ends it, which it must not have done by itself.
    pub async fn end(mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the flood has ended: {ended:?}");
        self.child.kill().await.unwrap();
    }
}

fn middle(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// How long a keystroke takes, in the middle of so many.
async fn keystroke(session: &mut Session, times: usize) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        all.push(session.slowest_echo(1).await);
    }
    middle(all)
}

/// How long a login by key and a command take, in the middle of so many.
async fn login(bed: &Bed, name: &str, times: usize) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        let started = Instant::now();
        let output = bed.ssh(name, "echo in").await;
        all.push(started.elapsed());
        let told = text(&output.stderr);
        assert_eq!(text(&output.stdout), "in\n", "{told}");
    }
    middle(all)
}

/// That something takes at most so many times as long as beside nobody. What is below
/// `floor`, in milliseconds, is not measured: machines are noisy.
fn assert_not_slowed(what: &str, beside: Duration, quiet: Duration, floor: u64, by: u32) {
    eprintln!("{what}: {beside:?} beside the flood, {quiet:?} beside nobody");
    let bound = quiet.max(Duration::from_millis(floor)) * by;
    assert!(
        beside < bound,
        "{what}: {beside:?}, beside nobody {quiet:?}"
    );
}

/// How long a login and a keystroke take beside nobody.
struct Quiet {
    login: Duration,
    keystroke: Duration,
}

impl Quiet {
    async fn measure(bed: &Bed, name: &str, session: &mut Session) -> Self {
        Self {
            login: login(bed, name, 5).await,
            keystroke: keystroke(session, 100).await,
        }
    }
}

/// Somebody who is logged in to a machine and types, and others who log in there by key.
pub struct Bystanders<'a> {
    bed: &'a Bed,
    name: &'a str,
    session: Session,
    quiet: Quiet,
    keystrokes: Vec<Duration>,
    logins: Vec<Duration>,
}

impl<'a> Bystanders<'a> {
    /// Has them come before the flood does, at the login name `name`.
    pub async fn come(bed: &'a Bed, name: &'a str) -> Self {
        let mut session = bed.session(name, "cat").await;
        // Their address is known from here on, and no more dropped by chance.
        let quiet = Quiet::measure(bed, name, &mut session).await;
        Self {
            bed,
            name,
            session,
            quiet,
            keystrokes: Vec::new(),
            logins: Vec::new(),
        }
    }

    /// They type and log in, beside the flood.
    pub async fn go_on(&mut self) {
        let taken = keystroke(&mut self.session, 40).await;
        self.keystrokes.push(taken);
        self.logins.push(login(self.bed, self.name, 1).await);
    }

    /// That it took them hardly longer than beside nobody, once the flood has ended. What is
    /// quiet is measured before and after: other work of the machine comes and goes, and the
    /// slower one counts. They leave: a session would keep the gateway from ending.
    pub async fn were_not_slowed(mut self) {
        // What the flood left is gone.
        while self.bed.sessions.list().len() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let after = Quiet::measure(self.bed, self.name, &mut self.session).await;
        let keystroke = self.quiet.keystroke.max(after.keystroke);
        let login = self.quiet.login.max(after.login);
        assert_not_slowed("a keystroke", middle(self.keystrokes), keystroke, 10, 20);
        assert_not_slowed("a login", middle(self.logins), login, 200, 20);
    }
}

/// One try of a password, by russh's client: whether it lets in.
pub async fn try_password(
    gateway: SocketAddr,
    name: &str,
    password: &str,
) -> Result<bool, russh::Error> {
    let connecting = client::connect(Arc::default(), gateway, Trusting);
    let login = connecting
        .await?
        .authenticate_password(name, password)
        .await?;
    Ok(login.success())
}

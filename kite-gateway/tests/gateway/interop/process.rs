//! Clients as processes that cannot outlive their patience.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::text;

/// For what takes a moment.
pub const QUICK: Duration = Duration::from_secs(60);
/// For what carries many bytes.
pub const BULK: Duration = Duration::from_secs(240);

/// A client to be run.
pub struct Call {
    command: Command,
    input: Vec<u8>,
    holds: bool,
    patience: Duration,
}

/// What a client left.
pub struct Done {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Call {
    pub fn new(command: Command) -> Self {
        Self {
            command,
            input: Vec::new(),
            holds: false,
            patience: QUICK,
        }
    }

    /// With many bytes to carry.
    pub fn bulk(mut self) -> Self {
        self.patience = BULK;
        self
    }

    /// With this on its standard input, and then the end.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// With this typed, and no end: a terminal has none.
    pub fn typed(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.holds = true;
        self.input(input)
    }

    /// Runs it to its end, whatever that is.
    pub async fn run(self) -> Result<Done, String> {
        let Self {
            mut command,
            input,
            holds,
            patience,
        } = self;
        let program = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let group = child.id();
        let mut stdin = child.stdin.take().unwrap();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let ended = {
            let writing = async {
                // A client need not read all of it.
                let _ = stdin.write_all(&input).await;
                if !holds {
                    drop(stdin);
                    return None;
                }
                Some(stdin)
            };
            let work = async {
                let (_held, out, err) = tokio::join!(
                    writing,
                    out.read_to_end(&mut stdout),
                    err.read_to_end(&mut stderr)
                );
                out.and(err)?;
                child.wait().await
            };
            tokio::time::timeout(patience, work).await
        };
        let (stdout, stderr) = (text(&stdout), text(&stderr));
        match ended {
            Ok(Ok(status)) => Ok(Done {
                status,
                stdout,
                stderr,
            }),
            Ok(Err(error)) => Err(format!("{program}: {error}")),
            Err(_) => {
                if let Some(group) = group {
                    kill_group(group);
                }
                let said = brief(&format!("{stdout} {stderr}"));
                Err(format!(
                    "{program} hung after {} s: {said}",
                    patience.as_secs()
                ))
            }
        }
    }

    /// Runs it; anything but success is a failure.
    pub async fn succeed(self) -> Result<Done, String> {
        self.run().await?.exits(0)
    }
}

impl Done {
    /// That it ended with `code`.
    pub fn exits(self, code: i32) -> Result<Self, String> {
        if self.status.code() == Some(code) {
            return Ok(self);
        }
        Err(format!(
            "{} instead of {code}: {}",
            self.status,
            brief(&format!("{} {}", self.stdout, self.stderr))
        ))
    }
}

/// What a client said, on one line that is not too long: its beginning and end.
pub fn brief(said: &str) -> String {
    const MOST: usize = 300;
    let words: Vec<_> = said.split_whitespace().collect();
    let line: Vec<_> = words.join(" ").chars().collect();
    if line.len() <= 2 * MOST {
        return line.into_iter().collect();
    }
    let (first, last) = (&line[..MOST], &line[line.len() - MOST..]);
    [first, &[' ', '…', ' '], last]
        .concat()
        .into_iter()
        .collect()
}

fn kill_group(group: u32) {
    let _ = Command::new("kill")
        .args(["-KILL", "--", &format!("-{group}")])
        .stderr(Stdio::null())
        .status();
}

/// A client that runs until this is dropped.
pub struct Background {
    child: Child,
    log: PathBuf,
}

impl Background {
    /// Starts it; what it says goes to the file `log`.
    pub fn start(mut command: Command, log: PathBuf) -> Result<Self, String> {
        let file = std::fs::File::create(&log).map_err(|error| error.to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(|error| error.to_string())?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
        Ok(Self { child, log })
    }

    pub fn said(&self) -> String {
        brief(&std::fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Waits until `is_so`, but no longer than it lives.
    pub async fn until(&mut self, is_so: impl AsyncFn() -> bool) -> Result<(), String> {
        let started = std::time::Instant::now();
        while !is_so().await {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("ended, {status}: {}", self.said()));
            }
            if started.elapsed() > QUICK {
                let said = self.said();
                return Err(format!("hung after {} s: {said}", QUICK.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        kill_group(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Runs what [`parse`](super::parse) understood: lists, pipelines, redirections
//! and variables. The commands themselves are [`builtins`](super::builtins);
//! nothing here ever starts a process or opens a file of the host.

use std::collections::BTreeMap;
use std::io;

use futures::future::join_all;

use super::builtins;
use super::home::{Home, Open};
use super::parse::{Command, Piece, Redirect, When, Word, parse};
use super::path::AbsPath;
use super::stream::{CHUNK, Input, Io, Output};

/// Status of a command whose reader went away: 128 + SIGPIPE.
const BROKEN_PIPE: u8 = 141;
/// Variables that one session may set.
const MAX_VARIABLES: usize = 256;

/// What the machine around the shell is.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The guest's host name.
    pub hostname: String,
    /// The user logged in.
    pub user: String,
    /// The disk.
    pub disk: Home,
}

impl Machine {
    /// The user's home directory.
    pub fn home_dir(&self) -> AbsPath {
        AbsPath::root()
            .join("home")
            .and_then(|p| p.join(&self.user))
            .unwrap_or_default()
    }
}

/// How a shell goes on after a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flow {
    /// With the next command.
    Continue(u8),
    /// `exit`: the session ends with this status.
    Exit(u8),
    /// `kill` of the own shell: the session ends by this signal (without `SIG`).
    Killed(String),
}

impl Flow {
    fn status(&self) -> u8 {
        match self {
            Self::Continue(status) | Self::Exit(status) => *status,
            Self::Killed(_) => 1,
        }
    }
}

/// One session's shell.
#[derive(Clone)]
pub struct Shell {
    /// The machine it runs on.
    pub machine: Machine,
    /// The working directory.
    pub cwd: AbsPath,
    /// Variables, all of them exported.
    pub env: BTreeMap<String, String>,
    status: u8,
}

impl Shell {
    /// A login shell in the user's home.
    pub fn new(machine: Machine) -> Self {
        let cwd = machine.home_dir();
        let env = [
            ("HOME", cwd.to_string()),
            ("USER", machine.user.clone()),
            ("LOGNAME", machine.user.clone()),
            ("SHELL", "/bin/sh".to_owned()),
            ("PWD", cwd.to_string()),
        ];
        Self {
            machine,
            cwd,
            env: env.map(|(k, v)| (k.to_owned(), v)).into(),
            status: 0,
        }
    }

    /// Sets a variable; silently ignored when there are too many, as a full
    /// environment is.
    pub fn set_var(&mut self, name: &str, value: String) {
        if self.env.len() < MAX_VARIABLES || self.env.contains_key(name) {
            self.env.insert(name.to_owned(), value);
        }
    }

    /// The prompt that an interactive session shows.
    pub fn prompt(&self) -> String {
        let cwd = self.cwd.abbreviate(&self.machine.home_dir());
        format!("{}@{}:{cwd}$ ", self.machine.user, self.machine.hostname)
    }

    /// The status of the last command.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// Notes that the last command was interrupted from the terminal.
    pub fn interrupted(&mut self) {
        self.status = 130;
    }

    /// Runs a line, or a script of several.
    pub async fn run(&mut self, text: &str, io: &Io) -> Flow {
        let list = match parse(text) {
            Ok(list) => list,
            Err(e) => {
                let _ = io.complain(&format!("sh: {e}")).await;
                self.status = 2;
                return Flow::Continue(2);
            }
        };
        for (when, pipeline) in list {
            let run = match when {
                When::Always => true,
                When::Success => self.status == 0,
                When::Failure => self.status != 0,
            };
            if !run {
                continue;
            }
            let flow = match pipeline.as_slice() {
                [only] => self.command(only, io.clone()).await,
                commands => self.pipeline(commands, io).await,
            };
            self.status = flow.status();
            if !matches!(flow, Flow::Continue(_)) {
                return flow;
            }
        }
        Flow::Continue(self.status)
    }

    /// Runs all commands at once, each in its own copy of the shell, joined by
    /// pipes that hold one chunk; the last one's status counts.
    async fn pipeline(&self, commands: &[Command], io: &Io) -> Flow {
        let mut stages = Vec::new();
        let mut stdin = io.stdin.clone();
        for (i, command) in commands.iter().enumerate() {
            let mut stage = io.clone();
            stage.stdin = std::mem::replace(&mut stdin, Input::Empty);
            if i + 1 < commands.len() {
                let (reader, writer) = tokio::io::duplex(CHUNK);
                stage.stdout = Output::stream(writer);
                stdin = Input::stream(reader);
            }
            let mut shell = self.clone();
            stages.push(async move { shell.command(command, stage).await.status() });
        }
        let statuses = join_all(stages).await;
        Flow::Continue(statuses.last().copied().unwrap_or(0))
    }

    async fn command(&mut self, command: &Command, mut io: Io) -> Flow {
        if let Err(message) = self.redirect(&command.redirects, &mut io) {
            let _ = io.complain(&format!("sh: {message}")).await;
            return Flow::Continue(1);
        }
        let words = self.expand(&command.words);
        let assignments: Vec<(String, String)> = command
            .assignments
            .iter()
            .map(|(name, word)| (name.clone(), self.expand_to_one(word)))
            .collect();
        let Some((name, args)) = words.split_first() else {
            for (name, value) in assignments {
                self.set_var(&name, value);
            }
            return Flow::Continue(0);
        };
        // Assignments before a command hold for that command only.
        let saved = (!assignments.is_empty()).then(|| self.env.clone());
        for (name, value) in assignments {
            self.set_var(&name, value);
        }
        let result = builtins::run(name, args, self, &io).await;
        if let Some(saved) = saved {
            self.env = saved;
        }
        match result {
            Ok(flow) => flow,
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Flow::Continue(BROKEN_PIPE),
            Err(e) => {
                let _ = io.complain(&format!("{name}: {e}")).await;
                Flow::Continue(1)
            }
        }
    }

    fn redirect(&self, redirects: &[Redirect], io: &mut Io) -> Result<(), String> {
        for redirect in redirects {
            match redirect {
                Redirect::Input(word) => io.stdin = self.open_input(&self.expand_to_one(word))?,
                Redirect::File { fd, append, target } => {
                    let output = self.open_output(&self.expand_to_one(target), *append)?;
                    if *fd == 1 {
                        io.stdout = output;
                    } else {
                        io.stderr = output;
                    }
                }
                Redirect::Duplicate { fd: 1, to: 2 } => io.stdout = io.stderr.clone(),
                Redirect::Duplicate { fd: 2, to: 1 } => io.stderr = io.stdout.clone(),
                Redirect::Duplicate { .. } => {}
            }
        }
        Ok(())
    }

    /// Opens what a user named for reading.
    pub fn open_input(&self, name: &str) -> Result<Input, String> {
        match name {
            "/dev/null" => return Ok(Input::Empty),
            "/dev/zero" => return Ok(Input::Zeros),
            _ => {}
        }
        let path = self.path(name)?;
        let file = self.machine.disk.open(&path, Open::default());
        Ok(Input::file(file.map_err(|e| format!("{name}: {e}"))?))
    }

    fn open_output(&self, name: &str, append: bool) -> Result<Output, String> {
        if matches!(name, "/dev/null" | "/dev/zero") {
            return Ok(Output::Null);
        }
        let how = Open {
            create: true,
            exclusive: false,
            truncate: !append,
        };
        let file = self.machine.disk.open(&self.path(name)?, how);
        Ok(Output::File(file.map_err(|e| format!("{name}: {e}"))?))
    }

    /// The path that `name` means in the working directory.
    pub fn path(&self, name: &str) -> Result<AbsPath, String> {
        self.cwd
            .join(name)
            .ok_or_else(|| format!("{name}: File name too long"))
    }

    fn expand(&self, words: &[Word]) -> Vec<String> {
        let mut out = Vec::new();
        for word in words {
            let mut current = String::new();
            let mut any = word.quoted;
            for piece in &word.pieces {
                match piece {
                    Piece::Var {
                        name,
                        quoted: false,
                    } => {
                        let value = self.value(name);
                        // Field splitting: blanks in the value end a word.
                        if value.starts_with(char::is_whitespace) && any {
                            out.push(std::mem::take(&mut current));
                            any = false;
                        }
                        for (i, field) in value.split_whitespace().enumerate() {
                            if i > 0 {
                                out.push(std::mem::take(&mut current));
                            }
                            current.push_str(field);
                            any = true;
                        }
                    }
                    piece => {
                        current.push_str(&self.piece(piece));
                        any = true;
                    }
                }
            }
            if any {
                out.push(current);
            }
        }
        out
    }

    fn expand_to_one(&self, word: &Word) -> String {
        word.pieces.iter().map(|piece| self.piece(piece)).collect()
    }

    fn piece(&self, piece: &Piece) -> String {
        match piece {
            Piece::Text(text) => text.clone(),
            Piece::Var { name, .. } => self.value(name),
            Piece::Home => self.value("HOME"),
        }
    }

    fn value(&self, name: &str) -> String {
        match name {
            "?" => self.status.to_string(),
            "#" => "0".to_owned(),
            // There are no processes; the shell is the only one.
            "$" => "1000".to_owned(),
            name => self.env.get(name).cloned().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;

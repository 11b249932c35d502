//! How commands ended, and what goes on meanwhile.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

/// How a command ended.
pub struct Run {
    /// Nothing where it was killed.
    pub code: Option<i32>,
    pub json: Value,
    pub messages: String,
}

impl Run {
    pub fn of(output: &Output) -> Self {
        let printed = text(&output.stdout);
        // What the test harness says of itself comes before.
        let json = printed.find('{').map_or("null", |at| &printed[at..]);
        Self {
            code: output.status.code(),
            json: serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {printed}")),
            messages: text(&output.stderr),
        }
    }

    /// It ended with this code and outcome.
    #[track_caller]
    pub fn ended(&self, code: i32, outcome: &str) -> &Self {
        let Self { json, messages, .. } = self;
        assert_eq!(self.code, Some(code), "{json:#} {messages}");
        assert_eq!(json["outcome"], outcome, "{json:#} {messages}");
        self
    }

    /// Something of its outcome, as text.
    pub fn says(&self, field: &str) -> String {
        match &self.json[field] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// A process that holds a port.
pub struct Occupant {
    child: Child,
}

impl Occupant {
    /// Starts one, as a variable of its environment says, and waits until it has the port.
    pub fn start(mut command: Command, how: &str, port: u16) -> Self {
        command.env(how, format!("0.0.0.0:{port}"));
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let holds = lines.any(|line| line.unwrap() == "holding");
        assert!(holds, "nothing could have port {port}");
        Self { child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Occupant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An open session.
pub struct Session {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    child: Child,
}

impl Session {
    /// Opens one, by a command that gives back what it reads.
    pub fn open(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut session = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        assert!(session.lives(), "no session could be opened");
        session
    }

    /// Whether what is typed comes back.
    pub fn lives(&mut self) -> bool {
        let mut line = String::new();
        writeln!(self.input, "still here").is_ok()
            && self.output.read_line(&mut line).is_ok()
            && line == "still here\n"
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Text of a program.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

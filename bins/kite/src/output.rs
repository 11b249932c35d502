//! What commands say: results on standard output, progress on standard error.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use clap::ValueEnum;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

/// Writes to standard output. That nobody reads on, as in a pipe into `head`, is no
/// error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Lines for people on standard error; scripts get none.
pub(crate) struct Lines {
    is_for_people: bool,
    /// Whether the last line is one that is written over.
    is_open: bool,
}

impl Lines {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            is_for_people: output == Output::Text,
            is_open: false,
        }
    }

    pub(crate) fn line(&mut self, text: &str) {
        if self.is_for_people {
            let mut out = io::stderr().lock();
            let cleared = if self.is_open { "\r\x1b[K" } else { "" };
            // Nobody may be there to read it any more.
            let _ = writeln!(out, "{cleared}{text}");
            self.is_open = false;
        }
    }

    /// A line that the next one is written over, where somebody looks on.
    pub(crate) fn progress(&mut self, text: &str) {
        if self.is_for_people && io::stderr().is_terminal() {
            let mut out = io::stderr().lock();
            let _ = write!(out, "\r\x1b[K{text}");
            let _ = out.flush();
            self.is_open = true;
        }
    }

    /// A line of progress where somebody looks on, and a line by itself otherwise.
    pub(crate) fn step(&mut self, text: &str) {
        if io::stderr().is_terminal() {
            self.progress(text);
        } else {
            self.line(text);
        }
    }
}

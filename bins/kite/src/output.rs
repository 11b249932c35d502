//! What commands say: results on standard output, progress on standard error.

use std::{
    ffi::OsStr,
    io::{self, ErrorKind, IsTerminal as _, Write as _},
};

use clap::{
    Arg, Command, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
    error::ErrorKind as Wrong,
};
use serde::Serialize;
use serde_json::Value;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

/// Reads an [`Output`] where `--output` used to be a file.
#[derive(Clone)]
pub(crate) struct OnceFile;

impl TypedValueParser for OnceFile {
    type Value = Output;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Output, clap::Error> {
        let parsed = EnumValueParser::new().parse_ref(command, option, value);
        parsed.map_err(|_| {
            let value = value.display();
            let message = format!(
                "--output {value}: that is how it is told what was done, text or json. The file \
                 stands by itself: {} {value}",
                command.get_bin_name().unwrap_or_default()
            );
            clap::Error::raw(Wrong::InvalidValue, message).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = Output::value_variants().iter();
        Some(Box::new(values.filter_map(ValueEnum::to_possible_value)))
    }
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

/// Writes an answer for scripts to standard output.
pub(crate) fn print_json(answer: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(answer)? + "\n"))?;
    Ok(())
}

/// How far it is, as a person sees at a glance.
pub(crate) fn bar(done: usize, all: usize) -> String {
    const WIDTH: usize = 24;
    let filled = (done * WIDTH).checked_div(all).unwrap_or(WIDTH).min(WIDTH);
    let rest = WIDTH - filled;
    format!("[{}{}] {done}/{all}", "#".repeat(filled), " ".repeat(rest))
}

/// Of how many rows of an answer this is what became of the object.
pub(crate) fn count(rows: &[Value], change: &str) -> usize {
    rows.iter().filter(|row| row["change"] == change).count()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        assert_eq!(bar(0, 4), format!("[{}] 0/4", " ".repeat(24)));
        assert_eq!(
            bar(2, 4),
            format!("[{}{}] 2/4", "#".repeat(12), " ".repeat(12))
        );
        assert_eq!(bar(4, 4), format!("[{}] 4/4", "#".repeat(24)));
    }
}

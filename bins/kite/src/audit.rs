//! `kite audit verify`: whether audit logs are as they were written.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write as _, stdin, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use kite_audit::{Collected, Hash, Verdict, Verifier};

/// What was found not to be as it was written.
const FAULTY: u8 = 3;

/// What can be done with audit logs.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Look whether lines of an audit log (`--audit-to`) were changed, moved or taken out.
    ///
    /// The files of one process are named from the oldest to the newest. What nobody can
    /// know is told: what was before the first line, and whether lines at the end were cut
    /// off. For the latter, keep the last hash that this prints, and name it next time.
    ///
    /// With --collected the files are logs in which records stand among other lines, such as
    /// `kubectl logs` prints those of several pods.
    ///
    /// The exit code is 0 if all is as it was written as far as can be known, which of lines
    /// that an older version wrote is nothing; 3 if something is not, if a log is read without
    /// --collected, or has no records with it; and 1 if a file could not be read.
    Verify(Options),
}

/// Which files.
#[derive(Args)]
pub(crate) struct Options {
    /// The files, from the oldest to the newest; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// They are logs, of as many processes and in whatever order. What stands in them beside
    /// records is left aside, and so is what a collector writes before each line.
    #[arg(long)]
    collected: bool,
    /// The hash of a line that has to be there, as an earlier run has printed it. May be
    /// given several times.
    #[arg(long, value_name = "HASH")]
    holds: Vec<Hash>,
}

/// Runs one of the commands.
pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Verify(options) = command;
    let verdict = verify(options)?;
    let out = &mut stdout().lock();
    for fault in &verdict.faults {
        writeln!(out, "{fault}")?;
    }
    for note in &verdict.notes {
        writeln!(out, "note: {note}")?;
    }
    let (records, streams) = (verdict.records, verdict.streams);
    if let Some(last) = &verdict.last {
        writeln!(out, "the last line has the hash {last}")?;
    }
    match verdict.faults.len() {
        0 => {
            writeln!(
                out,
                "{records} records of {streams} runs: all of them hold together"
            )?;
            Ok(ExitCode::SUCCESS)
        }
        faults => {
            writeln!(out, "{records} records of {streams} runs: {faults} faults")?;
            Ok(ExitCode::from(FAULTY))
        }
    }
}

fn verify(options: &Options) -> anyhow::Result<Verdict> {
    let holds = options.holds.iter().cloned();
    if options.collected {
        let mut collected = Collected::default();
        holds.for_each(|hash| collected.want(hash));
        read(&options.files, |name, text| collected.file(name, text))?;
        return Ok(collected.finish());
    }
    let mut verifier = Verifier::default();
    holds.for_each(|hash| verifier.want(hash));
    read(&options.files, |name, text| verifier.file(name, text))?;
    Ok(verifier.finish())
}

/// Has each of the files read.
fn read(
    files: &[PathBuf],
    mut file: impl FnMut(&str, &mut dyn BufRead) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    for path in files {
        let name = path.display().to_string();
        let read = if path == Path::new("-") {
            file(&name, &mut stdin().lock())
        } else {
            File::open(path).and_then(|it| file(&name, &mut BufReader::new(it)))
        };
        read.with_context(|| format!("{name} cannot be read"))?;
    }
    Ok(())
}

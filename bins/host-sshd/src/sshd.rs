//! The program `sshd`, asked about configurations.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::config::tree::{File, Says, Tree};
use crate::effective::Effective;
use crate::error::{Error, Refusal};
use crate::files;

/// Where sshd wants a directory while it runs; a socket unit's service takes it away
/// when it stops.
const MISSING: &str = "Missing privilege separation directory: ";

/// The program.
pub(crate) struct Sshd {
    program: PathBuf,
}

impl Sshd {
    /// The program at a path.
    pub(crate) fn new(program: &Path) -> Result<Self, Refusal> {
        let program = program.to_owned();
        if program.is_file() {
            Ok(Self { program })
        } else {
            Err(Refusal::NoSshd { path: program })
        }
    }

    /// What it makes of the configuration there is.
    pub(crate) fn effective(&self, config: &Path) -> Result<Effective, Error> {
        let invalid = |output| Refusal::Invalid { of: None, output };
        self.ask("-T", config).map_err(invalid_or(invalid))
    }

    /// What it makes of a configuration that is not there yet.
    pub(crate) fn test(&self, tree: &Tree, staging: &Path) -> Result<Effective, Error> {
        let of = Some(" as it is to be".to_owned());
        let invalid = |output: String| Refusal::Invalid {
            of,
            output: output.replace(&staging.display().to_string(), ""),
        };
        let tested = stage(tree, staging).and_then(|main| {
            self.ask("-t", &main)
                .and_then(|_| self.ask("-T", &main))
                .map_err(invalid_or(invalid))
        });
        let doing = format!("remove {}", staging.display());
        let removed = fs::remove_dir_all(staging).map_err(Error::io(doing));
        tested.and_then(|effective| removed.map(|()| effective))
    }

    fn ask(&self, how: &str, config: &Path) -> Result<Effective, Answer> {
        let mut output = self.run(how, config)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let missing = said.lines().find_map(|line| line.strip_prefix(MISSING));
        if let Some(dir) = missing {
            let make = DirBuilder::new().recursive(true).mode(0o755).create(dir);
            make.map_err(|error| Answer::Failed(Error::io(format!("make {dir}"))(error)))?;
            output = self.run(how, config)?;
        }
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Answer::No(lines(&said)));
        }
        Ok(Effective::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    fn run(&self, how: &str, config: &Path) -> Result<Output, Answer> {
        let mut command = Command::new(&self.program);
        command.arg(how).arg("-f").arg(config).stdin(Stdio::null());
        let doing = format!("run {}", self.program.display());
        command
            .output()
            .map_err(|error| Answer::Failed(Error::io(doing)(error)))
    }
}

/// Why sshd gave no answer.
enum Answer {
    /// It refuses the configuration.
    No(String),
    Failed(Error),
}

fn invalid_or(refusal: impl FnOnce(String) -> Refusal) -> impl FnOnce(Answer) -> Error {
    move |answer| match answer {
        Answer::No(output) => refusal(output).into(),
        Answer::Failed(error) => error,
    }
}

fn lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    lines.join("; ")
}

/// Writes all files below a directory, with each `Include` leading there, and gives
/// the main one.
fn stage(tree: &Tree, staging: &Path) -> Result<PathBuf, Error> {
    let write = || {
        if staging.exists() {
            fs::remove_dir_all(staging)?;
        }
        files::make_private_dir(staging)?;
        for file in &tree.files {
            let path = below(staging, &file.path);
            path.parent().map_or(Ok(()), files::make_private_dir)?;
            fs::write(path, redirected(file, staging))?;
        }
        Ok(())
    };
    let doing = format!("write the new configuration to {}", staging.display());
    write().map_err(Error::io(doing))?;
    Ok(below(staging, &tree.main().path))
}

fn below(staging: &Path, path: &Path) -> PathBuf {
    staging.join(path.strip_prefix("/").unwrap_or(path))
}

fn redirected(file: &File, staging: &Path) -> Vec<u8> {
    let mut content = Vec::new();
    let mut done = 0;
    for setting in &file.settings {
        let Says::Include { patterns, .. } = &setting.says else {
            continue;
        };
        for (place, pattern) in patterns {
            content.extend(&file.content[done..place.start]);
            content.extend(format!("\"{}{pattern}\"", staging.display()).bytes());
            done = place.end;
        }
    }
    content.extend(&file.content[done..]);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_file_includes_staged_files() {
        let text = "Include /etc/ssh/sshd_config.d/*.conf more \"/a b\" # Include x\n\
                    Match User y\n  include=z\nBanner Include\n";
        let file = File::read(PathBuf::from("/x"), text.as_bytes().to_vec(), false);
        let staged = redirected(&file, Path::new("/s"));
        assert_eq!(
            String::from_utf8_lossy(&staged),
            "Include \"/s/etc/ssh/sshd_config.d/*.conf\" \"/s/etc/ssh/more\" \"/s/a b\" # Include x\n\
             Match User y\n  include=\"/s/etc/ssh/z\"\nBanner Include\n"
        );
    }
}

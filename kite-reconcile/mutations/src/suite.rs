//! The test suites of the reconcilers, and what they say.

use std::{
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;

use crate::workspace::Workspace;

/// The crate whose suites these are, and where it is.
const CRATE: &str = "kite-reconcile";

/// A test target of the reconcilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Scenarios on the in-memory API server.
    Scenarios,
    /// Every fault at every request of the scenarios.
    Sweep,
    /// Properties of plans.
    Properties,
    /// Single error paths.
    Errors,
    /// Unit tests.
    Lib,
}

/// What a suite says.
pub enum Seen {
    /// All tests passed.
    Green,
    /// A test failed.
    Red(Caught),
}

/// The test that noticed, and what it noticed.
pub struct Caught {
    /// The test's name.
    pub test: String,
    /// What it says.
    pub assertion: String,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Suite {
    const ALL: [Self; 5] = [
        Self::Scenarios,
        Self::Sweep,
        Self::Properties,
        Self::Errors,
        Self::Lib,
    ];

    /// The suites that `workspace` has.
    pub fn all_of(workspace: &Workspace) -> Vec<Self> {
        let tests = workspace.root.join(CRATE).join("tests");
        let is_there = |suite: &Self| {
            let name = suite.name();
            *suite == Self::Lib
                || tests.join(name).join("main.rs").is_file()
                || tests.join(format!("{name}.rs")).is_file()
        };
        Self::ALL.into_iter().filter(is_there).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Scenarios => "scenarios",
            Self::Sweep => "sweep",
            Self::Properties => "properties",
            Self::Errors => "errors",
            Self::Lib => "lib",
        }
    }

    /// Builds it and runs those of its tests whose names contain `tests`, until
    /// one fails.
    pub fn run(
        self,
        workspace: &Workspace,
        tests: &str,
        timeout: Duration,
    ) -> anyhow::Result<Seen> {
        let program = self.build(workspace)?;
        let (end, text) = Self::call(workspace, &program, &[tests], timeout)?;
        let failed = match end {
            End::Exit(status) if status.success() => return Ok(Seen::Green),
            End::Exit(status) => read(&text).ok_or_else(|| Caught {
                test: "the whole suite".to_owned(),
                assertion: format!("it ended with {status}: {}", last_line(&text)),
            }),
            End::Timeout => Err(Caught {
                test: unfinished(&text),
                assertion: format!("not at an end after {} s", timeout.as_secs()),
            }),
            // Its panic would only be told at the end of the suite.
            End::Failed(name) => {
                let (_, text) = Self::call(workspace, &program, &["--exact", &name], timeout)?;
                read(&text).ok_or_else(|| Caught {
                    test: name,
                    assertion: "it failed beside the others, and not alone".to_owned(),
                })
            }
        };
        Ok(Seen::Red(failed.unwrap_or_else(|caught| caught)))
    }

    /// Runs the suite's program until its end or the first failure.
    fn call(
        workspace: &Workspace,
        program: &Path,
        arguments: &[&str],
        timeout: Duration,
    ) -> anyhow::Result<(End, String)> {
        let folder = workspace.root.join(CRATE);
        let output = workspace.target_dir.join("output");
        let file = fs::File::create(&output)?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(&folder)
            .env("CARGO_MANIFEST_DIR", &folder)
            // A property fails by what it finds, not by what an earlier run noted.
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("PROPTEST_MAX_SHRINK_ITERS", "200")
            .env("INSTA_UPDATE", "no")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("run {}", program.display()))?;
        let start = Instant::now();
        loop {
            let text = || anyhow::Ok(String::from_utf8_lossy(&fs::read(&output)?).into_owned());
            if let Some(status) = child.try_wait()? {
                return Ok((End::Exit(status), text()?));
            }
            let failed = if arguments.len() == 1 {
                failed(&text()?)
            } else {
                None
            };
            if failed.is_some() || start.elapsed() > timeout {
                child.kill()?;
                child.wait()?;
                return Ok((failed.map_or(End::Timeout, End::Failed), text()?));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Builds the suite; gives the program.
    fn build(self, workspace: &Workspace) -> anyhow::Result<PathBuf> {
        let mut arguments: Vec<OsString> = [
            "test",
            "--quiet",
            "--no-run",
            "--message-format=json-render-diagnostics",
            "-p",
            CRATE,
        ]
        .map(OsString::from)
        .to_vec();
        match self {
            Self::Lib => arguments.push("--lib".into()),
            _ => arguments.extend(["--test".into(), self.name().into()]),
        }
        arguments.extend(["--target-dir".into(), workspace.target_dir.clone().into()]);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(&arguments)
            .current_dir(&workspace.root)
            // Set by the cargo that runs this program, for this program.
            .env_remove("CARGO_MANIFEST_DIR")
            .output()
            .context("run cargo")?;
        if !built.status.success() {
            bail!(
                "does not compile:\n{}",
                String::from_utf8_lossy(&built.stderr)
            );
        }
        String::from_utf8_lossy(&built.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|message| message["profile"]["test"] == true)
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .ok_or_else(|| anyhow!("cargo names no program for suite {self}"))
    }
}

/// How a call came to its end.
enum End {
    /// By itself.
    Exit(ExitStatus),
    /// It was stopped because this test had failed.
    Failed(String),
    /// It was stopped because it took too long.
    Timeout,
}

/// The first test that is reported as failed.
fn failed(output: &str) -> Option<String> {
    let reports = output.lines().filter_map(|line| line.strip_prefix("test "));
    reports
        .filter_map(|report| report.strip_suffix(" ... FAILED"))
        .map(str::to_owned)
        .next()
}

/// The first failed test in the output of libtest, and its panic.
fn read(output: &str) -> Option<Caught> {
    let mut lines = output.lines();
    let heading = lines.find(|line| line.starts_with("---- ") && line.ends_with(" stdout ----"))?;
    let test = heading
        .trim_start_matches("---- ")
        .trim_end_matches(" stdout ----");
    let block: Vec<&str> = lines
        .take_while(|line| !line.starts_with("---- ") && *line != "failures:")
        .collect();
    let at = block.iter().position(|line| line.contains(" panicked at "));
    let said: Vec<&str> = match at {
        Some(at) => block.iter().skip(at + 1).copied().collect(),
        None => block,
    };
    let assertion = said
        .into_iter()
        .map(str::trim)
        .take_while(|line| !line.starts_with("note: "))
        .filter(|line| !line.is_empty())
        .take(4)
        .collect::<Vec<_>>()
        .join(" ");
    Some(Caught {
        test: test.to_owned(),
        assertion: shortened(&assertion),
    })
}

/// The tests that had begun and not ended, as far as libtest says so.
fn unfinished(output: &str) -> String {
    let slow: Vec<&str> = output
        .lines()
        .filter_map(|line| line.strip_prefix("test "))
        .filter_map(|line| line.split_once(" has been running for "))
        .map(|(name, _)| name)
        .filter(|name| !output.contains(&format!("test {name} ... ok")))
        .collect();
    if slow.is_empty() {
        "the whole suite".to_owned()
    } else {
        slow.join(", ")
    }
}

fn last_line(text: &str) -> &str {
    text.lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default()
}

fn shortened(text: &str) -> String {
    const MOST: usize = 240;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_failure_is_read_with_its_panic() {
        let output = "running 2 tests\ntest a ... ok\ntest b::c ... FAILED\n\nfailures:\n\n\
            ---- b::c stdout ----\n\nthread 'b::c' (7) panicked at tests/b.rs:3:9:\n\
            assertion `left == right` failed\n  left: 1\n right: 2\n\
            note: run with `RUST_BACKTRACE=1`\n\n\nfailures:\n    b::c\n";
        let caught = read(output).unwrap();
        assert_eq!(caught.test, "b::c");
        assert_eq!(
            caught.assertion,
            "assertion `left == right` failed left: 1 right: 2"
        );
        assert_eq!(failed(output).as_deref(), Some("b::c"));
        assert!(read("test result: ok").is_none());
        assert!(failed("test a ... ok\ntest b ... ").is_none());
    }

    #[test]
    fn a_test_that_never_ends_is_named() {
        let output = "test a has been running for over 60 seconds\n\
            test b has been running for over 60 seconds\ntest b ... ok\n";
        assert_eq!(unfinished(output), "a");
    }
}

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
use clap::ValueEnum;
use serde_json::Value;

use crate::workspace::Workspace;

/// The environment variable that names the mutation to be carried out.
pub const VARIABLE: &str = "KITE_MUTATION";

/// The crate whose suites most of these are, and where it is.
const CRATE: &str = "kite-reconcile";
/// The crate that it runs on, and where that is.
const RUNTIME: (&str, &str) = ("kite-runtime", "kite-reconcile/runtime");

/// The crate that decides on disks, and where that is.
const DISKS: (&str, &str) = ("kite-disks", "kite-reconcile/disks");

/// A test target of the reconcilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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
    /// Unit tests of what they run on.
    Runtime,
    /// Histories of a machine's disks.
    Model,
}

/// What of a suite is run, and how.
pub struct Order<'a> {
    /// Words of which one is in the names of the tests that are run; all tests
    /// if there is none.
    pub tests: &'a str,
    /// The mutation that is carried out, of those that sleep in the code.
    pub mutation: Option<&'a str>,
    /// How many faults of each class the tests of the sweep try, if that is said.
    pub faults: Option<usize>,
    /// After how long tests that have not ended have failed.
    pub timeout: Duration,
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
        f.pad(self.name())
    }
}

impl Suite {
    const ALL: [Self; 7] = [
        Self::Scenarios,
        Self::Sweep,
        Self::Properties,
        Self::Errors,
        Self::Lib,
        Self::Runtime,
        Self::Model,
    ];

    /// The suites that `workspace` has.
    pub fn all_of(workspace: &Workspace) -> Vec<Self> {
        let tests = workspace.root.join(CRATE).join("tests");
        let is_there = |suite: &Self| {
            let name = suite.name();
            matches!(suite, Self::Lib | Self::Runtime | Self::Model)
                || tests.join(name).join("main.rs").is_file()
                || tests.join(format!("{name}.rs")).is_file()
        };
        Self::ALL.into_iter().filter(is_there).collect()
    }

    /// The crate that has it, and where that is.
    fn package(self) -> (&'static str, &'static str) {
        match self {
            Self::Runtime => RUNTIME,
            Self::Model => DISKS,
            _ => (CRATE, CRATE),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Scenarios => "scenarios",
            Self::Sweep => "sweep",
            Self::Properties => "properties",
            Self::Errors => "errors",
            Self::Lib => "lib",
            Self::Runtime => "runtime",
            Self::Model => "model",
        }
    }

    /// Builds it and carries out `order`.
    pub fn run(self, workspace: &Workspace, order: &Order<'_>) -> anyhow::Result<Seen> {
        let program = self.build(workspace)?;
        let call = Call {
            workspace,
            folder: workspace.root.join(self.package().1),
            program: &program,
            order,
        };
        let tests: Vec<&str> = order.tests.split_whitespace().collect();
        let (end, text) = call.until_one_fails(&tests)?;
        let failed = match end {
            End::Exit(status) if status.success() => return Ok(Seen::Green),
            End::Exit(status) => read(&text).ok_or_else(|| Caught {
                test: "the whole suite".to_owned(),
                assertion: format!("it ended with {status}: {}", last_line(&text)),
            }),
            End::Timeout => Err(Caught {
                test: unfinished(&text),
                assertion: format!("not at an end after {} s", order.timeout.as_secs()),
            }),
            // Its panic would only be told at the end of the suite.
            End::Failed(name) => {
                let (_, text) = call.of_one(&name)?;
                read(&text).ok_or_else(|| Caught {
                    test: name,
                    assertion: "it failed beside the others, and not alone".to_owned(),
                })
            }
        };
        Ok(Seen::Red(failed.unwrap_or_else(|caught| caught)))
    }

    /// Builds the suite; gives the program.
    fn build(self, workspace: &Workspace) -> anyhow::Result<PathBuf> {
        let mut arguments: Vec<OsString> = [
            "test",
            "--quiet",
            "--no-run",
            "--message-format=json-render-diagnostics",
            "-p",
            self.package().0,
        ]
        .map(OsString::from)
        .to_vec();
        match self {
            Self::Lib | Self::Runtime => arguments.push("--lib".into()),
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

/// How a suite's program is run.
struct Call<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
    program: &'a Path,
    order: &'a Order<'a>,
}

impl Call<'_> {
    /// Runs the tests with these names until their end or the first failure.
    fn until_one_fails(&self, tests: &[&str]) -> anyhow::Result<(End, String)> {
        self.run(tests, true)
    }

    /// Runs a single test until its end.
    fn of_one(&self, test: &str) -> anyhow::Result<(End, String)> {
        self.run(&["--exact", test], false)
    }

    fn run(&self, arguments: &[&str], until_one_fails: bool) -> anyhow::Result<(End, String)> {
        let output = self.workspace.target_dir.join("output");
        let file = fs::File::create(&output)?;
        let mut command = Command::new(self.program);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            // A property fails by what it finds, not by what an earlier run noted.
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("PROPTEST_MAX_SHRINK_ITERS", "200")
            .env("INSTA_UPDATE", "no")
            .env("RUST_BACKTRACE", "0")
            // Functions with several bodies need room for all of them.
            .env("RUST_MIN_STACK", (64 << 20).to_string())
            .env_remove("KITE_SWEEP")
            .env_remove(VARIABLE)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        if let Some(mutation) = self.order.mutation {
            command.env(VARIABLE, mutation);
        }
        if let Some(faults) = self.order.faults {
            command.env("KITE_SWEEP", faults.to_string());
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("run {}", self.program.display()))?;
        let start = Instant::now();
        loop {
            let text = || anyhow::Ok(String::from_utf8_lossy(&fs::read(&output)?).into_owned());
            if let Some(status) = child.try_wait()? {
                return Ok((End::Exit(status), text()?));
            }
            // One that is alone comes to its end at once, and tells more there.
            let failed = Some(text()?)
                .filter(|text| until_one_fails && !text.contains("\nrunning 1 test\n"))
                .and_then(|text| failed(&text));
            if failed.is_some() || start.elapsed() > self.order.timeout {
                child.kill()?;
                child.wait()?;
                return Ok((failed.map_or(End::Timeout, End::Failed), text()?));
            }
            thread::sleep(Duration::from_millis(200));
        }
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
    let said = said
        .into_iter()
        .take_while(|line| !line.starts_with("note: "))
        .filter(|line| !line.trim().is_empty());
    let said: Vec<&str> = said.collect();
    let assertion = finding(&said)
        .unwrap_or(&said)
        .iter()
        .map(|line| line.trim())
        .take(4)
        .collect::<Vec<_>>()
        .join(" ");
    Some(Caught {
        test: test.to_owned(),
        assertion: shortened(&assertion),
    })
}

/// The first finding in the report of a sweep, which begins with how many runs
/// there were: the fault, and what was wrong then.
fn finding<'a, 'b>(said: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let is_report = said.first()?.contains(" runs over ");
    let from = 1 + said
        .get(1..)?
        .iter()
        .position(|line| !line.starts_with(' '))?;
    let violation = from
        + said
            .get(from..)?
            .iter()
            .position(|line| line.starts_with(' '))?;
    said.get(from..=violation).filter(|_| is_report)
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
    fn of_a_sweep_the_first_finding_is_told() {
        let output = "---- a::crashes stdout ----\n\nthread 'a' (7) panicked at b.rs:3:9:\n\
            crashes: 3 runs over 7 requests, 2 faults injected, 1 findings, 0.1 s\n  \
            crash: 1 of 2\n\
            a crash at request 3:\n  orphan: Secret a/b is left\n  state: there is more\n";
        let caught = read(output).unwrap();
        assert_eq!(
            caught.assertion,
            "a crash at request 3: orphan: Secret a/b is left"
        );
    }

    #[test]
    fn a_test_that_never_ends_is_named() {
        let output = "test a has been running for over 60 seconds\n\
            test b has been running for over 60 seconds\ntest b ... ok\n";
        assert_eq!(unfinished(output), "a");
    }
}

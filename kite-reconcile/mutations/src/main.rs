//! Shows that the tests of Kite's reconcilers see: breaks one thing after
//! another in a copy of the workspace, and says which test notices.
//!
//! ```sh
//! cargo run -p kite-mutations                      # all, one after the other
//! cargo run -p kite-mutations -- --list
//! cargo run -p kite-mutations -- --only delete-without-uid
//! ```
//!
//! A mutation replaces a piece of text in one file ([`catalogue`]). The file is
//! changed in a copy of what git knows of the workspace ([`workspace`]), so that
//! production code has no switches for it. Then suites are built and run, first
//! the tests that are expected to notice, until one is red ([`suite`]). Exits with
//! 1 when a mutation survives all of them, and with 2 when something else is
//! wrong: a suite that is red without a mutation, a mutation that does not
//! compile, or text that is not found.

mod anchor;
mod catalogue;
mod suite;
mod workspace;

use std::{
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Parser;

use crate::{
    catalogue::Mutation,
    suite::{Seen, Suite},
    workspace::Workspace,
};

/// Breaks Kite's reconcilers on purpose, one way after another, and says which
/// test notices.
#[derive(Parser)]
#[command(name = "kite-mutations", version, about)]
struct Options {
    /// Only print the mutations.
    #[arg(long)]
    list: bool,
    /// Only mutations whose name contains this; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Do not first check that the suites are green without a mutation.
    #[arg(long)]
    trust: bool,
    /// The workspace to break a copy of.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))]
    workspace: PathBuf,
    /// Where to build; not the workspace's own target directory.
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Seconds after which a suite that has not ended has noticed too.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    timeout: u64,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Runs them all. How many survived.
fn run(options: &Options) -> anyhow::Result<usize> {
    let wanted: Vec<&Mutation> = catalogue::all()
        .into_iter()
        .filter(|it| {
            options.only.is_empty() || options.only.iter().any(|name| it.name.contains(name))
        })
        .collect();
    if wanted.is_empty() {
        bail!(
            "--only {:?}: no mutation has such a name; see --list",
            options.only
        );
    }
    if options.list {
        for mutation in &wanted {
            say(&format!("{:<34} {}", mutation.name, mutation.what));
        }
        say(&format!("{} mutations", wanted.len()));
        return Ok(0);
    }
    let workspace = Workspace::copy(&options.workspace, options.target_dir.clone())?;
    let timeout = Duration::from_secs(options.timeout);
    if !options.trust {
        check_unbroken(&workspace, timeout)?;
    }
    let start = Instant::now();
    let mut survivors = Vec::new();
    for (index, mutation) in wanted.iter().enumerate() {
        let began = Instant::now();
        let seen = try_one(&workspace, mutation, timeout)
            .with_context(|| format!("mutation {}", mutation.name))?;
        say(&format!(
            "[{}/{}] {}: {} ({} s)",
            index + 1,
            wanted.len(),
            mutation.name,
            mutation.what,
            began.elapsed().as_secs()
        ));
        if let Some((suite, caught)) = seen {
            say(&format!(
                "        caught by {suite}: {}\n        {}",
                caught.test, caught.assertion
            ));
        } else {
            say("        SURVIVED: no suite noticed");
            survivors.push(mutation.name);
        }
    }
    say(&format!(
        "{} mutations, {} caught, {} survived, {} s{}",
        wanted.len(),
        wanted.len() - survivors.len(),
        survivors.len(),
        start.elapsed().as_secs(),
        if survivors.is_empty() {
            String::new()
        } else {
            format!(": {}", survivors.join(", "))
        }
    ));
    Ok(survivors.len())
}

/// A suite that is red anyway would "notice" everything.
fn check_unbroken(workspace: &Workspace, timeout: Duration) -> anyhow::Result<()> {
    for suite in Suite::all_of(workspace) {
        let start = Instant::now();
        if let Seen::Red(caught) = suite.run(workspace, "", timeout)? {
            bail!(
                "suite {suite} is red without any mutation: {}: {}",
                caught.test,
                caught.assertion
            );
        }
        say(&format!(
            "{suite} is green without a mutation ({} s)",
            start.elapsed().as_secs()
        ));
    }
    Ok(())
}

/// Carries out one mutation, runs first the tests that are likely to notice and
/// then all suites until one is red, and undoes it.
fn try_one(
    workspace: &Workspace,
    mutation: &Mutation,
    timeout: Duration,
) -> anyhow::Result<Option<(Suite, suite::Caught)>> {
    let broken = mutation.apply(&workspace.text(mutation.file)?)?;
    let _undone_at_the_end = workspace.put(mutation.file, &broken)?;
    let (likely, tests) = mutation.first;
    let suites = Suite::all_of(workspace);
    let first = suites.contains(&likely).then_some((likely, tests));
    for (suite, tests) in first
        .into_iter()
        .chain(suites.into_iter().map(|suite| (suite, "")))
    {
        if let Seen::Red(caught) = suite.run(workspace, tests, timeout)? {
            return Ok(Some((suite, caught)));
        }
    }
    Ok(None)
}

/// One line for whoever watches; a closed pipe is no reason to stop.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

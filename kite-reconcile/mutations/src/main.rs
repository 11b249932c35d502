//! Shows that the tests of Kite's reconcilers see: breaks one thing after
//! another in a copy of the workspace, and says which test notices.
//!
//! ```sh
//! cargo run -p kite-mutations                      # all, one after the other
//! cargo run -p kite-mutations -- --list
//! cargo run -p kite-mutations -- --only delete-without-uid
//! cargo run -p kite-mutations -- --suite sweep     # only the sweep may notice
//! ```
//!
//! A mutation replaces a piece of text in one file ([`catalogue`]). The files are
//! changed in a copy of what git knows of the workspace ([`workspace`]), so that
//! production code has no switches for it. The copy has them: each function that
//! is broken gets its broken bodies beside its own ([`switch`]), so that a single
//! build is enough for nearly all. Then suites are run, first the tests that are
//! expected to notice, until one is red ([`suite`]). Of a mutation that the sweep
//! is expected to notice no other suite is asked. Exits with 1 when a mutation
//! survives, and with 2 when something else is wrong: a suite that is red without
//! a mutation, a mutation that does not compile, or text that is not found.

mod anchor;
mod catalogue;
mod suite;
mod switch;
mod workspace;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Parser;

use crate::{
    catalogue::Mutation,
    suite::{Caught, Order, Seen, Suite},
    workspace::Workspace,
};

/// Breaks Kite's reconcilers on purpose, one way after another, and says which
/// test notices.
#[derive(Parser)]
#[command(name = "kite-mutations", version, about)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "flags of the command line, none of which excludes another"
)]
struct Options {
    /// Only print the mutations.
    #[arg(long)]
    list: bool,
    /// Only mutations whose name contains this; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only this suite may notice, whatever the catalogue expects.
    #[arg(long, value_enum)]
    suite: Option<Suite>,
    /// How many faults of each class the expected tests of the sweep try; its
    /// other tests try as many as they do in a plain run.
    #[arg(long, value_name = "RUNS", default_value_t = 24)]
    faults: usize,
    /// Run only the tests that are expected to notice.
    #[arg(long)]
    quick: bool,
    /// Print the outcome as rows of a Markdown table, too.
    #[arg(long)]
    table: bool,
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
    let mut wanted: Vec<&Mutation> = catalogue::all()
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
            let (suite, tests) = mutation.first;
            say(&format!(
                "{:<34} {suite:<10} {:<28} {}",
                mutation.name, tests, mutation.what
            ));
        }
        let by_sweep = wanted.iter().filter(|it| it.is_for_the_sweep()).count();
        say(&format!(
            "{} mutations, {by_sweep} of them for the sweep alone",
            wanted.len()
        ));
        return Ok(0);
    }
    // Those that cannot sleep beside the others come last, each with its build.
    let (asleep, alone) = put_to_sleep(&options.workspace, &catalogue::all())?;
    let is_alone = |it: &&Mutation| alone.contains(&it.name);
    wanted.sort_by_key(is_alone);
    let workspace = Workspace::copy(&options.workspace, options.target_dir.clone(), &asleep)?;
    let trial = Trial {
        workspace: &workspace,
        timeout: Duration::from_secs(options.timeout),
        only: options.suite,
        faults: options.faults,
        is_quick: options.quick,
    };
    if !options.trust {
        trial.check_unbroken(&wanted)?;
    }
    let start = Instant::now();
    let mut survivors = Vec::new();
    let mut rows = Vec::new();
    for (index, mutation) in wanted.iter().enumerate() {
        let began = Instant::now();
        let seen = if is_alone(mutation) {
            let broken = mutation.apply(&text(&options.workspace, mutation.file)?)?;
            let _undone_at_the_end = workspace.put(mutation.file, &broken)?;
            trial.of(mutation, None)
        } else {
            trial.of(mutation, Some(mutation.name))
        };
        let seen = seen.with_context(|| format!("mutation {}", mutation.name))?;
        say(&format!(
            "[{}/{}] {}: {} ({} s)",
            index + 1,
            wanted.len(),
            mutation.name,
            mutation.what,
            began.elapsed().as_secs()
        ));
        if let Some((suite, caught)) = &seen {
            say(&format!(
                "        caught by {suite}: {}\n        {}",
                caught.test, caught.assertion
            ));
        } else {
            say("        SURVIVED: nobody noticed who should have");
            survivors.push(mutation.name);
        }
        rows.push(row(mutation, seen));
    }
    if options.table {
        say("| Mutation: the broken reconciler … | Suite | Caught by |\n|---|---|---|");
        for row in &rows {
            say(row);
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

/// The files with all mutations in them that can sleep there, and the names of
/// the others.
fn put_to_sleep(
    workspace: &Path,
    mutations: &[&'static Mutation],
) -> anyhow::Result<(BTreeMap<PathBuf, String>, Vec<&'static str>)> {
    let mut asleep = BTreeMap::new();
    let mut alone = Vec::new();
    let files: BTreeSet<&str> = mutations.iter().map(|it| it.file).collect();
    for file in files {
        let of_file = mutations.iter().filter(|it| it.file == file);
        let of_file: Vec<_> = of_file.copied().collect();
        let (switched, left) = switch::all_of(&text(workspace, file)?, &of_file)?;
        asleep.insert(file.into(), switched);
        alone.extend(left.into_iter().map(|it| it.name));
    }
    Ok((asleep, alone))
}

fn text(workspace: &Path, file: &str) -> anyhow::Result<String> {
    let path = workspace.join(file);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// A mutation and what caught it, as a row of a table.
fn row(mutation: &Mutation, seen: Option<(Suite, Caught)>) -> String {
    let by = seen.map(|(suite, caught)| format!("{suite} | `{}`", caught.test));
    format!(
        "| `{}` {} | {} |",
        mutation.name,
        mutation.what,
        by.as_deref().unwrap_or("**nobody** | ")
    )
}

/// How mutations are tried.
struct Trial<'a> {
    workspace: &'a Workspace,
    timeout: Duration,
    /// The only suite that may notice.
    only: Option<Suite>,
    /// Faults of each class in the expected tests of the sweep.
    faults: usize,
    /// Whether only the expected tests are run.
    is_quick: bool,
}

impl Trial<'_> {
    /// The suites that may notice a mutation, and which of their tests are run,
    /// in this order.
    fn suites<'m>(&self, mutation: &'m Mutation) -> Vec<(Suite, &'m str)> {
        let (likely, tests) = mutation.first;
        let may_notice: Vec<Suite> = match self.only {
            Some(only) => vec![only],
            None if mutation.is_for_the_sweep() => vec![Suite::Sweep],
            // Nothing else goes by what is broken there.
            None if likely == Suite::Model => vec![Suite::Model],
            None => Suite::all_of(self.workspace),
        };
        let first = may_notice.contains(&likely).then_some((likely, tests));
        let all = may_notice.into_iter().map(|suite| (suite, ""));
        let all = all.filter(|_| !self.is_quick || first.is_none());
        first.into_iter().chain(all).collect()
    }

    /// A suite that is red anyway would "notice" everything.
    fn check_unbroken(&self, wanted: &[&Mutation]) -> anyhow::Result<()> {
        for suite in Suite::all_of(self.workspace) {
            let is_asked = |it: &&Mutation| self.suites(it).iter().any(|(s, _)| *s == suite);
            if !wanted.iter().any(is_asked) {
                continue;
            }
            let start = Instant::now();
            let order = Order {
                tests: "",
                mutation: None,
                faults: None,
                timeout: self.timeout,
            };
            if let Seen::Red(caught) = suite.run(self.workspace, &order)? {
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

    /// Runs first the tests that are likely to notice and then all that may,
    /// until one is red. `asleep` is what the mutation is woken by, if it has to
    /// be.
    fn of(
        &self,
        mutation: &Mutation,
        asleep: Option<&str>,
    ) -> anyhow::Result<Option<(Suite, Caught)>> {
        for (suite, tests) in self.suites(mutation) {
            let order = Order {
                tests,
                mutation: asleep,
                faults: (!tests.is_empty()).then_some(self.faults),
                timeout: self.timeout,
            };
            if let Seen::Red(caught) = suite.run(self.workspace, &order)? {
                return Ok(Some((suite, caught)));
            }
        }
        Ok(None)
    }
}

/// One line for whoever watches; a closed pipe is no reason to stop.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

//! The web page as people use it: in a browser, against `kite demo`.

use std::{
    env, fs,
    io::Write as _,
    panic,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use crate::support;

/// What the docs say that pages must know.
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// The UI's sources and tests.
const UI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kite-api/ui");

/// The browser, Node.js and the packages of the UI's tests.
struct Tools {
    /// Chromium's headless shell, if there is one: the same engine in two thirds of the
    /// processor time.
    chromium: PathBuf,
    /// The packages of `kite-api/ui/package.json`.
    modules: PathBuf,
}

impl Tools {
    /// What there is, or what is missing.
    fn find() -> Result<Self, Vec<String>> {
        let mut missing = Vec::new();
        if on_path("node").is_none() {
            missing.push("node is not on the PATH".to_owned());
        }
        let chromium = env::var_os("KITE_CHROMIUM")
            .map(PathBuf::from)
            .or_else(|| on_path("chromium-headless-shell"))
            .or_else(|| on_path("chromium"));
        if chromium.is_none() {
            missing.push(
                "neither chromium-headless-shell nor chromium is on the PATH, and KITE_CHROMIUM \
                 names none"
                    .to_owned(),
            );
        }
        let modules = env::var_os("KITE_UI_NODE_MODULES")
            .map_or_else(|| Path::new(UI).join("node_modules"), PathBuf::from);
        for package in [
            "playwright-core",
            "axe-core",
            "typescript",
            "openapi-typescript",
        ] {
            if !modules.join(package).is_dir() {
                missing.push(format!(
                    "{package} is not in {}: run npm ci in kite-api/ui, or set \
                     KITE_UI_NODE_MODULES",
                    modules.display()
                ));
            }
        }
        match chromium {
            Some(chromium) if missing.is_empty() => Ok(Self { chromium, modules }),
            _ => Err(missing),
        }
    }

    /// The tools, unless the test is to be skipped. In CI it is not.
    fn here() -> Option<Self> {
        match Self::find() {
            Ok(tools) => Some(tools),
            Err(missing) => {
                let missing = missing.join("; ");
                assert!(
                    env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
                    "KITE_REQUIRE_CLIENTS is set: {missing}"
                );
                let _ = writeln!(std::io::stderr(), "SKIPPED: {missing}");
                None
            }
        }
    }

    /// A copy of the UI beside its packages, so that nothing is written into the
    /// source tree and the packages may be elsewhere.
    fn copy_ui(&self, to: &Path) -> PathBuf {
        let ui = to.join("ui");
        for part in ["src", "tests"] {
            copy(&Path::new(UI).join(part), &ui.join(part));
        }
        for file in ["package.json", "tsconfig.json", "vite.config.ts"] {
            copy(&Path::new(UI).join(file), &ui.join(file));
        }
        copy(
            &Path::new(UI).join("../openapi.json"),
            &to.join("openapi.json"),
        );
        std::os::unix::fs::symlink(&self.modules, ui.join("node_modules")).unwrap();
        ui
    }
}

fn on_path(tool: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(tool))
        .find(|file| file.is_file())
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// Runs a program of Node.js to its end, and gives what it said.
fn node(ui: &Path, args: &[&str], envs: &[(&str, &str)]) -> String {
    let mut command = Command::new("node");
    command
        .args(args)
        .current_dir(ui)
        .envs(envs.iter().copied())
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // What went well would push what did not out of a log that is cut.
    assert!(
        output.status.success(),
        "{}{}",
        failures(&said),
        support::show(&output)
    );
    said
}

/// What failed by a report in the Test Anything Protocol: from each `not ok` to the end of
/// its explanation.
fn failures(report: &str) -> String {
    let mut is_failure = false;
    let mut failures = String::new();
    for line in report.lines() {
        is_failure |= line.starts_with("not ok");
        if is_failure || line.starts_with("# Error") {
            failures.push_str(line);
            failures.push('\n');
        }
        is_failure &= line != "  ...";
    }
    failures
}

#[test]
fn what_failed_is_told_before_what_did_not() {
    let report = "TAP version 13\nok 1 - good\n  ---\n  ...\nnot ok 2 - bad\n  ---\n  why\n  ...\nok 3 - fine\n# Error: late\n";
    assert_eq!(
        failures(report),
        "not ok 2 - bad\n  ---\n  why\n  ...\n# Error: late\n"
    );
}

#[test]
fn the_ui_is_typed_by_the_document_of_the_api() {
    let Some(tools) = Tools::here() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ui = tools.copy_ui(dir.path());
    let generate = "node_modules/openapi-typescript/bin/cli.js";
    let schema = ["../openapi.json", "-o", "src/api/schema.d.ts"];
    node(&ui, &[&[generate], &schema[..]].concat(), &[]);
    node(&ui, &["node_modules/typescript/bin/tsc", "--noEmit"], &[]);
}

/// How long each top-level test of such a report took, in seconds, the longest first.
fn times(report: &str) -> Vec<(f64, &str)> {
    let mut name = "";
    let mut times = Vec::new();
    for line in report.lines() {
        if let Some((_, told)) = line.strip_prefix("ok ").and_then(|it| it.split_once(" - ")) {
            name = told;
        } else if let Some(told) = line.strip_prefix("  duration_ms: ") {
            times.push((told.parse::<f64>().unwrap() / 1_000.0, name));
        }
    }
    times.sort_by(|one, other| other.0.total_cmp(&one.0));
    times
}

#[test]
fn the_longest_is_told_first() {
    let report = "TAP version 13\n# Subtest: a\nok 1 - a\n  ---\n  duration_ms: 20.5\n  ...\n\
                  # Subtest: b\nok 2 - b\n  ---\n  duration_ms: 4000\n  ...\n1..2\n# duration_ms 4021\n";
    assert_eq!(times(report), [(4.0, "b"), (0.0205, "a")]);
}

/// What plays one part after another in a demo of its own (`kite-api/ui/tests/run.mjs`).
/// They wait most of the time, so all play at once.
const WORLDS: [&str; 3] = ["machines", "people", "looks"];

#[test]
fn every_page_and_flow_works_in_a_browser() {
    let Some(tools) = Tools::here() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ui = tools.copy_ui(dir.path());
    let reports = thread::scope(|scope| {
        let (tools, ui) = (&tools, &ui);
        let play = |world| {
            let state = dir.path().join(world);
            scope.spawn(move || play(tools, ui, &state, world))
        };
        WORLDS.map(play).map(thread::ScopedJoinHandle::join)
    });
    for (world, report) in WORLDS.iter().zip(reports) {
        let report = report.unwrap_or_else(|why| panic::resume_unwind(why));
        let times = times(&report);
        let all: f64 = times.iter().map(|it| it.0).sum();
        let longest = times
            .iter()
            .take(5)
            .map(|it| format!("\n  {:.0} s {}", it.0, it.1));
        let longest: String = longest.collect();
        // Past the harness, which says nothing of what went well.
        let _ = writeln!(
            std::io::stderr(),
            "world {world}: {} scenes in {all:.0} s, the longest of which{longest}",
            times.len(),
        );
    }
}

/// Lets a world live; gives the report.
fn play(tools: &Tools, ui: &Path, state: &Path, world: &str) -> String {
    let (mut demo, platform) = support::start_demo(state, &["--record"]);
    let token = fs::read_to_string(state.join("bootstrap-token")).unwrap();
    let report = node(
        ui,
        &["tests/run.mjs", world],
        &[
            ("KITE_API", platform.text("api").as_str()),
            ("KITE_BOOTSTRAP_TOKEN", token.trim()),
            ("KITE_GATEWAY", platform.text("gateway").as_str()),
            ("KITE_STATE", state.to_str().unwrap()),
            ("KITE_DOCS", DOCS),
            ("KITE_CHROMIUM", tools.chromium.to_str().unwrap()),
        ],
    );
    demo.assert_running();
    report
}

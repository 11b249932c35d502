//! Replays what a real API server answered; see `transcripts/`.
//!
//! `TRANSCRIPT=name cargo test -p kite-fake --test transcripts -- --nocapture`
//! prints the differences of one scenario (a substring is enough), and
//! `TRANSCRIPT_RATCHET=write` takes steps that answer as a real server does now out of
//! `differ.txt`, which names those that are known to differ.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::{
    Actor, Actors, GarbageCollector, Jobs, NamespaceDefaults, NamespaceLifecycle, Rules,
};
use replay::compare::{self, Binding};
use replay::{Runner, Wire};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// The recorded scenarios, and whether the server had all default admission plugins and
/// its controllers beside it (those in `more`) or no `ServiceAccount` admission.
fn scenarios() -> Vec<(Value, bool)> {
    let mut all = read(&folder(), false);
    all.extend(read(&folder().join("more"), true));
    all
}

fn read(folder: &Path, is_whole: bool) -> Vec<(Value, bool)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|p| serde_json::from_slice(&std::fs::read(p).unwrap()).unwrap())
        .map(|scenario| (scenario, is_whole))
        .collect()
}

/// The differences of each step, by what is sent in process.
async fn run(scenario: &Value, is_whole: bool) -> Vec<(String, Vec<String>)> {
    run_by(scenario, is_whole, async |_| Wire::InProcess).await
}

/// The differences of each step.
async fn run_by(
    scenario: &Value,
    is_whole: bool,
    wire: impl AsyncFn(&FakeCluster) -> Wire,
) -> Vec<(String, Vec<String>)> {
    let requires = |what: &str| {
        scenario["requires"]
            .as_array()
            .is_some_and(|r| r.iter().any(|x| x == what))
    };
    let cluster = FakeCluster::builder()
        .rbac(requires("rbac"))
        .service_accounts(is_whole)
        .build()
        .unwrap();
    let mut controllers: Vec<Arc<dyn Actor>> = Vec::new();
    if requires("garbage-collector") {
        controllers.push(Arc::new(GarbageCollector::default()));
    }
    if requires("namespace-controller") {
        controllers.push(Arc::new(NamespaceLifecycle::default()));
    }
    if is_whole {
        controllers.push(Arc::new(NamespaceDefaults));
        controllers.push(Arc::new(Jobs::default()));
    }
    let actors = Actors::on(&cluster, &Arc::new(Rules::instant()), controllers);
    let mut runner = Runner::new(cluster.clone(), wire(&cluster).await);
    runner.setup(scenario).await;
    let mut bind = Binding::default();
    let mut out = Vec::new();
    for step in scenario["steps"].as_array().unwrap() {
        // Without a deadline a hang would be a hang of the whole suite.
        let limit = Duration::from_secs(600);
        let id = step["id"].as_str().unwrap_or("action").to_owned();
        let found = match tokio::time::timeout(limit, runner.step(step)).await {
            Ok(got) => compare::step(step, &got, &mut bind),
            Err(_) => vec!["no answer in ten minutes".to_owned()],
        };
        out.push((id, found));
        if is_whole {
            // Controllers were quicker than the one who wrote down what was answered.
            assert!(actors.settled(limit).await);
        }
    }
    cluster.shut_down();
    actors.ended().await;
    out
}

#[tokio::test(start_paused = true)]
async fn a_real_server_answered_the_same() {
    let only = std::env::var("TRANSCRIPT").ok();
    let file = folder().join("differ.txt");
    let expected = read_expectations(&file);
    let (mut found, mut passed, mut total) = (BTreeMap::new(), 0, 0);
    let mut behind = Vec::new();
    for (scenario, is_whole) in scenarios() {
        let name = scenario["name"].as_str().unwrap().to_owned();
        if only.as_ref().is_some_and(|o| !name.contains(o.as_str())) {
            continue;
        }
        let steps = run(&scenario, is_whole).await;
        let good = steps.iter().filter(|(_, d)| d.is_empty()).count();
        println!("{good:>4} of {:>3} {name}", steps.len());
        if only.is_some() {
            for (id, differences) in steps.iter().filter(|(_, d)| !d.is_empty()) {
                println!("  {id}");
                for line in differences.iter().take(12) {
                    println!("     {line}");
                }
            }
        }
        let differing = steps.iter().filter(|(_, d)| !d.is_empty());
        let differing: BTreeSet<String> = differing.map(|(id, _)| id.clone()).collect();
        let known = expected.get(&name).cloned().unwrap_or_default();
        let new: Vec<_> = differing.difference(&known).collect();
        if !new.is_empty() {
            behind.push(format!("{name}: {new:?}"));
        }
        total += steps.len();
        passed += good;
        found.insert(name, differing);
    }
    println!("{passed} of {total} steps pass");
    if only.is_none() && std::env::var("TRANSCRIPT_RATCHET").is_ok() {
        let known = |name: &String| expected.get(name).cloned().unwrap_or_default();
        let lines: Vec<String> = found
            .iter()
            .map(|(name, steps)| (name, steps & &known(name)))
            .filter(|(_, steps)| !steps.is_empty())
            .map(|(name, steps)| {
                let steps: Vec<_> = steps.into_iter().collect();
                format!("{name} {}\n", steps.join(" "))
            })
            .collect();
        std::fs::write(&file, lines.concat()).unwrap();
    }
    assert!(
        behind.is_empty(),
        "steps that answered as a real server differ:\n{}",
        behind.join("\n")
    );
}

/// Sockets, TLS and the time of the machine change nothing about the answers.
#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_answered_the_same_over_tls() {
    use futures::StreamExt as _;

    let expected = read_expectations(&folder().join("differ.txt"));
    let only = std::env::var("TRANSCRIPT").ok();
    let chosen = scenarios().into_iter().filter(|(scenario, _)| {
        let name = scenario["name"].as_str().unwrap();
        only.as_ref().is_none_or(|it| name.contains(it.as_str()))
    });
    let behind: Vec<String> = futures::stream::iter(chosen)
        .map(|(scenario, is_whole)| {
            let expected = &expected;
            async move {
                let name = scenario["name"].as_str().unwrap();
                let steps = run_by(&scenario, is_whole, Wire::over_tls).await;
                let known = |id: &String| expected.get(name).is_some_and(|it| it.contains(id));
                let new = steps
                    .into_iter()
                    .filter(|(id, found)| !found.is_empty() && !known(id));
                new.map(|(id, found)| format!("{name} {id}: {found:#?}"))
                    .collect()
            }
        })
        .buffer_unordered(8)
        .collect::<Vec<Vec<String>>>()
        .await
        .concat();
    assert!(behind.is_empty(), "over TLS differ:\n{}", behind.join("\n"));
}

/// The steps that are known to differ, by scenario.
fn read_expectations(file: &Path) -> BTreeMap<String, BTreeSet<String>> {
    std::fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, steps)| {
            let steps = steps.split(' ').map(str::to_owned).collect();
            (name.to_owned(), steps)
        })
        .collect()
}

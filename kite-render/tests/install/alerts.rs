//! Alerts and dashboard: asked of Prometheus' own tool, and explained in `docs/monitoring.md`.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use kite_render::install::{alerts, dashboard};
use serde_json::json;

fn path(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of)
}

/// `promtool` of the variable, or of the PATH. Where it is missing the test says so
/// and passes; in CI (`KITE_REQUIRE_CLIENTS`) it fails.
fn promtool(arguments: &[&str], file: &Path) -> Option<String> {
    let program = std::env::var_os("KITE_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let output = match Command::new(program).args(arguments).arg(file).output() {
        Ok(output) => output,
        Err(error) => {
            let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
            assert!(!required, "promtool (Debian: prometheus): {error}");
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: promtool (Debian: prometheus): {error}"
            );
            return None;
        }
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    Some(said)
}

#[test]
fn prometheus_takes_them() {
    let file = path("../deploy/monitoring/alerts.yaml");
    if let Some(said) = promtool(&["check", "rules"], &file) {
        let rules: usize = alerts().groups.iter().map(|group| group.rules.len()).sum();
        assert!(said.contains(&format!("{rules} rules found")), "{said}");
    }
}

/// As recording rules, which JSON can say, too.
#[test]
fn prometheus_takes_the_queries_of_the_dashboard() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let rules: Vec<_> = targets
        .flatten()
        .zip(1..)
        .map(|(target, number)| {
            // Grafana's, of which Prometheus does not know.
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$__rate_interval", "5m");
            json!({"record": format!("query:{number}"), "expr": query})
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yaml");
    let groups = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    std::fs::write(&file, groups.to_string()).unwrap();
    if let Some(said) = promtool(&["check", "rules"], &file) {
        assert!(
            said.contains(&format!("{} rules found", rules.len())),
            "{said}"
        );
    }
}

#[test]
fn they_fire_when_they_should() {
    promtool(&["test", "rules"], &path("tests/install/alerts.yaml"));
}

#[test]
fn each_is_tested_and_explained() {
    let tests = std::fs::read_to_string(path("tests/install/alerts.yaml")).unwrap();
    let page = std::fs::read_to_string(path("../docs/monitoring.md")).unwrap();
    let explained: BTreeSet<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .filter(|title| title.starts_with("Kite"))
        .collect();
    let alerts = alerts();
    let rules = alerts.groups.iter().flat_map(|group| &group.rules);
    let names: BTreeSet<_> = rules.map(|rule| rule.alert.as_str()).collect();
    assert_eq!(explained, names, "headings of docs/monitoring.md");
    for name in names {
        let in_table = format!("| [{name}](#{})", name.to_lowercase());
        assert!(page.contains(&in_table), "docs/monitoring.md: {in_table}");
        assert!(tests.contains(name), "tests/install/alerts.yaml: {name}");
    }
}

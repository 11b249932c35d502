//! Whether queries ask for metrics, labels and values that the processes have.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use kite_core::crd::{ImagePhase, UserPhase, VmPhase};
use kite_render::install::{alerts, dashboard};
use regex::Regex;
use serde_json::Value;

/// What Prometheus puts on every series by itself.
const OF_TARGET: [&str; 4] = ["job", "instance", "namespace", "pod"];

/// The series that processes show: the values of each label of each metric.
#[derive(Default)]
pub struct Exposed(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Exposed {
    /// Adds what `/metrics` of a process says.
    pub fn read(&mut self, exposition: &str) {
        let sample = Regex::new(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+").unwrap();
        let label = Regex::new(r#"(\w+)="((?:[^"\\]|\\.)*)""#).unwrap();
        for line in exposition.lines().filter(|line| !line.starts_with('#')) {
            let sample = sample.captures(line).unwrap_or_else(|| panic!("{line}"));
            let labels = self.0.entry(sample[1].to_owned()).or_default();
            let text = sample.get(2).map_or("", |text| text.as_str());
            for label in label.captures_iter(text) {
                let values = labels.entry(label[1].to_owned()).or_default();
                values.insert(label[2].to_owned());
            }
        }
    }

    /// What is wrong with a query, if anything is.
    fn judge(&self, query: &str) -> Vec<String> {
        let metric = Regex::new(r"\b(kite_\w+)(?:\{([^}]*)\})?").unwrap();
        let matcher = Regex::new(r#"^(\w+)(=~|!=|!~|=)"(.*)"$"#).unwrap();
        let by = Regex::new(r"\bby \(([^)]*)\)").unwrap();
        let known = known();
        let mut wrong = Vec::new();
        let mut common: Option<BTreeSet<&str>> = None;
        for found in metric.captures_iter(query) {
            let name = &found[1];
            let Some(labels) = self.0.get(name) else {
                wrong.push(format!("no process has {name}"));
                continue;
            };
            let names: BTreeSet<_> = labels.keys().map(String::as_str).chain(OF_TARGET).collect();
            common = Some(match common {
                Some(common) => &common & &names,
                None => names.clone(),
            });
            let matchers = found.get(2).map_or("", |text| text.as_str());
            for text in matchers.split(',').filter(|text| !text.is_empty()) {
                let matcher = matcher.captures(text).unwrap_or_else(|| panic!("{query}"));
                let (label, value) = (&matcher[1], &matcher[3]);
                if !names.contains(label) {
                    wrong.push(format!("{name} has no label {label}"));
                } else if let Some(values) = labels.get(label) {
                    let others = known.iter().filter(|(of, _)| *of == label);
                    let values: BTreeSet<_> = values
                        .iter()
                        .map(String::as_str)
                        .chain(others.map(|(_, value)| *value))
                        .collect();
                    let missing = missing(&matcher[2], value, &values);
                    wrong.extend(
                        missing
                            .into_iter()
                            .map(|value| format!("{name} has no {label} {value}: {values:?}")),
                    );
                }
            }
        }
        let common = common.unwrap_or_default();
        for group in by.captures_iter(query) {
            let labels = group[1].split(',').map(str::trim);
            let missing = labels.filter(|label| !common.contains(label));
            wrong.extend(missing.map(|label| format!("not all have a label {label}")));
        }
        if common.is_empty() && wrong.is_empty() && !query.contains("up{") {
            wrong.push("asks for nothing".to_owned());
        }
        wrong
    }
}

/// What of `value` no series has: all of it, or those of a pattern's alternatives.
fn missing<'a>(operator: &str, value: &'a str, values: &BTreeSet<&str>) -> Vec<&'a str> {
    if !operator.ends_with('~') {
        return if values.contains(value) {
            Vec::new()
        } else {
            vec![value]
        };
    }
    assert!(!value.contains('('), "alternatives within {value}");
    let is_missing = |alternative: &&str| {
        let pattern = Regex::new(&format!("^(?:{alternative})$")).unwrap();
        !values.iter().any(|value| pattern.is_match(value))
    };
    value.split('|').filter(is_missing).collect()
}

/// Labels and values that need not be there.
fn known() -> BTreeSet<(&'static str, &'static str)> {
    let failed = [
        format!("{:?}", VmPhase::Failed),
        format!("{:?}", UserPhase::Failed),
        format!("{:?}", ImagePhase::Failed),
    ];
    assert!(failed.iter().all(|phase| phase == "Failed"), "{failed:?}");
    BTreeSet::from([
        ("phase", "Failed"),
        // Of a kind without phases (`kite_reconcile`'s census).
        ("phase", "NotReady"),
        ("kind", "KitePlatform"),
        ("kind", "KiteVirtualMachine"),
        // What goes wrong where all is well (`kite_reconcile`'s errors).
        ("category", "conflict"),
        ("category", "not_leader"),
        // Requests to the API server that failed.
        ("code", "5xx"),
        ("code", "429"),
        ("code", "none"),
        // Requests to the HTTP API that failed.
        ("status", "500"),
        ("verb", "watch"),
    ])
}

/// The queries of all alerts and of the dashboard.
fn queries() -> Vec<String> {
    let rules = alerts().groups.into_iter().flat_map(|group| group.rules);
    let mut all: Vec<_> = rules.map(|rule| rule.expr).collect();
    assert!(all.len() > 20, "{all:?}");
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let before = all.len();
    all.extend(targets.flatten().map(|target| match &target["expr"] {
        Value::String(text) => text.clone(),
        other => panic!("{other}"),
    }));
    assert!(all.len() > before + 20, "{all:?}");
    all
}

/// Fails with all that alerts and dashboard ask for and is not there.
pub fn assert_all_can_be_asked(exposed: &Exposed) {
    for wrong in [
        "kite_nothing",
        r#"kite_objects{door="x"}"#,
        "sum by (door) (kite_objects)",
        r#"kite_objects{phase="Fallen"}"#,
        r#"kite_objects{phase!="Fallen"}"#,
        r#"kite_objects{phase=~"Fail.*|Fallen"}"#,
        r#"kite_objects{phase!~"Failed|Fallen"}"#,
    ] {
        assert_eq!(exposed.judge(wrong).len(), 1, "{wrong}");
    }
    let wrong: Vec<_> = queries()
        .into_iter()
        .map(|query| (exposed.judge(&query), query))
        .filter(|(wrong, _)| !wrong.is_empty())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

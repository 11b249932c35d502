//! The order of every kind, beside texts that Kubernetes' own encoder wrote.
//!
//! `kubernetes/api` keeps an object of each kind with all its fields, indented; they
//! are read where `KITE_API_TESTDATA` says they are (`testdata/HEAD` of a checkout).

use std::path::PathBuf;

use serde_json::Value;

use super::{Order, indented, text};

/// What Kubernetes would write is what is read, or the first line that differs.
fn differs(file: &str) -> Option<String> {
    let value: Value = serde_json::from_str(file).unwrap();
    let ours = String::from_utf8(indented(&text(&value)).to_vec()).unwrap();
    let mut lines = ours.lines().zip(file.lines());
    lines
        .find(|(ours, theirs)| ours != theirs)
        .map(|(ours, theirs)| format!("{ours} for {theirs}"))
        .or_else(|| (ours.trim_end() != file.trim_end()).then(|| "its length".to_owned()))
}

#[test]
fn every_kind_is_written_as_kubernetes_writes_it() {
    let Some(directory) = std::env::var_os("KITE_API_TESTDATA").map(PathBuf::from) else {
        eprintln!("skipped: KITE_API_TESTDATA names no checkout of kubernetes/api");
        return;
    };
    let (mut compared, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "json") {
            continue;
        }
        let file = std::fs::read_to_string(&path).unwrap();
        if Order::of(&serde_json::from_str(&file).unwrap()).is_none() {
            continue;
        }
        compared += 1;
        if let Some(why) = differs(&file) {
            wrong.push(format!("{}: {why}", path.display()));
        }
    }
    assert!(compared > 60, "only {compared} kinds in {directory:?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

//! `kite audit verify` as a command: what it prints, and its exit codes.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use kite_audit::{Hash, Lines, Process};
use serde_json::json;

fn verify(args: &[&str]) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_kite"))
        .args(["audit", "verify"])
        .args(args)
        .output()
        .unwrap();
    let text = [stdout, stderr].concat();
    (status.code(), String::from_utf8(text).unwrap())
}

fn write(path: &Path) {
    let process = Process {
        name: "kite-test".to_owned(),
        version: "1".to_owned(),
        server: None,
    };
    let lines = Lines::to_file(path, &process).unwrap();
    for n in 0..3 {
        lines.record(&json!({ "value": n }));
    }
}

/// As `kubectl logs` has it: standard output and standard error, of a process that writes
/// its records to the former.
#[test]
fn records_among_the_lines_of_a_log_are_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pod.log");
    let name = path.to_str().unwrap();
    let records = directory.path().join("records");
    write(&records);
    let records = fs::read_to_string(records).unwrap();
    let last = Hash::of(records.lines().last().unwrap().as_bytes()).to_string();
    let among = |records: &str| {
        let lines = records.lines();
        let lines = lines.map(|it| format!("[pod/kite-api-0/kite-api] {it}\nINFO answered\n"));
        lines.collect::<String>()
    };
    fs::write(&path, among(&records)).unwrap();
    let (code, told) = verify(&["--collected", "--holds", &last, name]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("5 records of 1 runs") && told.contains(&last),
        "{told}"
    );
    let (code, told) = verify(&[name]);
    assert_eq!(code, Some(3), "no line is a record by itself: {told}");
    assert!(told.contains("nothing can be said of them"), "{told}");
    assert!(
        told.contains(&format!("{name}:1: ")) && told.contains("--collected"),
        "{told}"
    );

    fs::write(
        &path,
        among(&records.replace("\"value\":1,", "\"value\":7,")),
    )
    .unwrap();
    let (code, told) = verify(&["--collected", name]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains(&format!("{name}:5: was changed")), "{told}");
    fs::write(&path, "INFO answered\n").unwrap();
    let (code, told) = verify(&["--collected", name]);
    assert_eq!(code, Some(3), "a log without records shows nothing: {told}");
}

/// Whoever forgets --collected hears of it, also where a collector keeps lines as texts in
/// JSON; files of an older version are what they were.
#[test]
fn a_log_is_told_from_a_file_of_an_older_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let name = path.to_str().unwrap();
    let records = directory.path().join("records");
    write(&records);
    let records = fs::read_to_string(records).unwrap();
    let wrapped = records.lines().map(|it| json!({ "log": it }).to_string());
    let wrapped: Vec<_> = wrapped.collect();
    fs::write(&path, wrapped.join("\n")).unwrap();
    let (code, told) = verify(&[name]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("--collected"), "{told}");
    let (code, told) = verify(&["--collected", name]);
    assert_eq!(code, Some(0), "{told}");

    fs::write(&path, "{\"event\":\"login\"}\n{\"event\":\"connection\"}\n").unwrap();
    let (code, told) = verify(&[name]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("nothing can be said of them"), "{told}");
}

#[test]
fn what_holds_what_does_not_and_what_cannot_be_read_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let name = path.to_str().unwrap();
    write(&path);
    let text = fs::read_to_string(&path).unwrap();
    let last = Hash::of(text.lines().last().unwrap().as_bytes()).to_string();

    let (code, told) = verify(&[name]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains(&last), "{told}");
    let (code, told) = verify(&["--holds", &last, name]);
    assert_eq!(code, Some(0), "{told}");

    fs::write(&path, text.replace("\"value\":1,", "\"value\":7,")).unwrap();
    let (code, told) = verify(&[name]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains(&format!("{name}:3: was changed")), "{told}");

    let cut: Vec<&str> = text.lines().take(4).collect();
    fs::write(&path, cut.join("\n")).unwrap();
    let (code, told) = verify(&["--holds", &last, name]);
    assert_eq!(code, Some(3), "{told}");

    let nowhere = directory.path().join("nowhere");
    let (code, told) = verify(&[nowhere.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("nowhere"), "{told}");
    let (code, _) = verify(&["--holds", "abc", name]);
    assert_eq!(code, Some(2));
}

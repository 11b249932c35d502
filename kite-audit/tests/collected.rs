//! Records in logs that something else has collected.

#![allow(clippy::unwrap_used)]

use std::{
    io,
    sync::{Arc, Mutex},
};

use kite_audit::{Collected, Hash, Lines, Process, Verdict};
use proptest::prelude::*;
use serde_json::json;

/// What a container writes to its standard output.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One run of a process in a pod: seven records.
fn run_of(pod: &str) -> Vec<String> {
    let process = Process {
        name: "kite-api".to_owned(),
        version: "1".to_owned(),
        server: Some(pod.to_owned()),
    };
    let output = Output::default();
    let lines = Lines::to(output.clone(), &process).unwrap();
    for n in 0..5 {
        lines.record(&json!({"event": "request", "path": "/{}", "n": n}));
    }
    drop(lines);
    let bytes = output.0.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn verify<S: AsRef<str>>(lines: &[S]) -> Verdict {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    let mut collected = Collected::default();
    collected.file("log", lines.join("\n").as_bytes()).unwrap();
    collected.finish()
}

fn told(verdict: &Verdict) -> Vec<String> {
    verdict.faults.iter().map(ToString::to_string).collect()
}

fn noted(verdict: &Verdict, text: &str) -> usize {
    let notes = verdict.notes.iter();
    notes.filter(|note| note.text.contains(text)).count()
}

#[test]
fn several_processes_among_other_lines_in_any_order_and_twice() {
    let (one, other) = (run_of("kite-api-1"), run_of("kite-api-2"));
    let mut lines = Vec::new();
    for (one, other) in one.iter().zip(&other) {
        lines.push(r#"{"level":"INFO","message":"answered","span":{"id":"7"}}"#.to_owned());
        lines.push(one.clone());
        lines.push("not even JSON {".to_owned());
        lines.push(String::new());
        lines.push(other.clone());
    }
    let verdict = verify(&lines);
    assert_eq!(told(&verdict), Vec::<String>::new());
    assert_eq!((verdict.records, verdict.streams), (14, 2));
    for pod in ["kite-api-1", "kite-api-2"] {
        let text = format!("7 records of kite-api in {pod}, which has said that it ended");
        assert_eq!(noted(&verdict, &text), 1, "{verdict:?}");
    }
    lines.reverse();
    lines.extend(one.iter().cloned());
    let verdict = verify(&lines);
    assert_eq!(told(&verdict), Vec::<String>::new());
    assert_eq!((verdict.records, verdict.streams), (14, 2));
}

#[test]
fn what_collectors_write_around_a_line_is_left_aside() {
    let lines = run_of("kite-api-1");
    let around: [fn(&str) -> String; 8] = [
        |line| format!("[pod/kite-api-1/kite-api] {line}"),
        |line| format!("2026-01-01T00:00:00.000000000Z stdout F {line}"),
        |line| format!("2026-01-01T00:00:00Z {{app=\"kite-api\"}} {line}"),
        |line| format!("{line}\r"),
        |line| json!({"log": format!("{line}\n"), "stream": "stdout"}).to_string(),
        |line| json!({"message": line, "kubernetes": {"pod": "kite-api-1"}}).to_string(),
        |line| json!({"line": line, "labels": {}}).to_string(),
        |line| json!({"MESSAGE": line, "_PID": "1"}).to_string(),
    ];
    for around in around {
        let lines: Vec<String> = lines.iter().map(|line| around(line)).collect();
        let verdict = verify(&lines);
        assert_eq!(told(&verdict), Vec::<String>::new(), "{}", lines[0]);
        assert_eq!((verdict.records, verdict.streams), (7, 1), "{}", lines[0]);
    }
}

#[test]
fn each_kind_of_change_is_told_with_its_line() {
    let lines = run_of("kite-api-1");
    let changed = |change: fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        told(&verify(&lines))
    };
    let edited = changed(|lines| lines[2] = lines[2].replace("request", "nothing"));
    assert_eq!(edited.len(), 1, "{edited:?}");
    assert!(edited[0].starts_with("log:3: was changed"), "{edited:?}");
    let gap = changed(|lines| drop(lines.drain(2..4)));
    assert_eq!(gap.len(), 1, "{gap:?}");
    assert!(
        gap[0].starts_with("log:3: 2 records are missing"),
        "{gap:?}"
    );
    let both = changed(|lines| {
        let other = lines[2].replace("request", "nothing");
        lines.push(other);
    });
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(both[0].contains("so is another line (log:3)"), "{both:?}");
    let none = changed(Vec::clear);
    assert_eq!(none.len(), 1, "a log without records shows nothing");
}

#[test]
fn what_is_not_there_at_either_end_is_told_as_unknown() {
    let lines = run_of("kite-api-1");
    let begun = verify(&lines[3..]);
    assert_eq!(told(&begun), Vec::<String>::new());
    assert_eq!(noted(&begun, "is number 3 of its stream, and the first"), 1);
    let cut = verify(&lines[..5]);
    assert_eq!(told(&cut), Vec::<String>::new());
    assert_eq!(noted(&cut, "has not said that it ended"), 1, "{cut:?}");
    // A hash that was kept finds that.
    let kept = Hash::of(lines[5].as_bytes());
    for (lines, faults) in [(&lines[..], 0), (&lines[..5], 1)] {
        let mut collected = Collected::default();
        collected.want(kept.clone());
        let text = lines.join("\n");
        collected.file("log", text.as_bytes()).unwrap();
        assert_eq!(told(&collected.finish()).len(), faults);
    }
}

proptest! {
    /// Any line between two others that is taken out or changed by a byte shows.
    #[test]
    fn whatever_is_done_to_one_line_shows(
        line in 1_usize..6,
        place in any::<prop::sample::Index>(),
        byte in 32_u8..127,
    ) {
        let lines = LINES.with(Clone::clone);
        let mut gone = lines.clone();
        gone.remove(line);
        prop_assert!(!verify(&gone).faults.is_empty());
        let mut changed = lines;
        let mut bytes = changed[line].clone().into_bytes();
        let at = place.index(bytes.len());
        if bytes[at] != byte {
            bytes[at] = byte;
            changed[line] = String::from_utf8(bytes).unwrap();
            prop_assert!(!verify(&changed).faults.is_empty(), "{}", changed[line]);
        }
    }
}

thread_local! {
    static LINES: Vec<String> = run_of("kite-api-1");
}

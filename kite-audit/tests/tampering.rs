//! What is done to a file shows.

#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use kite_audit::{Hash, Lines, Process, Verdict, Verifier};
use proptest::prelude::*;
use serde_json::json;

fn process() -> Process {
    Process {
        name: "kite-test".to_owned(),
        version: "1".to_owned(),
        server: None,
    }
}

/// Two runs of a process into one file.
fn written(path: &Path, runs: usize) -> Vec<String> {
    for run in 0..runs {
        let lines = Lines::to_file(path, &process()).unwrap();
        for n in 0..5 {
            lines.record(&json!({"event": "login", "run": run, "n": n}));
        }
    }
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn verify<S: AsRef<str>>(lines: &[S]) -> Verdict {
    verify_files(&[lines])
}

fn verify_files<S: AsRef<str>>(files: &[&[S]]) -> Verdict {
    let mut verifier = Verifier::default();
    for (n, lines) in files.iter().enumerate() {
        let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        let text = lines.join("\n");
        verifier
            .file(&format!("file-{n}"), text.as_bytes())
            .unwrap();
    }
    verifier.finish()
}

fn told(verdict: &Verdict) -> Vec<String> {
    verdict.faults.iter().map(ToString::to_string).collect()
}

fn some_lines(runs: usize) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    written(&directory.path().join("audit"), runs)
}

#[test]
fn restarts_and_rotation_are_no_faults() {
    let lines = some_lines(3);
    let verdict = verify(&lines);
    assert_eq!(told(&verdict), Vec::<String>::new());
    assert_eq!((verdict.records, verdict.streams), (21, 3));
    for at in 0..=lines.len() {
        let (first, second) = lines.split_at(at);
        assert_eq!(told(&verify_files(&[first, second])), Vec::<String>::new());
        // An old file that was removed: what is left is as it was, and that is told.
        let verdict = verify(second);
        assert_eq!(told(&verdict), Vec::<String>::new(), "from {at}");
        let says_so = |text: &str| verdict.notes.iter().any(|note| note.text.contains(text));
        assert_eq!(
            says_so("in none of the files"),
            at > 0 && !second.is_empty()
        );
    }
    let (first, second) = lines.split_at(9);
    let verdict = verify_files(&[second, first]);
    assert!(!verdict.faults.is_empty(), "files in the wrong order");
}

#[test]
fn each_kind_of_change_is_told_with_its_line() {
    let lines = some_lines(2);
    let changed = |change: fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        told(&verify(&lines))
    };
    let one = |faults: Vec<String>| {
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].clone()
    };
    let edited = one(changed(|lines| {
        lines[2] = lines[2].replace("login", "nothing");
    }));
    assert!(edited.starts_with("file-0:3: was changed"), "{edited}");
    let gap = one(changed(|lines| drop(lines.drain(2..4))));
    assert!(gap.starts_with("file-0:3: 2 records are missing"), "{gap}");
    let moved = changed(|lines| lines.swap(2, 3));
    assert!(
        moved[0].starts_with("file-0:3: 1 records are missing"),
        "{moved:?}"
    );
    assert!(moved[1].contains("lines were moved"), "{moved:?}");
    let twice = changed(|lines| lines.insert(3, lines[2].clone()));
    assert!(twice[0].starts_with("file-0:4: is number 2"), "{twice:?}");
    let garbage = changed(|lines| lines[3] = "x".to_owned());
    assert!(
        garbage[0].starts_with("file-0:4: is no record"),
        "{garbage:?}"
    );
    // The end of the first run: the second one has named the line that was there.
    let cut = one(changed(|lines| drop(lines.drain(5..7))));
    assert!(
        cut.starts_with("file-0:6: kite-test began to write after"),
        "{cut}"
    );
    let whole = one(changed(|lines| drop(lines.drain(7..8))));
    assert!(
        whole.starts_with("file-0:8: is number 1 of a stream"),
        "{whole}"
    );
}

#[test]
fn what_is_cut_off_at_the_end_is_known_by_a_hash_that_was_kept() {
    let lines = some_lines(1);
    let kept = verify(&lines).last.unwrap();
    assert_eq!(kept, Hash::of(lines.last().unwrap().as_bytes()));
    let with = |lines: &[String]| {
        let mut verifier = Verifier::default();
        verifier.want(kept.clone());
        verifier.file("a", lines.join("\n").as_bytes()).unwrap();
        verifier.finish()
    };
    assert_eq!(told(&with(&lines)), Vec::<String>::new());
    let cut = with(&lines[..5]);
    assert!(
        told(&cut)[0].starts_with("a:5: no line up to here"),
        "{cut:?}"
    );
    // Without it nothing is known, and that is told.
    let cut = verify(&lines[..5]);
    assert_eq!(told(&cut), Vec::<String>::new());
    assert!(cut.notes[0].text.contains("cut off"), "{cut:?}");
    assert!(told(&with(&[])).len() == 1);
}

#[test]
fn a_crash_in_the_middle_of_a_line_is_none_of_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit");
    let lines = written(&path, 1);
    let torn = &lines[6][..20];
    fs::write(&path, format!("{}\n{torn}", lines[..6].join("\n"))).unwrap();
    let lines = written(&path, 1);
    assert_eq!(lines[6], torn);
    let verdict = verify(&lines);
    assert_eq!(told(&verdict), Vec::<String>::new());
    assert!(
        verdict.notes.iter().any(|note| note.line == 7),
        "{verdict:?}"
    );
    let mut changed = lines.clone();
    changed[6].push('x');
    assert!(!verify(&changed).faults.is_empty());
}

#[test]
fn lines_of_an_older_kite_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit");
    fs::write(&path, "{\"event\":\"login\"}\n{\"event\":\"connection\"}\n").unwrap();
    let lines = written(&path, 1);
    let verdict = verify(&lines);
    assert_eq!(told(&verdict), Vec::<String>::new());
    assert!(verdict.notes[0].text.starts_with("2 lines"), "{verdict:?}");
    let mut changed = lines.clone();
    changed[1] = changed[1].replace("connection", "x");
    assert!(!verify(&changed).faults.is_empty());
    let mut later = lines;
    later.insert(4, "{\"event\":\"login\"}".to_owned());
    assert!(!verify(&later).faults.is_empty());
}

proptest! {
    /// Any line but the last taken out, changed by a byte, or moved away shows.
    #[test]
    fn whatever_is_done_to_one_line_shows(
        line in 0_usize..13,
        place in any::<prop::sample::Index>(),
        byte in 32_u8..127,
        to in 0_usize..14,
    ) {
        let lines = LINES.with(Clone::clone);
        let mut gone = lines.clone();
        gone.remove(line);
        // The first line can have been in another file.
        prop_assert_eq!(verify(&gone).faults.is_empty(), line == 0);
        let mut changed = lines.clone();
        let mut bytes = changed[line].clone().into_bytes();
        let at = place.index(bytes.len());
        if bytes[at] != byte {
            bytes[at] = byte;
            changed[line] = String::from_utf8(bytes).unwrap();
            prop_assert!(!verify(&changed).faults.is_empty(), "{}", changed[line]);
        }
        if line != to {
            let mut moved = lines;
            let it = moved.remove(line);
            moved.insert(to, it);
            prop_assert!(!verify(&moved).faults.is_empty());
        }
    }
}

thread_local! {
    static LINES: Vec<String> = some_lines(2);
}

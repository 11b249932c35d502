//! Killed at each step.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::bed::{Bed, await_that};
use crate::process;

/// How the other process goes on.
#[derive(Clone, Copy)]
enum Then {
    Move,
    Restore,
}

/// sshd answers on one of the ports: nobody is locked out.
fn lets_in(bed: &Bed, at: usize) {
    let what = format!("somebody can log in after a crash at message {at}");
    await_that(&what, || bed.login(bed.from) || bed.login(bed.to));
}

/// A main file that names the port, and an included one that does so, too: two files
/// are written.
fn start(bed: &Bed) -> BTreeMap<PathBuf, String> {
    let config = bed.config();
    let included = bed.path("sshd_config.d/60-more.conf");
    fs::write(
        included,
        format!("ListenAddress 0.0.0.0\nListenAddress [::1]:{}\n", bed.from),
    )
    .unwrap();
    bed.start(&config);
    files(bed)
}

fn files(bed: &Bed) -> BTreeMap<PathBuf, String> {
    let mut files = bed.files(bed.path(""));
    files.retain(|path, _| path.to_string_lossy().starts_with("sshd_config"));
    files
}

fn is_settled(bed: &Bed, files_before: &BTreeMap<PathBuf, String>) {
    assert_eq!(&files(bed), files_before);
    assert!(bed.login(bed.from) && !bed.login(bed.to));
    assert!(!bed.path("state/state.json").exists());
    assert!(!bed.path("state/staging").exists());
    assert_eq!(bed.status().code, Some(0));
}

#[test]
fn a_move_that_was_killed_is_finished_or_undone() {
    let Some(bed) = Bed::new() else { return };
    let before = start(&bed);
    let mut session = bed.session(bed.from);
    let mut crashes = 0;
    'all: for at in 0.. {
        for then in [Then::Move, Then::Restore] {
            let run = bed.move_with(&[], &[(process::DIE_AT, &at.to_string())]);
            if run.code.is_some() {
                run.ended(0, "moved");
                bed.kite(&["restore"]).ended(0, "restored");
                break 'all;
            }
            crashes += 1;
            lets_in(&bed, at);
            if let Then::Move = then {
                let run = bed.move_with(&[], &[]);
                assert_eq!(run.code, Some(0), "{at}: {:#} {}", run.json, run.messages);
                assert!(bed.login(bed.to) && !bed.login(bed.from), "{at}");
            }
            let run = bed.kite(&["restore"]);
            assert_eq!(run.code, Some(0), "{at}: {:#} {}", run.json, run.messages);
            is_settled(&bed, &before);
        }
    }
    assert!(
        crashes >= 16,
        "only {crashes} crashes: what does it wait for?"
    );
    assert!(session.lives(), "the session was cut");
}

#[test]
fn a_way_back_that_was_killed_is_finished_or_undone() {
    let Some(bed) = Bed::new() else { return };
    let before = start(&bed);
    let mut crashes = 0;
    'all: for at in 0.. {
        for then in [Then::Restore, Then::Move] {
            bed.move_with(&[], &[]).ended(0, "moved");
            let run = bed.kite_with(&["restore"], &[(process::DIE_AT, &at.to_string())]);
            if run.code.is_some() {
                run.ended(0, "restored");
                break 'all;
            }
            crashes += 1;
            lets_in(&bed, at);
            if let Then::Move = then {
                let run = bed.move_with(&[], &[]);
                assert_eq!(run.code, Some(0), "{at}: {:#} {}", run.json, run.messages);
                assert!(bed.login(bed.to) && !bed.login(bed.from), "{at}");
            }
            let run = bed.kite(&["restore"]);
            assert_eq!(run.code, Some(0), "{at}: {:#} {}", run.json, run.messages);
            is_settled(&bed, &before);
        }
    }
    assert!(
        crashes >= 10,
        "only {crashes} crashes: what does it wait for?"
    );
}

#[test]
fn an_sshd_that_is_just_coming_up_is_waited_for_and_not_doubled() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    let program = bed.path("sshd");
    fs::copy("/usr/sbin/sshd", &program).unwrap();
    bed.start_as(&program.display().to_string(), &config);
    // It executes itself anew, and takes its time with that.
    let slow = format!(
        "printf '#!/bin/sh\\nuntil [ -e {0} ]; do sleep 0.02; done\\nexec /usr/sbin/sshd \"$@\"\\n' >{1}.new
         chmod +x {1}.new; mv {1}.new {1}",
        bed.path("up").display(),
        program.display()
    );
    bed.sh(&slow);
    let dies = [(process::ON, "wait until"), (process::DO, "kill -9 $PPID")];
    let run = bed.move_with(&[], &dies);
    assert_eq!(run.code, None, "{:#}", run.json);
    // That is over only when restore has looked for it in vain.
    let up = bed.path("up").display().to_string();
    let up = format!("{{ sleep 1; touch {up}; }} >/dev/null 2>&1 &");
    let comes_up = [(process::ON, "test the configuration"), (process::DO, &up)];
    let run = bed.kite_with(&["restore"], &comes_up);
    run.ended(0, "restored");
    assert!(run.messages.contains("send SIGHUP"), "{}", run.messages);
    assert!(bed.login(bed.from) && !bed.login(bed.to));
}

#[test]
fn a_move_that_was_cut_off_goes_nowhere_else() {
    let Some(bed) = Bed::new() else { return };
    start(&bed);
    let dies = [(process::ON, "send SIGHUP"), (process::DO, "kill -9 $PPID")];
    let run = bed.move_with(&[], &dies);
    assert_eq!(run.code, None, "{:#}", run.json);
    let other = bed.kite(&["move", "--from", &bed.from.to_string(), "--to", "2999"]);
    other.ended(3, "refused");
    assert!(other.says("remedy").contains("restore"));
    let status = bed.status();
    assert_eq!(status.code, Some(6));
    assert_eq!(status.json["moved"]["phase"], "moving");
    // Somebody else's work in between is not lost.
    let config = bed.path("sshd_config");
    let mut edited = fs::read(&config).unwrap();
    edited.extend(b"# somebody's work\n");
    fs::write(&config, &edited).unwrap();
    for run in [bed.move_with(&[], &[]), bed.kite(&["restore"])] {
        assert!(run.ended(3, "refused").says("remedy").contains("--force"));
    }
    assert_eq!(fs::read(&config).unwrap(), edited);
    bed.kite(&["restore", "--force"]).ended(0, "restored");
}

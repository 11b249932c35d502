//! Moves that go well.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::bed::Bed;

#[test]
fn sshd_moves_and_comes_back_and_a_session_stays_open() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    // A file that others know by a link.
    let link = bed.path("link");
    symlink(&config, &link).unwrap();
    bed.start(&link);
    let before = bed.files(bed.path("sshd_config.d"));
    let main = fs::read(&config).unwrap();
    let mut session = bed.session(bed.from);
    let daemon = bed.sshd();

    let moved = bed.move_with(&[], &[]);
    moved.ended(0, "moved");
    assert!(bed.login(bed.to), "{}", moved.messages);
    assert!(!bed.login(bed.from));
    assert!(session.lives(), "the session was cut");
    assert_eq!(bed.sshd(), daemon, "it was restarted and not reloaded");
    assert!(moved.says("notices").contains("open sessions stay open"));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let text = String::from_utf8(main.clone()).unwrap();
    let expected = text.replace(
        &format!("Port {} # as ever", bed.from),
        &format!("Port {} # as ever", bed.to),
    );
    assert_eq!(fs::read_to_string(&config).unwrap(), expected);
    assert_eq!(bed.sh(&format!("stat -c %a {}", config.display())), "640\n");
    let mut on_new = bed.session(bed.to);

    let status = bed.status();
    assert_eq!(status.code, Some(0), "{:#}", status.json);
    assert_eq!(status.json["moved"]["phase"], "moved");
    assert_eq!(status.json["configured"][0], bed.to);
    assert_eq!(status.json["listeners"][0]["holders"][0]["pid"], daemon);

    bed.kite(&["restore"]).ended(0, "restored");
    assert!(bed.login(bed.from) && !bed.login(bed.to));
    assert!(session.lives() && on_new.lives(), "a session was cut");
    assert_eq!(fs::read(&config).unwrap(), main);
    assert_eq!(bed.files(bed.path("sshd_config.d")), before);
    assert!(!bed.path("state/state.json").exists());
    let status = bed.status();
    assert_eq!(status.code, Some(0), "{:#}", status.json);
    assert!(status.json["moved"].is_null());
}

#[test]
fn doing_it_twice_is_doing_it_once() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    bed.kite(&["restore"]).ended(0, "nothing-to-restore");
    bed.move_with(&[], &[]).ended(0, "moved");
    let files = bed.files(bed.path(""));
    bed.move_with(&[], &[]).ended(0, "already-moved");
    assert_eq!(bed.files(bed.path("")), files);
    let elsewhere = bed.kite(&["move", "--from", &bed.from.to_string(), "--to", "2999"]);
    elsewhere.ended(3, "refused");
    assert!(elsewhere.says("remedy").contains("restore"));
    bed.kite(&["restore"]).ended(0, "restored");
    bed.kite(&["restore"]).ended(0, "nothing-to-restore");
    assert!(bed.login(bed.from));
    bed.move_with(&[], &[]).ended(0, "moved");
    assert!(bed.login(bed.to));
}

#[test]
fn a_dry_run_says_the_steps_and_takes_none() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    let files = bed.files(bed.path(""));
    let planned = bed.move_with(&["--dry-run"], &[]);
    planned.ended(0, "planned");
    let steps = planned.says("steps");
    let signal = format!("send SIGHUP to sshd (pid {})", bed.sshd());
    assert!(steps.contains(&signal), "{steps}");
    let change = &planned.json["files"][0]["changes"][0];
    assert_eq!(change["line"], 3);
    assert_eq!(change["new"], format!("Port {} # as ever", bed.to));
    let mut after = bed.files(bed.path(""));
    after.remove(Path::new("state/lock"));
    assert_eq!(after, files);
    assert!(bed.login(bed.from) && !bed.login(bed.to));
}

#[test]
fn other_ports_and_addresses_of_sshd_stay() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.path("sshd_config");
    let Bed { from, to, .. } = bed;
    let text = format!(
        "ListenAddress 127.0.0.1:{from}\nListenAddress 127.0.0.1:{to}\nListenAddress [::1]:{from}\n{}",
        bed.basics()
    );
    fs::write(&config, &text).unwrap();
    bed.start(&config);
    assert!(bed.login(to));
    // It listens on both: the old one has to go, and come back beside the other.
    bed.move_with(&[], &[]).ended(0, "moved");
    let expected = text
        .replacen("ListenAddress 127", "#ListenAddress 127", 1)
        .replace(&format!("[::1]:{from}"), &format!("[::1]:{to}"));
    assert_eq!(fs::read_to_string(&config).unwrap(), expected);
    assert!(bed.login(to) && !bed.login(from));
    bed.kite(&["restore"]).ended(0, "restored");
    assert!(bed.login(to) && bed.login(from));
    assert_eq!(fs::read_to_string(&config).unwrap(), text);
}

#[test]
fn two_at_once_are_kept_apart() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    let [from, to] = bed.ports();
    let moving = ["move", "--from", &from, "--to", &to];
    let (first, ()) = bed.kite_stopped(&moving, "test the new", || {
        for command in [&moving[..], &["restore"]] {
            let second = bed.kite(command);
            second.ended(3, "refused");
            assert!(
                second.says("error").contains("another"),
                "{:#}",
                second.json
            );
        }
        let status = bed.status();
        assert_eq!(status.code, Some(6));
        let findings = status.says("findings");
        assert!(findings.contains("under way"), "{findings}");
    });
    first.ended(0, "moved");
    assert!(bed.login(bed.to));
}

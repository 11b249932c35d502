//! What is refused, and what is put back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::bed::{Bed, await_that};
use crate::process;

/// Seconds in which an sshd that comes back has done so, however busy the machine is.
const ENOUGH: &str = "10";

/// All that a test may change, but for what the command keeps for itself.
fn files(bed: &Bed) -> BTreeMap<PathBuf, String> {
    let mut files = bed.files(bed.path(""));
    files.retain(|path, _| !path.starts_with("state") && !path.starts_with("sshd.pid"));
    files
}

#[test]
fn a_configuration_that_sshd_refuses_is_not_touched() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    bed.start(&config);
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("Nonsense yes\n{text}")).unwrap();
    let before = files(&bed);
    let refused = bed.move_with(&[], &[]);
    refused.ended(3, "refused");
    assert!(
        refused.says("error").contains("Nonsense"),
        "{:#}",
        refused.json
    );
    assert!(refused.says("remedy").contains("sshd -t"));
    assert_eq!(files(&bed), before);
    assert!(bed.login(bed.from));
    let status = bed.status();
    assert_eq!(status.code, Some(6));
    assert!(status.says("findings").contains("Nonsense"));
}

#[test]
fn a_port_that_is_taken_is_not_moved_to() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    let before = files(&bed);
    let occupant = bed.occupy(bed.to);
    let refused = bed.move_with(&[], &[]);
    refused.ended(3, "refused");
    let error = refused.says("error");
    assert!(
        error.contains(&format!("pid {}", occupant.pid())),
        "{error}"
    );
    assert!(refused.says("remedy").contains("--to"));
    assert_eq!(files(&bed), before);
    drop(occupant);
    let occupant = bed.bind(bed.to);
    let refused = bed.move_with(&[], &[]);
    let error = refused.ended(3, "refused").says("error");
    assert!(error.contains("does not listen"), "{error}");
    assert_eq!(files(&bed), before);
    drop(occupant);
    bed.move_with(&[], &[]).ended(0, "moved");
}

#[test]
fn another_sshd_of_the_host_is_left_alone() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    let other = bed.path("other");
    let pid = bed.path("other.pid");
    let basics = bed.basics().replace("PidFile", "#PidFile");
    let text = format!("Port {}\nPidFile {}\n{basics}", bed.to, pid.display());
    fs::write(&other, text).unwrap();
    bed.sh(&format!("/usr/sbin/sshd -f {}", other.display()));
    await_that("the other sshd answers", || bed.login(bed.to));
    let other = fs::read_to_string(&pid).unwrap();
    let other = format!("sshd (pid {})", other.trim());
    let refused = bed.move_with(&[], &[]);
    refused.ended(3, "refused");
    let error = refused.says("error");
    assert!(error.contains(&other), "{error}");
    let status = bed.status();
    assert_eq!(status.code, Some(0), "{:#}", status.json);
    assert_eq!(status.json["listeners"][0]["holders"][0]["pid"], bed.sshd());
    bed.sh(&format!("kill $(cat {})", pid.display()));
}

#[test]
fn where_no_sshd_listens_nothing_is_moved() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    let other = bed.to.to_string();
    let refused = bed.kite(&["move", "--from", &other, "--to", "2999"]);
    refused.ended(3, "refused");
    let remedy = refused.says("remedy");
    assert!(remedy.contains("--from"), "{remedy}");
    let occupant = bed.occupy(bed.to);
    let refused = bed.kite(&["move", "--from", &other, "--to", "2999"]);
    assert!(
        refused
            .ended(3, "refused")
            .says("error")
            .contains("no sshd")
    );
    drop(occupant);
    let same = bed.kite(&["move", "--from", &other, "--to", &other]);
    assert!(same.ended(3, "refused").says("error").contains("--to"));
}

#[test]
fn a_port_on_the_command_line_is_told_of() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    bed.start_as(&format!("/usr/sbin/sshd -p {}", bed.from), &config);
    let refused = bed.move_with(&[], &[]);
    refused.ended(3, "refused");
    assert!(refused.says("error").contains(&format!("-p {}", bed.from)));
}

#[test]
fn a_configuration_that_does_not_run_is_not_edited() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    bed.start(&config);
    let other = bed.path("other");
    fs::copy(&config, &other).unwrap();
    let other = other.display().to_string();
    let refused = bed.move_with(&["--config", &other], &[]);
    refused.ended(3, "refused");
    let remedy = refused.says("remedy");
    assert!(remedy.contains(&config.display().to_string()), "{remedy}");
    // Edited by hand, and not read yet.
    let text = fs::read_to_string(&config).unwrap();
    let port = |port: u16| format!("Port {port} #");
    fs::write(&config, text.replace(&port(bed.from), &port(2999))).unwrap();
    let refused = bed.move_with(&[], &[]);
    assert!(refused.ended(3, "refused").says("error").contains("2999"));
    let status = bed.status();
    assert_eq!(status.code, Some(6), "{:#}", status.json);
    assert!(status.says("findings").contains("reload"));
}

#[test]
fn whoever_takes_the_port_at_the_last_moment_has_everything_put_back() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    let before = files(&bed);
    let mut session = bed.session(bed.from);
    // sshd ends when it can bind no address.
    let [from, to] = bed.ports();
    let moving = ["move", "--from", &from, "--to", &to, "--timeout", ENOUGH];
    let (run, _occupant) = bed.kite_stopped(&moving, "send SIGHUP", || bed.occupy(bed.to));
    run.ended(4, "rolled-back");
    assert!(bed.login(bed.from), "{}", run.messages);
    assert!(session.lives(), "the session was cut");
    assert_eq!(files(&bed), before);
    assert!(!bed.path("state/state.json").exists());
    let error = run.says("error");
    assert!(error.contains(&format!("port {}", bed.from)), "{error}");
}

/// A program in sshd's place that fails where the configuration names a port.
fn fails_on(bed: &Bed, program: &Path, port: u16) {
    let script = format!(
        "#!/bin/sh\ngrep -q '^Port {port} ' {} && exit 1\nexec /usr/sbin/sshd \"$@\"\n",
        bed.path("sshd_config").display()
    );
    // The old one runs, and cannot be written to.
    let new = program.with_extension("new");
    fs::write(&new, script).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, program).unwrap();
}

#[test]
fn an_sshd_that_does_not_come_back_is_started_as_it_was() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    let program = bed.path("sshd");
    fs::copy("/usr/sbin/sshd", &program).unwrap();
    bed.start_as(&program.display().to_string(), &config);
    fails_on(&bed, &program, bed.to);
    let before = files(&bed);
    let mut session = bed.session(bed.from);
    let run = bed.move_with(&["--timeout", ENOUGH], &[]);
    run.ended(4, "rolled-back");
    assert!(run.messages.contains("run "), "{}", run.messages);
    assert!(bed.login(bed.from) && !bed.login(bed.to));
    assert!(session.lives(), "the session was cut");
    assert_eq!(files(&bed), before);
    assert_eq!(bed.status().code, Some(0));
}

#[test]
fn where_nothing_helps_it_is_said_and_restore_goes_on() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    let program = bed.path("sshd");
    fs::copy("/usr/sbin/sshd", &program).unwrap();
    bed.start_as(&program.display().to_string(), &config);
    let text = fs::read(&config).unwrap();
    let broken = format!(
        "printf '#!/bin/sh\\nexit 1\\n' >{0}.new; chmod +x {0}.new; mv {0}.new {0}",
        program.display()
    );
    let run = bed.move_with(
        &["--timeout", ENOUGH],
        &[(process::ON, "send SIGHUP"), (process::DO, &broken)],
    );
    run.ended(5, "stuck");
    assert!(run.says("remedy").contains("restore"));
    assert_eq!(
        fs::read(&config).unwrap(),
        text,
        "the files at least are back"
    );
    let status = bed.status();
    assert_eq!(status.code, Some(6));
    assert!(status.says("findings").contains("cut off"));
    fs::remove_file(&program).unwrap();
    fs::copy("/usr/sbin/sshd", &program).unwrap();
    bed.kite(&["restore"]).ended(0, "restored");
    assert!(bed.login(bed.from));
    assert_eq!(fs::read(&config).unwrap(), text);
}

#[test]
fn a_way_back_that_fails_leads_to_where_it_came_from() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    let program = bed.path("sshd");
    fs::copy("/usr/sbin/sshd", &program).unwrap();
    bed.start_as(&program.display().to_string(), &config);
    bed.move_with(&[], &[]).ended(0, "moved");
    let moved = fs::read(&config).unwrap();
    fails_on(&bed, &program, bed.from);
    let run = bed.kite(&["restore", "--timeout", ENOUGH]);
    run.ended(4, "rolled-back");
    assert!(
        bed.login(bed.to) && !bed.login(bed.from),
        "{}",
        run.messages
    );
    assert_eq!(fs::read(&config).unwrap(), moved);
    assert_eq!(bed.status().json["moved"]["phase"], "moved");
}

#[test]
fn nobody_goes_back_while_another_has_the_port() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    bed.move_with(&[], &[]).ended(0, "moved");
    let before = files(&bed);
    let gateway = bed.occupy(bed.from);
    let refused = bed.kite(&["restore", "--force"]);
    refused.ended(3, "refused");
    let error = refused.says("error");
    assert!(error.contains(&format!("pid {}", gateway.pid())), "{error}");
    assert!(refused.says("remedy").contains("--listen"));
    assert_eq!(files(&bed), before);
    assert!(bed.login(bed.to));
    drop(gateway);
    bed.kite(&["restore"]).ended(0, "restored");
    assert!(bed.login(bed.from));
}

#[test]
fn what_others_changed_since_is_not_overwritten_silently() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    bed.start(&config);
    let text = fs::read(&config).unwrap();
    bed.move_with(&[], &[]).ended(0, "moved");
    let mut edited = fs::read(&config).unwrap();
    edited.extend(b"# somebody's work\n");
    fs::write(&config, &edited).unwrap();
    let status = bed.status();
    assert_eq!(status.code, Some(6));
    assert!(status.says("findings").contains("was changed"));
    let again = bed.move_with(&[], &[]);
    assert!(
        again
            .ended(0, "already-moved")
            .says("notices")
            .contains("--force")
    );
    let refused = bed.kite(&["restore"]);
    refused.ended(3, "refused");
    assert!(refused.says("remedy").contains("--force"));
    assert_eq!(fs::read(&config).unwrap(), edited);
    assert!(bed.login(bed.to));
    let forced = bed.kite(&["restore", "--force"]);
    forced.ended(0, "restored");
    assert_eq!(fs::read(&config).unwrap(), text);
    assert!(bed.login(bed.from));
    let notices = forced.says("notices");
    let copy = notices
        .split('"')
        .find_map(|notice| notice.strip_prefix("what was replaced is kept in "));
    assert_eq!(fs::read(copy.unwrap()).unwrap(), edited);
}

#[test]
fn a_package_that_puts_its_file_back_is_noticed() {
    let Some(bed) = Bed::new() else { return };
    let config = bed.config();
    bed.start(&config);
    let text = fs::read(&config).unwrap();
    bed.move_with(&[], &[]).ended(0, "moved");
    fs::write(&config, [&text[..], b"# of the new version\n"].concat()).unwrap();
    bed.sh(&format!("kill -HUP {}", bed.sshd()));
    await_that("sshd is back", || bed.login(bed.from));
    let status = bed.status();
    assert_eq!(status.code, Some(6));
    assert!(status.says("findings").contains("does not listen there"));
    let again = bed.move_with(&[], &[]);
    assert!(
        again
            .ended(3, "refused")
            .says("remedy")
            .contains("restore --force")
    );
    bed.kite(&["restore", "--force"]).ended(0, "restored");
    bed.move_with(&[], &[]).ended(0, "moved");
    fs::remove_file(&config).unwrap();
    assert!(
        bed.kite(&["restore"])
            .ended(3, "refused")
            .says("error")
            .contains("was removed")
    );
    bed.kite(&["restore", "--force"]).ended(0, "restored");
    assert_eq!(fs::read(&config).unwrap(), text);
    assert!(bed.login(bed.from));
}

#[test]
fn whoever_is_not_root_is_told_so() {
    let Some(bed) = Bed::new() else { return };
    bed.start(&bed.config());
    let run = bed.kite_as_nobody(&["status"]);
    run.ended(3, "refused");
    assert!(run.says("error").contains("65534"), "{:#}", run.json);
    assert!(run.says("remedy").contains("sudo"));
}

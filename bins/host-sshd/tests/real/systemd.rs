//! sshd as systemd starts it. There is no systemd in a test: a script plays
//! `systemctl`, with sshd itself in the part of what systemd listens with.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::bed::{Bed, await_that};
use crate::process;

/// What the script has in common: it notes each call, and answers `show` from files.
const SCRIPT: &str = r#"#!/bin/sh
set -e
dir=DIR
echo "$*" >>$dir/calls
case "$*" in
    *show*.socket*) cat $dir/sockets 2>/dev/null || true; exit ;;
    *show*.service*)
        pid=$(cat $dir/main.pid 2>/dev/null || echo 0)
        state=inactive
        if [ -e /proc/$pid/exe ]; then state=active; else pid=0; fi
        printf 'Id=ssh.service\nActiveState=%s\nMainPID=%s\nCanReload=yes\nKillMode=process\n' $state $pid
        exit ;;
esac
start() {
    "$@" &
    echo $! >$dir/main.pid
}
"#;

const SERVICE: &str = r#"
case "$*" in
    "reload ssh.service")
        if [ -e $dir/refuses ]; then echo "Job for ssh.service failed." >&2; exit 1; fi
        kill -HUP $(cat $dir/main.pid) ;;
    "start ssh.service")
        start /usr/sbin/sshd -D -f /etc/ssh/sshd_config </dev/null >/dev/null 2>&1 ;;
    *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"#;

/// Starts what listens where the drop-in says, or on port 22.
const SOCKET: &str = r#"
case "$*" in
    daemon-reload)
        cp /etc/systemd/system/ssh.socket.d/*.conf $dir/loaded 2>/dev/null || rm -f $dir/loaded ;;
    "stop ssh.service")
        kill $(cat $dir/main.pid); touch $dir/stopped ;;
    "restart ssh.socket")
        [ -e $dir/stopped ] || { echo "Socket service ssh.service already active, refusing." >&2; exit 1; }
        rm $dir/stopped
        address=$(sed -n 's/^ListenStream=\(..*\)/\1/p' $dir/loaded 2>/dev/null || true)
        port=${address##*:}
        sed "s/:22 /:${port:-22} /" $dir/sockets.22 >$dir/sockets
        start /usr/sbin/sshd -D -p ${port:-22} -f /etc/ssh/sshd_config </dev/null >/dev/null 2>&1 ;;
    *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"#;

fn play(bed: &mut Bed, part: &str) {
    let bin = bed.path("bin");
    fs::create_dir(&bin).unwrap();
    let script = SCRIPT.replace("DIR", &bed.path("").display().to_string()) + part;
    fs::write(bin.join("systemctl"), script).unwrap();
    fs::set_permissions(bin.join("systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    bed.prefer(bin);
}

/// The calls that change something.
fn calls(bed: &Bed) -> Vec<String> {
    let calls = fs::read_to_string(bed.path("calls")).unwrap_or_default();
    fs::write(bed.path("calls"), "").unwrap();
    let changes = calls.lines().filter(|call| !call.starts_with("show"));
    changes.map(str::to_owned).collect()
}

/// `/etc/ssh` as Debian and Ubuntu have it.
fn debian(bed: &Bed) {
    bed.sh(&format!(
        "mkdir -p /etc/ssh/sshd_config.d; cat >/etc/ssh/sshd_config <<'END'\n\
         Include /etc/ssh/sshd_config.d/*.conf\n{}END\n",
        bed.basics()
    ));
}

fn with_service() -> Option<Bed> {
    let mut bed = Bed::isolated()?;
    play(&mut bed, SERVICE);
    debian(&bed);
    bed.sh("systemctl start ssh.service");
    await_that("sshd answers", || bed.login(22));
    calls(&bed);
    Some(bed)
}

#[test]
fn a_service_is_reloaded() {
    let Some(bed) = with_service() else { return };
    let mut session = bed.session(22);
    let moved = bed.kite(&["move", "--to", "2222"]);
    moved.ended(0, "moved");
    assert_eq!(moved.json["activation"]["unit"], "ssh.service");
    assert_eq!(calls(&bed), ["reload ssh.service"]);
    assert!(bed.login(2222) && !bed.login(22) && session.lives());
    let status = bed.kite(&["status"]);
    assert_eq!(status.code, Some(0), "{:#}", status.json);
    assert_eq!(status.json["activation"]["unit"], "ssh.service");
    bed.kite(&["restore"]).ended(0, "restored");
    assert_eq!(calls(&bed), ["reload ssh.service"]);
    assert!(bed.login(22) && session.lives());
}

#[test]
fn a_service_that_will_not_reload_keeps_its_port() {
    let Some(bed) = with_service() else { return };
    let before = bed.files("/etc/ssh");
    // It refuses once: systemd sees what sshd says to the new configuration.
    fs::write(bed.path("refuses"), "").unwrap();
    let undo = format!("rm {}", bed.path("refuses").display());
    let on = [
        (process::ON, "`systemctl reload ssh.service` failed"),
        (process::DO, &undo),
    ];
    let run = bed.kite_with(&["move", "--to", "2222"], &on);
    run.ended(4, "rolled-back");
    assert!(
        run.says("error").contains("Job for ssh.service failed"),
        "{:#}",
        run.json
    );
    assert!(run.says("remedy").contains("journalctl"));
    assert_eq!(bed.files("/etc/ssh"), before);
    assert!(bed.login(22) && !bed.login(2222));
}

#[test]
fn a_service_that_died_is_started_on_the_way_back() {
    let Some(bed) = with_service() else { return };
    bed.kite(&["move", "--to", "2222"]).ended(0, "moved");
    bed.sh(&format!("kill {}", bed.sshd()));
    await_that("sshd is gone", || !bed.login(2222));
    let status = bed.kite(&["status"]);
    assert_eq!(status.code, Some(6));
    assert!(status.says("findings").contains("does not listen there"));
    calls(&bed);
    bed.kite(&["restore"]).ended(0, "restored");
    assert_eq!(calls(&bed), ["start ssh.service"]);
    assert!(bed.login(22));
}

#[test]
fn a_socket_is_moved_by_a_drop_in() {
    let Some(mut bed) = Bed::isolated() else {
        return;
    };
    play(&mut bed, SOCKET);
    debian(&bed);
    let unit = "Id=ssh.socket\nActiveState=active\nAccept=no\nListen=0.0.0.0:22 (Stream)\n\
                Triggers=ssh.service\n";
    fs::write(bed.path("sockets.22"), unit).unwrap();
    fs::write(bed.path("stopped"), "").unwrap();
    bed.sh("systemctl restart ssh.socket");
    await_that("sshd answers", || bed.login(22));
    calls(&bed);
    let before = [bed.files("/etc/ssh"), bed.files("/etc/systemd")];
    let mut session = bed.session(22);

    let moved = bed.kite(&["move", "--to", "2222"]);
    moved.ended(0, "moved");
    assert_eq!(moved.json["activation"]["unit"], "ssh.socket");
    let switches = ["daemon-reload", "stop ssh.service", "restart ssh.socket"];
    assert_eq!(calls(&bed), switches);
    assert!(bed.login(2222) && !bed.login(22) && session.lives());
    let drop_in = "/etc/systemd/system/ssh.socket.d/zz-kite-host-sshd.conf";
    let said = bed.sh(&format!(
        "stat -c %a {drop_in}; grep ListenStream {drop_in}"
    ));
    assert_eq!(said, "644\nListenStream=\nListenStream=0.0.0.0:2222\n");
    assert_eq!(bed.sh("grep -rh ^Port /etc/ssh"), "Port 2222\n");
    let status = bed.kite(&["status"]);
    assert_eq!(status.code, Some(0), "{:#}", status.json);
    assert_eq!(status.json["activation"]["unit"], "ssh.socket");

    bed.kite(&["restore"]).ended(0, "restored");
    assert_eq!(calls(&bed), switches);
    assert!(bed.login(22) && session.lives());
    let after = [bed.files("/etc/ssh"), bed.files("/etc/systemd")];
    assert_eq!(after, before);
    assert_eq!(
        bed.sh("ls /etc/systemd/system"),
        "",
        "the directory was made for it"
    );
}

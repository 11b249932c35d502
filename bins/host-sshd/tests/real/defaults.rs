//! Without options, on port 22 and in `/etc/ssh`, as on a host.

use crate::bed::{Bed, await_that};

const DROP_IN: &str = "/etc/ssh/sshd_config.d/kite-host-sshd.conf";

/// `/etc/ssh` as distributions have it.
fn distribution(bed: &Bed, main: &str) {
    bed.sh(&format!(
        "mkdir -p /etc/ssh/sshd_config.d; cat >/etc/ssh/sshd_config <<'END'\n{main}{}END\n",
        bed.basics()
    ));
}

#[test]
fn a_default_port_is_moved_by_a_file_of_kites_own() {
    let Some(bed) = Bed::isolated() else { return };
    distribution(&bed, "Include /etc/ssh/sshd_config.d/*.conf\n#Port 22\n");
    bed.sh("chmod 600 /etc/ssh/sshd_config");
    bed.sh("/usr/sbin/sshd");
    await_that("sshd answers", || bed.login(22));
    let before = bed.files("/etc/ssh");
    let mut session = bed.session(22);
    let moved = bed.kite(&["move", "--to", "2222"]);
    moved.ended(0, "moved");
    assert!(bed.login(2222) && !bed.login(22) && session.lives());
    assert!(bed.sh(&format!("cat {DROP_IN}")).ends_with("\nPort 2222\n"));
    assert_eq!(bed.sh(&format!("stat -c %a {DROP_IN}")), "600\n");
    assert!(moved.says("notices").contains("--host-sshd ADDRESS:2222"));
    bed.kite(&["restore"]).ended(0, "restored");
    assert!(bed.login(22) && session.lives());
    assert_eq!(bed.files("/etc/ssh"), before);
}

#[test]
fn without_an_included_directory_the_main_file_is_changed() {
    let Some(bed) = Bed::isolated() else { return };
    distribution(&bed, "# The main file.\n#Port 22\n");
    bed.sh("/usr/sbin/sshd");
    await_that("sshd answers", || bed.login(22));
    let before = bed.files("/etc/ssh");
    bed.kite(&["move", "--to", "2222", "--no-firewall-hint"])
        .ended(0, "moved");
    assert!(
        bed.sh("cat /etc/ssh/sshd_config")
            .starts_with("# The main file.\n#Port 22\nPort 2222\n")
    );
    assert!(bed.login(2222) && !bed.login(22));
    bed.kite(&["restore"]).ended(0, "restored");
    assert_eq!(bed.files("/etc/ssh"), before);
}

//! What the tests need of the machine that they run on.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Whether the tests can be run; if not it is said why.
pub fn is_fit() -> bool {
    let Some(missing) = missing() else {
        return true;
    };
    skip(&missing);
    false
}

/// Says why a test cannot be run; in CI (`KITE_REQUIRE_CLIENTS`) it fails by that.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
        "KITE_REQUIRE_CLIENTS is set: {why}"
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("these tests start sshd as root does, and are not run by root".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_there = |program: &&str| {
        // An absolute path takes the place of the directory.
        dirs.iter().any(|dir| dir.join(program).is_file())
    };
    let programs = ["/usr/sbin/sshd", "ssh", "ssh-keygen"];
    let program = programs.iter().find(|program| !is_there(program))?;
    Some(format!(
        "there is no {program} (Debian: openssh-server, openssh-client)"
    ))
}

/// A process in namespaces of its own, if that is allowed and `ip` can set them up.
pub fn namespaces() -> Option<Child> {
    let mut child = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private"])
        .args([
            "sh",
            "-c",
            "ip link show lo >&2 && echo ready && exec sleep infinity",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take()?);
    output.read_line(&mut line).ok()?;
    if line == "ready\n" {
        return Some(child);
    }
    let _ = child.wait();
    None
}

/// Ends all processes of a namespace.
pub fn end_all_in(namespace: &str) {
    let Ok(wanted) = fs::read_link(namespace) else {
        return;
    };
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let is_in = fs::read_link(entry.path().join("ns/net")).is_ok_and(|is| is == wanted);
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let (true, Some(pid)) = (is_in, pid) {
            end(pid);
        }
    }
}

/// Ends a process.
pub fn end(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A port that nobody has just now.
pub fn free_port() -> u16 {
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    socket.local_addr().unwrap().port()
}

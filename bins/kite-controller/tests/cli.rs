//! The command line of `kite-controller`.

#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn without_a_cluster_it_says_so_in_one_line() {
    let output = Command::new(env!("CARGO_BIN_EXE_kite-controller"))
        .args(["--admin-listen", "127.0.0.1:0", "--log", "error"])
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("KUBECONFIG") && errors.lines().count() == 1,
        "{errors}"
    );
}

#[test]
fn a_bad_option_says_what_is_possible() {
    let output = Command::new(env!("CARGO_BIN_EXE_kite-controller"))
        .args(["--log-format", "xml"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("xml") && errors.contains("json"),
        "{errors}"
    );
}

#[test]
fn durations_that_make_no_safe_election_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_kite-controller"))
        .args(["--admin-listen", "127.0.0.1:0", "--renew-deadline", "15"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("renew deadline") && errors.contains("less than the lease duration"),
        "{errors}"
    );
}

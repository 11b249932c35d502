//! The command line of `kite-gateway`.

#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn without_a_cluster_it_says_so_in_one_line() {
    let output = Command::new(env!("CARGO_BIN_EXE_kite-gateway"))
        .args([
            "--admin-listen",
            "127.0.0.1:0",
            "--listen",
            "127.0.0.1:0",
            "--log",
            "error",
        ])
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
    let output = Command::new(env!("CARGO_BIN_EXE_kite-gateway"))
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

fn error_of(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kite-gateway"))
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .args(arguments)
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn recordings_that_cannot_be_made_are_told_before_anybody_logs_in() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = file.path().join("below");
    let below = below.to_str().unwrap();
    let error = error_of(&["--record-to", below]);
    assert!(
        error.contains("--record-to") && error.contains(below),
        "{error}"
    );

    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().to_str().unwrap();
    let error = error_of(&["--record-upload", "s3://bucket/kite"]);
    assert!(error.contains("--record-to"), "{error}");
    // This build knows no such store.
    let upload = "nowhere://bucket/kite";
    let error = error_of(&["--record-to", directory, "--record-upload", upload]);
    assert!(
        error.contains("--record-upload nowhere://bucket/kite"),
        "{error}"
    );
}

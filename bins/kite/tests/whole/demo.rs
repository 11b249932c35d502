//! `kite demo` as a person uses it.

use std::process::Command;

use crate::{
    flow,
    support::{Platform, clients_present, eventually, run, show, start_demo},
};

fn kite() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kite"))
}

fn token(platform: &Platform) -> String {
    std::fs::read_to_string(platform.state.join("bootstrap-token"))
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn the_whole_way_from_bootstrap_to_nothing_left() {
    if !clients_present() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (process, platform) = start_demo(&dir.path().join("state"), &[]);
    flow::from_bootstrap_to_nothing_left(&platform, &token(&platform));

    // It fails if the demo does not end.
    let (code, took) = process.terminate();
    println!("the demo ended in {took:?}");
    assert_eq!(code, Some(0));
}

#[test]
fn what_it_prints_works_as_pasted() {
    if !clients_present() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (process, platform) = start_demo(&dir.path().join("state"), &[]);
    // Up to their end: they may come in pieces.
    let printed = eventually("the instructions", || {
        let log = process.log();
        if log.contains("Terminals are not recorded") {
            Ok(log)
        } else {
            Err(log)
        }
    });
    let line = |start: &str| {
        let line = printed
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("no line starts with {start:?} in:\n{printed}"))
            .to_owned()
    };
    assert!(printed.contains(&platform.text("api")), "{printed}");
    assert!(printed.contains(&token(&platform)), "{printed}");
    for (pasted, expected) in [
        (
            format!("{}\n{}", line("export KUBECONFIG="), line("kubectl ")),
            "Running",
        ),
        (
            format!(
                "{}\n'{}' doctor",
                line("export KUBECONFIG="),
                env!("CARGO_BIN_EXE_kite")
            ),
            "Nothing keeps Kite from working",
        ),
        (format!("{} hostname", line("ssh ")), "hello"),
    ] {
        // The gateway may see the guest's address a moment after the user sees "Running".
        eventually(&pasted, || {
            let mut shell = Command::new("sh");
            shell.args(["-ec", &pasted]).current_dir(dir.path());
            let output = run(shell, "");
            let text = String::from_utf8_lossy(&output.stdout);
            let is_well = output.status.success() && text.contains(expected);
            is_well.then_some(()).ok_or_else(|| show(&output))
        });
    }
}

#[test]
fn bad_input_is_refused_with_a_remedy_and_harms_nothing() {
    if !clients_present() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut process, platform) = start_demo(&dir.path().join("state"), &[]);
    let mut second = kite();
    second.args(["apiserver", "--apiserver-listen=127.0.0.1:0", "--state-dir"]);
    second.arg(&platform.state);
    let second = run(second, "");
    let errors = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{}", show(&second));
    assert!(
        errors.contains("in use") && errors.lines().count() == 1,
        "{errors}"
    );
    assert!(
        platform.state.join("ready.json").is_file(),
        "it harms nobody"
    );
    let vm = |name: &str, fields: &str| {
        format!(
            "apiVersion: hy3ons.github.io/v1\nkind: KiteVirtualMachine\n\
             metadata: {{name: {name}, namespace: kite-user-demo}}\nspec: {{{fields}}}\n"
        )
    };
    for (fields, field) in [
        (
            "cpu: 0, memory: 1Gi, disk: 10Gi, image: debian-12, sshId: bad-one",
            "spec.cpu",
        ),
        (
            "cpu: 1, memory: lots, disk: 10Gi, image: debian-12, sshId: bad-one",
            "spec.memory",
        ),
        (
            "cpu: 1, memory: 1Gi, disk: 10Gi, image: debian-12, sshId: Bad",
            "spec.sshId",
        ),
        ("cpu: 1, memory: 1Gi, disk: 10Gi, image: debian-12", "sshId"),
        (
            "cpu: 1, memory: 1Gi, disk: 10Gi, image: debian-12, sshId: root",
            "spec.sshId",
        ),
    ] {
        let output = platform.apply(&vm("bad", fields));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && error.contains(field),
            "{fields}: {}",
            show(&output)
        );
    }

    let condition = |name: &str, type_: &str| {
        let path = format!(
            "jsonpath={{.status.conditions[?(@.type==\"{type_}\")].status}} {{.status.conditions[?(@.type==\"{type_}\")].message}}"
        );
        platform.kubectl_ok(&["get", "ktvm", name, "-n", "kite-user-demo", "-o", &path])
    };
    let expect = |name: &str, type_: &str, word: &str| {
        eventually(type_, || {
            let seen = condition(name, type_);
            if seen.starts_with("False") && seen.contains(word) {
                Ok(())
            } else {
                Err(seen)
            }
        });
    };
    platform.apply_ok(&vm(
        "unknown-image",
        "cpu: 1, memory: 1Gi, disk: 10Gi, image: beos, sshId: fan-of-beos",
    ));
    expect("unknown-image", "ImageReady", "debian-12");
    platform.apply_ok(&vm(
        "taken",
        "cpu: 1, memory: 1Gi, disk: 10Gi, image: debian-12, sshId: hello",
    ));
    expect("taken", "Reserved", "kite-user-demo/hello");

    // The first holder of the name is unharmed, and so is everybody else.
    platform.apply_ok(&vm(
        "good",
        "cpu: 1, memory: 1Gi, disk: 10Gi, image: debian-12, sshId: good-one",
    ));
    let wait = [
        "wait",
        "-n",
        "kite-user-demo",
        "--for=condition=Ready",
        "--timeout=60s",
    ];
    platform.kubectl_ok(&[&wait[..], &["ktvm/good", "ktvm/hello"]].concat());
    process.assert_running();
}

#[test]
fn a_port_in_use_or_a_bad_directory_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let state = dir.path().join("state");
    let free = "127.0.0.1:0";
    for (state, apiserver, api, gateway, expected) in [
        (&state, taken.as_str(), free, free, "--apiserver-listen"),
        (&state, free, taken.as_str(), free, "--api-listen"),
        (&state, free, free, taken.as_str(), "--gateway-listen"),
        (&file, free, free, free, "--state-dir"),
    ] {
        let mut command = kite();
        command.arg("demo").arg("--state-dir").arg(state).args([
            "--apiserver-listen",
            apiserver,
            "--api-listen",
            api,
            "--gateway-listen",
            gateway,
        ]);
        let output = run(command, "");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}", show(&output));
        assert!(
            errors.contains(expected) && errors.lines().count() == 1,
            "{}",
            show(&output)
        );
    }
}

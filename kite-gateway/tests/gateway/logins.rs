//! Logins that take more than one step: a key and a password, and machines that are
//! started for them.

use std::process::Output;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Bed, PASSWORD, appears, run, text};
use kite_gateway::{LoginRule, VmState};

/// The machine `web` is switched off, and a login starts it.
async fn started_by_login(bed: &Bed) -> kite_fake_kubevirt::guest::GuestHandle {
    let guest = bed.machine("web").await;
    bed.table.change("web", |route| {
        route.state = VmState::Stopped("it is switched off".into());
        route.start_on_connect = true;
    });
    guest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_starts_a_machine_and_tells_how_it_comes_along() {
    let bed = Bed::new().await;
    let _guest = started_by_login(&bed).await;
    // A stranger starts nothing.
    let mut client = bed.with_password("wrong", "password");
    client.args(["-l", "web", "127.0.0.1", "echo in"]);
    run(client, Vec::new()).await;
    assert_eq!(bed.starts.asked.load(Ordering::Relaxed), 0);

    let output = bed.ssh("web", "echo in; exit 3").await;
    let told = text(&output.stderr);
    assert_eq!(text(&output.stdout), "in\n", "{told}");
    assert_eq!(output.status.code(), Some(3));
    let started = "kite: VM kite-user-ann/web: it was switched off, and is started";
    assert!(told.contains(started), "{told}");
    assert_eq!(bed.starts.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_come_at_once_start_a_machine_once() {
    let bed = Bed::new().await;
    let _guest = started_by_login(&bed).await;
    let all = (0..6).map(|_| bed.ssh("web", "echo in"));
    for output in futures::future::join_all(all).await {
        assert_eq!(text(&output.stdout), "in\n", "{}", text(&output.stderr));
    }
    assert_eq!(bed.starts.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_have_a_machine_started_is_told_why() {
    let bed = Bed::with(kite_gateway::Config {
        start_deadline: Duration::from_secs(1),
        ..kite_gateway::Config::default()
    })
    .await;
    let _guest = started_by_login(&bed).await;
    *bed.starts.refuses.lock() = Some("the platform is closed".to_owned());
    let output = bed.ssh("web", "echo in").await;
    let told = text(&output.stderr);
    assert!(
        told.contains("cannot be started: the platform is closed"),
        "{told}"
    );
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("", Some(255))
    );

    // Nor does it wait for ever; the command line ends with a status all the same.
    bed.table.change("web", |route| {
        route.state = VmState::Starting("it boots".into());
    });
    let output = bed.ssh("web", "echo in").await;
    let told = text(&output.stderr);
    assert!(
        told.contains("it does not run after 1 s: it boots"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(255));
}

/// Logs in with a password and, if there is to be one, the key.
async fn log_in(bed: &Bed, has_key: bool, password: &str) -> Output {
    let mut client = bed.with_password(password, "publickey,password,keyboard-interactive");
    if has_key {
        client.arg("-i").arg(bed.path("key"));
    }
    client.args(["-l", "web", "127.0.0.1", "echo in"]);
    run(client, Vec::new()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_key_and_a_password_are_needed_neither_is_enough() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    bed.table
        .change("web", |route| route.rule = LoginRule::KeyAndPassword);
    for (has_key, password) in [(true, "wrong"), (false, PASSWORD)] {
        let output = log_in(&bed, has_key, password).await;
        assert_eq!(text(&output.stdout), "");
        assert_eq!(output.status.code(), Some(255));
    }
    let output = log_in(&bed, true, PASSWORD).await;
    assert_eq!(text(&output.stdout), "in\n", "{}", text(&output.stderr));
    let part = bed.records.find(|r| r["partial"] == true).await;
    assert_eq!(
        (&part["accepted"], &part["method"]),
        (&false.into(), &"publickey".into())
    );

    // The rule is made stricter while somebody is in: nothing new is opened.
    bed.table
        .change("web", |route| route.rule = LoginRule::KeyOrPassword);
    let mut client = bed.with_key("ssh");
    let control = bed.path("control");
    client
        .args(["-M", "-N", "-o", "ControlPersist=no", "-S"])
        .arg(&control);
    client.args(["-l", "web", "127.0.0.1"]);
    let mut master = client.spawn().unwrap();
    appears(&control).await;
    let second = || {
        let mut client = bed.with_key("ssh");
        client.arg("-S").arg(&control);
        client.args(["-l", "web", "127.0.0.1", "echo in"]);
        run(client, Vec::new())
    };
    assert_eq!(text(&second().await.stdout), "in\n");
    bed.table
        .change("web", |route| route.rule = LoginRule::KeyAndPassword);
    let output = second().await;
    assert_eq!(text(&output.stdout), "", "{}", text(&output.stderr));
    master.kill().unwrap();
    master.wait().unwrap();
}

//! Login names without a machine, where they lead to a host's own sshd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::process::Output;
use std::time::{Duration, Instant};

use common::{Bed, PASSWORD, run, text};
use kite_fake::guest::{Guest, GuestConfig, GuestHandle, Passwords};
use kite_gateway::fallback::Host;
use kite_gateway::{BanPolicy, Config, LoginName};

const HOST_PASSWORD: &str = "of the host";

async fn host(user: &str, passwords: Passwords) -> GuestHandle {
    let mut config = GuestConfig::new("host", user, Vec::new()).unwrap();
    config.passwords = passwords;
    Guest::start(config).await.unwrap()
}

fn behind(host: &GuestHandle, accounts: &[&str]) -> Host {
    Host {
        address: host.address(),
        host_key: host.host_key().clone(),
        accounts: accounts
            .iter()
            .map(|name| LoginName::parse(name).unwrap())
            .collect(),
    }
}

async fn login(bed: &Bed, user: &str, password: &str, method: &str) -> Output {
    let mut client = bed.with_password(password, method);
    client.args(["-l", user, "127.0.0.1", "hostname; whoami"]);
    run(client, Vec::new()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_gets_into_the_host_by_password() {
    for passwords in [Passwords::Plain, Passwords::Asked] {
        let host = host("admin", passwords(HOST_PASSWORD.to_owned())).await;
        let bed = Bed::before_host(Config::default(), behind(&host, &[])).await;
        for method in ["password", "keyboard-interactive"] {
            let output = login(&bed, "admin", HOST_PASSWORD, method).await;
            let told = text(&output.stderr);
            assert_eq!(text(&output.stdout), "host\nadmin\n", "{method}: {told}");
            let output = login(&bed, "admin", "wrong", method).await;
            assert_eq!(output.status.code(), Some(255));
            assert_eq!(text(&output.stdout), "");
        }
        // Each channel enters anew, with the same password.
        let mut client = bed.with_password(HOST_PASSWORD, "password");
        client.arg("-S").arg(bed.path("control"));
        client.args(["-M", "-N", "-l", "admin", "127.0.0.1"]);
        let mut master = client.spawn().unwrap();
        while !bed.path("control").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for _ in 0..3 {
            let mut client = bed.client("ssh");
            client.arg("-S").arg(bed.path("control"));
            client.args(["-l", "admin", "127.0.0.1", "whoami"]);
            assert_eq!(text(&run(client, Vec::new()).await.stdout), "admin\n");
        }
        master.kill().unwrap();
        master.wait().unwrap();
        let record = bed
            .records
            .find(|r| r["event"] == "login" && r["accepted"] == true)
            .await;
        assert_eq!(record["vm"]["namespace"], "host");
        assert_eq!(record["vm"]["name"], "admin");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_wins_over_an_account_of_its_name() {
    let host = host("web", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let bed = Bed::before_host(Config::default(), behind(&host, &[])).await;
    let _guest = bed.machine("web").await;
    let output = login(&bed, "web", PASSWORD, "password").await;
    assert_eq!(text(&output.stdout), "vm-web\nweb\n");
    let output = login(&bed, "web", HOST_PASSWORD, "password").await;
    assert_eq!(output.status.code(), Some(255));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_accounts_that_are_named_are_reached() {
    let host = host("root", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let bed = Bed::before_host(Config::default(), behind(&host, &["admin"])).await;
    let output = login(&bed, "root", HOST_PASSWORD, "password").await;
    assert_eq!(output.status.code(), Some(255));
    let record = bed.records.find(|r| r["event"] == "login").await;
    assert_eq!(record["vm"], serde_json::Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_do_not_lead_to_the_host_and_another_host_key_is_refused() {
    let host = host("admin", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let mut wrong = behind(&host, &[]);
    let bed = Bed::before_host(Config::default(), wrong.clone()).await;
    let output = bed.ssh("admin", "whoami").await;
    assert_eq!(output.status.code(), Some(255));
    assert!(text(&output.stderr).contains("Permission denied"));

    wrong.host_key = common::new_key().public_key().clone();
    let bed = Bed::before_host(Config::default(), wrong).await;
    let output = login(&bed, "admin", HOST_PASSWORD, "password").await;
    assert_eq!(output.status.code(), Some(255));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_at_the_host_are_few_and_cost_as_much_as_others() {
    let rejection_time = Duration::from_millis(900);
    let config = Config {
        rejection_time,
        relay_bans: BanPolicy {
            failures: 2,
            ..Config::default().relay_bans
        },
        ..Config::default()
    };
    let host = host("admin", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let bed = Bed::before_host(config, behind(&host, &["admin"])).await;
    let _guest = bed.machine("web").await;
    for user in ["admin", "admin", "nobody", "web"] {
        let started = Instant::now();
        let output = login(&bed, user, "wrong", "password").await;
        assert_eq!(output.status.code(), Some(255));
        assert!(started.elapsed() >= rejection_time, "{user}");
    }
    // From this address the host is asked no more, whatever the password is.
    let output = login(&bed, "admin", HOST_PASSWORD, "password").await;
    assert_eq!(output.status.code(), Some(255));
    // Machines are still there for it.
    let output = login(&bed, "web", PASSWORD, "password").await;
    assert_eq!(text(&output.stdout), "vm-web\nweb\n");
}

//! Login names without a machine, where they lead to a host's own sshd.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Bed, PASSWORD, Trusting, appears, new_key, run, text, until};
use kite_fake_kubevirt::guest::{Guest, GuestConfig, GuestHandle, Passwords};
use kite_gateway::fallback::Host;
use kite_gateway::{BanPolicy, Config, LoginName};
use kite_ssh_relay::io::{Connection, Event, Workers};
use kite_ssh_relay::login::{self, Methods, Request, Server};
use kite_ssh_relay::sign::SigningKey;
use kite_ssh_relay::transport;
use russh::client;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

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
        let bed = Bed::before_host(
            Config::default().relaying(Duration::from_secs(2)),
            behind(&host, &[]),
        )
        .await;
        for method in ["password", "keyboard-interactive"] {
            let output = login(&bed, "admin", HOST_PASSWORD, method).await;
            let told = text(&output.stderr);
            assert_eq!(text(&output.stdout), "host\nadmin\n", "{method}: {told}");
            let output = login(&bed, "admin", "wrong", method).await;
            assert_eq!(output.status.code(), Some(255));
            assert_eq!(text(&output.stdout), "");
        }
        // All sessions go by the connection that the password has entered.
        let mut client = bed.with_password(HOST_PASSWORD, "password");
        client.arg("-S").arg(bed.path("control"));
        client.args(["-M", "-N", "-l", "admin", "127.0.0.1"]);
        let mut master = client.spawn().unwrap();
        appears(&bed.path("control")).await;
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

/// The password that somebody logs in with, who gets no further.
async fn heard(stream: TcpStream, key: Arc<SigningKey>) -> Vec<u8> {
    let config = transport::Config::server("SSH-2.0-host", vec![key]);
    let mut user = Connection::start(Arc::new(config), stream, Workers::default()).unwrap();
    assert!(matches!(user.next().await.unwrap(), Event::Keyed));
    let mut server = Server::new(
        user.transport().session_id().unwrap(),
        user.transport().host_key().unwrap(),
    );
    let methods = Methods {
        password: true,
        ..Methods::default()
    };
    loop {
        user.next().await.unwrap();
        let answer = match server.take(user.message()).unwrap() {
            login::Asked::Request {
                request: Request::Password(password),
                ..
            } => return password.to_vec(),
            login::Asked::Request { .. } => server.reject(methods).unwrap(),
            login::Asked::Reply(reply) => reply,
            other => panic!("{other:?}"),
        };
        user.send(&answer, &[]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_reaches_the_host_as_it_was_typed() {
    const LATIN_1: &[u8] = b"caf\xe9";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let key = new_key();
    let host = Host {
        address: listener.local_addr().unwrap(),
        host_key: key.public_key().clone(),
        accounts: Vec::new(),
    };
    let bed = Bed::before_host(Config::default().relaying(Duration::from_secs(2)), host).await;
    let mut client = bed.with_password("", "password");
    client.env("KITE_TEST_PASSWORD", OsStr::from_bytes(LATIN_1));
    client.args(["-l", "admin", "127.0.0.1"]);
    let mut client = client.spawn().unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let key = Arc::new(SigningKey::new(&key).unwrap());
    assert_eq!(heard(stream, key).await, LATIN_1);
    client.kill().unwrap();
    client.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_wins_over_an_account_of_its_name() {
    let host = host("web", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let bed = Bed::before_host(
        Config::default().relaying(Duration::from_secs(2)),
        behind(&host, &[]),
    )
    .await;
    let _guest = bed.machine("web").await;
    let output = login(&bed, "web", PASSWORD, "password").await;
    assert_eq!(text(&output.stdout), "vm-web\nweb\n");
    let output = login(&bed, "web", HOST_PASSWORD, "password").await;
    assert_eq!(output.status.code(), Some(255));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_accounts_that_are_named_are_reached() {
    let host = host("root", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let bed = Bed::before_host(
        Config::default().relaying(Duration::from_secs(2)),
        behind(&host, &["admin"]),
    )
    .await;
    let output = login(&bed, "root", HOST_PASSWORD, "password").await;
    assert_eq!(output.status.code(), Some(255));
    let record = bed.records.find(|r| r["event"] == "login").await;
    assert_eq!(record["vm"], serde_json::Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_do_not_lead_to_the_host_and_another_host_key_is_refused() {
    let host = host("admin", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let mut wrong = behind(&host, &[]);
    let bed = Bed::before_host(
        Config::default().relaying(Duration::from_secs(2)),
        wrong.clone(),
    )
    .await;
    let output = bed.ssh("admin", "whoami").await;
    assert_eq!(output.status.code(), Some(255));
    assert!(text(&output.stderr).contains("Permission denied"));

    wrong.host_key = crate::common::new_key().public_key().clone();
    let bed = Bed::before_host(Config::default().relaying(Duration::from_secs(2)), wrong).await;
    let output = login(&bed, "admin", HOST_PASSWORD, "password").await;
    assert_eq!(output.status.code(), Some(255));
}

/// How often a host was asked, and how many of these connections are over.
#[derive(Clone, Default)]
struct Asked {
    asked: Arc<AtomicUsize>,
    over: Arc<AtomicUsize>,
}

impl Asked {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// A host that takes its time to say no, as PAM does, and what it was asked.
async fn slow_host(user: &str, delay: Duration) -> (GuestHandle, Host, Asked) {
    let host = host(user, Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut slow = behind(&host, &[]);
    let fast = std::mem::replace(&mut slow.address, listener.local_addr().unwrap());
    let asked = Asked::default();
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            count.asked.fetch_add(1, Ordering::Relaxed);
            let over = Arc::clone(&count.over);
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                let mut far = TcpStream::connect(fast).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                over.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    (host, slow, asked)
}

async fn guess(bed: &Bed, user: &str, password: &str) -> (bool, Duration) {
    let config = Arc::new(client::Config::default());
    let mut handle = client::connect(config, bed.address, Trusting)
        .await
        .unwrap();
    let started = Instant::now();
    let result = handle.authenticate_password(user, password).await;
    let accepted = result.is_ok_and(|result| result.success());
    (accepted, started.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_at_the_host_are_few_and_take_as_long_as_others() {
    let time = Duration::from_secs(2);
    let (_host, slow, asked) = slow_host("admin", Duration::from_millis(800)).await;
    let config = Config {
        address_bans: BanPolicy {
            failures: 0,
            ..Config::default().address_bans
        },
        max_startups_per_address: 100,
        ..Config::default().relaying(time)
    };
    let bed = Bed::before_host(config, slow).await;
    let _guest = bed.machine("web").await;
    let mut longest = [Duration::ZERO; 2];
    for (user, longest) in ["web", "nobody"].into_iter().zip(&mut longest) {
        let guesses = (0..12).map(|_| guess(&bed, user, "wrong"));
        for (accepted, took) in futures::future::join_all(guesses).await {
            assert!(!accepted);
            assert!(took >= time, "{user}: {took:?}");
            *longest = took.max(*longest);
        }
    }
    // Were the host waited for in turn, the last of twelve would take three times as
    // long as it does. Those at a machine are as slow as this one is.
    let [at_machine, at_host] = longest;
    assert!(at_host < at_machine * 2, "{longest:?}");
    // Five, of which four at a time.
    let failures = Config::default().relay_bans.failures as usize;
    assert!(asked.asked() <= failures);
    // From this address the host is asked no more, whatever the password is.
    let (accepted, took) = guess(&bed, "admin", HOST_PASSWORD).await;
    assert!(!accepted && took >= time);
    assert!(asked.asked() <= failures);
    // The machines are still there for it.
    let output = bed.ssh("web", "echo in").await;
    assert_eq!(text(&output.stdout), "in\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hangs_up_holds_nothing() {
    let (_host, slow, asked) = slow_host("admin", Duration::from_secs(3)).await;
    let never = BanPolicy {
        failures: 0,
        ..Config::default().address_bans
    };
    let config = Config {
        relay_bans: never,
        address_bans: never,
        max_startups_per_address: 40,
        login_deadline: Duration::from_secs(2),
        ..Config::default().relaying(Duration::from_secs(30))
    };
    let address = slow.address;
    let bed = Bed::before_host(config, slow).await;
    let guesses = (0..40).map(|_| guess(&bed, "nobody", "wrong"));
    futures::future::join_all(guesses).await;
    bed.emptied().await;
    // Connections come in turn: once this one is answered, those that were made
    // before it have been counted, however busy the machine is.
    let mut last = TcpStream::connect(address).await.unwrap();
    last.read_u8().await.unwrap();
    // Nobody waits for the answers any more, and nobody asks for them.
    let before = asked.asked();
    assert!((1..40).contains(&before), "{before}");
    // Those who wait are served in order: if the next one is, nobody stands before it.
    let come = until("the host is asked again", async || {
        (asked.asked() > before).then_some(())
    });
    tokio::join!(guess(&bed, "nobody", "wrong"), come);
    assert_eq!(asked.asked(), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_trusted_does_not_stand_in_line() {
    let host = host("admin", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let config = Config {
        parallel_relays: 1,
        relay_bans: BanPolicy {
            failures: 1,
            ..Config::default().relay_bans
        },
        never_ban: vec!["127.0.0.0/8".parse().unwrap()],
        ..Config::default().relaying(Duration::from_secs(2))
    };
    let bed = Bed::before_host(config, behind(&host, &[])).await;
    for _ in 0..3 {
        assert!(!guess(&bed, "admin", "wrong").await.0);
    }
    assert!(guess(&bed, "admin", HOST_PASSWORD).await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_comes_too_late_is_none_and_counts_as_none() {
    let (_host, slow, asked) = slow_host("admin", Duration::from_secs(7)).await;
    let config = Config {
        // Another login is quick enough, however busy the machine is.
        login_deadline: Duration::from_secs(5),
        max_connections_per_vm: 1,
        ..Config::default().relaying(Duration::from_secs(30))
    };
    let bed = Bed::before_host(config, slow).await;
    let guest = bed.machine("web").await;
    // By the time the host says yes, nobody is there any more.
    assert!(!guess(&bed, "admin", HOST_PASSWORD).await.0);
    until("the host has said so", async || {
        (asked.over.load(Ordering::Relaxed) == 1).then_some(())
    })
    .await;
    assert_eq!(bed.sessions.list().len(), 0);
    // The one connection that its machine may have is still to be had.
    let address = guest.address();
    let route = bed.route("admin", address, "web", guest.host_key().clone());
    bed.table.set("admin", route);
    bed.table.change("admin", |route| {
        route.vm.namespace = kite_gateway::fallback::REALM.to_owned();
    });
    let output = bed.ssh("admin", "echo in").await;
    assert_eq!(text(&output.stdout), "in\n", "{}", text(&output.stderr));
    let is_login = |record: &serde_json::Value| {
        record["event"] == "login" && record["accepted"] == true && record["method"] == "password"
    };
    assert!(!bed.records.any(is_login));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_count_whether_or_not_the_host_was_asked() {
    let host = host("admin", Passwords::Plain(HOST_PASSWORD.to_owned())).await;
    let config = Config {
        address_bans: BanPolicy {
            failures: 8,
            ..Config::default().address_bans
        },
        ..Config::default().relaying(Duration::from_millis(700))
    };
    let bed = Bed::before_host(config, behind(&host, &[])).await;
    for _ in 0..8 {
        assert!(!guess(&bed, "nobody", "wrong").await.0);
    }
    // Five were passed on, and all eight count: the right password of a machine comes
    // too late.
    let _guest = bed.machine("web").await;
    assert!(!guess(&bed, "web", PASSWORD).await.0);
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
}

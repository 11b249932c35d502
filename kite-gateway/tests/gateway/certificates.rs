//! Logins by certificates of authorities that the operator trusts, made by OpenSSH's tool and
//! shown by OpenSSH's client; and what tokens say that keep keys.
#![allow(clippy::indexing_slicing)]

use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use kite_gateway::{Authority, AuthorizedKey, Config, Infrastructure, LoginRule, Presence};
use russh::keys::{HashAlg, PublicKey};

use crate::common::{Bed, PASSWORD, Sshd, reach, run, text};

/// Whom certificates have to name: the owner of the bed's machines.
const ANN: &str = "ann";

/// OpenSSH's tool in the bed's directory.
fn keygen(bed: &Bed, arguments: &[&str]) {
    let mut keygen = Command::new("ssh-keygen");
    let done = keygen.arg("-q").args(arguments).current_dir(bed.dir.path());
    assert!(done.status().unwrap().success(), "{arguments:?}");
}

fn public(bed: &Bed, file: &str) -> PublicKey {
    let line = std::fs::read_to_string(bed.path(file)).unwrap();
    PublicKey::from_openssh(&line).unwrap()
}

/// An authority in that file, for whom its certificates name.
fn authority(bed: &Bed, file: &str, principal: &str) -> Authority {
    if !bed.path(file).exists() {
        keygen(bed, &["-t", "ed25519", "-N", "", "-f", file]);
    }
    Authority {
        key: Arc::new(public(bed, &format!("{file}.pub"))),
        principal: principal.to_owned(),
    }
}

/// A key with a certificate by that authority.
fn certify(bed: &Bed, by: &str, arguments: &[&str]) {
    for old in ["own", "own.pub", "own-cert.pub"] {
        let _ = std::fs::remove_file(bed.path(old));
    }
    keygen(bed, &["-t", "ed25519", "-N", "", "-f", "own"]);
    let all = [
        &["-s", by, "-I", "badge 7", "-z", "7"],
        arguments,
        &["own.pub"],
    ]
    .concat();
    keygen(bed, &all);
}

/// OpenSSH's client that shows it.
fn client(bed: &Bed) -> Command {
    let mut client = bed.client("ssh");
    client.arg("-i").arg(bed.path("own"));
    client.args(["-o", "BatchMode=yes"]);
    client
}

async fn shown(bed: &Bed, login: &str, options: &[&str]) -> Output {
    let mut client = client(bed);
    client
        .args(options)
        .args(["-l", login, "127.0.0.1", "echo in"]);
    run(client, Vec::new()).await
}

/// For one address from which many fail to log in, which count for a while.
fn many() -> Config {
    Config {
        max_startups_per_address: 1000,
        drain_grace: Duration::from_secs(1),
        ..Config::default()
    }
}

/// A gateway that trusts `ca` before a machine of Ann's.
async fn bed() -> (Bed, kite_fake_kubevirt::guest::GuestHandle) {
    let bed = Bed::with(many()).await;
    let guest = bed.machine("web").await;
    let trusted = authority(&bed, "ca", ANN);
    bed.table
        .change("web", |route| route.authorities = vec![trusted]);
    (bed, guest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_an_authority_vouches_for_gets_in_and_is_written_down() {
    let (bed, _guest) = bed().await;
    for valid in [
        &["-n", ANN][..],
        &["-n", "bob,ann", "-V", "-1h:+1h"],
        &["-n", ANN, "-O", "source-address=192.0.2.0/24,127.0.0.0/8"],
        &["-n", ANN, "-O", "clear"],
    ] {
        certify(&bed, "ca", valid);
        let output = shown(&bed, "web", &[]).await;
        assert_eq!(text(&output.stdout), "in\n", "{}", text(&output.stderr));
    }
    let print = |file| public(&bed, file).fingerprint(HashAlg::Sha256);
    let own = print("own.pub").to_string();
    let record = bed.records.find(|it| it["key"] == own.as_str()).await;
    assert_eq!(
        (&record["accepted"], &record["method"], &record["owner"]),
        (&true.into(), &"publickey".into(), &ANN.into())
    );
    let expected = serde_json::json!({
        "id": "badge 7", "serial": 7, "authority": print("ca.pub").to_string(),
    });
    assert_eq!(record["certificate"], expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_not_taken_is_refused_with_a_word_to_its_holder() {
    let (bed, _guest) = bed().await;
    for (arguments, word) in [
        (&["-n", ANN, "-O", "force-command=id"][..], "force-command"),
        (&["-n", ANN, "-V", "20200101:20210101"], "has expired"),
        (&["-n", ANN, "-V", "+1h:+2h"], "not valid yet"),
        (
            &["-n", ANN, "-O", "source-address=192.0.2.0/24"],
            "not for clients at 127.0.0.1",
        ),
        (
            &["-n", ANN, "-O", "critical:moon@example.com=full"],
            "moon@example.com",
        ),
    ] {
        certify(&bed, "ca", arguments);
        let output = shown(&bed, "web", &[]).await;
        let told = text(&output.stderr);
        assert_eq!(
            (text(&output.stdout).as_str(), output.status.code()),
            ("", Some(255))
        );
        assert!(told.contains(word), "{word}: {told}");
        let is_told = |it: &serde_json::Value| {
            let refused = it["certificate"]["refused"].as_str();
            refused.is_some_and(|it| it.contains(word)) && it["accepted"] == false
        };
        bed.records.find(is_told).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_is_told_whether_a_name_leads_anywhere() {
    let (bed, _guest) = bed().await;
    let _ = authority(&bed, "another", ANN);
    let is_of_another = |it: &serde_json::Value| {
        let told = it["certificate"]["authority"].as_str();
        told.is_some_and(|it| {
            it != public(&bed, "ca.pub")
                .fingerprint(HashAlg::Sha256)
                .to_string()
        })
    };
    for (by, arguments) in [
        ("ca", &["-n", "bob"][..]),
        // Whose VM it is counts, and not its login name.
        ("ca", &["-n", "web"]),
        ("ca", &["-n", "bob", "-V", "20200101:20210101"]),
        ("ca", &["-V", "always:forever"]),
        ("ca", &["-n", ANN, "-h"]),
        ("another", &["-n", ANN]),
        ("another", &["-n", ANN, "-O", "force-command=id"]),
    ] {
        certify(&bed, by, arguments);
        let (there, nowhere) = (shown(&bed, "web", &[]).await, shown(&bed, "bew", &[]).await);
        assert_eq!(there.status.code(), Some(255), "{by} {arguments:?}");
        assert_eq!(there.stdout, b"");
        let told = text(&there.stderr);
        assert_eq!(
            told,
            text(&nowhere.stderr).replace("bew", "web"),
            "{by} {arguments:?}"
        );
        assert!(!told.contains("kite:"), "{told}");
    }
    // Whatever a stranger's authority says is kept nowhere.
    assert!(!bed.records.any(is_of_another));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_allows_what_it_says() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let trusted = authority(&bed, "ca", ANN);
    bed.table
        .change("web", |route| route.authorities = vec![trusted]);
    let port = sshd.address.port();
    let agent = "test -n \"$SSH_AUTH_SOCK\" && echo agent";
    // What is done, by which options, what is read where it is allowed, and by what name.
    let forward = format!("-W 127.0.0.1:{port}");
    let listen = "-o ExitOnForwardFailure=yes -R 0:127.0.0.1:9";
    let socket = format!(
        "-o ExitOnForwardFailure=yes -R {}:127.0.0.1:9",
        bed.path("s").display()
    );
    let cases = [
        ("pty", "-tt", "test -t 0 && echo pty", "pty"),
        ("port-forwarding", &forward, "", "SSH-2.0"),
        ("port-forwarding", listen, "echo listens", "listens"),
        ("port-forwarding", &socket, "echo listens", "listens"),
        ("agent-forwarding", "-A", agent, "agent"),
        (
            "X11-forwarding",
            "-X",
            "test -n \"$DISPLAY\" && echo x11",
            "x11",
        ),
    ];
    let ssh_agent = Agent::start(&bed).await;
    for (name, options, command, expected) in cases {
        let all = [
            "pty",
            "port-forwarding",
            "agent-forwarding",
            "X11-forwarding",
        ];
        let but = all.into_iter().filter(|it| *it != name);
        for (is_allowed, permits) in [(true, vec![name]), (false, but.collect::<Vec<_>>())] {
            let permits: Vec<_> = permits.iter().map(|it| format!("permit-{it}")).collect();
            let mut arguments = vec!["-n", ANN, "-O", "clear"];
            arguments.extend(permits.iter().flat_map(|it| ["-O", it]));
            certify(&bed, "ca", &arguments);
            let mut client = client(&bed);
            client.args(options.split(' ')).args(["-l", "web"]);
            client
                .env("SSH_AUTH_SOCK", &ssh_agent.socket)
                .env("DISPLAY", "127.0.0.1:99");
            client.arg("127.0.0.1");
            if !command.is_empty() {
                client.arg(command);
            }
            let output = run(client, Vec::new()).await;
            let read = text(&output.stdout);
            let told = format!("{permits:?} {options}: {read} {}", text(&output.stderr));
            assert_eq!(read.contains(expected), is_allowed, "{told}");
        }
    }
}

/// An agent without keys.
struct Agent {
    socket: std::path::PathBuf,
    agent: std::process::Child,
}

impl Agent {
    async fn start(bed: &Bed) -> Self {
        let socket = bed.path("agent");
        let mut agent = Command::new("ssh-agent");
        let agent = agent.args(["-D", "-a"]).arg(&socket);
        let agent = agent.stdout(std::process::Stdio::null()).spawn().unwrap();
        drop(reach(&socket).await);
        Self { socket, agent }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_a_key_where_a_password_has_to_follow() {
    let (bed, _guest) = bed().await;
    bed.table
        .change("web", |route| route.rule = LoginRule::KeyAndPassword);
    certify(&bed, "ca", &["-n", ANN]);
    let output = shown(&bed, "web", &[]).await;
    assert_eq!(text(&output.stdout), "", "{}", text(&output.stderr));
    let mut both = bed.with_password(PASSWORD, "publickey,password");
    both.arg("-i").arg(bed.path("own"));
    both.args(["-l", "web", "127.0.0.1", "echo in"]);
    let output = run(both, Vec::new()).await;
    assert_eq!(text(&output.stdout), "in\n", "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_trusted_no_more_ends_sessions_and_an_expiry_does_not() {
    let (bed, _guest) = bed().await;
    let session = async |arguments: &[&str]| {
        certify(&bed, "ca", arguments);
        crate::withdrawn::Session::start(client(&bed)).await
    };
    let mut expires = session(&["-n", ANN, "-V", "-1h:+2s"]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let output = shown(&bed, "web", &[]).await;
    assert!(text(&output.stderr).contains("has expired"));
    // Another route, so that everybody's right is looked at anew.
    bed.table
        .change("web", |route| route.start_on_connect = true);
    bed.table.looked_at(5).await;
    expires.echoes().await;

    let trusted = authority(&bed, "ca", "bob");
    bed.table
        .change("web", |route| route.authorities = vec![trusted]);
    let told = expires.ends().await;
    assert!(told.contains("no longer opens"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_say_what_their_keys_ask_for() {
    let bed = Bed::with(many()).await;
    let _guest = bed.machine("web").await;
    let token = token::Token::new();
    for (touched, verified, flags) in [
        (true, false, [false, true, false, true]),
        (true, true, [false, false, false, true]),
        (false, false, [true, true, true, true]),
        (false, true, [false, false, true, true]),
    ] {
        let presence = Presence { touched, verified };
        let key = token.public_key();
        bed.table.change("web", |route| {
            route.authorized_keys = vec![AuthorizedKey { key, presence }];
        });
        // Neither; touched; with a PIN; both.
        for (said, gets_in) in [0, 1, 4, 5].into_iter().zip(flags) {
            let is_in = token.logs_in(bed.address, "web", said).await;
            assert_eq!(is_in, gets_in, "{presence:?} and flags {said}");
        }
    }
    // A key that stands twice has to be what both ask for.
    let lines = [(true, false), (false, true)].map(|(touched, verified)| AuthorizedKey {
        key: token.public_key(),
        presence: Presence { touched, verified },
    });
    bed.table
        .change("web", |route| route.authorized_keys = lines.into());
    assert!(!token.logs_in(bed.address, "web", 1).await);
    assert!(token.logs_in(bed.address, "web", 5).await);

    // A certificate asks for it by itself.
    let trusted = authority(&bed, "ca", ANN);
    bed.table.change("web", |route| {
        route.authorized_keys = Vec::new();
        route.authorities = vec![trusted];
    });
    let line = token.public_key().to_openssh().unwrap();
    std::fs::write(bed.path("token.pub"), line).unwrap();
    for (option, flags) in [
        (&[][..], [false, true, true]),
        (&["-O", "verify-required"], [false, false, true]),
        (&["-O", "no-touch-required"], [true, true, true]),
    ] {
        let all = [&["-s", "ca", "-I", "t", "-n", ANN], option, &["token.pub"]].concat();
        keygen(&bed, &all);
        let certificate = std::fs::read_to_string(bed.path("token-cert.pub")).unwrap();
        for (said, gets_in) in [0, 1, 5].into_iter().zip(flags) {
            let shown = token::Shown::of(&certificate);
            let is_in = token.logs_in_with(&shown, bed.address, "web", said).await;
            assert_eq!(is_in, gets_in, "{option:?} and flags {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_many_share_is_none_of_a_certificate_s() {
    let infrastructure = Infrastructure::default();
    infrastructure.set(vec!["127.0.0.0/8".parse().unwrap()]);
    let bed = Bed::behind(infrastructure, Config::default()).await;
    let _guest = bed.machine("web").await;
    let trusted = authority(&bed, "ca", ANN);
    bed.table
        .change("web", |route| route.authorities = vec![trusted]);
    certify(&bed, "ca", &["-n", ANN, "-O", "source-address=127.0.0.0/8"]);
    let output = shown(&bed, "web", &[]).await;
    let told = text(&output.stderr);
    assert!(told.contains("yours is not seen here"), "{told}");
    certify(&bed, "ca", &["-n", ANN]);
    let output = shown(&bed, "web", &[]).await;
    assert_eq!(text(&output.stdout), "in\n", "{}", text(&output.stderr));
}

/// A token, played: no client on this machine has one.
mod token {
    use std::net::SocketAddr;

    use kite_gateway::kite_ssh_relay::algorithm::Algorithm;
    use kite_gateway::kite_ssh_relay::io::{Connection, Event, Workers};
    use kite_gateway::kite_ssh_relay::login::{Answered, Client};
    use kite_gateway::kite_ssh_relay::sign::SigningKey;
    use kite_gateway::kite_ssh_relay::transport::Config;
    use russh::keys::{PrivateKey, PublicKey, ssh_key};
    use sha2::{Digest as _, Sha256};

    use crate::common::new_key;

    const TYPE: &str = "sk-ssh-ed25519@openssh.com";
    const APPLICATION: &str = "ssh:";

    pub struct Token(PrivateKey);

    /// A key or a certificate, as it is shown.
    pub struct Shown {
        kind: String,
        blob: Vec<u8>,
    }

    impl Shown {
        /// Of a line in a file.
        pub fn of(line: &str) -> Self {
            let mut words = line.split_whitespace();
            let kind = words.next().unwrap().to_owned();
            let certificate = ssh_key::Certificate::from_openssh(line).unwrap();
            let blob = certificate.to_bytes().unwrap();
            Self { kind, blob }
        }
    }

    fn put(to: &mut Vec<u8>, field: &[u8]) {
        to.extend_from_slice(&u32::try_from(field.len()).unwrap().to_be_bytes());
        to.extend_from_slice(field);
    }

    impl Token {
        pub fn new() -> Self {
            Self(new_key())
        }

        fn blob(&self) -> Vec<u8> {
            let key = self.0.public_key().key_data().ed25519().unwrap();
            let mut blob = Vec::new();
            for field in [TYPE.as_bytes(), key.as_ref(), APPLICATION.as_bytes()] {
                put(&mut blob, field);
            }
            blob
        }

        pub fn public_key(&self) -> PublicKey {
            PublicKey::from_bytes(&self.blob()).unwrap()
        }

        /// A request that is signed with those flags.
        fn request(&self, shown: &Shown, session: &[u8], user: &str, flags: u8) -> Vec<u8> {
            let mut request = vec![50];
            for field in [user, "ssh-connection", "publickey"] {
                put(&mut request, field.as_bytes());
            }
            request.push(1);
            put(&mut request, shown.kind.as_bytes());
            put(&mut request, &shown.blob);
            let mut data = Vec::new();
            put(&mut data, session);
            data.extend_from_slice(&request);
            let rest = [flags, 0, 0, 0, 9];
            let mut signed = Sha256::digest(APPLICATION).to_vec();
            signed.extend_from_slice(&rest);
            signed.extend_from_slice(&Sha256::digest(&data));
            let key = SigningKey::new(&self.0).unwrap();
            let by_key = key.sign(Algorithm::Ed25519, &signed).unwrap();
            let mut signature = Vec::new();
            put(&mut signature, TYPE.as_bytes());
            // Behind the name of its own algorithm.
            put(&mut signature, &by_key[by_key.len() - 64..]);
            signature.extend_from_slice(&rest);
            put(&mut request, &signature);
            request
        }

        /// Whether it gets in with those flags.
        pub async fn logs_in(&self, gateway: SocketAddr, user: &str, flags: u8) -> bool {
            let shown = Shown {
                kind: TYPE.to_owned(),
                blob: self.blob(),
            };
            self.logs_in_with(&shown, gateway, user, flags).await
        }

        /// Whether what is shown of it gets in.
        pub async fn logs_in_with(
            &self,
            shown: &Shown,
            gateway: SocketAddr,
            user: &str,
            flags: u8,
        ) -> bool {
            let stream = tokio::net::TcpStream::connect(gateway).await.unwrap();
            let config = Config::client("SSH-2.0-token", vec![Algorithm::Ed25519]);
            let mut connection =
                Connection::start(config.into(), stream, Workers::default()).unwrap();
            loop {
                match connection.next().await.unwrap() {
                    Event::HostKey(_) => connection.trust().unwrap(),
                    Event::Keyed => break,
                    Event::Message { .. } => {}
                }
            }
            let (mut login, first) = Client::start(user.as_bytes());
            connection.send(&first, &[]).unwrap();
            loop {
                let Event::Message { .. } = connection.next().await.unwrap() else {
                    continue;
                };
                match login.take(connection.message()).unwrap() {
                    Answered::Ready => break,
                    other => panic!("{other:?}"),
                }
            }
            let session = connection.transport().session_id().unwrap();
            let request = self.request(shown, session, user, flags);
            connection.send(&request, &[]).unwrap();
            loop {
                if let Event::Message { .. } = connection.next().await.unwrap() {
                    match connection.message()[0] {
                        51 => return false,
                        52 => return true,
                        // Words, and what the other side can do.
                        7 | 53 => {}
                        other => panic!("{other}"),
                    }
                }
            }
        }
    }
}

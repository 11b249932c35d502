//! Each algorithm that the gateway offers with each client that has it: a megabyte both
//! ways through `cat`. And keys that change every 64 KiB while two megabytes pass.

mod clients;
mod machines;
mod putty;
mod russh;

use ::russh::keys::PrivateKey;
use std::process::Command;

use futures::StreamExt;
use futures::future::LocalBoxFuture;
use kite_gateway::Config;

use crate::common::{Bed, run, text};
use crate::interop::lab::Lab;
use crate::interop::table::{self, Column, Outcome, Row};

/// An algorithm: what it is for, and its name.
pub type Algorithm = (&'static str, &'static str);

/// All that the gateway offers, in the order of its offers.
const ALL: [Algorithm; 16] = [
    ("kex", "mlkem768x25519-sha256"),
    ("kex", "curve25519-sha256"),
    ("kex", "curve25519-sha256@libssh.org"),
    ("host key", "ecdsa-sha2-nistp256"),
    ("host key", "ecdsa-sha2-nistp384"),
    ("host key", "ecdsa-sha2-nistp521"),
    ("host key", "rsa-sha2-512"),
    ("host key", "rsa-sha2-256"),
    ("host key", "ssh-ed25519"),
    ("cipher", "aes128-gcm@openssh.com"),
    ("cipher", "aes256-gcm@openssh.com"),
    ("cipher", "chacha20-poly1305@openssh.com"),
    ("cipher", "aes128-ctr"),
    ("cipher", "aes256-ctr"),
    ("mac", "hmac-sha2-256-etm@openssh.com"),
    ("mac", "hmac-sha2-512-etm@openssh.com"),
];

/// Who has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Client {
    OpenSsh,
    NewerOpenSsh,
    Putty,
    Dropbear,
    Libssh2,
    Paramiko,
    Asyncssh,
    Ssh2,
    Russh,
}

impl Column for Client {
    const ROWS: &'static str = "client has";
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::OpenSsh, "OpenSSH 9.2"),
        (Self::NewerOpenSsh, "10"),
        (Self::Putty, "PuTTY"),
        (Self::Dropbear, "dropbear"),
        (Self::Libssh2, "libssh2"),
        (Self::Paramiko, "paramiko"),
        (Self::Asyncssh, "asyncssh"),
        (Self::Ssh2, "ssh2"),
        (Self::Russh, "russh"),
    ];
}

/// Bytes after which keys change.
const REKEY: u64 = 64 << 10;
/// How often they change at least while two megabytes pass both ways.
const CHANGES: usize = 10;

/// Keys of all kinds but the one that every gateway of the tests has; by OpenSSH, as RSA
/// keys take long without optimisation.
fn host_keys() -> Vec<PrivateKey> {
    let directory = tempfile::tempdir().unwrap();
    let kinds = [
        ("ecdsa", 256),
        ("ecdsa", 384),
        ("ecdsa", 521),
        ("rsa", 2048),
    ];
    let make = |(kind, bits): (&str, u32)| {
        let file = directory.path().join(format!("{kind}-{bits}"));
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", kind, "-b", &bits.to_string()]);
        let made = keygen.args(["-N", "", "-f"]).arg(&file).status();
        assert!(made.unwrap().success());
        PrivateKey::read_openssh_file(&file).unwrap()
    };
    kinds.map(make).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_client_has_its_algorithms() {
    let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
    let started = std::time::Instant::now();
    let bed = Bed::known_by(Config::default(), host_keys()).await;
    let impatient = Config {
        rekey_bytes: REKEY,
        ..Config::default()
    };
    let impatient = Bed::with(impatient).await;
    let logins = ["web"];
    let labs = (
        Lab::on(bed, "", &logins, &[1, 2]).await,
        Lab::on(impatient, "RekeyLimit 64K", &logins, &[2]).await,
    );
    let (Some(lab), Some(impatient)) = &labs else {
        assert!(!required, "KITE_REQUIRE_CLIENTS is set: there is no sshd");
        return;
    };
    assert_eq!(offered(&lab.bed).await, names(), "what the gateway offers");

    let tried = Client::ALL
        .iter()
        .map(|(client, _)| -> LocalBoxFuture<'_, _> {
            Box::pin(async move {
                let mut cells = clients::forced(lab, *client).await?;
                cells.push(clients::load(lab, *client, true).await);
                cells.push(clients::load(impatient, *client, false).await);
                Ok::<_, String>(cells)
            })
        });
    let tried: Vec<_> = futures::stream::iter(tried).buffered(2).collect().await;
    let names = ALL.iter().map(|(_, name)| *name);
    let names = names.chain(["64 KiB, the client", "64 KiB, the gateway"]);
    let mut rows: Vec<Row<Client>> = names.map(|name| Row::new(name, String::new())).collect();
    for ((client, title), cells) in Client::ALL.iter().zip(tried) {
        let cells: Vec<Outcome> = match cells {
            Ok(cells) => cells,
            Err(why) if required => vec![Err(format!("missing, but required: {why}"))],
            Err(why) => {
                eprintln!("{title}: skipped: {why}");
                continue;
            }
        };
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.cell(*client, async { cell }).await;
        }
    }
    table::conclude(&rows, started, required);
}

fn names() -> Vec<String> {
    ALL.iter().map(|(_, name)| (*name).to_owned()).collect()
}

/// What the gateway offers, as OpenSSH's client shows it.
async fn offered(bed: &Bed) -> Vec<String> {
    let mut client = bed.with_key("ssh");
    client.args(["-vv", "-l", "web", "127.0.0.1", "true"]);
    let told = text(&run(client, Vec::new()).await.stderr);
    let (_, told) = told.split_once("peer server KEXINIT").unwrap();
    let mut all = Vec::new();
    for word in [
        "KEX algorithms: ",
        "host key algorithms: ",
        "ciphers stoc: ",
        "MACs stoc: ",
    ] {
        let (_, line) = told.split_once(word).unwrap();
        let names = line.lines().next().unwrap().trim().split(',');
        all.extend(names.map(str::to_owned));
    }
    // What is no algorithm, but a sign of what a side can do.
    all.retain(|name| !name.starts_with("kex-strict") && !name.starts_with("ext-info"));
    all
}

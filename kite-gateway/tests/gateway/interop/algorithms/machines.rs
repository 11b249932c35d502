//! Each algorithm that the gateway offers to VMs, with each server that can be told to
//! have no other.

use super::{ALL, Algorithm};
use crate::common::Bed;
use crate::interop::algorithms::clients::cat;
use crate::interop::lab::Lab;
use crate::interop::machines::server::{Kind, Offer, Server};
use crate::interop::table::{self, Column, Outcome, Row, fine};

/// The servers that can be told.
impl Column for Kind {
    const ROWS: &'static str = "server has";
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::OpenSsh, "OpenSSH 9.2"),
        (Self::NewerOpenSsh, "10"),
        (Self::Paramiko, "paramiko"),
        (Self::Asyncssh, "asyncssh"),
        (Self::Ssh2, "ssh2"),
    ];
}

/// What servers lack.
const LACKS: [(Kind, &str); 4] = [
    (Kind::OpenSsh, "mlkem768x25519-sha256"),
    (Kind::Ssh2, "mlkem768x25519-sha256"),
    (Kind::Paramiko, "curve25519-sha256"),
    (Kind::Paramiko, "chacha20-poly1305@openssh.com"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_has_its_algorithms() {
    let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
    let started = std::time::Instant::now();
    let Some(lab) = Lab::on(Bed::new().await, "", &[], &[1]).await else {
        assert!(!required, "KITE_REQUIRE_CLIENTS is set: there is no sshd");
        return;
    };
    // Their host keys are of one kind.
    let all: Vec<_> = ALL
        .into_iter()
        .filter(|(kind, _)| *kind != "host key")
        .collect();
    let row = |(_, name): &Algorithm| Row::new(name, String::new());
    let mut rows: Vec<Row<Kind>> = all.iter().map(row).collect();
    for (kind, title) in <Kind as Column>::ALL {
        if let Err(why) = kind.version().await {
            assert!(!required, "{title}: missing, but required: {why}");
            eprintln!("{title}: skipped: {why}");
            continue;
        }
        let has = |(_, name): &Algorithm| !LACKS.contains(&(*kind, *name));
        let (indices, offers): (Vec<_>, Vec<_>) = (0..)
            .zip(&all)
            .filter(|(_, algorithm)| has(algorithm))
            .map(|(index, algorithm)| (index, offer(*algorithm)))
            .unzip();
        let server = Server::start(&lab, *kind, &offers).await;
        for (number, index) in indices.into_iter().enumerate() {
            let index: usize = index;
            let cell = match &server {
                Ok(server) => through(&lab, server, number).await,
                Err(why) => Err(why.clone()),
            };
            rows[index].cell(*kind, async { cell }).await;
        }
    }
    table::conclude(&rows, started, required);
}

fn offer((kind, name): Algorithm) -> Offer {
    let mut offer = Offer::default();
    match kind {
        "kex" => offer.kex = Some(name),
        "cipher" => offer.cipher = Some(name),
        _ => {
            offer.cipher = Some("aes128-ctr");
            offer.mac = Some(name);
        }
    }
    offer
}

async fn through(lab: &Lab, server: &Server, number: usize) -> Outcome {
    server.behind(lab, "web", number);
    cat(lab, lab.bed.with_key("ssh"), 1).await?;
    fine()
}

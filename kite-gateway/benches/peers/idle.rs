//! The hop's memory for connections that do nothing.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::bed::{AES, Bed, Target};
use crate::figures::{Table, verdict};
use crate::machine::proportional_bytes;
use crate::options::Options;
use crate::processes::{Process, line, run};

/// For the hop to come to rest.
const REST: Duration = Duration::from_secs(2);

/// What a connection has open.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Nothing,
    Session,
}

pub fn measure(options: &Options, bed: &Bed) {
    let connections = options.scaled(60, 8);
    // What an older gateway process has freed, new connections would take again
    // unseen.
    let (targets, processes) = bed.fresh();
    let title = format!("The hop's memory (PSS) per idle connection, {connections} of them:");
    let table = Table::new(
        &title,
        &[
            "target",
            "no channel (`ssh -N`)",
            "one idle session",
            "goal",
        ],
    );
    let mut jump = f64::INFINITY;
    for target in targets.iter().filter(|target| target.hop.is_some()) {
        let kib = [Open::Nothing, Open::Session].map(|open| each(bed, target, open, connections));
        let goal = if target.is_gateway() {
            verdict("a tenth of ssh -J", kib[1] <= jump / 10.0)
        } else {
            if target.name == "ssh -J" {
                jump = kib[1];
            }
            String::new()
        };
        let kib = kib.map(|kib| format!("{kib:.0} KiB"));
        table.row(&[target.name, &kib[0], &kib[1], &goal]);
    }
    drop(processes);
    bed.configure();
}

/// KiB per connection.
fn each(bed: &Bed, target: &Target, open: Open, connections: usize) -> f64 {
    let hop = target.hop.unwrap();
    // What is made once, with the first connection, is nobody's share.
    run(bed.ssh(AES).args([target.host(), "true"]));
    std::thread::sleep(REST);
    let before = proportional_bytes(hop);
    let clients: Vec<Process> = (0..connections)
        .map(|_| connect(bed.ssh(AES), target, open))
        .collect();
    std::thread::sleep(REST);
    let after = proportional_bytes(hop);
    drop(clients);
    std::thread::sleep(REST);
    after.saturating_sub(before) as f64 / 1024.0 / connections as f64
}

/// A client that is logged in, with what it is to have open.
fn connect(mut ssh: Command, target: &Target, open: Open) -> Process {
    match open {
        Open::Nothing => ssh
            .args([
                "-o",
                "PermitLocalCommand=yes",
                "-o",
                "LocalCommand=echo ready",
            ])
            .args(["-N", target.host()]),
        // It ends with its input, and so with the connection; `sleep` would not.
        Open::Session => ssh.args([target.host(), "echo ready; exec cat"]),
    };
    let mut client = Process::start(ssh.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut said = client.lines();
    assert_eq!(line(&mut said), "ready");
    // Without a reader the client would end.
    client.0.stdout = Some(said.into_inner());
    client
}

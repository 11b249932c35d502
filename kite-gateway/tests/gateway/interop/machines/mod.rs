//! Servers of other makes as machines behind the gateway, with OpenSSH's client before
//! it: a table server × ability, printed and held as the one of the clients is.

mod limits;
pub mod server;

use std::process::Command;

use futures::StreamExt;
use futures::future::LocalBoxFuture;

use crate::common::Bed;
use crate::interop::channels::Master;
use crate::interop::command_line::{CommandLine, as_shell, quoted};
use crate::interop::lab::{Lab, Way, free_port};
use crate::interop::process::{Call, brief};
use crate::interop::table::{self, Column, Outcome, Row, fine};
use server::{Kind, Offer, Server};

/// What a server may be able to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ability {
    Key,
    Exec,
    Stderr,
    Shell,
    File,
    Local,
    Refused,
    Channels,
    Limit,
}

impl Column for Ability {
    const ROWS: &'static str = "server";
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Key, "key"),
        (Self::Exec, "exec"),
        (Self::Stderr, "stderr"),
        (Self::Shell, "shell"),
        (Self::File, "file"),
        (Self::Local, "-L"),
        (Self::Refused, "refused"),
        (Self::Channels, "20 ch."),
        (Self::Limit, "limit"),
    ];
}

/// Megabytes that are carried there and back.
const SIZE: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_can_be_a_machine() {
    let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
    let started = std::time::Instant::now();
    let Some(lab) = Lab::on(Bed::new().await, "", &[], &[SIZE]).await else {
        assert!(!required, "KITE_REQUIRE_CLIENTS is set: there is no sshd");
        return;
    };
    let lab = &lab;
    let rows = Kind::ALL.map(|kind| -> LocalBoxFuture<'_, _> { Box::pin(row(lab, kind)) });
    let rows: Vec<_> = futures::stream::iter(rows).buffered(2).collect().await;
    table::conclude(&rows, started, required);
}

async fn row(lab: &Lab, kind: Kind) -> Row<Ability> {
    let version = match kind.version().await {
        Ok(version) => version,
        Err(why) => return Row::skipped(kind.title(), why),
    };
    let mut row = Row::new(kind.title(), version);
    let server = match Server::start(lab, kind, &[Offer::default()]).await {
        Ok(server) => server,
        Err(why) => {
            row.cell(Ability::Key, async { Err(why) }).await;
            return row;
        }
    };
    let name = kind.login();
    server.behind(lab, name, 0);
    let ssh = CommandLine {
        lab,
        name,
        base: Box::new(|| lab.bed.with_key("ssh")),
        terminated: (&[], "", 0),
    };
    row.cell(Ability::Exec, ssh.ends()).await;
    // The gateway has but its own key to enter by.
    row.cell(Ability::Key, async { lab.was_let_in(name, "publickey") })
        .await;
    row.cell(Ability::Stderr, ssh.stderr()).await;
    if kind.has_terminals() {
        row.cell(Ability::Shell, ssh.shell()).await;
    }
    row.cell(Ability::File, file(lab, kind)).await;
    if kind.forwards() {
        row.cell(Ability::Local, ssh.local()).await;
        row.cell(Ability::Refused, refused(lab, name)).await;
    }
    if kind.has_many_channels() {
        row.cell(Ability::Channels, channels(lab, name)).await;
    }
    if let Some(most) = kind.most_sessions() {
        row.cell(Ability::Limit, limits::told(lab, name, most))
            .await;
    }
    row
}

/// Twenty of them, one of which is stalled.
async fn channels(lab: &Lab, name: &'static str) -> Outcome {
    let master = Master::start(lab, name, || lab.bed.with_key("ssh"), &[]).await?;
    let _stalled = master.stall()?;
    if let Err(why) = master.commands(19).await {
        return Err(format!("{why}; {}", master.said()));
    }
    fine()
}

/// By SFTP where the server has it, and by commands otherwise.
async fn file(lab: &Lab, kind: Kind) -> Outcome {
    let name = kind.login();
    let calls = |way: &Way| {
        // What is in the fake is not on this machine: there it is fetched twice.
        let (there, more) = match kind {
            Kind::Russh => ("file", format!("get file {}\n", way.there)),
            _ => (&*way.there, String::new()),
        };
        if kind.has_sftp() {
            let mut client = lab.bed.with_key("sftp");
            client.args(["-b", "-", &format!("{name}@127.0.0.1")]);
            let batch = format!(
                "put {} {there}\nget {there} {}\n{more}",
                way.local, way.back
            );
            return vec![Call::new(client).input(batch)];
        }
        let cat = |from: &str, command: String, to: &str| {
            let mut client = lab.bed.with_key("ssh");
            client.args(["-l", name, "127.0.0.1"]);
            let line = format!("{} {} <{from} >{to}", as_shell(&client), quoted(&command));
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]);
            Call::new(shell)
        };
        vec![
            cat(&way.local, format!("cat >{}", way.there), "/dev/null"),
            cat("/dev/null", format!("cat {}", way.there), &way.back),
        ]
    };
    let carried = lab.carry(name, SIZE, calls).await?;
    let how = if kind.has_sftp() { "sftp" } else { "cat" };
    Ok(format!("{carried} {how}"))
}

/// A forward to a port that nobody listens on.
async fn refused(lab: &Lab, name: &str) -> Outcome {
    let mut client = lab.bed.with_key("ssh");
    client.args(["-W", &format!("127.0.0.1:{}", free_port())]);
    client.args(["-l", name, "127.0.0.1"]);
    let done = Call::new(client).run().await?.exits(255)?;
    if done.stderr.contains("open failed") {
        return fine();
    }
    Err(brief(&done.stderr))
}

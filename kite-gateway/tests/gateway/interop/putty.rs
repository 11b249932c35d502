//! `PuTTY`'s command line tools.

use std::process::Command;

use crate::common::PASSWORD;
use crate::interop::command_line::CommandLine;
use crate::interop::git;
use crate::interop::lab::{Lab, version};
use crate::interop::openssh::rsync;
use crate::interop::process::Call;
use crate::interop::table::{Feature, Outcome, Row};

pub const NAME: &str = "putty";
const MISSING: &str = "no plink (Debian: putty-tools)";

pub async fn row(lab: &Lab) -> Row {
    let Ok(version) = version("plink", "--version").await else {
        return Row::skipped("PuTTY", MISSING);
    };
    let mut row = Row::new("PuTTY", version);
    if let Err(why) = prepare(lab).await {
        row.cell(Feature::Key, async { Err(why) }).await;
        return row;
    }
    let plink = CommandLine {
        lab,
        name: NAME,
        base: Box::new(|| with_key(lab, "plink")),
        terminated: (
            &["-v"],
            "Session exited on unrecognised signal \"TERM\"",
            128,
        ),
    };
    row.cell(Feature::Exec, plink.exec()).await;
    row.cell(Feature::Key, async { lab.was_let_in(NAME, "publickey") })
        .await;
    row.cell(Feature::Interactive, interactive(lab)).await;
    row.cell(Feature::Signal, plink.signal()).await;
    row.cell(Feature::Stderr, plink.stderr()).await;
    row.cell(Feature::Shell, plink.shell()).await;
    row.cell(Feature::Local, plink.local()).await;
    row.cell(Feature::Remote, plink.remote()).await;
    row.cell(Feature::Dynamic, plink.dynamic()).await;
    row.cell(Feature::Agent, plink.agent()).await;
    row.cell(Feature::Rsync, rsync(lab, NAME, &with_key(lab, "plink")))
        .await;
    row.cell(Feature::Git, git::over(lab, NAME, &with_key(lab, "plink")))
        .await;
    row.cell(Feature::Sftp, psftp(lab)).await;
    row.cell(Feature::Scp, pscp(lab, "-sftp")).await;
    row.cell(Feature::OldScp, pscp(lab, "-scp")).await;
    row
}

pub async fn prepare(lab: &Lab) -> Result<(), String> {
    let mut convert = Command::new("puttygen");
    convert.arg(lab.bed.path("key"));
    convert.args(["-O", "private", "-o"]);
    convert.arg(lab.bed.path("key.ppk"));
    Call::new(convert).succeed().await?;
    Ok(())
}

/// It knows the gateway by its fingerprint, and asks nobody anything.
fn client(lab: &Lab, program: &str) -> Command {
    let mut client = Command::new(program);
    client.args(["-batch", "-P", &lab.port()]);
    client.args(["-hostkey", &lab.fingerprint()]);
    // Where PuTTY would keep its settings.
    client.env("HOME", lab.bed.path("putty"));
    client.env_remove("SSH_AUTH_SOCK");
    client
}

fn with_key(lab: &Lab, program: &str) -> Command {
    let mut client = client(lab, program);
    client.arg("-i").arg(lab.bed.path("key.ppk"));
    client
}

/// It prefers this to plain passwords.
async fn interactive(lab: &Lab) -> Outcome {
    let mut client = client(lab, "plink");
    client.args(["-pw", PASSWORD, "-l", NAME, "127.0.0.1", "true"]);
    Call::new(client).succeed().await?;
    lab.was_let_in(NAME, "keyboard-interactive")
}

async fn psftp(lab: &Lab) -> Outcome {
    lab.carry(NAME, crate::interop::SIZE, |way| {
        let mut client = with_key(lab, "psftp");
        client.args(["-b", "/dev/stdin", "-l", NAME, "127.0.0.1"]);
        let batch = format!("put {} {1}\nget {1} {2}\n", way.local, way.there, way.back);
        vec![Call::new(client).input(batch)]
    })
    .await
}

async fn pscp(lab: &Lab, protocol: &str) -> Outcome {
    lab.carry(NAME, crate::interop::SIZE, |way| {
        let there = format!("{NAME}@127.0.0.1:{}", way.there);
        [(&way.local, &there), (&there, &way.back)]
            .map(|(from, to)| {
                let mut client = with_key(lab, "pscp");
                client.args(["-q", protocol, from, to]);
                Call::new(client)
            })
            .into()
    })
    .await
}

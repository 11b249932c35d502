//! dropbear's client.

use std::process::Command;

use crate::common::PASSWORD;
use crate::interop::command_line::CommandLine;
use crate::interop::git;
use crate::interop::lab::{Lab, version};
use crate::interop::openssh::rsync;
use crate::interop::process::Call;
use crate::interop::table::{Feature, Outcome, Row};

pub const NAME: &str = "dropbear";
const MISSING: &str = "no dbclient (Debian: dropbear-bin)";

pub async fn row(lab: &Lab) -> Row {
    let Ok(version) = version("dbclient", "-V").await else {
        return Row::skipped("dropbear", MISSING);
    };
    let mut row = Row::new("dropbear", version);
    if let Err(why) = prepare(lab).await {
        row.cell(Feature::Key, async { Err(why) }).await;
        return row;
    }
    let dbclient = CommandLine {
        lab,
        name: NAME,
        base: Box::new(|| with_key(lab)),
        // It does not look at signals.
        terminated: (&[], "", 0),
    };
    row.cell(Feature::Exec, dbclient.exec()).await;
    row.cell(Feature::Key, async { lab.was_let_in(NAME, "publickey") })
        .await;
    row.cell(Feature::Interactive, interactive(lab)).await;
    row.cell(Feature::Stderr, dbclient.stderr()).await;
    row.cell(Feature::Shell, dbclient.shell()).await;
    row.cell(Feature::Local, dbclient.local()).await;
    row.cell(Feature::Remote, dbclient.remote()).await;
    row.cell(Feature::Agent, dbclient.agent()).await;
    row.cell(Feature::Rsync, rsync(lab, NAME, &with_key(lab)))
        .await;
    row.cell(Feature::Git, git::over(lab, NAME, &with_key(lab)))
        .await;
    row.cell(Feature::Sftp, sftp(lab)).await;
    row
}

/// Its key has a format of its own, its list of known hosts no ports.
pub async fn prepare(lab: &Lab) -> Result<(), String> {
    let home = lab.bed.path("dropbear");
    std::fs::create_dir_all(home.join(".ssh")).map_err(|error| error.to_string())?;
    let known = std::fs::read_to_string(lab.bed.path("known_hosts"));
    let known = known.map_err(|error| error.to_string())?;
    let key = known.split_once(' ').map_or("", |(_, key)| key);
    std::fs::write(home.join(".ssh/known_hosts"), format!("127.0.0.1 {key}"))
        .map_err(|error| error.to_string())?;
    let mut convert = Command::new("dropbearconvert");
    convert.args(["openssh", "dropbear"]);
    convert.arg(lab.bed.path("key")).arg(home.join("key"));
    Call::new(convert).succeed().await?;
    Ok(())
}

fn client(lab: &Lab) -> Command {
    let mut client = Command::new("dbclient");
    client.args(["-p", &lab.port()]);
    client.env("HOME", lab.bed.path("dropbear"));
    client.env_remove("SSH_AUTH_SOCK");
    client
}

pub fn with_key(lab: &Lab) -> Command {
    let mut client = client(lab);
    client.arg("-i").arg(lab.bed.path("dropbear").join("key"));
    client
}

/// It prefers this to plain passwords, and cannot be told otherwise.
async fn interactive(lab: &Lab) -> Outcome {
    let mut client = client(lab);
    client.env("DROPBEAR_PASSWORD", PASSWORD);
    client.args(["-l", NAME, "127.0.0.1", "true"]);
    Call::new(client).succeed().await?;
    lab.was_let_in(NAME, "keyboard-interactive")
}

/// By OpenSSH's `sftp`, with dropbear's client below.
async fn sftp(lab: &Lab) -> Outcome {
    lab.carry(NAME, crate::interop::SIZE, |way| {
        let mut client = Command::new("sftp");
        client.arg("-S").arg("dbclient");
        client.args(["-b", "-", "-P", &lab.port()]);
        client.arg("-i").arg(lab.bed.path("dropbear").join("key"));
        client.env("HOME", lab.bed.path("dropbear"));
        client.arg(format!("{NAME}@127.0.0.1"));
        let batch = format!("put {} {1}\nget {1} {2}\n", way.local, way.there, way.back);
        vec![Call::new(client).input(batch)]
    })
    .await
}

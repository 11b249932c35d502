//! OpenSSH, and what rides on it: rsync, `ControlMaster`, VS Code Remote.

use std::process::Command;

use crate::common::PASSWORD;
use crate::interop::channels::Master;
use crate::interop::command_line::{CommandLine, as_shell};
use crate::interop::lab::{Lab, by_socks, free_port, talk, version};
use crate::interop::process::Call;
use crate::interop::table::{Feature, Outcome, Row, fine};

pub const NAME: &str = "openssh";
pub const VSCODE: &str = "vscode";

pub async fn row(lab: &Lab) -> Row {
    let version = match version("ssh", "-V").await {
        Ok(version) => version,
        Err(why) => return Row::skipped("OpenSSH", format!("no ssh: {why}")),
    };
    let ssh = CommandLine {
        lab,
        name: NAME,
        base: Box::new(|| lab.bed.with_key("ssh")),
        terminated: (&["-v"], "rtype exit-signal", 255),
    };
    let mut row = Row::new("OpenSSH", version);
    row.cell(Feature::Exec, ssh.exec()).await;
    row.cell(Feature::Key, async { lab.was_let_in(NAME, "publickey") })
        .await;
    for (feature, method) in [
        (Feature::Password, "password"),
        (Feature::Interactive, "keyboard-interactive"),
    ] {
        row.cell(feature, password(lab, method)).await;
    }
    row.cell(Feature::Signal, ssh.signal()).await;
    row.cell(Feature::Stderr, ssh.stderr()).await;
    row.cell(Feature::Shell, ssh.shell()).await;
    row.cell(Feature::Local, ssh.local()).await;
    row.cell(Feature::Remote, ssh.remote()).await;
    row.cell(Feature::Dynamic, ssh.dynamic()).await;
    row.cell(Feature::Agent, ssh.agent()).await;
    row.cell(Feature::Channels, channels(lab)).await;
    row.cell(Feature::Sftp, sftp(lab)).await;
    row.cell(Feature::Scp, scp(lab, "-s")).await;
    row.cell(Feature::OldScp, scp(lab, "-O")).await;
    row.cell(Feature::Rsync, rsync(lab, NAME, &lab.bed.with_key("ssh")))
        .await;
    row
}

async fn password(lab: &Lab, method: &str) -> Outcome {
    let mut client = lab.bed.with_password(PASSWORD, method);
    client.args(["-l", NAME, "127.0.0.1", "true"]);
    Call::new(client).succeed().await?;
    lab.was_let_in(NAME, method)
}

async fn sftp(lab: &Lab) -> Outcome {
    lab.carry(NAME, crate::interop::SIZE, |way| {
        let mut client = lab.bed.with_key("sftp");
        client.args(["-b", "-", &format!("{NAME}@127.0.0.1")]);
        let batch = format!("put {} {1}\nget {1} {2}\n", way.local, way.there, way.back);
        vec![Call::new(client).input(batch)]
    })
    .await
}

async fn scp(lab: &Lab, protocol: &str) -> Outcome {
    lab.carry(NAME, crate::interop::SIZE, |way| {
        let there = format!("{NAME}@127.0.0.1:{}", way.there);
        [(&way.local, &there), (&there, &way.back)]
            .map(|(from, to)| {
                let mut client = lab.bed.with_key("scp");
                client.args([protocol, from, to]);
                Call::new(client)
            })
            .into()
    })
    .await
}

/// rsync over any client that can run a command.
pub async fn rsync(lab: &Lab, name: &str, shell: &Command) -> Outcome {
    lab.carry(name, crate::interop::SIZE, |way| {
        let there = format!("{name}@127.0.0.1:{}", way.there);
        [(&way.local, &there), (&there, &way.back)]
            .map(|(from, to)| {
                let mut client = Command::new("rsync");
                // Without its shortcut for files that are alike.
                client.args(["--whole-file", "-e", &as_shell(shell), from, to]);
                for (name, value) in shell.get_envs() {
                    if let Some(value) = value {
                        client.env(name, value);
                    }
                }
                Call::new(client)
            })
            .into()
    })
    .await
}

/// Twenty commands over one `ControlMaster`.
async fn channels(lab: &Lab) -> Outcome {
    let master = Master::start(lab, NAME, &[]).await?;
    let _stalled = master.stall()?;
    master.commands(19).await?;
    fine()
}

/// VS Code's way: a shell without a terminal that is given its script by standard
/// input, a SOCKS proxy on the same connection, and many channels at once.
pub async fn vscode(lab: &Lab) -> Row {
    let version = match version("ssh", "-V").await {
        Ok(version) => format!("(-M -D, OpenSSH {version})"),
        Err(why) => return Row::skipped("VS Code Remote", format!("no ssh: {why}")),
    };
    let mut row = Row::new("VS Code Remote", version);
    let port = free_port();
    let master = match Master::start(lab, VSCODE, &["-D", &port.to_string()]).await {
        Ok(master) => master,
        Err(why) => {
            row.cell(Feature::Key, async { Err(why) }).await;
            return row;
        }
    };
    row.cell(Feature::Key, async { lab.was_let_in(VSCODE, "publickey") })
        .await;
    row.cell(Feature::Exec, async {
        let mut client = master.client();
        client.args(["-T", "-l", VSCODE, "127.0.0.1", "sh"]);
        let script = "echo $((6 * 7))\nexit 7\n";
        let done = Call::new(client).input(script).run().await?.exits(7)?;
        if done.stdout == "42\n" {
            fine()
        } else {
            Err(done.stdout)
        }
    })
    .await;
    row.cell(Feature::Dynamic, async {
        talk(by_socks(port, lab.reverser).await?).await?;
        fine()
    })
    .await;
    row.cell(Feature::Channels, async {
        let _command = master.stall()?;
        let _forward = stalled_forward(port, lab).await?;
        let forwards = async {
            let all = (0..9).map(|_| async { talk(by_socks(port, lab.reverser).await?).await });
            futures::future::try_join_all(all).await
        };
        futures::future::try_join(master.commands(9), forwards).await?;
        fine()
    })
    .await;
    row
}

/// A forward into which is written and that nobody reads.
async fn stalled_forward(port: u16, lab: &Lab) -> Result<tokio::net::TcpStream, String> {
    let stream = by_socks(port, lab.sink).await?;
    crate::interop::channels::fill(&stream).await;
    Ok(stream)
}

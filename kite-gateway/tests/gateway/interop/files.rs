//! Programs that only carry files, over OpenSSH's client: lftp and sshfs.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::PASSWORD;
use crate::interop::command_line::{as_shell, quoted};
use crate::interop::lab::{Lab, fresh, version};
use crate::interop::process::{Background, Call};
use crate::interop::table::{Feature, Outcome, Row};

pub const LFTP: &str = "lftp";
pub const SSHFS: &str = "sshfs";

pub async fn lftp(lab: &Lab) -> Row {
    let Ok(version) = version("lftp", "--version").await else {
        return Row::skipped("lftp", "no lftp (Debian: lftp)");
    };
    let mut row = Row::new("lftp", version);
    row.cell(Feature::Sftp, lftp_carries(lab, "")).await;
    row.cell(Feature::Key, async { lab.was_let_in(LFTP, "publickey") })
        .await;
    row.cell(Feature::Password, async {
        lftp_carries(lab, PASSWORD).await?;
        lab.was_let_in(LFTP, "password")
    })
    .await;
    row
}

/// With a password it has a terminal between itself and its `ssh`, and answers
/// what that asks there; without one the key is to be right.
async fn lftp_carries(lab: &Lab, password: &str) -> Outcome {
    let (mut ssh, size) = if password.is_empty() {
        (lab.bed.with_key("ssh"), crate::interop::SIZE)
    } else {
        (lab.bed.client("ssh"), 1)
    };
    if !password.is_empty() {
        ssh.args(["-o", "PreferredAuthentications=password"]);
    }
    lab.carry(LFTP, size, |way| {
        let mut client = Command::new("lftp");
        let commands = [
            "set cmd:fail-exit yes".to_owned(),
            "set net:max-retries 1".to_owned(),
            format!("set sftp:connect-program {}", quoted(&as_shell(&ssh))),
            format!(
                "open --user {LFTP} --password {} -p {} sftp://127.0.0.1",
                quoted(password),
                lab.port()
            ),
            format!("put {} -o {}", way.local, way.there),
            format!("get {} -o {}", way.there, way.back),
        ];
        client.arg("--norc").arg("-c").arg(commands.join("; "));
        client.env("HOME", lab.bed.dir.path());
        client.env_remove("SSH_AUTH_SOCK");
        vec![Call::new(client)]
    })
    .await
}

pub async fn sshfs(lab: &Lab) -> Row {
    let Ok(version) = version("sshfs", "--version").await else {
        return Row::skipped("sshfs", "no sshfs (Debian: sshfs)");
    };
    let mut row = Row::new("sshfs", version);
    let fuse = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    if fuse.is_err() {
        row.cell(Feature::Sftp, async { Ok("– no /dev/fuse".to_owned()) })
            .await;
        return row;
    }
    row.cell(Feature::Sftp, sshfs_carries(lab)).await;
    let was_let_in = lab.was_let_in(SSHFS, "publickey");
    row.cell(Feature::Key, async { was_let_in }).await;
    row
}

/// A mounted directory, until this is dropped.
struct Mounted {
    at: PathBuf,
    running: Background,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Before the process ends, or whoever looks at the directory waits for it.
        for program in ["fusermount3", "fusermount"] {
            let unmount = Command::new(program)
                .args(["-u", "-z"])
                .arg(&self.at)
                .stderr(Stdio::null())
                .status();
            if unmount.is_ok_and(|status| status.success()) {
                return;
            }
        }
    }
}

async fn sshfs_carries(lab: &Lab) -> Outcome {
    let at = lab.bed.path("mounted");
    std::fs::create_dir_all(&at).map_err(|error| error.to_string())?;
    let mut client = Command::new("sshfs");
    client.args(["-f", "-F", "none", "-p", &lab.port()]);
    for option in [
        format!(
            "UserKnownHostsFile={}",
            lab.bed.path("known_hosts").display()
        ),
        format!("IdentityFile={}", lab.bed.path("key").display()),
        "StrictHostKeyChecking=yes".to_owned(),
        "IdentitiesOnly=yes".to_owned(),
        "BatchMode=yes".to_owned(),
    ] {
        client.args(["-o", &option]);
    }
    client.env_remove("SSH_AUTH_SOCK");
    client.arg(format!("{SSHFS}@127.0.0.1:/")).arg(&at);
    let log = lab.bed.path(&format!("{}.log", fresh(SSHFS)));
    let mut mounted = Mounted {
        running: Background::start(client, log)?,
        at: at.clone(),
    };
    let outside = device(lab.bed.dir.path());
    // Not from here: looking at a mounted directory may wait for the gateway, which
    // these threads serve.
    let is_mounted = async || {
        let at = at.clone();
        let found = tokio::task::spawn_blocking(move || device(&at)).await;
        found.is_ok_and(|found| found.is_some() && found != outside)
    };
    if let Err(why) = mounted.running.until(is_mounted).await {
        // A container may have the device and no right to mount.
        if why.contains("mount failed") {
            return Ok("– no right to mount".to_owned());
        }
        return Err(why);
    }
    lab.carry(SSHFS, crate::interop::SIZE, |way| {
        let there = format!("{}{}", at.display(), way.there);
        [(&way.local, &there), (&there, &way.back)]
            .map(|(from, to)| {
                let mut copy = Command::new("cp");
                copy.args([from, to]);
                Call::new(copy)
            })
            .into()
    })
    .await
}

fn device(path: &Path) -> Option<u64> {
    Some(std::fs::metadata(path).ok()?.dev())
}

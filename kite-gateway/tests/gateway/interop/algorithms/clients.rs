//! The clients, each told to have but one algorithm.

use std::process::Command;

use serde_json::json;

use super::{ALL, Algorithm, CHANGES, Client, putty, russh};
use crate::interop::lab::{Lab, version};
use crate::interop::openssh::OpenSsh;
use crate::interop::process::{Call, brief};
use crate::interop::scripted::{ASYNCSSH, LIBSSH2, PARAMIKO, SSH2, Script};
use crate::interop::table::{Outcome, fine};

/// What came of each algorithm; an error is a client that is not there.
pub async fn forced(lab: &Lab, client: Client) -> Result<Vec<Outcome>, String> {
    let mut cells = Vec::new();
    match client {
        Client::OpenSsh | Client::NewerOpenSsh => {
            let openssh = openssh(client).ok_or("no OpenSSH 10 in KITE_OPENSSH")?;
            for algorithm in ALL {
                cells.push(by_openssh(lab, &openssh, algorithm).await);
            }
        }
        Client::Putty => {
            version("plink", "--version").await?;
            putty::prepare(lab).await?;
            for algorithm in ALL {
                cells.push(putty::forced(lab, algorithm).await);
            }
        }
        Client::Dropbear => {
            version("dbclient", "-V").await?;
            crate::interop::dropbear::prepare(lab).await?;
            for algorithm in ALL {
                cells.push(by_dropbear(lab, algorithm).await);
            }
        }
        Client::Russh => {
            for algorithm in ALL {
                cells.push(russh::forced(lab, algorithm).await);
            }
        }
        _ => return by_script(lab, client).await,
    }
    Ok(cells)
}

/// Two megabytes both ways, while the client asks for new keys, or the gateway.
pub async fn load(lab: &Lab, client: Client, rekeys: bool) -> Outcome {
    let changes = match client {
        Client::OpenSsh | Client::NewerOpenSsh => {
            let mut ssh = openssh(client).ok_or("none")?.client(lab, "ssh");
            if rekeys {
                ssh.args(["-o", "RekeyLimit=64K"]);
            }
            ssh.arg("-v");
            let told = cat(lab, ssh, 2).await?;
            told.matches("SSH2_MSG_NEWKEYS received").count()
        }
        Client::Putty => {
            let told = putty::load(lab, rekeys).await?;
            told.matches("key re-exchange").count()
        }
        // dropbear asks for new keys after a gigabyte only. What the others have begun to send
        // when they ask goes astray, or stops for good, also where there is no gateway.
        Client::Dropbear | Client::Paramiko | Client::Ssh2 if rekeys => {
            return Ok("–".to_owned());
        }
        Client::Dropbear => {
            crate::interop::dropbear::prepare(lab).await?;
            cat(lab, crate::interop::dropbear::with_key(lab), 2).await?;
            return fine();
        }
        Client::Russh => return russh::load(lab, rekeys).await,
        _ => {
            let more = json!({"user": "web", "local": lab.file(2), "rekeys": rekeys});
            let lines = Script::of(lab, name(client)).lines("load", more).await?;
            match lines.last().map(String::as_str) {
                Some("–") => return Ok("–".to_owned()),
                // It cannot tell.
                Some("?") => return fine(),
                last => last
                    .unwrap_or_default()
                    .parse()
                    .map_err(|_| lines.join(" "))?,
            }
        }
    };
    if changes < CHANGES {
        return Err(format!("keys changed {changes} times"));
    }
    fine()
}

fn openssh(client: Client) -> Option<OpenSsh> {
    if client == Client::OpenSsh {
        return Some(OpenSsh::here());
    }
    OpenSsh::newer()
}

fn name(client: Client) -> &'static str {
    match client {
        Client::Paramiko => PARAMIKO,
        Client::Asyncssh => ASYNCSSH,
        Client::Libssh2 => LIBSSH2,
        _ => SSH2,
    }
}

/// A file through `cat` in the VM; gives what the client said besides.
pub async fn cat(lab: &Lab, mut client: Command, megabytes: usize) -> Result<String, String> {
    let data = std::fs::read(lab.file(megabytes)).map_err(|error| error.to_string())?;
    // As text, which outputs are here: each byte is one of two letters.
    let data: String = data
        .iter()
        .map(|byte| if byte % 2 == 0 { 'a' } else { 'b' })
        .collect();
    client.args(["-l", "web", "127.0.0.1", "cat"]);
    let done = Call::new(client).input(data.clone()).succeed().await?;
    if done.stdout == data {
        return Ok(done.stderr);
    }
    Err(format!("{} other bytes", done.stdout.len()))
}

async fn by_openssh(lab: &Lab, openssh: &OpenSsh, (kind, name): Algorithm) -> Outcome {
    let mut ssh = openssh.client(lab, "ssh");
    let word = match kind {
        "kex" => "KexAlgorithms",
        "host key" => "HostKeyAlgorithms",
        "cipher" => "Ciphers",
        _ => {
            ssh.args(["-o", "Ciphers=aes128-ctr"]);
            "MACs"
        }
    };
    ssh.args(["-v", "-o", &format!("{word}={name}")]);
    match cat(lab, ssh, 1).await {
        Ok(told) if told.contains(&format!(": {name}")) => fine(),
        Ok(told) => Err(brief(&told)),
        // It does not know the name.
        Err(why) if why.contains("Bad SSH2") => Ok("–".to_owned()),
        Err(why) if why.contains("Bad key types") => Ok("–".to_owned()),
        Err(why) => Err(why),
    }
}

/// It can be told its ciphers and MACs, and has of the latter none that the gateway takes.
async fn by_dropbear(lab: &Lab, (kind, name): Algorithm) -> Outcome {
    let mut client = crate::interop::dropbear::with_key(lab);
    match (kind, name) {
        ("cipher", "chacha20-poly1305@openssh.com") => client.args(["-c", name]),
        _ => return Ok("–".to_owned()),
    };
    cat(lab, client, 1).await?;
    fine()
}

async fn by_script(lab: &Lab, client: Client) -> Result<Vec<Outcome>, String> {
    let script = Script::of(lab, name(client));
    script.lines("version", json!({})).await?;
    let more = json!({
        "user": "web",
        "local": lab.file(1),
        "algorithms": ALL,
        "fingerprints": lab.fingerprints(),
    });
    let mut lines = match script.lines("algorithms", more).await {
        Ok(lines) => lines,
        Err(why) => vec![why],
    };
    lines.resize(ALL.len(), "nothing was said of it".to_owned());
    let cell = |line: String| match line.as_str() {
        "ok" | "–" => Ok(line),
        _ => Err(brief(&line)),
    };
    Ok(lines.into_iter().map(cell).collect())
}

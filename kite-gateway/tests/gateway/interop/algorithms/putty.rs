//! `PuTTY`, which is told by saved sessions what it has: classes of algorithms, of which
//! it uses the best that both sides have. What that is, is in its log.

use std::process::Command;

use super::{Algorithm, REKEY, clients};
use crate::interop::lab::{Lab, fresh};
use crate::interop::process::brief;
use crate::interop::table::{Outcome, fine};

pub use crate::interop::putty::prepare;

/// The setting that leads to an algorithm, and what the log says then.
fn setting((_, name): Algorithm) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "curve25519-sha256" => ("KEX=ecdh,WARN", "ECDH key exchange with curve Curve25519"),
        // Of host keys that are on its command line it takes what it likes best.
        "ssh-ed25519" => ("", "ssh-ed25519 255"),
        "aes128-gcm@openssh.com" => ("Cipher=aesgcm,WARN", "Initialised AES-128 GCM"),
        "chacha20-poly1305@openssh.com" => ("Cipher=chacha20,WARN", "Initialised ChaCha20"),
        "aes256-ctr" => ("Cipher=aes,WARN", "Initialised AES-256 SDCTR"),
        "hmac-sha2-256-etm@openssh.com" => ("Cipher=aes,WARN", "HMAC-SHA-256"),
        _ => return None,
    })
}

/// With nothing else than that.
pub async fn forced(lab: &Lab, algorithm: Algorithm) -> Outcome {
    let Some((line, expected)) = setting(algorithm) else {
        return Ok("–".to_owned());
    };
    let told = clients::cat(lab, plink(lab, line), 1).await?;
    if told.contains(expected) {
        return fine();
    }
    Err(brief(&told))
}

/// Two megabytes both ways; gives its log.
pub async fn load(lab: &Lab, rekeys: bool) -> Result<String, String> {
    prepare(lab).await?;
    let line = if rekeys {
        format!("RekeyBytes={REKEY}")
    } else {
        String::new()
    };
    clients::cat(lab, plink(lab, &line), 2).await
}

/// The client with one line of settings.
fn plink(lab: &Lab, line: &str) -> Command {
    let home = lab.bed.path("putty");
    let sessions = home.join(".putty/sessions");
    let session = fresh("session");
    std::fs::create_dir_all(&sessions).unwrap();
    let text = format!("Protocol=ssh\n{line}\n");
    std::fs::write(sessions.join(&session), text).unwrap();
    let mut plink = Command::new("plink");
    plink.args(["-v", "-batch", "-load", &session, "-P", &lab.port()]);
    for fingerprint in lab.fingerprints() {
        plink.args(["-hostkey", &fingerprint]);
    }
    plink.arg("-i").arg(lab.bed.path("key.ppk"));
    plink.env("HOME", home).env_remove("SSH_AUTH_SOCK");
    plink
}

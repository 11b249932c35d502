//! One record per login, channel and connection: who, from where, to what, how
//! much, how long, and why it ended. Records go to an [`AuditSink`]: the log, a
//! file, or any number of them.

mod sink;

use std::net::SocketAddr;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::route::{LoginName, VmKey};

pub use sink::{AuditSink, LogSink};

/// One audit record.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// When it was written.
    pub time: Timestamp,
    /// Number of the connection in this process, to join records by.
    pub connection: u64,
    /// Where the client connected from. Port 0 stands for one that nobody knows, as of
    /// clients behind a proxy, and is not written; of an unspecified address with it
    /// nothing is.
    #[serde(serialize_with = "known_peer", skip_serializing_if = "is_nowhere")]
    pub peer: SocketAddr,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

fn is_nowhere(peer: &SocketAddr) -> bool {
    peer.port() == 0 && peer.ip().is_unspecified()
}

fn known_peer<S: Serializer>(peer: &SocketAddr, serializer: S) -> Result<S::Ok, S::Error> {
    match peer.port() {
        0 => peer.ip().serialize(serializer),
        _ => peer.serialize(serializer),
    }
}

/// What a channel was used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Purpose {
    /// Nothing was asked of it.
    #[default]
    Nothing,
    /// A shell.
    Shell,
    /// A command, or a subsystem other than sftp.
    Command,
    /// Files: sftp, scp or rsync. The bytes each way include the protocol's own.
    Transfer,
    /// A connection that is forwarded, or a listener for such.
    Forward,
    /// The user's agent.
    Agent,
    /// A window of the user's display.
    X11,
}

impl Purpose {
    /// That of a command line, as clients of file transfers send it.
    pub(crate) fn of_command(command: &[u8]) -> Self {
        let mut words = command
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let program = words.next().unwrap_or_default();
        let program = program.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let carries_files = match program {
            // Without one of these it is somebody's own use of scp inside the machine.
            b"scp" => words.any(|word| word == b"-t" || word == b"-f"),
            b"rsync" => words.next() == Some(b"--server"),
            b"sftp-server" => true,
            _ => false,
        };
        if carries_files {
            Self::Transfer
        } else {
            Self::Command
        }
    }

    /// That of a subsystem.
    pub(crate) fn of_subsystem(name: &str) -> Self {
        if name == "sftp" {
            Self::Transfer
        } else {
            Self::Command
        }
    }
}

/// A certificate that somebody showed, by an authority that is trusted.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Certificate {
    /// What the authority calls it, as far as that fits into a record.
    pub id: String,
    /// Its number.
    pub serial: u64,
    /// Fingerprint of the authority's key.
    pub authority: String,
    /// Why it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What a record tells.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A login was decided.
    Login {
        /// The name; absent when what was sent could not be one.
        #[serde(skip_serializing_if = "Option::is_none")]
        login: Option<LoginName>,
        /// `password`, `publickey` or `keyboard-interactive`.
        method: &'static str,
        /// Fingerprint of the public key, where it was one.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The certificate of that key, where one was shown by an authority that is trusted.
        #[serde(skip_serializing_if = "Option::is_none")]
        certificate: Option<Certificate>,
        /// Whether it was let in.
        accepted: bool,
        /// Whether it was right, and more is needed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
        /// Whether nobody could look at it, so that it was neither right nor wrong.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        unchecked: bool,
        /// The machine that the name leads to.
        #[serde(skip_serializing_if = "Option::is_none")]
        vm: Option<VmKey>,
        /// What tells that machine from another of the same name.
        #[serde(skip_serializing_if = "Option::is_none")]
        uid: Option<String>,
        /// Who owns it.
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
    },
    /// A terminal session begins to be recorded.
    Recording {
        /// The login name; of a terminal in the browser the name of the account.
        login: LoginName,
        /// The machine.
        vm: VmKey,
        /// Name of the recording.
        name: String,
    },
    /// A channel ended, or was refused.
    Channel {
        /// The login name.
        login: LoginName,
        /// The machine.
        vm: VmKey,
        /// `session`, `direct-tcpip`, ...
        kind: &'static str,
        /// What it was used for.
        purpose: Purpose,
        /// The command, subsystem or destination.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// Bytes from the user to the machine.
        bytes_up: u64,
        /// Bytes from the machine to the user.
        bytes_down: u64,
        /// How long it was open.
        seconds: f64,
        /// Why it ended.
        ended: String,
    },
    /// A console in the browser was opened, refused, or has ended. Not written by
    /// the gateway, but by whoever serves the consoles, into the same log.
    Console {
        /// The account.
        user: String,
        /// The machine.
        vm: VmKey,
        /// What tells it from another of the same name.
        uid: String,
        /// The account that it belongs to.
        owner: String,
        /// `Serial`, `Vnc` or `Terminal`.
        kind: &'static str,
        /// `opened`, `refused` or `ended`.
        what: &'static str,
        /// Bytes from the user to the machine.
        bytes_up: u64,
        /// Bytes from the machine to the user.
        bytes_down: u64,
        /// How long it was open.
        seconds: f64,
        /// Why it was refused, or ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A connection ended.
    Connection {
        /// The client's version string.
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        /// The login name, if it logged in.
        #[serde(skip_serializing_if = "Option::is_none")]
        login: Option<LoginName>,
        /// How long it was there.
        seconds: f64,
        /// Why it ended.
        ended: String,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_port_that_nobody_knows_is_not_written() {
        for (peer, written) in [
            ("192.0.2.1:5", Some("192.0.2.1:5")),
            ("192.0.2.1:0", Some("192.0.2.1")),
            ("[2001:db8::1]:0", Some("2001:db8::1")),
            ("[2001:db8::1]:5", Some("[2001:db8::1]:5")),
            ("0.0.0.0:0", None),
        ] {
            let record = Record {
                time: Timestamp::UNIX_EPOCH,
                connection: 7,
                peer: peer.parse().unwrap(),
                event: Event::Connection {
                    client: None,
                    login: None,
                    seconds: 1.5,
                    ended: "closed".to_owned(),
                },
            };
            let json = serde_json::to_value(&record).unwrap();
            assert_eq!(json.get("peer").and_then(|it| it.as_str()), written);
        }
    }

    #[test]
    fn transfers_are_told_from_commands() {
        for command in [
            "scp -t /tmp",
            "scp -r -p -f x",
            "rsync --server -e.LsfxCIvu . /srv",
            "/usr/lib/openssh/sftp-server",
            "  /usr/bin/scp  -v  -t -- a",
        ] {
            let purpose = Purpose::of_command(command.as_bytes());
            assert_eq!(purpose, Purpose::Transfer, "{command}");
        }
        for command in [
            "",
            "   ",
            "scp a b:",
            "rsync -a a b",
            "echo scp -t",
            "scp-t",
        ] {
            let purpose = Purpose::of_command(command.as_bytes());
            assert_eq!(purpose, Purpose::Command, "{command}");
        }
    }
}

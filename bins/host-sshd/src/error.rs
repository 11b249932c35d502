//! What can go wrong, and what to do about it.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use crate::config::tree::TreeError;

/// The command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nothing was changed.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The switch failed, and everything is as it was before.
    #[error("{why}; everything was put back, and sshd answers on port {port} again")]
    RolledBack { why: Box<Error>, port: u16 },
    /// The switch failed, and so did putting things back.
    #[error("{why}; putting things back failed, too: {then}")]
    Stuck { why: Box<Error>, then: Box<Error> },
    /// A program failed.
    #[error("`{command}` failed: {output}")]
    Failed { command: String, output: String },
    /// sshd does not answer where it should.
    #[error("sshd does not answer on port {port}: {what}")]
    Silent { port: u16, what: String },
    /// The system refused something.
    #[error("cannot {doing}: {source}")]
    Io { doing: String, source: io::Error },
}

impl Error {
    /// Turns an I/O error into one that says what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// What a person can do about it.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.remedy(),
            Self::RolledBack { why, .. } => match why.remedy() {
                remedy if remedy.is_empty() => "mend the cause and try again".to_owned(),
                remedy => remedy,
            },
            Self::Stuck { .. } => {
                "keep this session open, see to it that sshd runs (`sshd -t`, the \
                 log of its service), then run `kite host-sshd restore`; the files as they were \
                 are in the directory of the state, under backups/"
                    .to_owned()
            }
            Self::Failed { .. } | Self::Silent { .. } => {
                "see the log of sshd: `journalctl -u ssh -u sshd`, or /var/log/auth.log".to_owned()
            }
            Self::Io { .. } => String::new(),
        }
    }
}

impl From<TreeError> for Error {
    fn from(error: TreeError) -> Self {
        Self::Refused(error.into())
    }
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this needs the rights of root, and runs as the user with id {uid}")]
    NotRoot { uid: u32 },
    #[error("--sshd {}: there is no such program", path.display())]
    NoSshd { path: PathBuf },
    #[error("--to {port}: that is the port of --from")]
    SamePort { port: u16 },
    #[error("{}: another `kite host-sshd` is at work", lock.display())]
    Busy { lock: PathBuf },
    #[error("{}: {why}", path.display())]
    State {
        path: PathBuf,
        why: String,
        dir: PathBuf,
    },
    #[error("nothing listens on port {port}{}", others(sshd_on))]
    NothingListens { port: u16, sshd_on: BTreeSet<u16> },
    #[error("port {port} is held by {holder}, which is no sshd")]
    NotSshd { port: u16, holder: String },
    #[error("several sshd listen on port {port}, with the process ids {pids:?}")]
    SeveralDaemons { port: u16, pids: BTreeSet<u32> },
    #[error(
        "sshd was started with {option} on its command line, which overrides its configuration"
    )]
    OnCommandLine { option: String },
    #[error("--config {}: the sshd that runs was started with -f {}", asked.display(), running.display())]
    OtherConfig { asked: PathBuf, running: PathBuf },
    #[error(
        "sshd listens on port {port}, but by its configuration on {}",
        list(configured)
    )]
    NotConfigured {
        port: u16,
        configured: BTreeSet<u16>,
    },
    #[error(
        "sshd listens on {} by what it says itself, and on {} by what was read in {}",
        list(effective),
        list(read),
        config.display()
    )]
    Misread {
        config: PathBuf,
        effective: BTreeSet<u16>,
        read: BTreeSet<u16>,
    },
    #[error("{0}")]
    Config(#[from] TreeError),
    #[error("port {port} is held by {holder}")]
    Taken {
        port: u16,
        holder: String,
        going_back: bool,
    },
    #[error("sshd refuses the configuration{}: {output}", of.as_deref().unwrap_or_default())]
    Invalid { of: Option<String>, output: String },
    #[error("the new configuration would change more than the port: {difference}")]
    MoreChanges { difference: String },
    #[error(
        "{unit} has to be stopped for a moment, and has KillMode={kill_mode}: sessions would end"
    )]
    SessionsWouldEnd { unit: String, kill_mode: String },
    #[error("{unit} also listens on \"{address}\" ({kind}), which cannot be written again")]
    OddSocket {
        unit: String,
        address: String,
        kind: String,
    },
    #[error("sshd was moved from port {from} to {to} already")]
    MovedElsewhere { from: u16, to: u16 },
    #[error("a move from port {from} to {to} was begun and not finished")]
    Unfinished { from: u16, to: u16 },
    #[error("moved to port {to}, but sshd listens on {}", list(sshd_on))]
    NotThere { to: u16, sshd_on: BTreeSet<u16> },
    #[error("{} {what} since it was written by `kite host-sshd`", path.display())]
    Drifted { path: PathBuf, what: &'static str },
}

impl Refusal {
    /// What a person can do about it.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::NotRoot { .. } => "run it with sudo".to_owned(),
            Self::NoSshd { .. } => {
                "install OpenSSH's server, or name its program with --sshd".to_owned()
            }
            Self::SamePort { .. } => "name another port, such as --to 2222".to_owned(),
            Self::Busy { .. } => "wait until it is done".to_owned(),
            Self::State { dir, .. } => format!(
                "put the files back by hand with what is under {0}/backups, and remove \
                 {0}/state.json",
                dir.display()
            ),
            Self::NothingListens { sshd_on, .. } => match sshd_on.first() {
                Some(port) => format!("name the port that it listens on: --from {port}"),
                None => "start sshd first".to_owned(),
            },
            Self::NotSshd { .. } => {
                "there is nothing to move; name the port of sshd with --from".to_owned()
            }
            Self::SeveralDaemons { .. } => "stop all but the host's own".to_owned(),
            Self::OnCommandLine { option } => format!(
                "take {option} out of what starts it (SSHD_OPTS in /etc/default/ssh, OPTIONS in \
                 /etc/sysconfig/sshd, ExecStart of its unit), put the port into its \
                 configuration, restart it and try again"
            ),
            Self::OtherConfig { running, .. } => format!("--config {}", running.display()),
            Self::NotConfigured { .. } => {
                "have it do what its configuration says (`systemctl reload ssh`), then look where \
                 it listens: `kite host-sshd status`"
                    .to_owned()
            }
            Self::Misread { .. } => {
                "write Port and ListenAddress with plain numbers and addresses".to_owned()
            }
            Self::Config(_) | Self::Invalid { .. } => {
                "mend the configuration: `sshd -t` must say nothing".to_owned()
            }
            Self::Taken {
                port, going_back, ..
            } => match going_back {
                true => format!(
                    "stop it, or have it listen elsewhere (the gateway: --listen), and run \
                     restore again; \"-p {port}\" of ssh leads to it and not to this host until then"
                ),
                false => "name another port with --to, or stop it".to_owned(),
            },
            Self::MoreChanges { .. } => {
                "move the port by hand, and tell Kite's authors of this configuration".to_owned()
            }
            Self::SessionsWouldEnd { unit, .. } => {
                format!("set KillMode=process: `systemctl edit {unit}`, as distributions have it")
            }
            Self::OddSocket { unit, .. } => {
                format!("put that into a socket unit of its own, or move {unit} by hand")
            }
            Self::MovedElsewhere { .. } => "run `kite host-sshd restore` first".to_owned(),
            Self::Unfinished { from, to } => format!(
                "finish it with `kite host-sshd move --from {from} --to {to}`, or undo it with \
                 `kite host-sshd restore`"
            ),
            Self::NotThere { .. } => {
                "look what changed with `kite host-sshd status`; start sshd if it does not run; \
                 then run `kite host-sshd restore --force` and move again"
                    .to_owned()
            }
            Self::Drifted { path, .. } => format!(
                "keep what is new in {}, then run `kite host-sshd restore --force`, which puts \
                 back what was there before the move (a copy of what is replaced goes to backups/)",
                path.display()
            ),
        }
    }
}

/// Ports, for people.
pub(crate) fn list(ports: &BTreeSet<u16>) -> String {
    if ports.is_empty() {
        return "none".to_owned();
    }
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    ports.join(", ")
}

fn others(ports: &BTreeSet<u16>) -> String {
    if ports.is_empty() {
        ", and no sshd runs".to_owned()
    } else {
        format!("; sshd listens on {}", list(ports))
    }
}

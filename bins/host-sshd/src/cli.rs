//! The options of `kite host-sshd`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::config::Ports;

/// What `kite host-sshd` is asked for.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// Move sshd to another port, test it there, and put everything back if it does
    /// not answer. Open sessions stay open.
    Move(MoveOptions),
    /// Put everything back as it was before the move.
    Restore(RestoreOptions),
    /// Say where sshd listens, whether it is moved, and what is amiss.
    Status(StatusOptions),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct MoveOptions {
    /// Port to move it to.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    to: u16,
    /// Port that it listens on now.
    #[arg(long, value_name = "PORT", default_value_t = 22, value_parser = clap::value_parser!(u16).range(1..))]
    from: u16,
    /// Main file of sshd's configuration; by default what the running sshd has, or
    /// `/etc/ssh/sshd_config`.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Test the new configuration and say what would be done, but do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not say how to open the port in a firewall.
    #[arg(long)]
    pub(crate) no_firewall_hint: bool,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RestoreOptions {
    /// Also put files back that were changed since; what they became is kept.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct StatusOptions {
    /// Main file of sshd's configuration, as for `move`.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CommonOptions {
    /// OpenSSH's server.
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/sshd")]
    pub(crate) sshd: PathBuf,
    /// Directory for backups and for the note of what is to be undone.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kite/host-sshd")]
    pub(crate) state_dir: PathBuf,
    /// How long sshd may take to answer on its port.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    timeout: u64,
    /// For people, or for programs.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Format,
}

/// How the outcome is printed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Command {
    pub(crate) fn common(&self) -> &CommonOptions {
        match self {
            Self::Move(options) => &options.common,
            Self::Restore(options) => &options.common,
            Self::Status(options) => &options.common,
        }
    }
}

impl MoveOptions {
    pub(crate) fn ports(&self) -> Ports {
        Ports {
            from: self.from,
            to: self.to,
        }
    }
}

impl CommonOptions {
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// The main file of the configuration, where no other is named.
pub(crate) fn default_config() -> PathBuf {
    // openSUSE has the distribution's file under /usr.
    const PLACES: [&str; 2] = ["/etc/ssh/sshd_config", "/usr/etc/ssh/sshd_config"];
    let there = PLACES.iter().find(|place| Path::new(place).exists());
    PathBuf::from(there.unwrap_or(&PLACES[0]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(line: &str) -> Result<Command, String> {
        let arguments = ["host-sshd"].into_iter().chain(line.split(' '));
        let parsed = Cli::try_parse_from(arguments).map_err(|error| error.to_string());
        parsed.map(|cli| cli.options.command)
    }

    #[test]
    fn the_options_are_those_that_are_documented() {
        Cli::command().debug_assert();
        let Command::Move(options) = parsed("move --to 2222").unwrap() else {
            panic!("another command");
        };
        assert_eq!(options.ports(), Ports { from: 22, to: 2222 });
        assert_eq!(options.common.patience(), Duration::from_secs(15));
        let dir = Path::new("/var/lib/kite/host-sshd");
        assert_eq!(options.common.state_dir, dir);
        assert!(matches!(
            parsed("restore --force").unwrap(),
            Command::Restore(_)
        ));
        assert!(matches!(parsed("status").unwrap(), Command::Status(_)));
    }

    #[test]
    fn a_port_is_a_port() {
        for port in ["0", "65536", "ssh", "-1"] {
            let error = parsed(&format!("move --to={port}")).unwrap_err();
            assert!(error.contains("--to") && error.contains(port), "{error}");
        }
        assert!(parsed("move").unwrap_err().contains("--to"));
    }
}

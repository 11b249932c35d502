//! Options for the host's own sshd behind login names without a VM.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use kite_gateway::fallback::Host;
use kite_gateway::russh::keys::PublicKey;
use kite_gateway::{Config, LoginName};

/// PAM takes up to three seconds to say no; no password may be refused sooner,
/// or the time would tell names of VMs from accounts of the host.
const REJECTION_TIME: Duration = Duration::from_secs(4);

/// Whether and where names without a VM lead to a host.
// Fields are named as their options are.
#[allow(clippy::struct_field_names)]
#[derive(Args, Clone, Debug)]
pub struct HostArgs {
    /// The host's own sshd, for login names that no VM has, by password only.
    /// Without this such names are refused.
    #[arg(
        long,
        env = "KITE_HOST_SSHD",
        value_name = "ADDRESS:PORT",
        requires = "host_sshd_key"
    )]
    host_sshd: Option<SocketAddr>,
    /// File with the public host key of that sshd, such as
    /// `/etc/ssh/ssh_host_ed25519_key.pub`.
    #[arg(
        long,
        env = "KITE_HOST_SSHD_KEY",
        value_name = "FILE",
        requires = "host_sshd"
    )]
    host_sshd_key: Option<PathBuf>,
    /// Accounts of the host that may be reached; all if none is given.
    #[arg(
        long,
        env = "KITE_HOST_ACCOUNTS",
        value_delimiter = ',',
        value_name = "NAME,...",
        value_parser = account
    )]
    host_accounts: Vec<LoginName>,
}

fn account(text: &str) -> Result<LoginName, String> {
    LoginName::parse(text).ok_or_else(|| {
        "a login name has 1 to 64 letters, digits, and \"-\", \"_\" or \".\"".to_owned()
    })
}

impl HostArgs {
    /// The host, if there is to be one.
    pub fn host(&self) -> anyhow::Result<Option<Host>> {
        let (Some(address), Some(file)) = (self.host_sshd, &self.host_sshd_key) else {
            return Ok(None);
        };
        let host_key = PublicKey::read_openssh_file(file).with_context(|| {
            format!(
                "--host-sshd-key {}: not a public key in OpenSSH's format",
                file.display()
            )
        })?;
        Ok(Some(Host {
            address,
            host_key,
            accounts: self.host_accounts.clone(),
        }))
    }

    /// What changes for all logins where a host is behind.
    pub fn adapt(&self, config: Config) -> Config {
        if self.host_sshd.is_none() {
            return config;
        }
        config.relaying(REJECTION_TIME)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        host: HostArgs,
    }

    fn parsed(arguments: &[&str]) -> Result<HostArgs, String> {
        let arguments = ["kite-gateway"].iter().chain(arguments);
        let parsed = Cli::try_parse_from(arguments).map_err(|error| error.to_string());
        parsed.map(|cli| cli.host)
    }

    #[test]
    fn there_is_no_host_unless_it_is_asked_for() {
        let none = parsed(&[]).unwrap();
        assert!(none.host().unwrap().is_none());
        let time = Config::default().rejection_time;
        assert_eq!(none.adapt(Config::default()).rejection_time, time);
    }

    #[test]
    fn a_host_needs_its_key() {
        let error = parsed(&["--host-sshd=10.0.0.1:22"]).unwrap_err();
        assert!(error.contains("--host-sshd-key"), "{error}");
        let missing = ["--host-sshd=10.0.0.1:22", "--host-sshd-key=/none"];
        let error = parsed(&missing).unwrap().host().unwrap_err().to_string();
        assert!(error.contains("/none"), "{error}");
    }

    #[test]
    fn a_host_with_a_key_and_accounts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti host";
        std::fs::write(file.path(), line).unwrap();
        let key = format!("--host-sshd-key={}", file.path().display());
        let all = ["--host-sshd=10.0.0.1:22", &key, "--host-accounts=admin,ops"];
        let args = parsed(&all).unwrap();
        let host = args.host().unwrap().unwrap();
        assert_eq!(host.accounts.len(), 2);
        assert_eq!(args.adapt(Config::default()).rejection_time, REJECTION_TIME);
        let error = parsed(&[all[0], all[1], "--host-accounts=a b"]).unwrap_err();
        assert!(error.contains("a b") && error.contains("64"), "{error}");
    }
}

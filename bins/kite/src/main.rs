//! `kite`: the demo, the CRDs, what is installed, the in-memory API server, a host's sshd.

mod apiserver;
mod audit;
mod backup;
mod client;
mod cluster;
mod crds;
mod demo;
mod doctor;
#[cfg(test)]
mod documented;
mod install;
mod keep;
mod listen;
mod manifests;
mod output;
mod password;
mod smoke;
mod state;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use kite_process::LogArgs;

/// Kite turns a Kubernetes cluster with KubeVirt into self-service VMs.
#[derive(Parser)]
#[command(name = "kite", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logs: LogArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Start all of Kite on an in-memory cluster, in this process.
    Demo(demo::Options),
    /// Start only the in-memory API server.
    Apiserver(apiserver::Options),
    /// Print Kite's CRDs as YAML.
    Crds(crds::Options),
    /// Print an installation of Kite for `kubectl apply`: namespaces, CRDs, accounts
    /// with their rights, the processes, policies, settings, golden images.
    Manifests(Box<manifests::Options>),
    /// Install Kite on a cluster: apply what `kite manifests` prints for the same
    /// options, and wait until it is up.
    ///
    /// The exit code is 0 if it is installed and its pods are ready, and 1 if something
    /// failed or was not ready in time: it says what, and can be repeated.
    Install(Box<install::InstallOptions>),
    /// Bring an installation to this version. Options that are not named stay as they
    /// were at the last install. It is the same as install: what is as it should be
    /// stays untouched.
    ///
    /// The exit code is 0 if it is installed and its pods are ready, and 1 if something
    /// failed or was not ready in time: it says what, and can be repeated.
    Upgrade(Box<install::InstallOptions>),
    /// Take Kite off a cluster. Users, VMs and their disks stay and run on, unless
    /// they are asked for by name.
    ///
    /// The exit code is 0 if all of that is gone, and 1 if something failed or did not go
    /// in time: it says what, and can be repeated.
    Uninstall(install::RemovalOptions),
    /// Look whether a cluster is fit for Kite, and say what to do where it is not.
    ///
    /// Nothing is written. The exit code is 0 if nothing keeps Kite from working there,
    /// 3 if something does, and 1 if it could not be looked at.
    Doctor(doctor::Options),
    /// Go the whole way of a user through an installation: a throw-away user signs in,
    /// makes a VM, logs in to it by SSH, and is taken away with all it had.
    ///
    /// The exit code is 0 if all went well, 3 if something did not, 4 if all went well
    /// that you may look at and that was not all of it, 130 if it was broken off, and 1 if
    /// there is no cluster to ask.
    Smoke(smoke::Options),
    /// Keep all that people and administrators have written into an installation in a
    /// file: users, VMs, offers, images, invites, tokens, settings. No disks.
    ///
    /// The exit code is 0 if all of it is in the file, and 1 if there is none.
    Backup(backup::BackupOptions),
    /// Bring back what kite backup has kept, into the same cluster or another one.
    ///
    /// The exit code is 0 if all of it is back, 3 if something is not, and 1 if the file is
    /// no backup of this installation or there is no cluster to ask.
    Restore(backup::RestoreOptions),
    /// Look at audit logs.
    ///
    /// The exit code is 0 if their lines hold together, 3 if some were changed, moved or taken
    /// out, and 1 if a file cannot be read.
    #[command(subcommand)]
    Audit(audit::Command),
    /// Take this host's own sshd off the port that the gateway shall have, and put it back.
    HostSshd(kite_host_sshd::Options),
    /// Read a password from standard input and print its hash for `passwordHash` and `sshPasswordHash`.
    PasswordHash,
}

/// What commands log that say themselves what went wrong.
const QUIET: &str = "warn,kube_client=off";

fn main() -> ExitCode {
    // An upgrade has the options of the last install beside those that are named.
    let command = Cli::command()
        .mut_subcommand("install", manifests::with_bases)
        .mut_subcommand("manifests", manifests::with_bases);
    let matches = command.get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    run(cli, &matches).unwrap_or_else(|error| kite_process::exit_code(Err(error)))
}

fn run(cli: Cli, matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let done = match cli.command {
        // It has exit codes of its own.
        Command::HostSshd(options) => return Ok(kite_host_sshd::main(&options)),
        Command::Doctor(options) => return served(&cli.logs, QUIET, doctor::run(options)),
        Command::Install(options) | Command::Upgrade(options) => {
            let own = matches.subcommand().map_or(matches, |(_, own)| own);
            let named = manifests::Named::of(own)?;
            return served(&cli.logs, QUIET, install::install(options, named));
        }
        Command::Uninstall(options) => {
            return served(&cli.logs, QUIET, install::uninstall(options));
        }
        Command::Smoke(options) => return served(&cli.logs, QUIET, smoke::run(options)),
        Command::Backup(options) => return served(&cli.logs, QUIET, backup::backup(options)),
        Command::Restore(options) => return served(&cli.logs, QUIET, backup::restore(options)),
        Command::Crds(options) => crds::run(&options),
        Command::Manifests(options) => manifests::run(&options),
        Command::Audit(command) => return audit::run(&command),
        Command::PasswordHash => password::run(),
        Command::Apiserver(options) => served(&cli.logs, "warn", apiserver::run(options)),
        Command::Demo(options) => served(&cli.logs, "warn", demo::run(options)),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn served<T>(
    logs: &LogArgs,
    default: &str,
    task: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    logs.init(default)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(task);
    // A blocking task, such as a password hash, must not hold up the end.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    result
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_options_of_all_commands_go_together() {
        super::Cli::command().debug_assert();
    }
}

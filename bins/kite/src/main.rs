//! `kite`: the demo, the CRDs, what is installed, the in-memory API server, a host's sshd.

mod apiserver;
mod cluster;
mod crds;
mod demo;
mod keep;
mod listen;
mod manifests;
mod password;
mod state;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kite_process::LogArgs;

/// Kite turns a Kubernetes cluster with KubeVirt into self-service VMs.
#[derive(Parser)]
#[command(name = "kite", version, about)]
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
    /// Print what has to be there before Kite starts, as YAML: namespaces, the
    /// `StorageClass` of VM disks, the right to clone images, the API's Service.
    Manifests(manifests::Options),
    /// Take this host's own sshd off the port that the gateway shall have, and put it back.
    HostSshd(kite_host_sshd::Options),
    /// Read a password from standard input and print its hash for `passwordHash` and `sshPasswordHash`.
    PasswordHash,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        // It has exit codes of its own.
        Command::HostSshd(options) => return kite_host_sshd::main(&options),
        Command::Crds(options) => crds::run(&options),
        Command::Manifests(options) => manifests::run(options),
        Command::PasswordHash => password::run(),
        Command::Apiserver(options) => served(&cli.logs, apiserver::run(options)),
        Command::Demo(options) => served(&cli.logs, demo::run(options)),
    };
    kite_process::exit_code(result)
}

fn served(logs: &LogArgs, task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    logs.init("warn")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(task);
    // A blocking task, such as a password hash, must not hold up the end.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    result
}

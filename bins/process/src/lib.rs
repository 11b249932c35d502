//! What every Kite process shares: logs, the end by a signal, a client for the
//! cluster, and the admin port with `/livez`, `/readyz` and `/metrics`.

mod admin;
mod audit;
mod guests;
mod http;
mod logs;
mod memory;
mod places;
mod shutdown;

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use kube::{Client, Config, config::KubeConfigOptions};

pub use self::{
    admin::{Admin, Readiness},
    audit::AuditArgs,
    http::{KnownBy, Serving, serve_and_drain, serve_http},
    logs::{LogArgs, LogFormat},
    memory::memory_limit,
    shutdown::on_signal,
};

/// An answer of which nothing more comes for so long is given up: longer than an API
/// server leaves a watch without a bookmark.
const STALLED: Duration = Duration::from_secs(295);

/// What people know this process by: the name of its pod, or of its host.
pub fn server_name() -> Option<String> {
    let pod = std::env::var("HOSTNAME").ok();
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = pod.or_else(host)?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Which cluster a process works on.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// Context of the kubeconfig; by default its current one. The kubeconfig is
    /// found as kubectl finds it (KUBECONFIG, then the home directory); without
    /// one the process takes the service account of its pod.
    #[arg(long, env = "KITE_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
}

impl ClusterArgs {
    /// A client for the cluster.
    ///
    /// # Errors
    /// There is no kubeconfig, and this is no pod; or what it names cannot be used.
    pub async fn client(&self) -> anyhow::Result<Client> {
        self.build(true).await
    }

    /// A client that sends each request once: for reconcilers, which know better
    /// what may be repeated, and when.
    ///
    /// # Errors
    /// As those of [`client`](Self::client).
    pub async fn client_without_retries(&self) -> anyhow::Result<Client> {
        self.build(false).await
    }

    async fn build(&self, retry: bool) -> anyhow::Result<Client> {
        let mut config = match &self.context {
            None => Config::infer()
                .await
                .context("no cluster: set KUBECONFIG to a kubeconfig, or run inside a cluster")?,
            Some(context) => {
                let options = KubeConfigOptions {
                    context: Some(context.clone()),
                    ..KubeConfigOptions::default()
                };
                Config::from_kubeconfig(&options)
                    .await
                    .with_context(|| format!("context {context:?} cannot be used"))?
            }
        };
        config.default_retry = retry;
        config.read_timeout = Some(STALLED);
        Client::try_from(config).context("the kubeconfig cannot be used")
    }
}

/// Runs `main` and turns an error into one line on standard error and exit code 1.
pub fn exit_code(result: anyhow::Result<()>) -> std::process::ExitCode {
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", told(&error));
            std::process::ExitCode::FAILURE
        }
    }
}

/// An error with all that led to it, in one line. What a cause says that was said
/// already is left out.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let more = cause.to_string();
        if text.contains(&more) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&more);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_nothing_twice() {
        let error = anyhow::anyhow!("no such file");
        let error = error.context("/a cannot be read: no such file");
        let error = error.context("no cluster");
        assert_eq!(told(&error), "no cluster: /a cannot be read: no such file");
    }
}

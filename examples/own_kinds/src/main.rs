//! Runs it on the cluster of the kubeconfig, one of several at a time.

use kite_runtime::{events::Reporter, leader::Election, process::Process};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reporter = Reporter {
        controller: "example.org/sites",
        instance: "sites",
    };
    let identity = format!("{}-{}", std::env::var("HOSTNAME")?, std::process::id());
    let election = Election::new("default", "sites", identity);
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let ended = tokio::signal::ctrl_c().await;
        stop.cancel();
        ended
    });
    let client = kube::Client::try_default().await?;
    let process = Process::contending(reporter, election);
    own_kinds::operator().run(client, process, shutdown).await?;
    Ok(())
}

//! Runs it on the cluster of the kubeconfig, one of several at a time.

use kite_runtime::leader::{Election, identity};
use kite_runtime::{events::Reporter, process::Process};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reporter = Reporter {
        controller: "example.org/sites",
        instance: "sites",
    };
    let election = Election::new("default", "sites", identity());
    let process = Process::with_election(reporter, election);
    let (shutdown, mut told) = (CancellationToken::new(), signal(SignalKind::terminate())?);
    let stop = shutdown.clone();
    tokio::spawn(async move { told.recv().await.map(|()| stop.cancel()) });
    let client = kube::Client::try_default().await?;
    own_kinds::operator().run(client, process, shutdown).await?;
    Ok(())
}

//! The end of a process by SIGTERM or Ctrl-C.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGTERM or SIGINT. A second one ends
/// the process at once.
///
/// # Errors
/// The signals cannot be caught.
pub fn on_signal() -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be caught")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be caught")?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        next().await;
        tracing::info!("shutting down");
        cancelled.cancel();
        next().await;
        std::process::exit(130);
    });
    Ok(token)
}

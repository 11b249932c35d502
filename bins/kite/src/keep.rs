//! What the API server stores, kept in the state directory.

use std::time::Duration;

use anyhow::Context as _;
use kite_fake::{FakeCluster, state::Snapshot};
use tokio_util::sync::CancellationToken;

use crate::state::StateDir;

/// The file in the state directory.
const FILE: &str = "objects.json";
/// Time between two looks at whether something was written.
const EVERY: Duration = Duration::from_secs(5);
/// More writes than there are between two files. After a crash clients may know
/// revisions that the file does not: they must not come again.
const BUMP: u64 = 1_000_000;

/// What an earlier run kept, if there was one.
pub(crate) fn load(state: &StateDir) -> anyhow::Result<Option<Snapshot>> {
    let path = state.path(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let kept = Snapshot::load(&path)
        .with_context(|| format!("--keep: to begin anew, remove {}", path.display()))?;
    Ok(Some(kept.bump_revision(BUMP)))
}

/// Keeps what is written until the signal to end, and what there is then.
pub(crate) async fn until(
    shutdown: &CancellationToken,
    fake: &FakeCluster,
    state: &StateDir,
) -> anyhow::Result<()> {
    let mut kept = None;
    loop {
        let last = tokio::select! {
            () = shutdown.cancelled() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        let now = fake.snapshot();
        if kept != Some(now.revision()) {
            kept = Some(now.revision());
            let path = state.path(FILE);
            let written = tokio::task::spawn_blocking(move || now.save(&path)).await?;
            written.context("--keep: what is stored cannot be kept")?;
        }
        if last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn what_was_stored_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert!(load(&state).unwrap().is_none());
        let fake = FakeCluster::builder().build().unwrap();
        fake.create(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "default"}}))
            .unwrap();
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        until(&shutdown, &fake, &state).await.unwrap();

        let kept = load(&state).unwrap().unwrap();
        let again = FakeCluster::builder().snapshot(kept).build().unwrap();
        assert!(fake.snapshot().diff(&again.snapshot()).is_empty());
        assert!(again.snapshot().revision() > fake.snapshot().revision());
    }
}

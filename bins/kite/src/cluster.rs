//! The in-memory cluster as this program starts it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_fake::{
    FakeCluster,
    actors::{Actors, Rules, play},
    serve::Served,
};
use tokio_util::sync::CancellationToken;

use crate::state::StateDir;

/// How long connections and tasks get to end after a signal.
pub(crate) const GRACE: Duration = Duration::from_millis(1500);

/// A cluster whose uids and tokens nobody can guess.
pub(crate) fn builder() -> kite_fake::Builder {
    FakeCluster::builder().seed(rand::random())
}

/// Reads the CRDs of a YAML text; another kind is an error.
pub(crate) fn read_crds(text: &str) -> anyhow::Result<Vec<CustomResourceDefinition>> {
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(text)?;
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .map(|document| {
            let kind = document["kind"].as_str().unwrap_or_default();
            ensure!(
                kind == "CustomResourceDefinition",
                "kind is {kind:?}, not CustomResourceDefinition"
            );
            serde_json::from_value(document)
                .context("not a CustomResourceDefinition of apiextensions.k8s.io/v1")
        })
        .collect()
}

/// Starts everybody who plays the rest of a cluster, at a pace that a person can
/// watch.
pub(crate) fn spawn_actors(fake: &FakeCluster, shutdown: &CancellationToken) -> Actors {
    let rules = Arc::new(Rules::demo());
    play(fake, &rules, true, shutdown)
}

/// Writes a kubeconfig with full rights into the state directory.
pub(crate) fn write_kubeconfig(
    state: &StateDir,
    fake: &FakeCluster,
    served: &Served,
) -> anyhow::Result<PathBuf> {
    state.write("kubeconfig", fake.kubeconfig(&served.url()).as_bytes())
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

//! The in-memory cluster as this program starts it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_fake::actors::{Actors, snapshot_definitions};
use kite_fake::serve::Served;
use kite_fake::{Builder, FakeCluster};
use kite_fake_kubevirt::{demo_rules, operator_definitions, play};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{crds, state::StateDir};

/// Who makes volumes in memory.
pub(crate) const PROVISIONER: &str = "demo.hy3ons.github.io/memory";
/// The class of Ingresses that somebody plays.
pub(crate) const INGRESS_CLASS: &str = "demo";

/// How long connections and tasks get to end after a signal.
pub(crate) const GRACE: Duration = Duration::from_millis(1500);

/// A cluster whose uids and tokens nobody can guess.
pub(crate) fn builder() -> Builder {
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

/// Kinds and objects by which a cluster shows that it is one on which VMs can run:
/// `KubeVirt` and CDI are installed, and there are classes for volumes, snapshots and
/// Ingresses.
/// Definitions that are `given` stay as they are.
pub(crate) fn furnished(builder: Builder, given: &[CustomResourceDefinition]) -> Builder {
    let is_given = |name: &Option<String>| given.iter().any(|it| it.metadata.name == *name);
    let mut definitions = crds::foreign();
    definitions.extend(operator_definitions());
    definitions.extend(snapshot_definitions());
    definitions.retain(|it| !is_given(&it.metadata.name));
    furniture()
        .into_iter()
        .fold(builder.crds(definitions), Builder::object)
}

fn furniture() -> [serde_json::Value; 7] {
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    [
        namespace("kubevirt"),
        namespace("cdi"),
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
            // As its release has it.
            "spec": {"workloadUpdateStrategy": {}},
        }),
        json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDI",
            "metadata": {"name": "cdi"},
            "spec": {},
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": PROVISIONER,
            "allowVolumeExpansion": true,
        }),
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
            "metadata": {"name": "standard"},
            "driver": PROVISIONER,
            "deletionPolicy": "Delete",
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
            "metadata": {
                "name": INGRESS_CLASS,
                "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
            },
            "spec": {"controller": "demo.hy3ons.github.io/played"},
        }),
    ]
}

/// Starts everybody who plays the rest of a cluster, at a pace that a person can
/// watch.
pub(crate) fn spawn_actors(fake: &FakeCluster, shutdown: &CancellationToken) -> Actors {
    let rules = Arc::new(demo_rules());
    play(fake, &rules, true, shutdown)
}

/// Writes a kubeconfig with full rights into the state directory.
pub(crate) fn write_kubeconfig(
    state: &StateDir,
    fake: &FakeCluster,
    served: &Served,
) -> anyhow::Result<PathBuf> {
    state.write("kubeconfig", fake.kubeconfig(served).as_bytes())
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

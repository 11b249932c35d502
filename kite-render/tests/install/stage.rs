//! Installations, and clusters to apply them to.

use std::collections::BTreeMap;

use kite_fake::FakeCluster;
use kite_render::install::{
    Containers, Installation, Manifest, Monitoring, Process, Profile, Recordings,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};

/// One with all that can be asked for.
pub fn everything() -> Installation {
    let mut installation = Profile::HighAvailability.installation();
    "vms".clone_into(&mut installation.namespace);
    installation.platform.image_namespace = Some("golden".to_owned());
    installation.platform.storage_class = Some("fast".to_owned());
    installation.platform.base_domain = Some("vm.example.org".to_owned());
    installation.containers = Containers {
        registry: "registry.example.org/kite".to_owned(),
        tag: format!("sha256:{}", "0".repeat(64)),
        pull_secret: Some("registry".to_owned()),
    };
    installation.terminals = true;
    installation.recordings = Some(Recordings {
        size: "10Gi".parse().unwrap(),
        storage_class: Some("fast".to_owned()),
        upload: Some("s3://audit/ssh".to_owned()),
        credentials: Some("kite-recordings".to_owned()),
    });
    installation.web.origins = vec!["https://kite.example.org".to_owned()];
    installation.monitoring = Some(Monitoring {
        namespace: "monitoring".to_owned(),
    });
    let ranges = (
        "KITE_PROXY_PROTOCOL_FROM".to_owned(),
        "10.0.0.0/8".to_owned(),
    );
    installation.options = BTreeMap::from([(Process::Gateway, BTreeMap::from([ranges]))]);
    installation
}

/// All that is tested, with a name for each.
pub fn all() -> Vec<(&'static str, Installation)> {
    let profiles = Profile::ALL.map(|profile| (profile.name(), profile.installation()));
    let mut all = profiles.to_vec();
    all.push(("everything", everything()));
    all
}

/// A cluster with the Prometheus operator's kinds.
pub fn builder() -> kite_fake::Builder {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let kinds = [
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ];
    let crds = kinds.map(|(kind, plural)| {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
            "spec": {
                "group": "monitoring.coreos.com",
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [version],
            },
        });
        serde_json::from_value(crd).unwrap()
    });
    FakeCluster::builder().crds(crds)
}

/// Where a manifest's object is.
fn objects(client: &Client, manifest: &Manifest) -> Api<DynamicObject> {
    let api = manifest.api_version();
    let (group, version) = api.split_once('/').unwrap_or(("", &api));
    let kind = GroupVersionKind::gvk(group, version, &manifest.kind());
    let resource = ApiResource::from_gvk(&kind);
    match &manifest.metadata().namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Server-side applies a manifest as an installer does, which takes nothing away from
/// others; gives what is stored.
pub async fn apply(client: &Client, manifest: &Manifest) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams::apply("installer");
    let patch = Patch::Apply(manifest);
    let objects = objects(client, manifest);
    objects.patch(manifest.name(), &params, &patch).await
}

/// The version of a manifest's object that is stored.
pub async fn version(client: &Client, manifest: &Manifest) -> Option<String> {
    let stored = objects(client, manifest).get(manifest.name()).await;
    stored.unwrap().metadata.resource_version
}

/// Applies all of an installation.
pub async fn apply_all(client: &Client, installation: &Installation) {
    for manifest in installation.manifests() {
        let applied = apply(client, &manifest).await;
        applied.unwrap_or_else(|error| panic!("{}: {error}", named(&manifest)));
    }
}

/// Kind and name, for messages.
pub fn named(manifest: &Manifest) -> String {
    format!("{} {}", manifest.kind(), manifest.name())
}

/// As it is written.
pub fn json_of(manifest: &Manifest) -> Value {
    serde_json::to_value(manifest).unwrap()
}

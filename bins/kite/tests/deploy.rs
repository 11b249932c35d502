//! `deploy/`: the rendered installation as a Kustomize base, with an overlay for each
//! profile. It is written by this test, and told when it is stale; that an overlay is
//! what its profile renders, `kubectl kustomize` says. Beside it, what a Prometheus
//! without operator and Grafana take.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
};

use hyper::Request;
use kite_fake::FakeCluster;
use kite_render::install::{Installation, Manifest, Process, Profile, alerts, dashboard};
use kube::{Resource as _, api::DynamicObject, client::Body};
use serde_json::{Value, json};
use support::{clients_present, run, show};

const BLESS: &str = "KITE_BLESS=1 cargo test -p kite --test deploy";

/// Kind, namespace and name.
type Key = (String, Option<String>, String);

fn key(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    (
        text(&object["kind"]).unwrap(),
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"]).unwrap(),
    )
}

/// All objects of an installation, by what they are called.
fn objects(installation: &Installation) -> BTreeMap<Key, Value> {
    let manifests = installation.manifests();
    let values = manifests.iter().map(|it| serde_json::to_value(it).unwrap());
    let all: BTreeMap<_, _> = values.map(|value| (key(&value), value)).collect();
    assert_eq!(all.len(), manifests.len(), "two objects of one name");
    all
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn yaml(documents: &[Value]) -> String {
    let mut text = format!("# Written by `{BLESS}`.\n");
    for document in documents {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(document).unwrap());
    }
    text
}

/// The file of the base in which an object is.
fn file_of(manifest: &Manifest) -> &'static str {
    let labels = manifest.metadata().labels.as_ref();
    let name = labels.and_then(|labels| labels.get("app.kubernetes.io/name"));
    let process = Process::ALL
        .into_iter()
        .find(|process| name.map(String::as_str) == Some(process.name()));
    match (manifest, process) {
        (Manifest::Namespace(_), _) => "namespaces.yaml",
        // Roles of no process are for people.
        (
            Manifest::ValidatingAdmissionPolicy(_) | Manifest::ValidatingAdmissionPolicyBinding(_),
            _,
        )
        | (Manifest::ClusterRole(_), None) => "policies.yaml",
        (_, Some(Process::Controller)) => "kite-controller.yaml",
        (_, Some(Process::Gateway)) => "kite-gateway.yaml",
        (_, Some(Process::Api)) => "kite-api.yaml",
        (_, None) => "settings.yaml",
    }
}

/// The order in which the files of the base are applied.
const FILES: [&str; 6] = [
    "namespaces.yaml",
    "policies.yaml",
    "kite-controller.yaml",
    "kite-gateway.yaml",
    "kite-api.yaml",
    "settings.yaml",
];

/// `kubectl apply -k` brings an order of its own, and warns of any other.
fn kustomization(fields: &Value) -> String {
    let mut all = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
    });
    let all_fields = all.as_object_mut().unwrap();
    all_fields.extend(fields.as_object().unwrap().clone());
    yaml(&[all])
}

fn base() -> BTreeMap<PathBuf, String> {
    let mut plain = Profile::Plain.installation();
    // They have a file of their own.
    plain.crds = false;
    let mut files: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for manifest in plain.manifests() {
        let documents = files.entry(file_of(&manifest)).or_default();
        documents.push(serde_json::to_value(&manifest).unwrap());
    }
    assert_eq!(files.keys().copied().collect::<BTreeSet<_>>(), FILES.into());
    let mut resources = vec!["../crds"];
    resources.extend(FILES);
    let kustomization = kustomization(&json!({ "resources": resources }));
    let texts = files
        .iter()
        .map(|(name, documents)| (*name, yaml(documents)));
    texts
        .chain([("kustomization.yaml", kustomization)])
        .map(|(name, text)| (Path::new("base").join(name), text))
        .collect()
}

/// What makes `to` of `from`, as a JSON patch (RFC 6902).
fn difference(path: &str, from: &Value, to: &Value, steps: &mut Vec<Value>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let below =
                |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            for name in from.keys().filter(|name| !to.contains_key(*name)) {
                steps.push(json!({"op": "remove", "path": below(name)}));
            }
            for (name, value) in to {
                match from.get(name) {
                    Some(from) => difference(&below(name), from, value, steps),
                    None => steps.push(json!({"op": "add", "path": below(name), "value": value})),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (index, (from, to)) in from.iter().zip(to).enumerate() {
                difference(&format!("{path}/{index}"), from, to, steps);
            }
        }
        _ if from == to => {}
        _ => steps.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

fn overlay(profile: Profile) -> BTreeMap<PathBuf, String> {
    let (plain, wanted) = (
        objects(&Profile::Plain.installation()),
        objects(&profile.installation()),
    );
    let mut patches = Vec::new();
    for (key, from) in &plain {
        let (kind, namespace, name) = key;
        match wanted.get(key) {
            None => {
                let gone = json!({
                    "$patch": "delete",
                    "apiVersion": from["apiVersion"],
                    "kind": kind,
                    "metadata": from["metadata"],
                });
                patches.push(json!({"patch": serde_saphyr::to_string(&gone).unwrap()}));
            }
            Some(to) => {
                let mut patch = Vec::new();
                difference("", from, to, &mut patch);
                if !patch.is_empty() {
                    let mut target = json!({"kind": kind, "name": name});
                    if let Some(namespace) = namespace {
                        target["namespace"] = json!(namespace);
                    }
                    let patch = serde_saphyr::to_string(&patch).unwrap();
                    patches.push(json!({ "target": target, "patch": patch }));
                }
            }
        }
    }
    let more: Vec<_> = wanted
        .iter()
        .filter(|(key, _)| !plain.contains_key(*key))
        .map(|(_, object)| object.clone())
        .collect();
    let mut files = BTreeMap::new();
    let mut resources = vec!["../../base"];
    if !more.is_empty() {
        resources.push("more.yaml");
        files.insert("more.yaml", yaml(&more));
    }
    let text = kustomization(&json!({ "resources": resources, "patches": patches }));
    files.insert("kustomization.yaml", text);
    let directory = Path::new("overlays").join(profile.name());
    let files = files.into_iter();
    files
        .map(|(name, text)| (directory.join(name), text))
        .collect()
}

/// For a Prometheus without operator, and for Grafana.
fn monitoring() -> [(PathBuf, String); 2] {
    let directory = Path::new("monitoring");
    let rules = serde_json::to_value(alerts()).unwrap();
    let dashboard = serde_json::to_string_pretty(&dashboard()).unwrap() + "\n";
    [
        (directory.join("alerts.yaml"), yaml(&[rules])),
        (directory.join("dashboard.json"), dashboard),
    ]
}

fn overlays() -> impl Iterator<Item = Profile> {
    Profile::ALL.into_iter().filter(|it| *it != Profile::Plain)
}

/// All files but the CRDs themselves, which another test writes.
fn files() -> BTreeMap<PathBuf, String> {
    let mut files = base();
    files.insert(
        PathBuf::from("crds/kustomization.yaml"),
        kustomization(&json!({ "resources": ["kite.yaml"] })),
    );
    files.extend(overlays().flat_map(overlay));
    files.extend(monitoring());
    files
}

/// Writes them, if that is asked for.
fn bless() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("KITE_BLESS").is_none() {
            return;
        }
        for (path, text) in files() {
            let path = directory().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    });
}

fn found(directory: &Path, below: &Path, all: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            found(directory, &path, all);
        } else {
            all.insert(path);
        }
    }
}

#[test]
fn what_is_committed_is_what_is_rendered() {
    bless();
    let (directory, files) = (directory(), files());
    for (path, text) in &files {
        let committed = fs::read_to_string(directory.join(path)).unwrap_or_default();
        assert!(
            committed == *text,
            "deploy/{} is stale: run `{BLESS}`",
            path.display()
        );
    }
    let mut all = BTreeSet::new();
    found(&directory, Path::new(""), &mut all);
    // Another test writes the first; the rest is not rendered.
    all.remove(Path::new("crds/kite.yaml"));
    all.retain(|path| !path.starts_with("images") && !path.starts_with("release"));
    assert_eq!(all, files.into_keys().collect(), "remove what is too much");
}

/// The same with `0.0` written as `0`, as kustomize does.
fn whole(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, it)| (name.clone(), whole(it)))
            .collect(),
        Value::Array(items) => items.iter().map(whole).collect(),
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| float.fract() == 0.0);
            let integer = float.and_then(|float| format!("{float}").parse::<i64>().ok());
            integer.map_or_else(|| value.clone(), Value::from)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// Neither a version that goes nor a format or a field that the API server does not know.
#[tokio::test]
async fn no_manifest_is_warned_of() {
    for profile in overlays().chain([Profile::Plain]) {
        let fake = FakeCluster::builder().build().unwrap();
        let client = fake.client();
        for manifest in profile.installation().manifests() {
            let namespace = manifest.metadata().namespace.as_deref();
            let url = DynamicObject::url_path(&manifest.resource(), namespace);
            let body = serde_json::to_vec(&manifest).unwrap();
            let request = Request::post(&url).header("content-type", "application/json");
            let request = request.body(Body::from(body)).unwrap();
            let answer = client.send(request).await.unwrap();
            let warnings: Vec<_> = answer.headers().get_all("warning").iter().collect();
            assert!(warnings.is_empty(), "{url}: {warnings:?}");
            assert!(answer.status().is_success(), "{url}: {}", answer.status());
        }
    }
}

#[test]
fn kustomize_builds_what_each_profile_renders() {
    if !clients_present() {
        return;
    }
    bless();
    let kustomized = |path: &str| -> BTreeMap<Key, Value> {
        let mut command = Command::new("kubectl");
        command.arg("kustomize").arg(directory().join(path));
        let output = run(command, "");
        assert!(output.status.success(), "{path}: {}", show(&output));
        // Of fields that it does not know or will not know much longer it warns there.
        assert!(output.stderr.is_empty(), "{path}: {}", show(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let first = all.first().map(|first| first["kind"].clone());
        assert!(
            first == Some(json!("Namespace")) || first == Some(json!("CustomResourceDefinition")),
            "{path} begins with {first:?}"
        );
        all.into_iter()
            .map(|object| (key(&object), object))
            .collect()
    };
    let overlays = overlays().map(|profile| (format!("overlays/{}", profile.name()), profile));
    for (path, profile) in overlays.chain([("base".to_owned(), Profile::Plain)]) {
        let (built, rendered) = (kustomized(&path), objects(&profile.installation()));
        let (here, there): (BTreeSet<_>, BTreeSet<_>) =
            (built.keys().collect(), rendered.keys().collect());
        assert_eq!(here, there, "{path}");
        for (key, object) in &rendered {
            assert!(
                whole(&built[key]) == whole(object),
                "{path}: {key:?}: {}",
                built[key]
            );
        }
    }
}

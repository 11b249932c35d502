//! An installation as an operator makes it: `kubectl apply` of what `kite manifests`
//! prints, and processes that understand the options that it gives them.

#[allow(dead_code)]
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use k8s_openapi::api::core::v1::EnvVar;
use kite_render::install::{Manifest, Process as Kite, Profile, Recordings};
use serde_json::Value;

use crate::{
    support::{Platform, Process, clients_present, eventually, run, show},
    workload::{binary, is_optional},
};

fn kite(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command.args(arguments);
    let output = run(command, "");
    assert!(
        output.status.success(),
        "kite {arguments:?}: {}",
        show(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// An API server with nothing in it, in which nobody does anything.
fn apiserver(directory: &Path) -> (Process, Platform) {
    let state = directory.join("state");
    let crds = directory.join("crds");
    std::fs::create_dir(&crds).unwrap();
    // What the Prometheus operator brings.
    let monitors = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, plural: servicemonitors}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: PrometheusRule, plural: prometheusrules}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
    std::fs::write(crds.join("monitors.yaml"), monitors).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command.args(["apiserver", "--apiserver-listen=127.0.0.1:0"]);
    command.arg("--state-dir").arg(&state);
    command.arg("--crds").arg(&crds);
    let mut process = Process::start("kite apiserver", command, directory.join("apiserver.log"));
    let platform = Platform::wait(&state, &mut process);
    (process, platform)
}

#[test]
fn the_cluster_that_is_played_is_fit_for_an_installation() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command.args(["apiserver", "--actors", "--apiserver-listen=127.0.0.1:0"]);
    command.arg("--state-dir").arg(&state);
    let mut process = Process::start("kite apiserver", command, directory.path().join("log"));
    let platform = Platform::wait(&state, &mut process);
    assert!(platform.ready["pid"].as_u64().is_some_and(|pid| pid > 0));
    let kite = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
        command.args(arguments);
        command.env("KUBECONFIG", state.join("kubeconfig"));
        run(command, "")
    };
    // What is played takes a moment to say that it is there, one thing after another: a
    // node takes VMs before it has hardware for them, which is fit enough to exit with 0.
    let wanted = [
        ("kubevirt", "Fit"),
        ("cdi", "Fit"),
        ("nodes", "Fit"),
        ("rights", "Fit"),
        // Nobody has chosen a class yet.
        ("storageClass", "Warning"),
    ];
    eventually("fit", || {
        let output = kite(&["doctor", "--output=json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        let state =
            |check: &str| findings.iter().find(|it| it["check"] == check)?["state"].as_str();
        let are_so = wanted.iter().all(|(check, it)| state(check) == Some(*it));
        (output.status.success() && are_so)
            .then_some(())
            .ok_or_else(|| show(&output))
    });
    for options in [&["--storage-class=standard"][..], &["--profile=k3s"]] {
        // CDI has to have said what kind of volumes the class has.
        eventually("it can be installed", || {
            let output = kite(&[&["install", "--dry-run=server"], options].concat());
            let is_well = output.status.success();
            is_well.then_some(()).ok_or_else(|| show(&output))
        });
    }
    let output = kite(&["install", "--dry-run=server"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}", show(&output));
    assert!(error.contains("kite-vm-storage"), "{error}");
    assert_eq!(process.terminate().0, Some(0));
}

#[test]
fn nobody_has_to_read_all_that_is_printed() {
    for what in ["manifests", "crds"] {
        let mut shell = Command::new("bash");
        let line = format!("'{}' {what} | head -n1", env!("CARGO_BIN_EXE_kite"));
        shell.args(["-o", "pipefail", "-c", &line]);
        let output = run(shell, "");
        assert!(output.status.success(), "{what}: {}", show(&output));
        assert_eq!(output.stderr, b"", "{what}: {}", show(&output));
    }
}

#[test]
fn a_missing_kubeconfig_is_named_once() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command
        .arg("doctor")
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .env("HOME", "/nonexistent");
    let output = run(command, "");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(
        error.matches("/nonexistent/kubeconfig").count(),
        1,
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// The versions of all objects of a manifest, as they are stored.
fn versions(platform: &Platform, manifest: &str) -> BTreeMap<String, String> {
    let output = platform.kubectl_with(&["get", "-f", "-", "-o", "json"], manifest);
    assert!(output.status.success(), "{}", show(&output));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().unwrap().iter().map(|item| {
        let meta = &item["metadata"];
        let place = format!(
            "{} {}/{}",
            text(&item["kind"]),
            text(&meta["namespace"]),
            text(&meta["name"])
        );
        (place, text(&meta["resourceVersion"]))
    });
    items.collect()
}

#[test]
fn kubectl_applies_it_and_applying_it_again_changes_nothing() {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (process, platform) = apiserver(directory.path());
    let apply = |manifest: &str| {
        let output = platform.kubectl_with(&["apply", "--server-side", "-f", "-"], manifest);
        assert!(output.status.success(), "{}", show(&output));
    };
    let crds = kite(&["crds"]);
    apply(&crds);
    let established = [
        "wait",
        "--for=condition=Established",
        "-f",
        "-",
        "--timeout=60s",
    ];
    let output = platform.kubectl_with(&established, &crds);
    assert!(output.status.success(), "{}", show(&output));
    let options: [&[&str]; 3] = [
        &["--profile=k3s"],
        &["--profile=single-node", "--output=json"],
        &[
            "--profile=high-availability",
            // Parameters of a class that is there cannot be changed.
            "--longhorn=1",
            "--terminals",
            "--record=10Gi",
            "--record-upload=s3://audit/ssh",
            "--monitoring=monitoring",
            "--base-domain=vm.example.org",
        ],
    ];
    for options in options {
        let manifest = kite(&[&["manifests"], options].concat());
        apply(&manifest);
        let before = versions(&platform, &manifest);
        assert!(before.len() > 40, "{before:?}");
        apply(&manifest);
        assert_eq!(versions(&platform, &manifest), before, "{options:?}");
    }
    assert_eq!(process.terminate().0, Some(0));
}

#[test]
fn an_overlay_is_applied_with_kustomize() {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (process, platform) = apiserver(directory.path());
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    for path in ["crds", "overlays/k3s", "overlays/k3s"] {
        let path = deploy.join(path);
        platform.kubectl_ok(&["apply", "--server-side", "-k", path.to_str().unwrap()]);
    }
    let class = [
        "get",
        "sc",
        "kite-vm-storage",
        "-o",
        "jsonpath={.provisioner}",
    ];
    assert_eq!(platform.kubectl_ok(&class), "driver.longhorn.io");
    assert_eq!(process.terminate().0, Some(0));
}

/// The variables that a process knows.
fn known(process: Kite) -> BTreeSet<String> {
    let mut command = Command::new(binary(process));
    command.arg("--help");
    let output = run(command, "");
    let text = String::from_utf8(output.stdout).unwrap();
    let after = text.split("[env: ").skip(1);
    after
        .filter_map(|rest| rest.split(['=', ']']).next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_processes_know_the_options_that_they_are_given() {
    let mut everything = Profile::HighAvailability.installation();
    everything.terminals = true;
    everything.web.origins = vec!["https://kite.example.org".to_owned()];
    everything.recordings = Some(Recordings {
        size: "1Gi".parse().unwrap(),
        storage_class: None,
        upload: Some("file:///recordings".to_owned()),
        credentials: None,
    });
    for manifest in everything.manifests() {
        let template = match &manifest {
            Manifest::Deployment(it) => &it.spec.template,
            Manifest::StatefulSet(it) => &it.spec.template,
            _ => continue,
        };
        let process = Kite::ALL
            .into_iter()
            .find(|it| it.name() == manifest.name());
        let process = process.unwrap();
        let container = &template.spec.as_ref().unwrap().containers[0];
        assert_eq!((&container.command, &container.args), (&None, &None));
        let variables = container.env.as_deref().unwrap();
        let known = known(process);
        for variable in variables {
            assert!(
                known.contains(&variable.name),
                "{}: {}",
                process.name(),
                variable.name
            );
        }
        takes(process, variables);
    }
}

/// Starts a process with these variables. It gets as far as to look for its cluster.
fn takes(process: Kite, variables: &[EnvVar]) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary(process));
    for variable in variables.iter().filter(|it| !is_optional(it)) {
        let value = match variable.name.as_str() {
            // A place of its own, on any machine.
            "KITE_LISTEN" | "KITE_ADMIN_LISTEN" => "127.0.0.1:0",
            "KITE_RECORD_TO" => directory.path().to_str().unwrap(),
            _ => variable.value.as_deref().unwrap_or("kite"),
        };
        command.env(&variable.name, value);
    }
    command
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .env("HOME", "/nonexistent")
        .env("KITE_LOG", "off");
    let output = run(command, "");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}: {error}", process.name());
    assert!(error.contains("KUBECONFIG"), "{}: {error}", process.name());
}

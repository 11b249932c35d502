//! The examples of `docs/gitops.md` can be used as they stand, and keep what they say.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::{fs, io::Write as _, path::Path, process::Command};

use kite_checks::{documents::Document, root};
use serde_json::Value;

/// The YAML objects of a text, as JSON.
fn objects(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

/// The objects of all examples in the page.
fn examples() -> Vec<(String, Vec<Value>)> {
    let page = fs::read_to_string(root().join("docs/gitops.md")).unwrap();
    let code = Document::parse(&page).code.into_iter();
    let yaml = code.filter(|(words, _)| words == "yaml");
    yaml.map(|(_, text)| {
        let objects = objects(&text);
        (text, objects)
    })
    .collect()
}

#[test]
fn the_tools_are_led_to_the_overlay() {
    let mut paths = Vec::new();
    for object in examples().iter().flat_map(|(_, objects)| objects) {
        match object["kind"].as_str().unwrap() {
            "Application" => {
                paths.push(
                    object["spec"]["source"]["path"]
                        .as_str()
                        .unwrap()
                        .to_owned(),
                );
                assert!(object["metadata"]["finalizers"].is_null(), "{object}");
                let options = object["spec"]["syncPolicy"]["syncOptions"]
                    .as_array()
                    .unwrap();
                assert!(
                    options.contains(&Value::from("ServerSideApply=true")),
                    "{object}"
                );
            }
            "Kustomization" if object["spec"].is_object() => {
                let path = object["spec"]["path"].as_str().unwrap();
                paths.push(path.trim_start_matches("./").to_owned());
                assert_eq!(object["spec"]["deletionPolicy"], "Orphan", "{object}");
            }
            _ => {}
        }
    }
    assert_eq!(paths, ["clusters/one/kite", "clusters/one/kite"]);
}

#[test]
fn the_overlay_is_built_and_keeps_what_users_disks_hang_on() {
    let kubectl = Command::new("kubectl")
        .args(["version", "--client"])
        .output();
    if !kubectl.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
            "KITE_REQUIRE_CLIENTS is set: there is no kubectl"
        );
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no kubectl");
        return;
    }
    let examples = examples();
    let (overlay, _) = examples
        .iter()
        .find(|(_, objects)| objects[0]["resources"].is_array())
        .unwrap();
    // This checkout instead of one that is fetched.
    let remote = "https://github.com/hy3ons/kite//deploy/overlays/k3s?ref=main";
    assert!(overlay.contains(remote), "{overlay}");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gitops");
    fs::create_dir_all(&directory).unwrap();
    // kustomize takes no absolute paths; both begin at the root of the file system.
    let up: String = directory.components().skip(1).map(|_| "../").collect();
    let deploy = root().join("deploy/overlays/k3s");
    let local = format!("{up}{}", deploy.strip_prefix("/").unwrap().display());
    fs::write(
        directory.join("kustomization.yaml"),
        overlay.replace(remote, &local),
    )
    .unwrap();
    let mut kustomize = Command::new("kubectl");
    let built = kite_checks::output(kustomize.arg("kustomize").arg(&directory)).unwrap();

    let (mut kept, mut waves) = (0, 0);
    for object in objects(&built) {
        let annotations = &object["metadata"]["annotations"];
        let kind = object["kind"].as_str().unwrap();
        if ["CustomResourceDefinition", "Namespace", "StorageClass"].contains(&kind) {
            let argo_cd = &annotations["argocd.argoproj.io/sync-options"];
            assert_eq!(argo_cd, "Prune=false,Delete=false", "{object}");
            let flux = &annotations["kustomize.toolkit.fluxcd.io/prune"];
            assert_eq!(flux, "disabled", "{object}");
            kept += 1;
        }
        if object["apiVersion"] == "hy3ons.github.io/v1" {
            assert_eq!(annotations["argocd.argoproj.io/sync-wave"], "1", "{object}");
            waves += 1;
        }
        if kind == "KitePlatform" {
            assert_eq!(object["spec"]["baseDomain"], "vm.example.org");
        }
        let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
        if let Some(image) = image.as_str() {
            assert!(
                image.starts_with("registry.example.org/kite/kite-"),
                "{image}"
            );
        }
    }
    assert!(
        kept > 10 && waves > 3,
        "{kept} kept, {waves} in a later wave"
    );
}

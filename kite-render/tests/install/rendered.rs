//! Snapshots of what is rendered.

use kite_render::install::{Installation, Profile};
use serde_json::Value;

use crate::stage::{everything, json_of};

/// All of it but the CRDs, which have a file of their own (`deploy/crds`).
fn rendered(mut installation: Installation) -> Vec<Value> {
    installation.crds = false;
    installation.manifests().iter().map(json_of).collect()
}

#[test]
fn plain() {
    insta::assert_yaml_snapshot!("install_plain", rendered(Profile::Plain.installation()));
}

#[test]
fn with_everything() {
    insta::assert_yaml_snapshot!("install_everything", rendered(everything()));
}

#[test]
fn without_a_driver_there_is_no_storage_class() {
    let kinds = |installation: Installation| -> Vec<_> {
        let manifests = installation.manifests();
        manifests
            .iter()
            .map(kite_render::install::Manifest::kind)
            .collect()
    };
    let has_class = |profile: Profile| {
        let kinds = kinds(profile.installation());
        kinds.iter().any(|kind| kind == "StorageClass")
    };
    assert!(!has_class(Profile::Plain));
    assert!(has_class(Profile::K3s));
}

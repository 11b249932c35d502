//! What is rendered, against the CRDs that KubeVirt and CDI install. They are
//! not part of this repository; where they are missing, the test says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod common;

use std::{io::Write as _, path::PathBuf};

use kite_core::crd::{KitePlatformSpec, OsFamily, PowerState};
use kite_fake::schema::{Schema, apply_defaults, prune, validate};
use kite_render::{Image, Vm, disk, image, machine};
use serde_json::Value;

/// The CRD `name`, if the folder with CRDs is there.
fn crd(name: &str) -> Option<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/crds");
    let file = folder.join(format!("{name}.yaml"));
    match std::fs::read_to_string(&file) {
        Ok(text) => Some(serde_saphyr::from_str(&text).unwrap()),
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: {name} is not validated: {}: {error}",
                file.display()
            );
            None
        }
    }
}

fn check(name: &str, version: &str, object: &impl serde::Serialize) {
    let Some(crd) = crd(name) else { return };
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let schema = versions
        .iter()
        .find(|found| found["name"] == version)
        .map(|found| &found["schema"]["openAPIV3Schema"]);
    let schema = Schema::from_json(schema.expect("the version is in the CRD")).unwrap();
    let mut rendered = serde_json::to_value(object).unwrap();
    // A CRD says nothing of metadata; the API server has rules of its own for it.
    rendered["metadata"] = serde_json::json!({});

    let mut pruned = rendered.clone();
    assert_eq!(
        prune(&schema, &mut pruned),
        Vec::<String>::new(),
        "unknown fields"
    );
    assert_eq!(pruned, rendered);
    let mut defaulted = rendered.clone();
    apply_defaults(&schema, &mut defaulted);
    assert_eq!(
        defaulted["spec"], rendered["spec"],
        "a field is rendered otherwise than the API server would default it"
    );
    let found = validate(&schema, &rendered, None);
    assert!(found.errors.is_empty(), "{:#?}", found.errors);
}

#[test]
fn disks_and_machines_are_valid() {
    let object = common::vm();
    let vm = Vm::of(&object).unwrap();
    for platform in [KitePlatformSpec::default(), common::platform()] {
        check(
            "datavolumes.cdi.kubevirt.io",
            "v1beta1",
            &disk::data_volume(&vm, &platform, "kite-images"),
        );
    }
    for power in [PowerState::On, PowerState::Off] {
        check(
            "virtualmachines.kubevirt.io",
            "v1",
            &machine::virtual_machine(&vm, power),
        );
        check(
            "virtualmachines.kubevirt.io",
            "v1",
            &machine::virtual_machine_for(&vm, OsFamily::Windows, power),
        );
        let mut asking = machine::virtual_machine(&vm, power);
        machine::ask(&mut asking, &["192.0.2.53".to_owned()]);
        check("virtualmachines.kubevirt.io", "v1", &asking);
    }
}

#[test]
fn images_are_valid() {
    let mut object = common::image();
    let platform = common::platform();
    let sources = [
        serde_json::json!({"http": {"url": "https://example.org/i.qcow2", "checksum": "sha256:00"}}),
        serde_json::json!({"registry": {"url": "docker://example.org/i:1"}}),
        serde_json::json!({"pvc": {"name": "golden"}}),
        serde_json::json!({"snapshot": {"name": "golden"}}),
    ];
    for source in sources {
        object.spec.source = serde_json::from_value(source).unwrap();
        let image = Image::of(&object).unwrap();
        if let Some(disk) = image::data_volume(&image, &platform) {
            check("datavolumes.cdi.kubevirt.io", "v1beta1", &disk);
        }
        let source = image::data_source(&image, &platform).unwrap();
        check("datasources.cdi.kubevirt.io", "v1beta1", &source);
    }
    object.spec.source =
        serde_json::from_value(serde_json::json!({"registry": {"url": "docker://example.org/i"}}))
            .unwrap();
    object.spec.refresh_schedule = Some("0 3 * * 0".to_owned());
    let image = Image::of(&object).unwrap();
    let cron = image::import_cron(&image, &platform).unwrap();
    check("dataimportcrons.cdi.kubevirt.io", "v1beta1", &cron);
}

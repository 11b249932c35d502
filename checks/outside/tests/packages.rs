//! The library crates can be taken from a registry: what `cargo publish` would upload
//! is packaged and unpacked, and projects outside of this workspace are built with it
//! and run.
//!
//! The projects are the examples, as packages of their own. Those that need the
//! gateway and the API, and the API's page, are built with `KITE_SWEEP=full` only.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    env,
    path::{Path, PathBuf},
};

use kite_checks::packages::{self, LIBRARIES};
use outside::Outside;
use serde_json::Value;

/// What depends on the libraries as another project would.
const PROJECTS: [&str; 5] = [
    "embed_provisioning",
    "own_kinds",
    "own_operator",
    "render_only",
    "test_on_the_fake",
];

#[test]
fn projects_outside_are_built_with_the_packaged_crates_and_run() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let names = [&LIBRARIES[..], &PROJECTS].concat();
    let members = packages::unpack(&names, &directory).unwrap();
    for library in LIBRARIES {
        let member = members.iter().find(|member| member.starts_with(library));
        let files = packages::files(&directory.join(member.unwrap())).unwrap();
        let mut wanted = vec!["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"];
        if library == "kite-api" {
            wanted.extend([
                "build.rs",
                "ui/.npmrc",
                "ui/index.html",
                "ui/vite.config.ts",
            ]);
            wanted.extend([
                "ui/fallback.html",
                "ui/package.json",
                "ui/package-lock.json",
            ]);
            wanted.extend(["ui/tsconfig.json", "ui/public/icon.svg", "ui/src/main.tsx"]);
            wanted.push("openapi.json");
        }
        for file in wanted {
            assert!(
                files.contains(Path::new(file)),
                "{library} has no {file}: {files:?}"
            );
        }
        // They need the repository around them.
        assert!(
            !files.iter().any(|file| file.starts_with("tests")),
            "{library}: {files:?}"
        );
    }

    let outside = Outside::new(&directory, &members, &target()).unwrap();

    let tests = outside.cargo("test", &["embed_provisioning"], &[]).unwrap();
    assert!(
        tests.contains("a_dev_box_becomes_a_running_vm_and_goes_with_it ... ok"),
        "{tests}"
    );

    outside.cargo("build", &["render_only"], &[]).unwrap();
    let rendered = kite_checks::output(&mut outside.program("render_only")).unwrap();
    for kind in [
        "DataVolume",
        "VirtualMachine",
        "Service",
        "Ingress",
        "Secret",
    ] {
        assert!(
            rendered.contains(&format!("\nkind: {kind}\n")),
            "{kind} is not in:\n{rendered}"
        );
    }

    let libraries = ["kite-gateway", "kite-api"];
    let mut build = outside.command("build", &libraries, &["--lib"]);
    kite_checks::output(build.env("KITE_UI", "off")).unwrap();

    if env::var("KITE_SWEEP").is_ok_and(|sweep| sweep == "full") {
        outside
            .cargo(
                "test",
                &["test_on_the_fake", "own_operator", "own_kinds"],
                &[],
            )
            .unwrap();
        outside
            .cargo("build", &libraries, &["--lib", "--examples"])
            .unwrap();
    }
}

#[test]
fn only_the_libraries_are_published_and_each_says_what_it_is() {
    let mut cargo = kite_checks::cargo(&kite_checks::root());
    cargo.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let said = kite_checks::output(&mut cargo).unwrap();
    let metadata: Value = serde_json::from_str(&said).unwrap();
    let mut published = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        // `publish = false` is an empty list of registries.
        if package["publish"].is_null() {
            let name = package["name"].as_str().unwrap();
            published.push(name);
            for field in [
                "description",
                "license",
                "repository",
                "readme",
                "rust_version",
            ] {
                assert!(package[field].is_string(), "{name} has no {field}");
            }
            for field in ["keywords", "categories"] {
                // What crates.io takes.
                let number = package[field].as_array().unwrap().len();
                assert!((1..=5).contains(&number), "{name} has {number} {field}");
            }
            assert!(
                package["metadata"]["docs"]["rs"].is_object(),
                "{name} says nothing to docs.rs"
            );
        }
    }
    published.sort_unstable();
    let mut libraries = LIBRARIES;
    libraries.sort_unstable();
    assert_eq!(published, libraries);
}

/// The directory in which this test was built.
fn target() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tmp.parent()
        .expect("a directory above target/tmp")
        .to_owned()
}

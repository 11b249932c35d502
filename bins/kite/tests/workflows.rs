//! What runs with a right to this repository runs what was looked at: workflows that
//! can be read, pinned by commit, with no more rights than they need.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::Path, process::Command};

use regex::Regex;
use serde_json::Value;

/// Name, text and meaning of each workflow.
fn workflows() -> Vec<(String, String, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.github/workflows");
    let files = fs::read_dir(directory).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, text, value)
    });
    let all: Vec<_> = files.collect();
    assert!(all.len() >= 2, "{}", all.len());
    all
}

/// The jobs of a workflow, by name.
fn jobs(workflow: &Value) -> impl Iterator<Item = (&String, &Value)> {
    workflow["jobs"].as_object().unwrap().iter()
}

fn steps(job: &Value) -> impl Iterator<Item = &Value> {
    job["steps"].as_array().unwrap().iter()
}

#[test]
fn each_action_is_pinned_by_commit_and_says_its_version() {
    let pinned = Regex::new(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$").unwrap();
    let told = Regex::new(r"uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$").unwrap();
    for (name, text, workflow) in workflows() {
        let mut uses = 0;
        for (job, value) in jobs(&workflow) {
            for action in steps(value).filter_map(|step| step["uses"].as_str()) {
                assert!(pinned.is_match(action), "{name}: {job}: {action}");
                uses += 1;
            }
        }
        let lines = text.lines().filter(|line| told.is_match(line)).count();
        assert_eq!(lines, uses, "{name}: each with its version as a comment");
        assert!(uses > 0, "{name}");
    }
}

#[test]
fn jobs_have_the_rights_that_they_ask_for_and_no_other() {
    for (name, _, workflow) in workflows() {
        let none = workflow["permissions"].as_object();
        assert!(none.is_some_and(serde_json::Map::is_empty), "{name}");
        for (job, value) in jobs(&workflow) {
            assert!(value["permissions"].is_object(), "{name}: {job}");
            assert!(value["timeout-minutes"].is_u64(), "{name}: {job}");
            let writes = value["permissions"].as_object().unwrap().iter();
            let writes = writes.filter(|(_, right)| *right == "write").count();
            assert!(writes == 0 || name == "release.yml", "{name}: {job}");
            for step in steps(value) {
                let checkout = step["uses"]
                    .as_str()
                    .is_some_and(|it| it.contains("checkout"));
                let keeps = step["with"]["persist-credentials"] != false;
                assert!(!(checkout && keeps), "{name}: {job} keeps credentials");
            }
        }
    }
}

#[test]
fn no_expression_becomes_part_of_a_script() {
    for (name, _, workflow) in workflows() {
        for (job, value) in jobs(&workflow) {
            for script in steps(value).filter_map(|step| step["run"].as_str()) {
                assert!(!script.contains("${{"), "{name}: {job}: {script}");
            }
        }
    }
}

/// The image that the Containerfile builds in.
fn build_image() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recipe = fs::read_to_string(root.join("deploy/images/Containerfile")).unwrap();
    let image = recipe.lines().find_map(|it| it.strip_prefix("ARG RUST="));
    image.unwrap().to_owned()
}

#[test]
fn images_are_of_one_whole_version() {
    let image = build_image();
    let whole = Regex::new(r"^rust:\d+\.\d+\.\d+-trixie$").unwrap();
    assert!(whole.is_match(&image), "{image}");
    let mut containers = 0;
    for (name, _, workflow) in workflows() {
        for (job, value) in jobs(&workflow) {
            let container = &value["container"];
            if !container.is_null() {
                assert_eq!(container["image"], image.as_str(), "{name}: {job}");
                containers += 1;
            }
            assert!(value["services"].is_null(), "{name}: {job}: not looked at");
        }
    }
    assert!(containers > 0);
    // Nothing else is built from.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recipe = fs::read_to_string(root.join("deploy/images/Containerfile")).unwrap();
    let from = recipe.lines().filter_map(|it| it.strip_prefix("FROM "));
    for from in from {
        let base = from.split(' ').next().unwrap();
        assert!(["${RUST}", "scratch", "base"].contains(&base), "{from}");
    }
}

#[test]
fn a_release_is_built_in_an_image_of_a_known_digest() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let base = |image: &str| {
        let mut command = Command::new(root.join("deploy/release/base"));
        command.arg(image).output().unwrap()
    };
    let (image, digest) = (build_image(), "0123456789abcdef".repeat(4));
    let named = format!("{image}@sha256:{digest}");
    let output = base(&named);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), named);
    for other in [
        String::new(),
        image.clone(),
        format!("{image}@sha256:{}", &digest[1..]),
        format!("{image}@sha256:{}", digest.to_uppercase()),
        format!("{image}@sha256:{digest}0"),
        format!("rust:1-trixie@sha256:{digest}"),
        format!("evil.example/{named}"),
    ] {
        let output = base(&other);
        assert!(!output.status.success(), "{other}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains("RUST_IMAGE") && error.contains(&image),
            "{error}"
        );
    }
    let all = workflows();
    let (_, _, release) = all.iter().find(|(name, ..)| name == "release.yml").unwrap();
    let builds: Vec<_> = jobs(release)
        .flat_map(|(_, job)| steps(job))
        .filter_map(|step| step["run"].as_str())
        .filter(|script| script.contains("docker buildx build "))
        .collect();
    assert!(!builds.is_empty());
    for build in builds {
        let asks = r#"--build-arg "RUST=$(deploy/release/base "$RUST_IMAGE")""#;
        assert!(build.contains(asks), "{build}");
    }
}

#[test]
fn what_runs_here_runs_there() {
    let all = workflows();
    let (_, _, ci) = all.iter().find(|(name, ..)| name == "ci.yml").unwrap();
    let scripts: Vec<_> = jobs(ci)
        .flat_map(|(_, job)| steps(job))
        .filter_map(|step| step["run"].as_str())
        .collect();
    assert!(scripts.contains(&".ci/run"), "{scripts:?}");
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"));
    let manifest = manifest.unwrap();
    let oldest = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let check = format!("cargo +{} check", oldest.unwrap().trim_matches('"'));
    assert!(
        scripts.iter().any(|script| script.contains(&check)),
        "{check}: {scripts:?}"
    );
}

/// What tests take samples of is tried in full somewhere, and by the commands that the
/// docs have for it.
#[test]
fn every_week_all_of_it_is_tried() {
    let all = workflows();
    let (_, _, proofs) = all.iter().find(|(name, ..)| name == "proofs.yml").unwrap();
    let schedule = proofs["on"]["schedule"][0]["cron"].as_str().unwrap();
    let day = schedule.split(' ').next_back().unwrap();
    assert!(
        day.parse::<u8>().is_ok_and(|day| day < 7),
        "{schedule}: once a week"
    );
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (variable, test, page) in [
        ("KITE_SWEEP", "--test sweep everything", "reliability.md"),
        ("KITE_HA", "--test whole ha:: ", "high-availability.md"),
    ] {
        let scripts = jobs(proofs)
            .filter(|(_, job)| job["env"][variable] == "full")
            .flat_map(|(_, job)| steps(job))
            .filter_map(|step| step["run"].as_str());
        let run: Vec<_> = scripts.filter(|script| script.contains(test)).collect();
        let [script] = run.as_slice() else {
            panic!("{variable}=full: {run:?}");
        };
        let page = fs::read_to_string(docs.join(page)).unwrap();
        let command = format!("{variable}=full {script}");
        assert!(page.contains(&command), "{command}");
    }
}

/// Who is told of `--record-upload s3://…` has an image that can.
#[test]
fn images_can_carry_recordings_to_an_object_store() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let recipe = read("deploy/images/Containerfile");
    let stage = recipe
        .split("\nFROM ")
        .find(|it| it.contains("cargo build"));
    let stage = stage.unwrap();
    assert!(stage.contains("--features \"${FEATURES}\""), "{stage}");
    // Of this stage: one before the first holds in none.
    let features = stage
        .lines()
        .find_map(|it| it.strip_prefix("ARG FEATURES="));
    assert_eq!(features, Some("s3"));
    for process in ["kite-gateway", "kite-api"] {
        let manifest = read(&format!("bins/{process}/Cargo.toml"));
        assert!(manifest.contains("\ns3 = ["), "{process}");
    }
    for page in ["docs/images.md", "deploy/images/build"] {
        let text = read(page);
        let builds = text
            .lines()
            .filter(|it| it.contains("cargo build --release"));
        let without: Vec<_> = builds.filter(|it| !it.contains("--features s3")).collect();
        assert!(without.is_empty(), "{page}: {without:?}");
    }
}

//! What an operator that has nothing to do with Kite pulls in to be tested on the fake.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs};

use kite_checks::packages::{files, folder};

/// The most crates that the example's test is built of, itself and its own included.
const MOST: usize = 180;

/// Where they are counted for: another system has its own, of which some more.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The packages that building `own_operator` takes, with `edges` of its dependencies.
fn crates(edges: &str) -> BTreeSet<String> {
    let mut cargo = kite_checks::cargo(&kite_checks::root());
    cargo.args(["tree", "--offline", "--package", "own_operator"]);
    cargo.args(["--prefix", "none", "--edges", edges, "--target", TARGET]);
    let said = kite_checks::output(&mut cargo).unwrap();
    let package = |line: &str| line.split(" (").next().unwrap().to_owned();
    said.lines().map(package).collect()
}

#[test]
fn a_test_on_the_fake_is_built_of_few_crates() {
    let (alone, tested) = (crates("normal,build"), crates("normal,build,dev"));
    let more: Vec<_> = tested.difference(&alone).collect();
    eprintln!("{} crates, {} with the test", alone.len(), tested.len());
    assert!(
        tested.len() <= MOST,
        "{} crates; those for the test are {more:#?}",
        tested.len()
    );
    let foreign = |name: &str| {
        !["russh", "tokio-tungstenite", "kube-cel", "kite-core"]
            .iter()
            .any(|unwanted| name.starts_with(&format!("{unwanted} ")))
    };
    assert!(tested.iter().all(|name| foreign(name)), "{more:#?}");
    assert!(more.iter().any(|name| name.starts_with("kite-fake ")));
}

/// What an operator of any kinds is built on has no word of those that Kite is about.
#[test]
fn what_is_for_everybody_knows_nothing_of_vms() {
    const WORDS: [&str; 6] = [
        "kubevirt",
        "virtualmachine",
        "datavolume",
        "hy3ons",
        "kite_core",
        "kite-core",
    ];
    let mut count = 0;
    for library in ["kite-cluster", "kite-runtime", "kite-fake"] {
        let src = kite_checks::root().join(folder(library)).join("src");
        for file in files(&src).unwrap() {
            count += 1;
            let text = fs::read_to_string(src.join(&file)).unwrap().to_lowercase();
            let found: Vec<_> = WORDS.iter().filter(|it| text.contains(**it)).collect();
            assert!(found.is_empty(), "{library} {}: {found:?}", file.display());
        }
    }
    assert!(count > 100, "{count} files");
}

/// What HTTP APIs are made of, and who signs in to them, is for other applications, too: the
/// transport knows no resource, and accounts know no VM.
#[test]
fn transport_and_accounts_know_no_vms() {
    const WORDS: [&str; 6] = [
        "kubevirt",
        "kitevirtualmachine",
        "datavolume",
        "kiteimage",
        " vm ",
        " vms ",
    ];
    let mut count = 0;
    for (library, more) in [
        ("kite-rest", Some("kite_core::crd")),
        ("kite-identity", None),
    ] {
        let src = kite_checks::root().join(folder(library)).join("src");
        for file in files(&src).unwrap() {
            count += 1;
            let Ok(text) = fs::read_to_string(src.join(&file)) else {
                continue;
            };
            // Tests try it with resources that are there.
            let code = text.split("#[cfg(test)]").next().unwrap().to_lowercase();
            let words = WORDS.iter().chain(&more);
            let found: Vec<_> = words.filter(|it| code.contains(**it)).collect();
            assert!(found.is_empty(), "{library} {}: {found:?}", file.display());
        }
    }
    assert!(count > 80, "{count} files");
}

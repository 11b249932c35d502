//! The reasons in `docs/troubleshooting.md` are those that the code writes.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs};

use kite_checks::{packages, root};

/// What is in CamelCase in code, in the first cell of a row.
fn reasons(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|word| word.starts_with(char::is_uppercase))
        .filter(|word| word.chars().all(char::is_alphanumeric))
        .collect()
}

#[test]
fn the_reasons_are_those_that_the_code_writes() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/troubleshooting.md")).unwrap();
    let reasons = reasons(&page);
    assert!(reasons.len() > 40, "{reasons:?}");
    let mut code = String::new();
    for package in ["kite-reconcile", "kite-reconcile/runtime", "kite-core"] {
        let src = root.join(package).join("src");
        for file in packages::files(&src).unwrap() {
            if !file.to_string_lossy().contains("test") {
                code.push_str(&fs::read_to_string(src.join(file)).unwrap());
            }
        }
    }
    let unknown: Vec<_> = reasons
        .into_iter()
        .filter(|reason| !code.contains(&format!("\"{reason}\"")))
        .collect();
    assert!(unknown.is_empty(), "no code writes {unknown:?}");
}

//! The first page of each library's documentation has what a newcomer looks for: an
//! example that is compiled, a map of all modules, and the features.
#![allow(clippy::unwrap_used)]

use std::fs;

use kite_checks::{
    documents::Document,
    packages::{LIBRARIES, folder},
    root,
};

#[test]
fn front_pages_have_an_example_a_map_and_the_features() {
    for library in LIBRARIES {
        let file = root().join(folder(library)).join("src/lib.rs");
        let source = fs::read_to_string(file).unwrap();
        let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
        let page: Vec<_> = lines
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        let page = page.join("\n");

        let code = Document::parse(&page).code;
        // `no_run` is compiled, too.
        let is_compiled = |words: &str| matches!(words, "" | "no_run" | "rust" | "rust,no_run");
        assert!(
            code.iter().any(|(words, _)| is_compiled(words)),
            "{library} has no example that is compiled"
        );
        assert!(
            page.contains("\n# Feature flags"),
            "{library} says nothing of features"
        );

        let mut before = "";
        for line in source.lines() {
            let module = line
                .strip_prefix("pub mod ")
                .and_then(|it| it.strip_suffix(';'));
            if let Some(module) = module.filter(|_| before != "#[doc(hidden)]") {
                let is_named = page.lines().any(|line| {
                    let cell = line
                        .strip_prefix("| ")
                        .and_then(|row| row.split(" | ").next());
                    cell.is_some_and(|cell| cell.contains(&format!("[`{module}`]")))
                });
                assert!(
                    is_named,
                    "{library} does not tell what the module {module} is for"
                );
            }
            before = line;
        }
    }
}

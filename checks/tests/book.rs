//! The book: every page is in it, every link leads somewhere, and it can be built.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use kite_checks::{documents, packages, root};

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let documents = documents::all(&root).unwrap();
    assert!(
        documents.contains_key(Path::new("docs/index.md")),
        "{:?}",
        documents.keys()
    );
    let mut flaws = Vec::new();
    for (from, document) in &documents {
        for link in &document.links {
            if let Some(flaw) = documents::flaw(&root, &documents, from, link) {
                flaws.push(format!("{}: {link}: {flaw}", from.display()));
            }
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

#[test]
fn every_page_is_in_the_book() {
    let contents = fs::read_to_string(root().join("mkdocs.yml")).unwrap();
    let documents = documents::all(&root()).unwrap();
    for page in documents.keys().filter(|page| page.starts_with("docs")) {
        let name = page.file_name().unwrap().to_str().unwrap();
        let entry = format!(": {name}\n");
        assert_eq!(
            contents.matches(&entry).count(),
            1,
            "name {name} once under `nav` of mkdocs.yml"
        );
    }
}

#[test]
fn the_book_can_be_built_and_loads_nothing_from_elsewhere() {
    let python = std::env::var("KITE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_tools = Command::new(&python)
        .args(["-c", "import mkdocs, material"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_tools {
        let what = format!("{python} has no mkdocs: install docs/book/requirements.txt");
        assert!(
            std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
            "KITE_REQUIRE_CLIENTS is set: {what}"
        );
        let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
        return;
    }
    let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    let mut mkdocs = Command::new(python);
    mkdocs
        .args(["-m", "mkdocs", "build", "--strict", "--clean", "--site-dir"])
        .arg(&site)
        // What its makers have to say about each other.
        .env("NO_MKDOCS_2_WARNING", "true")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(root());
    kite_checks::output(&mut mkdocs).unwrap();

    let files = packages::files(&site).unwrap();
    let pages: Vec<&PathBuf> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|suffix| suffix == "html"))
        .collect();
    assert!(
        pages
            .iter()
            .any(|page| page.as_path() == Path::new("operating.html")),
        "{pages:?}"
    );
    for page in pages {
        let html = fs::read_to_string(site.join(page)).unwrap();
        let is_read = !html.contains("```");
        assert!(
            is_read,
            "{}: a code block was not read as one",
            page.display()
        );
        for element in ["<script", "<link", "<img", "<iframe"] {
            for tag in html.split(element).skip(1) {
                let tag = tag.split('>').next().unwrap_or_default();
                let foreign = ["src=\"http", "href=\"http", "src=\"//", "href=\"//"];
                assert!(
                    !foreign.iter().any(|way| tag.contains(way)),
                    "{}: {element}{tag}>",
                    page.display()
                );
            }
        }
    }
}

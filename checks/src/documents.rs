//! What people read in the repository, and where its links lead.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::Context as _;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Where the repository is to be read; links to it lead to files of this one.
const REPOSITORY: &str = "https://github.com/hy3ons/kite/";

/// A document in Markdown.
#[derive(Debug, Default)]
pub struct Document {
    /// Where its headings can be linked to.
    pub anchors: BTreeSet<String>,
    /// Where its links and pictures lead.
    pub links: Vec<String>,
    /// Its code in one language each: the words after the fence, and the text.
    pub code: Vec<(String, String)>,
}

impl Document {
    /// Reads a text in Markdown.
    pub fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut heading: Option<String> = None;
        let mut code: Option<(String, String)> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let text = heading.take().unwrap_or_default();
                    document.add_anchor(&anchor(&text));
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let words = match kind {
                        pulldown_cmark::CodeBlockKind::Fenced(words) => words.to_string(),
                        pulldown_cmark::CodeBlockKind::Indented => String::new(),
                    };
                    code = Some((words, String::new()));
                }
                Event::End(TagEnd::CodeBlock) => document.code.extend(code.take()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.to_string());
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                    if let Some((_, code)) = &mut code {
                        code.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        document
    }

    /// Of headings with one text, GitHub numbers those after the first.
    fn add_anchor(&mut self, anchor: &str) {
        let mut name = anchor.to_owned();
        let mut number = 0;
        while !self.anchors.insert(name) {
            number += 1;
            name = format!("{anchor}-{number}");
        }
    }
}

/// The anchor that GitHub and the book give to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// All documents of the repository at `root` that people are led to, by their paths.
///
/// # Errors
/// A directory or document cannot be read.
pub fn all(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, Document>> {
    let mut documents = BTreeMap::new();
    for directory in fs::read_dir(root)?.collect::<Result<Vec<_>, _>>()? {
        let path = directory.path();
        let name = directory.file_name();
        let is_crate = name.to_string_lossy().starts_with("kite-");
        if is_crate || name == "docs" {
            for file in fs::read_dir(path)? {
                read(root, &file?.path(), &mut documents)?;
            }
        } else {
            read(root, &path, &mut documents)?;
        }
    }
    Ok(documents)
}

fn read(root: &Path, path: &Path, into: &mut BTreeMap<PathBuf, Document>) -> anyhow::Result<()> {
    if path.extension().is_some_and(|suffix| suffix == "md") {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        into.insert(path.strip_prefix(root)?.to_owned(), Document::parse(&text));
    }
    Ok(())
}

/// What is wrong with a link in the document at `from`, if something is. What is not
/// of this repository is not asked for: only its form is looked at.
pub fn flaw(
    root: &Path,
    documents: &BTreeMap<PathBuf, Document>,
    from: &Path,
    link: &str,
) -> Option<String> {
    if link.chars().any(char::is_whitespace) {
        return Some("has a blank in it".to_owned());
    }
    let (target, anchor) = link
        .split_once('#')
        .map_or((link, None), |(t, a)| (t, Some(a)));
    let path = if let Some(path) = target.strip_prefix(REPOSITORY) {
        match path.split_once("/main/") {
            Some(("blob" | "tree", path)) => PathBuf::from(path),
            // Its issues, its releases.
            _ => return None,
        }
    } else if let Some(rest) = target
        .strip_prefix("https://")
        .or(target.strip_prefix("http://"))
    {
        let host = rest.split('/').next().unwrap_or_default();
        return (!host.contains('.') && !host.starts_with("localhost"))
            .then(|| format!("{host:?} is no host"));
    } else if target.contains(':') || target.starts_with('/') {
        return Some("is neither https:// nor relative".to_owned());
    } else if target.is_empty() {
        from.to_owned()
    } else {
        let parent = from.parent().unwrap_or(Path::new(""));
        match normal(&parent.join(target)) {
            Some(path) => path,
            None => return Some("leads out of the repository".to_owned()),
        }
    };
    if !root.join(&path).exists() {
        return Some(format!("{} is not there", path.display()));
    }
    let anchor = anchor?;
    let Some(document) = documents.get(&path) else {
        return Some(format!("{} has no headings", path.display()));
    };
    (!document.anchors.contains(anchor))
        .then(|| format!("{} has no heading #{anchor}", path.display()))
}

/// The path without `..`; none if it begins with one.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    Some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_of_github() {
        let document =
            Document::parse("# `kite` & more\n## What, and when?\n## 1. Start\n## Same\n## Same\n");
        let anchors: Vec<_> = document.anchors.iter().map(String::as_str).collect();
        assert_eq!(
            anchors,
            ["1-start", "kite--more", "same", "same-1", "what-and-when"]
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_flaws() {
        let root = crate::root();
        let page = Document::parse("# Here\n");
        let documents = BTreeMap::from([(PathBuf::from("docs/api.md"), page)]);
        let flaw = |link: &str| flaw(&root, &documents, Path::new("docs/api.md"), link);
        for good in [
            "#here",
            "../Cargo.toml",
            "https://example.org/x#y",
            "https://github.com/hy3ons/kite/blob/main/Cargo.toml",
        ] {
            assert_eq!(flaw(good), None, "{good}");
        }
        for bad in [
            "#there",
            "nowhere.md",
            "../nothing.toml",
            "../../outside",
            "../Cargo.toml#here",
            "/docs/api.md",
            "https:/example.org",
            "https://nowhere/x",
            "https://github.com/hy3ons/kite/blob/main/nothing.rs",
        ] {
            assert!(flaw(bad).is_some(), "{bad}");
        }
    }
}

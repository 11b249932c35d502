//! Names of repositories and of tags, and which of them is the newest.

use std::cmp::Ordering;

/// What an address of a container disk begins with.
const SCHEME: &str = "docker://";
/// Most characters of a tag.
const LONGEST_TAG: usize = 128;

/// A repository of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// Host, and the port if it is named.
    pub(crate) host: String,
    /// Its path at the registry.
    pub(crate) path: String,
}

impl Repository {
    /// That of an address such as `docker://quay.io/containerdisks/fedora:43`; a tag or a digest
    /// is passed over. None of what names no repository.
    pub(crate) fn of(url: &str) -> Option<Self> {
        let (host, rest) = url.strip_prefix(SCHEME)?.split_once('/')?;
        let rest = rest.split('@').next().unwrap_or_default();
        let path = rest.split(':').next().unwrap_or_default();
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".:-[]".contains(c);
        let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        let is_part = |part: &str| {
            part.chars().all(is_path)
                && part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.ends_with(|c: char| c.is_ascii_alphanumeric())
        };
        let is_it = !host.is_empty() && host.chars().all(is_host) && path.split('/').all(is_part);
        is_it.then(|| Self {
            host: host.to_owned(),
            path: path.to_owned(),
        })
    }

    /// As addresses name it, without a tag.
    pub(crate) fn url(&self) -> String {
        format!("{SCHEME}{}/{}", self.host, self.path)
    }
}

/// Whether it is like a tag: what is not is no name that an address could have.
pub(super) fn is_tag(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    begins && text.len() <= LONGEST_TAG && text.chars().all(is_inner)
}

/// Sorts tags by version and not by letters: the newest first, and words last.
pub(super) fn newest_first(tags: &mut [String]) {
    tags.sort_by(|a, b| by_version(b, a));
}

/// Numbers are compared as numbers, and a tag without any, such as `latest`, comes before all
/// others.
fn by_version(a: &str, b: &str) -> Ordering {
    let has_number = |tag: &str| tag.contains(|c: char| c.is_ascii_digit());
    has_number(a).cmp(&has_number(b)).then_with(|| {
        let (mut a, mut b) = (parts(a), parts(b));
        loop {
            return match (a.next(), b.next()) {
                (None, None) => Ordering::Equal,
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (Some(one), Some(other)) => match one.cmp(&other) {
                    Ordering::Equal => continue,
                    order => order,
                },
            };
        }
    })
}

/// Runs of digits, by their value, and what is between them.
fn parts(tag: &str) -> impl Iterator<Item = (usize, &str)> {
    let chunks = tag
        .as_bytes()
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    chunks.map(|chunk| {
        let text = std::str::from_utf8(chunk).unwrap_or_default();
        if chunk[0].is_ascii_digit() {
            // Of numbers of the same length the greater comes later; longer ones are greater.
            let value = text.trim_start_matches('0');
            (value.len() + 1, value)
        } else {
            (0, text)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_repository_is_what_stands_before_tag_and_digest() {
        let of = |url: &str| Repository::of(url).map(|it| it.url());
        for url in [
            "docker://quay.io/containerdisks/fedora",
            "docker://quay.io/containerdisks/fedora:43",
            "docker://quay.io/containerdisks/fedora:43@sha256:abc",
            "docker://quay.io/containerdisks/fedora@sha256:abc",
        ] {
            let expected = "docker://quay.io/containerdisks/fedora";
            assert_eq!(of(url).as_deref(), Some(expected), "{url}");
        }
        let with_port = Repository::of("docker://127.0.0.1:5000/vms/debian:13").unwrap();
        assert_eq!(
            (&*with_port.host, &*with_port.path),
            ("127.0.0.1:5000", "vms/debian")
        );
        for none in [
            "https://quay.io/containerdisks/fedora",
            "docker://quay.io/",
            "docker://quay.io",
            "docker:///fedora",
            "docker://quay.io/a//b",
            "docker://quay.io/../v2",
            "docker://quay.io/a/.b",
            "docker://quay.io/A",
            "docker://quay.io/a?x=y",
            "docker://ann@quay.io/a",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn the_newest_version_comes_first_and_words_last() {
        let mut tags = [
            "latest", "9", "10", "10.2", "10.10", "9.stream", "40-2024", "040", "edge",
        ]
        .map(str::to_owned);
        newest_first(&mut tags);
        let expected = [
            "40-2024", "040", "10.10", "10.2", "10", "9.stream", "9", "latest", "edge",
        ];
        assert_eq!(tags, expected);
        for odd in ["", ".x", "-x", "a b", "a/b", "ä", &"x".repeat(129)] {
            assert!(!is_tag(odd), "{odd}");
        }
    }
}

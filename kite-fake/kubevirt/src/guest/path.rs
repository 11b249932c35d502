//! Absolute, normalised paths on a guest's in-memory disk.

use std::fmt;

/// Longest name of one directory entry, in bytes, as on most real filesystems.
const MAX_NAME: usize = 255;
/// Deepest path that is followed; a bound on recursion and on memory.
const MAX_DEPTH: usize = 64;

/// An absolute path without `.`, `..` or empty components.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AbsPath(Vec<String>);

impl AbsPath {
    /// `/`.
    pub fn root() -> Self {
        Self::default()
    }

    /// Reads `text` as a path relative to `self`; an absolute `text` starts at the root.
    ///
    /// `..` at the root stays at the root. Returns `None` when a name or the
    /// whole path is longer than the disk allows, or holds a NUL byte.
    pub fn join(&self, text: &str) -> Option<Self> {
        let mut parts = if text.starts_with('/') {
            Vec::new()
        } else {
            self.0.clone()
        };
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                name if name.len() > MAX_NAME || name.contains('\0') => return None,
                name => parts.push(name.to_owned()),
            }
        }
        (parts.len() <= MAX_DEPTH).then_some(Self(parts))
    }

    /// The directory above, and the name in it; `None` for the root.
    pub fn split(&self) -> Option<(&[String], &str)> {
        let (name, parents) = self.0.split_last()?;
        Some((parents, name))
    }

    /// The names from the root down.
    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// The last name; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.0.last().map(String::as_str)
    }

    /// Whether `other` is this path or lies below it.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// The path as a prompt shows it: `~` in place of `home`.
    pub fn abbreviate(&self, home: &Self) -> String {
        match self.0.strip_prefix(home.0.as_slice()) {
            Some([]) => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.join("/")),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|part| write!(f, "/{part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::AbsPath;

    fn path(text: &str) -> AbsPath {
        AbsPath::root().join(text).unwrap_or_default()
    }

    #[test]
    fn joins_and_normalises() {
        let home = path("/home/alice");
        for (text, expected) in [
            ("", "/home/alice"),
            ("a/./b//c", "/home/alice/a/b/c"),
            ("../bob", "/home/bob"),
            ("../../../../etc", "/etc"),
            ("/x/../y", "/y"),
            ("/", "/"),
        ] {
            assert_eq!(
                home.join(text).map(|p| p.to_string()).as_deref(),
                Some(expected)
            );
        }
    }

    #[test]
    fn refuses_names_that_no_disk_takes() {
        assert_eq!(AbsPath::root().join(&"a".repeat(256)), None);
        assert_eq!(AbsPath::root().join("a\0b"), None);
        assert_eq!(AbsPath::root().join(&"a/".repeat(65)), None);
    }

    #[test]
    fn abbreviates_the_home() {
        let home = path("/home/alice");
        assert_eq!(home.abbreviate(&home), "~");
        assert_eq!(path("/home/alice/x").abbreviate(&home), "~/x");
        assert_eq!(path("/home/alicex").abbreviate(&home), "/home/alicex");
    }
}

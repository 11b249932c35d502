//! Version numbers as programs write them.

use std::fmt;

/// Major and minor number of a version such as `v1.34.1+k3s1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

impl Version {
    /// Reads one; nothing if it begins with no two numbers.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_start_matches('v').split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?;
        let digits = minor.find(|c: char| !c.is_ascii_digit());
        let minor = minor[..digits.unwrap_or(minor.len())].parse().ok()?;
        Some(Self(major, minor))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_programs_write_them() {
        for (text, expected) in [
            ("v1.34.1+k3s1", Some(Version(1, 34))),
            ("1.66.0", Some(Version(1, 66))),
            ("v1.9", Some(Version(1, 9))),
            ("v1.31+", Some(Version(1, 31))),
            ("v1", None),
            ("main", None),
            ("", None),
        ] {
            assert_eq!(Version::parse(text), expected, "{text}");
        }
        assert!(Version(1, 10) > Version(1, 9));
    }
}

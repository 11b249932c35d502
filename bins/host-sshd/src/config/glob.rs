//! The patterns of `Include`, as glob(7) has them.

use std::path::{Path, PathBuf};

use super::Source;

/// The files that an absolute pattern names, sorted.
pub(crate) fn expand(pattern: &str, source: &dyn Source) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    let mut parts = pattern
        .split('/')
        .filter(|part| !part.is_empty())
        .peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        if !last && !is_pattern(part) {
            for path in &mut found {
                path.push(part);
            }
            continue;
        }
        let entries = |dir: &PathBuf| {
            let names = source.list(dir).unwrap_or_default();
            let matching = names.into_iter().filter(|name| matches(part, name));
            matching.map(|name| dir.join(name)).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(entries).collect();
    }
    found.sort();
    found
}

/// Whether a path is one that the pattern names.
pub(crate) fn names(pattern: &str, path: &Path) -> bool {
    let Some(path) = path.to_str() else {
        return false;
    };
    let parts = |text: &str| {
        let parts = text.split('/').filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let (patterns, names) = (parts(pattern), parts(path));
    patterns.len() == names.len()
        && patterns
            .iter()
            .zip(&names)
            .all(|(part, name)| matches(part, name))
}

/// Whether a part of a path is a pattern and not a name.
pub(crate) fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '[', '\\'])
}

/// Whether one part of a pattern names a directory entry. A leading dot has to be
/// written out.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    rest_matches(&pattern, &name)
}

fn rest_matches(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|skip| rest_matches(rest, &name[skip..])),
        ['?', rest @ ..] => !name.is_empty() && rest_matches(rest, &name[1..]),
        ['[', rest @ ..] => match (class(rest), name) {
            (Some((class, rest)), [first, others @ ..]) => {
                class.has(*first) && rest_matches(rest, others)
            }
            (Some(_), []) => false,
            (None, _) => name.first() == Some(&'[') && rest_matches(rest, &name[1..]),
        },
        ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
            name.first() == Some(literal) && rest_matches(rest, &name[1..])
        }
    }
}

struct Class<'a> {
    negated: bool,
    members: &'a [char],
}

impl Class<'_> {
    fn has(&self, wanted: char) -> bool {
        let mut members = self.members;
        let mut found = false;
        loop {
            members = match members {
                [] => return found != self.negated,
                [first, '-', last, rest @ ..] => {
                    found |= (*first..=*last).contains(&wanted);
                    rest
                }
                [member, rest @ ..] => {
                    found |= *member == wanted;
                    rest
                }
            };
        }
    }
}

/// The class that begins behind a `[`, and what follows on its `]`.
fn class(text: &[char]) -> Option<(Class<'_>, &[char])> {
    let negated = matches!(text.first(), Some('!' | '^'));
    let members = &text[usize::from(negated)..];
    // A `]` that comes first is a member.
    let end = 1 + members.iter().skip(1).position(|member| *member == ']')?;
    let class = Class {
        negated,
        members: &members[..end],
    };
    Some((class, &members[end + 1..]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn patterns_of_one_part() {
        for (pattern, name) in [
            ("*.conf", "10-site.conf"),
            ("*.conf", "x.conf"),
            ("*", "x"),
            ("?0-*", "50-x"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]x]", "]"),
            (".*", ".x"),
            ("\\*", "*"),
            ("a[", "a["),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.conf", ".hidden.conf"),
            ("*.conf", "x.conf.dpkg-old"),
            ("?", ""),
            ("[a-c]x", "dx"),
            ("[!a-c]x", "bx"),
            ("\\*", "x"),
            ("x", "xy"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_finds_files_in_their_order() {
        let files = [
            "/etc/ssh/d/b.conf",
            "/etc/ssh/d/a.conf",
            "/etc/ssh/d/c",
            "/opt/x/d/a.conf",
        ];
        let files: BTreeMap<_, _> = files.map(|path| (PathBuf::from(path), Vec::new())).into();
        let found = |pattern| expand(pattern, &files);
        let two = ["/etc/ssh/d/a.conf", "/etc/ssh/d/b.conf"].map(PathBuf::from);
        assert_eq!(found("/etc/ssh/d/*.conf"), two);
        assert_eq!(found("/etc/ssh/d/c"), [PathBuf::from("/etc/ssh/d/c")]);
        assert_eq!(found("/*/*/d/a.conf").len(), 2);
        assert!(found("/etc/none/*").is_empty() && found("/etc/ssh/d/none").is_empty());
    }

    #[test]
    fn a_pattern_names_a_file_that_is_not_there_yet() {
        assert!(names(
            "/etc/ssh/d/*.conf",
            Path::new("/etc/ssh/d/kite.conf")
        ));
        assert!(!names(
            "/etc/ssh/d/[0-9]*.conf",
            Path::new("/etc/ssh/d/kite.conf")
        ));
        assert!(!names("/etc/ssh/*.conf", Path::new("/etc/ssh/d/kite.conf")));
    }
}

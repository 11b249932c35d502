//! The main file and all that it includes, with the lines that say where sshd
//! listens.
//!
//! `Port` and `ListenAddress` add up over all files, and hold outside of `Match`
//! blocks only: sshd refuses them inside.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Source, glob, line};

/// Where sshd listens when nothing is said.
pub(crate) const DEFAULT_PORT: u16 = 22;

/// Relative patterns of `Include` begin here.
const BASE: &str = "/etc/ssh";

/// How deep sshd follows `Include`.
const DEEPEST: usize = 16;

/// All files, the main one first.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) content: Vec<u8>,
    /// In their order.
    pub(crate) settings: Vec<Setting>,
    /// Where the first `Match` begins: behind it nothing is said of the whole server.
    pub(crate) first_match: Option<usize>,
    /// Included from inside a `Match` block only.
    pub(crate) conditional: bool,
}

/// A line that matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The line, without its end.
    pub(crate) line: Range<usize>,
    /// Its first argument, quotes included.
    pub(crate) value: Range<usize>,
    pub(crate) says: Says,
}

/// What such a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Port(u16),
    Address(Address),
    /// Absolute patterns, each with the place where it is written.
    Include {
        patterns: Vec<(Range<usize>, String)>,
        conditional: bool,
    },
}

/// The address of a `ListenAddress`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// As it is written, brackets included.
    pub(crate) host: String,
    /// Without one, the address listens on all of the `Port`s.
    pub(crate) port: Option<u16>,
}

/// The configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is included more than {DEEPEST} levels deep", path.display())]
    TooDeep { path: PathBuf },
}

impl Tree {
    /// Reads the main file and all that it includes.
    pub(crate) fn load(main: &Path, source: &dyn Source) -> Result<Self, TreeError> {
        let mut tree = Self { files: Vec::new() };
        tree.add(main, false, 0, source)?;
        Ok(tree)
    }

    fn add(
        &mut self,
        path: &Path,
        conditional: bool,
        depth: usize,
        source: &dyn Source,
    ) -> Result<(), TreeError> {
        let path = path.to_owned();
        if depth > DEEPEST {
            return Err(TreeError::TooDeep { path });
        }
        if let Some(known) = self.files.iter_mut().find(|file| file.path == path) {
            // One reading that counts for the whole server is enough.
            known.conditional &= conditional;
        }
        let content = match source.read(&path) {
            Ok(content) => content,
            Err(source) => return Err(TreeError::Unreadable { path, source }),
        };
        let file = File::read(path, content, conditional);
        let included: Vec<_> = file.includes(source).collect();
        if self.files.iter().all(|known| known.path != file.path) {
            self.files.push(file);
        }
        for (path, conditional) in included {
            self.add(&path, conditional, depth + 1, source)?;
        }
        Ok(())
    }

    /// The main file.
    pub(crate) fn main(&self) -> &File {
        &self.files[0]
    }

    /// All that is said of the whole server.
    fn global(&self) -> impl Iterator<Item = &Says> {
        let files = self.files.iter().filter(|file| !file.conditional);
        files.flat_map(|file| file.settings.iter().map(|setting| &setting.says))
    }

    /// The values of `Port`, without the default.
    pub(crate) fn port_lines(&self) -> BTreeSet<u16> {
        self.global()
            .filter_map(|says| match says {
                Says::Port(port) => Some(*port),
                Says::Address(_) | Says::Include { .. } => None,
            })
            .collect()
    }

    /// The values of `ListenAddress`.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.global().filter_map(|says| match says {
            Says::Address(address) => Some(address),
            Says::Port(_) | Says::Include { .. } => None,
        })
    }

    /// Whether any address listens on what `Port` says, or on its default.
    pub(crate) fn heeds_port_lines(&self) -> bool {
        let mut addresses = self.addresses().peekable();
        addresses.peek().is_none() || addresses.any(|address| address.port.is_none())
    }

    /// The ports on which sshd listens.
    pub(crate) fn ports(&self) -> BTreeSet<u16> {
        let mut ports: BTreeSet<u16> = self.addresses().filter_map(|a| a.port).collect();
        if self.heeds_port_lines() {
            let lines = self.port_lines();
            if lines.is_empty() {
                ports.insert(DEFAULT_PORT);
            }
            ports.extend(lines);
        }
        ports
    }

    /// Patterns of `Include` that hold for the whole server, in their order.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.global().flat_map(|says| match says {
            Says::Include {
                patterns,
                conditional: false,
            } => patterns
                .iter()
                .map(|(_, pattern)| pattern.as_str())
                .collect(),
            Says::Include { .. } | Says::Port(_) | Says::Address(_) => Vec::new(),
        })
    }
}

impl File {
    /// Reads a file's lines.
    pub(crate) fn read(path: PathBuf, content: Vec<u8>, conditional: bool) -> Self {
        let mut settings = Vec::new();
        let mut first_match = None;
        let mut start = 0;
        for text in content.split_inclusive(|byte| *byte == b'\n') {
            let line = start..start + text.trim_ascii_end().len();
            start += text.len();
            let Some(said) = line::parse(text) else {
                continue;
            };
            if said.keyword == "match" && first_match.is_none() {
                first_match = Some(line.start);
            }
            settings.extend(Setting::of(&said, line, first_match.is_some()));
        }
        Self {
            path,
            content,
            settings,
            first_match,
            conditional,
        }
    }

    /// The files that this one includes, and whether on a condition.
    fn includes(&self, source: &dyn Source) -> impl Iterator<Item = (PathBuf, bool)> {
        self.settings.iter().flat_map(move |setting| {
            let Says::Include {
                patterns,
                conditional,
            } = &setting.says
            else {
                return Vec::new();
            };
            let conditional = *conditional || self.conditional;
            let expand = |(_, pattern): &(_, String)| glob::expand(pattern, source);
            let paths = patterns.iter().flat_map(expand);
            paths.map(|path| (path, conditional)).collect()
        })
    }
}

impl Setting {
    fn of(said: &line::Directive, line: Range<usize>, conditional: bool) -> Option<Self> {
        let place = |word: &line::Word| line.start + word.span.start..line.start + word.span.end;
        let first = said.words.first()?;
        let says = match said.keyword.as_str() {
            "include" => Says::Include {
                patterns: said
                    .words
                    .iter()
                    .map(|word| (place(word), absolute(&word.text)))
                    .collect(),
                conditional,
            },
            "port" if !conditional => Says::Port(port(&first.text)?),
            "listenaddress" if !conditional => Says::Address(Address::parse(&first.text)?),
            _ => return None,
        };
        Some(Self {
            value: place(first),
            line,
            says,
        })
    }
}

impl Address {
    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address.
    fn parse(text: &str) -> Option<Self> {
        let (host, rest) = match text.find(']') {
            Some(end) if text.starts_with('[') => text.split_at(end + 1),
            _ if text.matches(':').count() == 1 => text.split_at(text.find(':')?),
            _ => (text, ""),
        };
        let port = match rest.strip_prefix(':') {
            Some(written) => Some(port(written)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Self {
            host: host.to_owned(),
            port,
        })
    }
}

/// A port as sshd takes it: by its number, or by the name of its service, of
/// which only SSH's own is known here.
fn port(text: &str) -> Option<u16> {
    match text {
        "ssh" => Some(DEFAULT_PORT),
        number => number.parse().ok().filter(|port| *port != 0),
    }
}

fn absolute(pattern: &str) -> String {
    if pattern.starts_with('/') {
        pattern.to_owned()
    } else {
        format!("{BASE}/{pattern}")
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
pub(crate) mod tests;

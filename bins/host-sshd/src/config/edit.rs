//! Where sshd listens, changed by as few lines as can be.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::tree::{Address, DEFAULT_PORT, File, Says, Setting, Tree};
use super::{Ports, Source, glob};

/// The name of a file of Kite's own in an included directory.
pub(crate) const DROP_IN: &str = "kite-host-sshd.conf";

/// A file that becomes another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) path: PathBuf,
    /// Nothing where there is no such file yet.
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) after: Vec<u8>,
    pub(crate) changes: Vec<Change>,
}

/// A line that changes, for people to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// Counted from one, before the change.
    pub(crate) line: usize,
    /// Nothing where a line is put in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<String>,
    pub(crate) new: String,
}

/// What makes sshd listen on the new port in place of the old one; nothing where it
/// does not listen on the old one by this configuration.
///
/// `Port` lines add up, so one more beside `Port 22` would not move anything: lines
/// that name the old port are changed where they stand. Where the port is sshd's
/// default, a file of Kite's own in an included directory says the new one, or,
/// without such a directory, a line in the main file.
pub(crate) fn edits(tree: &Tree, ports: Ports, source: &dyn Source) -> Vec<Edit> {
    let mut splices = Splices::default();
    let by_default = tree.heeds_port_lines() && tree.port_lines().is_empty();
    let mut new = None;
    if by_default && ports.from == DEFAULT_PORT {
        new = drop_in(tree, source);
        if new.is_none() {
            splices.add(tree.main(), first_line(tree.main(), ports.to));
        }
    }
    splices.change_ports(tree, ports);
    splices.change_addresses(tree, ports);
    let mut edits: Vec<Edit> = tree
        .files
        .iter()
        .filter_map(|file| splices.edit(file))
        .collect();
    edits.extend(new.map(|path| created(path, ports.to)));
    edits
}

/// Bytes in place of others.
struct Splice {
    at: Range<usize>,
    new: String,
}

/// Those of each file.
#[derive(Default)]
struct Splices {
    by_file: BTreeMap<PathBuf, Vec<Splice>>,
}

impl Splices {
    fn add(&mut self, file: &File, splice: Splice) {
        self.by_file
            .entry(file.path.clone())
            .or_default()
            .push(splice);
    }

    fn change_ports(&mut self, tree: &Tree, ports: Ports) {
        if !tree.heeds_port_lines() {
            return;
        }
        let mut said = tree.port_lines().contains(&ports.to);
        for (file, setting) in global(tree) {
            if setting.says == Says::Port(ports.from) {
                let splice = if said {
                    silenced(setting)
                } else {
                    replaced(setting, ports.to.to_string())
                };
                self.add(file, splice);
                said = true;
            }
        }
    }

    fn change_addresses(&mut self, tree: &Tree, ports: Ports) {
        let with = |port| move |address: &&Address| address.port == Some(port);
        let mut said: BTreeSet<&str> = tree
            .addresses()
            .filter(with(ports.to))
            .map(|address| address.host.as_str())
            .collect();
        for (file, setting) in global(tree) {
            match &setting.says {
                Says::Address(Address {
                    host,
                    port: Some(port),
                }) if *port == ports.from => {
                    let splice = if said.insert(host) {
                        replaced(setting, format!("{host}:{}", ports.to))
                    } else {
                        silenced(setting)
                    };
                    self.add(file, splice);
                }
                Says::Address(_) | Says::Port(_) | Says::Include { .. } => {}
            }
        }
    }

    fn edit(&mut self, file: &File) -> Option<Edit> {
        let mut splices = self.by_file.remove(&file.path)?;
        splices.sort_by_key(|splice| splice.at.start);
        let mut after = Vec::new();
        let mut changes = Vec::new();
        let mut done = 0;
        for splice in &splices {
            after.extend(&file.content[done..splice.at.start]);
            after.extend(splice.new.as_bytes());
            done = splice.at.end;
            changes.push(change(&file.content, splice));
        }
        after.extend(&file.content[done..]);
        Some(Edit {
            path: file.path.clone(),
            before: Some(file.content.clone()),
            after,
            changes,
        })
    }
}

fn global(tree: &Tree) -> impl Iterator<Item = (&File, &Setting)> {
    let files = tree.files.iter().filter(|file| !file.conditional);
    files.flat_map(|file| file.settings.iter().map(move |setting| (file, setting)))
}

fn replaced(setting: &Setting, new: String) -> Splice {
    Splice {
        at: setting.value.clone(),
        new,
    }
}

/// What the line said is said elsewhere.
fn silenced(setting: &Setting) -> Splice {
    let start = setting.line.start;
    Splice {
        at: start..start,
        new: "#".to_owned(),
    }
}

/// A file of Kite's own, where there is an included directory that would hold it.
fn drop_in(tree: &Tree, source: &dyn Source) -> Option<PathBuf> {
    tree.patterns().find_map(|pattern| {
        let dir = Path::new(pattern).parent()?;
        let path = dir.join(DROP_IN);
        let fits = !dir.to_str().is_some_and(glob::is_pattern) && glob::names(pattern, &path);
        let names = source.list(dir).ok()?;
        (fits && names.iter().all(|name| name != DROP_IN)).then_some(path)
    })
}

fn created(path: PathBuf, port: u16) -> Edit {
    let line = format!("Port {port}");
    let after = format!(
        "# Written by `kite host-sshd move`; `kite host-sshd restore` takes it away.\n{line}\n"
    );
    Edit {
        path,
        before: None,
        after: after.into_bytes(),
        changes: vec![Change {
            line: 1,
            old: None,
            new: line,
        }],
    }
}

/// A `Port` line for the main file: below the one that is commented out, as
/// distributions have it, or else at the very beginning, where no `Match` is before it.
fn first_line(main: &File, port: u16) -> Splice {
    let line = format!("Port {port}\n");
    let global = &main.content[..main.first_match.unwrap_or(main.content.len())];
    let mut end = 0;
    for text in global.split_inclusive(|byte| *byte == b'\n') {
        end += text.len();
        if is_commented_port(text) {
            let new = if text.ends_with(b"\n") {
                line
            } else {
                format!("\n{line}")
            };
            return Splice { at: end..end, new };
        }
    }
    Splice {
        at: 0..0,
        new: line,
    }
}

fn is_commented_port(line: &[u8]) -> bool {
    let Some(text) = line.trim_ascii().strip_prefix(b"#") else {
        return false;
    };
    super::line::parse(text).is_some_and(|said| {
        let one = said.words.len() == 1 && said.words[0].text.parse::<u16>().is_ok();
        said.keyword == "port" && one
    })
}

fn change(content: &[u8], splice: &Splice) -> Change {
    let line = content[..splice.at.start]
        .split(|byte| *byte == b'\n')
        .count();
    let put_in = splice.at.is_empty() && splice.new.contains('\n');
    let (start, end) = line_around(content, splice.at.start);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if put_in {
        let new = splice.new.trim().to_owned();
        return Change {
            line,
            old: None,
            new,
        };
    }
    let new = [
        &content[start..splice.at.start],
        splice.new.as_bytes(),
        &content[splice.at.end..end],
    ];
    Change {
        line,
        old: Some(text(&content[start..end])),
        new: text(&new.concat()),
    }
}

fn line_around(content: &[u8], at: usize) -> (usize, usize) {
    let is_end = |byte: &u8| *byte == b'\n';
    let start = content[..at]
        .iter()
        .rposition(is_end)
        .map_or(0, |end| end + 1);
    let end = content[at..].iter().position(is_end);
    (start, end.map_or(content.len(), |length| at + length))
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;

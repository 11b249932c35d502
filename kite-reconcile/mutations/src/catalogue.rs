//! What is broken on purpose.

mod caches;
mod claims;
mod cluster;
mod disks;
mod drive;
mod leader;
mod limits;
mod offers;
mod platform;
mod power;
mod render;
mod snapshots;
mod triggers;
mod users;
mod vms;
mod volumes;

use anyhow::{bail, ensure};

use crate::{anchor, suite::Suite};

/// One way to break the reconcilers.
pub struct Mutation {
    /// Its name on the command line.
    pub name: &'static str,
    /// What the broken reconciler does.
    pub what: &'static str,
    /// The file that is changed, from the workspace's root.
    pub file: &'static str,
    /// What is replaced by what. The text to be replaced must be in the file
    /// exactly once; white space does not count.
    pub edits: &'static [(&'static str, &'static str)],
    /// The tests that are run first, because they are expected to notice: the
    /// suite, and parts of their names. If it is the sweep, that must notice by
    /// itself; otherwise every suite may.
    pub first: (Suite, &'static str),
}

impl Mutation {
    /// Whether the sweep must notice, and no other suite is asked.
    pub fn is_for_the_sweep(&self) -> bool {
        self.first.0 == Suite::Sweep
    }

    /// The broken text of the file whose text is `original`.
    pub fn apply(&self, original: &str) -> anyhow::Result<String> {
        let mut text = original.to_owned();
        for (from, to) in self.edits {
            ensure!(
                !anchor::is_same(from, to),
                "{}: the replacement is the same code: {from}",
                self.name
            );
            match anchor::places(&text, from).as_slice() {
                [place] => text.replace_range(place.clone(), to),
                places => bail!(
                    "{}: {} must have this exactly once and has it {} times: {from}",
                    self.name,
                    self.file,
                    places.len()
                ),
            }
        }
        Ok(text)
    }
}

/// All mutations. What takes long to build comes last.
pub fn all() -> Vec<&'static Mutation> {
    [
        disks::ALL,
        drive::ALL,
        caches::ALL,
        claims::ALL,
        vms::ALL,
        limits::ALL,
        power::ALL,
        users::ALL,
        offers::ALL,
        snapshots::ALL,
        volumes::ALL,
        platform::ALL,
        leader::ALL,
        triggers::ALL,
        render::ALL,
        cluster::ALL,
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{collections::HashSet, fs};

    use super::*;

    #[test]
    fn every_mutation_fits_the_code() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let wrong: Vec<String> = all()
            .into_iter()
            .filter_map(|mutation| {
                let text = fs::read_to_string(format!("{root}/{}", mutation.file)).unwrap();
                crate::switch::all_of(&text, &[mutation]).err()
            })
            .map(|error| format!("{error:#}"))
            .collect();
        assert!(
            wrong.is_empty(),
            "adapt these mutations to the code they break:\n{}",
            wrong.join("\n")
        );
    }

    #[test]
    fn names_are_unique_and_there_are_enough() {
        let names: HashSet<_> = all().into_iter().map(|mutation| mutation.name).collect();
        assert_eq!(names.len(), all().len());
        assert!(names.len() >= 100);
        let for_the_sweep = all().into_iter().filter(|it| it.is_for_the_sweep());
        assert!(for_the_sweep.count() >= 30);
    }
}

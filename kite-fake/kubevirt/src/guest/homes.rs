//! What is on the disks of guests, by the volumes and snapshots that it lies on.

use std::collections::{HashMap, HashSet};

use super::home::Home;

/// How volumes are called, other than snapshots.
const VOLUMES: &str = "persistentvolumes/";

/// The disks of all guests, each by `<plural>/<name>` of its volume or the content of a
/// snapshot.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    known: HashMap<String, Home>,
    /// Volumes that are filled from a snapshot that was not heard of yet: watches tell of the
    /// two in any order.
    origins: HashMap<String, String>,
    /// Snapshots that were taken, and volumes that were filled.
    copied: HashSet<String>,
}

impl Homes {
    /// What is on a volume; nothing at first.
    pub(crate) fn of(&mut self, volume: &str) -> Home {
        // Whatever it was to begin with: from now on it has its own.
        self.origins.remove(volume);
        let home = self.known.entry(volume.to_owned());
        home.or_default().clone()
    }

    /// `snapshot` has what is on `volume` now.
    pub(crate) fn keep(&mut self, volume: &str, snapshot: &str) {
        if !self.copied.insert(snapshot.to_owned()) {
            return;
        }
        let home = self.of(volume).copied();
        let waiting = self.origins.extract_if(|_, origin| origin == snapshot);
        let waiting: Vec<String> = waiting.map(|(volume, _)| volume).collect();
        for volume in waiting {
            self.known.insert(volume, home.copied());
        }
        self.known.insert(snapshot.to_owned(), home);
    }

    /// `volume` begins with what is on `source`, a snapshot or another volume.
    pub(crate) fn fill(&mut self, source: &str, volume: &str) {
        if !self.copied.insert(volume.to_owned()) {
            return;
        }
        let is_heard_of = source.starts_with(VOLUMES) || self.known.contains_key(source);
        if is_heard_of {
            let home = self.of(source).copied();
            self.known.insert(volume.to_owned(), home);
        } else {
            self.origins.insert(volume.to_owned(), source.to_owned());
        }
    }

    /// What was on it is lost.
    pub(crate) fn forget(&mut self, disk: &str) {
        self.known.remove(disk);
        self.origins.remove(disk);
        self.copied.remove(disk);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::home::Open;
    use super::super::path::AbsPath;
    use super::*;

    fn write(home: &Home, text: &str) {
        let open = Open {
            create: true,
            truncate: true,
            ..Open::default()
        };
        let path = AbsPath::root().join("note").unwrap();
        let file = home.open(&path, open).unwrap();
        file.write_at(0, text.as_bytes()).unwrap();
    }

    fn read(home: &Home) -> String {
        let path = AbsPath::root().join("note").unwrap();
        let Ok(file) = home.open(&path, Open::default()) else {
            return String::new();
        };
        String::from_utf8(file.read_at(0, 100)).unwrap()
    }

    #[test]
    fn a_snapshot_has_what_was_there_and_a_volume_begins_with_it() {
        let mut homes = Homes::default();
        let disk = homes.of("persistentvolumes/a");
        write(&disk, "before");
        homes.keep("persistentvolumes/a", "s/1");
        write(&disk, "after");
        // A watch may show it again.
        homes.keep("persistentvolumes/a", "s/1");
        homes.fill("s/1", "persistentvolumes/b");
        assert_eq!(read(&homes.of("persistentvolumes/b")), "before");
        write(&homes.of("persistentvolumes/b"), "own");
        homes.fill("s/1", "persistentvolumes/b");
        assert_eq!(read(&homes.of("persistentvolumes/b")), "own");
        assert_eq!(read(&homes.of("persistentvolumes/a")), "after");
    }

    #[test]
    fn what_is_written_later_stays_where_it_was_written() {
        let mut homes = Homes::default();
        let (source, clone) = ("persistentvolumes/a", "persistentvolumes/b");
        homes.fill(source, clone);
        write(&homes.of(source), "later");
        assert_eq!(read(&homes.of(clone)), "");
        write(&homes.of(clone), "own");
        write(&homes.of(source), "last");
        assert_eq!(read(&homes.of(clone)), "own");
    }

    #[test]
    fn a_volume_may_be_heard_of_before_its_snapshot() {
        let mut homes = Homes::default();
        write(&homes.of("persistentvolumes/a"), "text");
        homes.fill("s/1", "persistentvolumes/b");
        homes.keep("persistentvolumes/a", "s/1");
        assert_eq!(read(&homes.of("persistentvolumes/b")), "text");
        homes.forget("persistentvolumes/b");
        assert_eq!(read(&homes.of("persistentvolumes/b")), "");
    }
}

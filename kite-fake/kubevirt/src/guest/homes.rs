//! What is on the disks of guests, by the volumes and snapshots that it lies on.

use std::collections::{HashMap, HashSet};

use super::home::Home;

/// The disks of all guests, each by `<plural>/<name>` of its volume or the content of a
/// snapshot.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    known: HashMap<String, Home>,
    /// Volumes that are filled from something that is not known yet: watches tell of the two
    /// in any order.
    origins: HashMap<String, String>,
    /// Snapshots that were taken, and volumes that were filled.
    copied: HashSet<String>,
}

impl Homes {
    /// What is on a volume; nothing at first.
    pub(crate) fn of(&mut self, volume: &str) -> Home {
        self.follow(volume);
        let home = self.known.entry(volume.to_owned());
        home.or_default().clone()
    }

    /// `snapshot` has what is on `volume` now.
    pub(crate) fn keep(&mut self, volume: &str, snapshot: &str) {
        if self.copied.insert(snapshot.to_owned()) {
            let home = self.known.get(volume).map(Home::copied);
            self.known
                .insert(snapshot.to_owned(), home.unwrap_or_default());
        }
    }

    /// `volume` begins with what is on `source`, a snapshot or another volume.
    pub(crate) fn fill(&mut self, source: &str, volume: &str) {
        if self.copied.insert(volume.to_owned()) {
            self.origins.insert(volume.to_owned(), source.to_owned());
            self.follow(volume);
        }
    }

    /// What was on it is lost.
    pub(crate) fn forget(&mut self, disk: &str) {
        self.known.remove(disk);
        self.origins.remove(disk);
        self.copied.remove(disk);
    }

    fn follow(&mut self, volume: &str) {
        let origin = self.origins.get(volume).map(String::as_str);
        if let Some(home) = origin.and_then(|origin| self.known.get(origin)) {
            let copy = home.copied();
            self.known.insert(volume.to_owned(), copy);
            self.origins.remove(volume);
        }
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
        let disk = homes.of("v/a");
        write(&disk, "before");
        homes.keep("v/a", "s/1");
        write(&disk, "after");
        // A watch may show it again.
        homes.keep("v/a", "s/1");
        homes.fill("s/1", "v/b");
        assert_eq!(read(&homes.of("v/b")), "before");
        write(&homes.of("v/b"), "own");
        homes.fill("s/1", "v/b");
        assert_eq!(read(&homes.of("v/b")), "own");
        assert_eq!(read(&homes.of("v/a")), "after");
    }

    #[test]
    fn a_volume_may_be_heard_of_before_its_snapshot() {
        let mut homes = Homes::default();
        write(&homes.of("v/a"), "text");
        homes.fill("s/1", "v/b");
        homes.keep("v/a", "s/1");
        assert_eq!(read(&homes.of("v/b")), "text");
        homes.forget("v/b");
        assert_eq!(read(&homes.of("v/b")), "");
    }
}

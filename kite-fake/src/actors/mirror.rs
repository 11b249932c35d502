//! What watches have shown, kept for reading: the store of an informer.
//!
//! Controllers of a real cluster read from such stores and ask the API server
//! only where it matters. A store is always a little behind. Three things keep
//! that from doing harm: the answer of every write is remembered until the watch
//! has shown it; after a write that failed, and after a deletion, the next read
//! is a request; and a kind whose first list is not through is read by requests.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::kind::{Key, Kind};
use crate::rest::selector::LabelSelector;

/// How long the answer of a write is believed that no watch has shown. What was
/// deleted while the watch was being made anew is never shown.
const PATIENCE: Duration = Duration::from_secs(10);

/// The mirrors of all kinds that are watched.
pub(crate) type Mirrors = Arc<Mutex<BTreeMap<Kind, Shared>>>;

/// The mirror of one kind.
pub(crate) type Shared = Arc<Mutex<Mirror>>;

/// An object as it was seen once: shared, for a copy costs more than most reads.
pub type Found = Arc<DynamicObject>;

/// One object, as far as it is known.
#[derive(Debug, Default)]
struct Entry {
    /// As the watch showed it last.
    shown: Option<Found>,
    /// As a write, or a read by a request, found it after that, and when.
    written: Option<(Found, Instant)>,
    /// Not zero while nobody knows what it is like.
    doubt: u64,
}

impl Entry {
    fn known(&self) -> Option<&Found> {
        let written = self.written.as_ref().map(|(object, _)| object);
        written.or(self.shown.as_ref())
    }

    fn is_certain(&self, now: Instant) -> bool {
        let in_time = |(_, at): &(Found, Instant)| now.duration_since(*at) < PATIENCE;
        self.doubt == 0 && self.written.as_ref().is_none_or(in_time)
    }

    fn is_nothing(&self) -> bool {
        self.shown.is_none() && self.written.is_none() && self.doubt == 0
    }
}

/// What a mirror says of an object.
#[derive(Debug)]
pub(super) enum Look {
    /// This is it, or there is none.
    Known(Option<Found>),
    /// The API server has to be asked; the number goes with what it says.
    Ask(u64),
}

/// The objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    /// By namespace and name: as a list has them.
    spaces: BTreeMap<String, BTreeMap<String, Entry>>,
    /// The first list is through.
    complete: bool,
    /// Of a list that is under way.
    listed: Option<HashSet<(String, String)>>,
    /// The newest version that the watch has shown.
    newest: u64,
    doubts: u64,
}

fn version(object: &DynamicObject) -> u64 {
    let version = object.metadata.resource_version.as_deref();
    version.and_then(|v| v.parse().ok()).unwrap_or_default()
}

impl Mirror {
    fn entry(&self, key: &Key) -> Option<&Entry> {
        self.spaces.get(key.space())?.get(&key.name)
    }

    fn entry_mut(&mut self, key: &Key) -> &mut Entry {
        if !self.spaces.contains_key(key.space()) {
            self.spaces.insert(key.space().to_owned(), BTreeMap::new());
        }
        let space = self.spaces.entry(key.space().to_owned()).or_default();
        space.entry(key.name.clone()).or_default()
    }

    fn tidy(&mut self, key: &Key) {
        let Some(space) = self.spaces.get_mut(key.space()) else {
            return;
        };
        if space.get(&key.name).is_some_and(Entry::is_nothing) {
            space.remove(&key.name);
        }
        if space.is_empty() {
            self.spaces.remove(key.space());
        }
    }

    /// A list begins.
    pub(crate) fn begin(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// The watch shows an object. Gives what it showed before.
    pub(crate) fn show(&mut self, key: &Key, object: &Found) -> Option<Found> {
        if let Some(listed) = &mut self.listed {
            listed.insert((key.space().to_owned(), key.name.clone()));
        }
        let shown = version(object);
        self.newest = self.newest.max(shown);
        let entry = self.entry_mut(key);
        entry.doubt = 0;
        if entry
            .written
            .as_ref()
            .is_some_and(|(written, _)| version(written) <= shown)
        {
            entry.written = None;
        }
        entry.shown.replace(Arc::clone(object))
    }

    /// The watch shows the end of an object.
    pub(crate) fn hide(&mut self, key: &Key, last: &DynamicObject) {
        let shown = version(last);
        self.newest = self.newest.max(shown);
        let entry = self.entry_mut(key);
        entry.shown = None;
        entry.doubt = 0;
        if entry
            .written
            .as_ref()
            .is_some_and(|(written, _)| version(written) <= shown)
        {
            entry.written = None;
        }
        self.tidy(key);
    }

    /// The list is through: what was not in it is gone. Gives that, in order.
    pub(crate) fn end(&mut self) -> Vec<Found> {
        let Some(listed) = self.listed.take() else {
            return Vec::new();
        };
        self.complete = true;
        let mut gone = Vec::new();
        self.doubts += 1;
        let doubt = self.doubts;
        for (space, entries) in &mut self.spaces {
            for (name, entry) in entries {
                // Made after the list, or deleted before it: the list cannot tell.
                if entry.written.take().is_some() {
                    entry.doubt = doubt;
                }
                if entry.shown.is_some() && !listed.contains(&(space.clone(), name.clone())) {
                    gone.extend(entry.shown.take());
                }
            }
        }
        self.spaces.retain(|_, entries| {
            entries.retain(|_, entry| !entry.is_nothing());
            !entries.is_empty()
        });
        gone
    }

    /// The watch has ended. Gives what was known, in order.
    pub(super) fn clear(&mut self) -> Vec<Found> {
        let spaces = std::mem::take(self).spaces.into_values();
        let entries = spaces.flat_map(BTreeMap::into_values);
        entries.filter_map(|entry| entry.shown).collect()
    }

    /// A write, or a read by a request, has found `object` like this.
    pub(super) fn note(&mut self, key: &Key, object: &Found) {
        // What the watch has shown already is known, and may be old.
        if !self.complete || version(object) <= self.newest {
            return;
        }
        let entry = self.entry_mut(key);
        let is_newer = entry
            .written
            .as_ref()
            .is_none_or(|(written, _)| version(written) <= version(object));
        if is_newer {
            entry.written = Some((Arc::clone(object), Instant::now()));
        }
    }

    /// Nobody knows what the object is like until a watch or a request tells.
    pub(super) fn doubt(&mut self, key: &Key) {
        if self.complete {
            self.doubts += 1;
            let doubt = self.doubts;
            self.entry_mut(key).doubt = doubt;
        }
    }

    /// What is known of an object.
    pub(super) fn look(&self, key: &Key) -> Look {
        if !self.complete {
            return Look::Ask(0);
        }
        match self.entry(key) {
            None => Look::Known(None),
            Some(entry) if entry.is_certain(Instant::now()) => Look::Known(entry.known().cloned()),
            Some(entry) => Look::Ask(entry.doubt),
        }
    }

    /// A request that followed on [`Look::Ask`] found this.
    pub(super) fn learn(&mut self, key: &Key, asked: u64, found: Option<&Found>) {
        if !self.complete || self.entry(key).is_none_or(|entry| entry.doubt != asked) {
            return;
        }
        let newest = self.newest;
        let entry = self.entry_mut(key);
        entry.written = None;
        match found {
            // An older one is shown: the watch will tell of its end.
            None if entry.shown.is_some() => return,
            None => entry.doubt = 0,
            Some(object) => {
                let shown = entry.shown.as_ref().map(|shown| version(shown));
                if version(object) > newest || shown == Some(version(object)) {
                    entry.doubt = 0;
                }
                self.note(key, object);
            }
        }
        self.tidy(key);
    }

    /// The objects in `namespace`, or all of them, that `selector` selects; none
    /// where the API server has to be asked.
    pub(super) fn list(
        &self,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Option<Vec<Found>> {
        if !self.complete {
            return None;
        }
        let now = Instant::now();
        let spaces = match namespace {
            Some(namespace) => self.spaces.get_key_value(namespace).into_iter().collect(),
            None => self.spaces.iter().collect::<Vec<_>>(),
        };
        let mut found = Vec::new();
        for entry in spaces.into_iter().flat_map(|(_, entries)| entries.values()) {
            let known = entry.known();
            let is_meant = known.is_none_or(|object| {
                let labels = object.metadata.labels.as_ref();
                selector.matches_by(|label| labels.and_then(|labels| labels.get(label)))
            });
            if !is_meant {
                continue;
            }
            if !entry.is_certain(now) {
                return None;
            }
            found.extend(known.cloned());
        }
        Some(found)
    }

    /// The versions that the watch has shown, by namespace and name.
    pub(super) fn versions(&self) -> BTreeMap<(&str, &str), Option<&str>> {
        let entries = self.spaces.iter().flat_map(|(space, entries)| {
            let entries = entries.iter();
            entries.map(move |(name, entry)| ((space.as_str(), name.as_str()), entry))
        });
        entries
            .filter_map(|(name, entry)| {
                let shown = entry.shown.as_ref()?;
                Some((name, shown.metadata.resource_version.as_deref()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::actors::kind::POD;
    use serde_json::json;

    fn key() -> Key {
        Key::new(&POD, Some("a"), "p")
    }

    fn pod(version: u64) -> Found {
        let metadata = json!({
            "name": "p", "namespace": "a", "uid": "u",
            "resourceVersion": version.to_string(),
            "labels": {"app": "x"},
        });
        Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap())
    }

    fn listed(pods: &[Found]) -> Mirror {
        let mut mirror = Mirror::default();
        mirror.begin();
        for pod in pods {
            mirror.show(&key(), pod);
        }
        mirror.end();
        mirror
    }

    fn seen(mirror: &Mirror) -> Option<u64> {
        match mirror.look(&key()) {
            Look::Known(found) => found.map(|object| version(&object)),
            Look::Ask(_) => panic!("is not known"),
        }
    }

    fn is_asked(mirror: &Mirror) -> bool {
        matches!(mirror.look(&key()), Look::Ask(_))
    }

    fn of_app(mirror: &Mirror, app: &str) -> Option<usize> {
        let selector = LabelSelector::parse(&format!("app={app}")).unwrap();
        mirror.list(Some("a"), &selector).map(|found| found.len())
    }

    #[tokio::test(start_paused = true)]
    async fn before_its_list_is_through_it_says_nothing() {
        let mut mirror = Mirror::default();
        mirror.begin();
        mirror.show(&key(), &pod(1));
        assert!(is_asked(&mirror));
        assert_eq!(of_app(&mirror, "x"), None);
        assert!(mirror.end().is_empty());
        assert_eq!(seen(&mirror), Some(1));
        assert_eq!(of_app(&mirror, "x"), Some(1));
        assert_eq!(of_app(&mirror, "y"), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_seen_before_the_watch_shows_it() {
        let mut mirror = listed(&[pod(1)]);
        mirror.note(&key(), &pod(3));
        mirror.show(&key(), &pod(2));
        assert_eq!(seen(&mirror), Some(3));
        mirror.show(&key(), &pod(4));
        assert_eq!(seen(&mirror), Some(4));
        mirror.note(&key(), &pod(3));
        assert_eq!(seen(&mirror), Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn what_went_does_not_come_back_by_a_late_answer() {
        let mut mirror = listed(&[pod(1)]);
        mirror.hide(&key(), &pod(5));
        mirror.note(&key(), &pod(3));
        assert_eq!(seen(&mirror), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_in_doubt_is_asked_for_until_something_tells() {
        let mut mirror = listed(&[pod(1)]);
        mirror.doubt(&key());
        assert!(is_asked(&mirror));
        assert_eq!(of_app(&mirror, "x"), None);
        assert_eq!(of_app(&mirror, "y"), Some(0));
        let Look::Ask(asked) = mirror.look(&key()) else {
            panic!("is known");
        };
        // It is gone, and the watch has yet to say so.
        mirror.learn(&key(), asked, None);
        assert!(is_asked(&mirror));
        mirror.hide(&key(), &pod(2));
        assert_eq!(seen(&mirror), None);
        mirror.doubt(&key());
        let Look::Ask(asked) = mirror.look(&key()) else {
            panic!("is known");
        };
        mirror.learn(&key(), asked, Some(&pod(7)));
        assert_eq!(seen(&mirror), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_watch_shows_is_not_believed_for_ever() {
        let mut mirror = listed(&[]);
        mirror.note(&key(), &pod(3));
        assert_eq!(seen(&mirror), Some(3));
        tokio::time::advance(PATIENCE).await;
        assert!(is_asked(&mirror));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_list_ends_what_is_not_in_it() {
        let mut mirror = listed(&[pod(1)]);
        mirror.begin();
        assert_eq!(mirror.end().len(), 1);
        assert_eq!(seen(&mirror), None);
        mirror.note(&key(), &pod(9));
        mirror.begin();
        assert!(mirror.end().is_empty());
        assert!(is_asked(&mirror));
    }
}

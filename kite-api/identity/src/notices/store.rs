//! Notices as they are kept: each in an annotation of its own, of the account or of the thing
//! that it is about. So it is there by the same write as what it tells of, and two who
//! write at once take nothing from each other.
//!
//! Nothing goes before it was seen. Of each kind there is room for so many, so that what is
//! cheap to bring about pushes nothing else aside; what comes beyond that is counted. Two
//! that are counted in the same moment may count as one.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use jiff::Timestamp;
use kite_core::names;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Begins the name of an annotation that has a notice.
const NOTICE: &str = "hy3ons.github.io/notice-";
/// The annotation that tells how many there are beyond those.
const MORE: &str = "hy3ons.github.io/more-notices";
/// How many characters of its hash are in an id.
const HASH: usize = 32;
/// Most notices of a kind that are kept.
pub const MOST: usize = 12;
/// Most characters of a name: an annotation has no room for any key.
const MOST_NAME: usize = 2048;

/// The annotations of an object.
pub type Annotations = BTreeMap<String, String>;

/// What notices can be about: an enum that is written as the names of its variants.
pub trait Kind: Copy + fmt::Debug + PartialEq + Serialize + DeserializeOwned {}

impl<K: Copy + fmt::Debug + PartialEq + Serialize + DeserializeOwned> Kind for K {}

/// A notice as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record<K> {
    /// What it is about.
    pub kind: K,
    /// Since when it is so.
    pub at: Timestamp,
    /// What it is about by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The network that somebody came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// When what it announces comes about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The uid of the object that it is about, where that is another than it is kept by.
    #[serde(default, rename = "vm", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

impl<K> Record<K> {
    /// What is about something called `name`, of which there is room for so much.
    pub fn new(kind: K, name: &str, at: Timestamp) -> Self {
        let name: String = name.chars().take(MOST_NAME).collect();
        Self {
            kind,
            at,
            name: (!name.is_empty()).then_some(name),
            network: None,
            until: None,
            of: None,
        }
    }
}

/// By what a notice is told from others: what it is `of` makes it another one.
pub fn id_of(kind: impl Kind, of: &str) -> String {
    let hash = names::fingerprint(&format!("{kind:?}\n{of}"));
    hash.get(..HASH).unwrap_or(&hash).to_owned()
}

/// The annotation of the notice called `id`.
pub fn annotation_of(id: &str) -> String {
    format!("{NOTICE}{id}")
}

/// The notices in `annotations`, by id. One of a kind that this version does not know is
/// left for those that do.
pub fn stored<K: Kind>(annotations: &Annotations) -> Vec<(String, Record<K>)> {
    let notices = annotations.range(NOTICE.to_owned()..);
    notices
        .map_while(|(name, text)| Some((name.strip_prefix(NOTICE)?, text)))
        .filter_map(|(id, text)| Some((id.to_owned(), serde_json::from_str(text).ok()?)))
        .collect()
}

/// How many there are beyond those that are kept.
pub fn more(annotations: &Annotations) -> u32 {
    let more = annotations.get(MORE);
    more.and_then(|more| more.parse().ok()).unwrap_or_default()
}

/// `annotations` once `notes` are written; null takes one away.
pub fn applied(annotations: &Annotations, notes: &Map<String, Value>) -> Annotations {
    let mut applied = annotations.clone();
    for (name, value) in notes {
        match value.as_str() {
            Some(text) => applied.insert(name.clone(), text.to_owned()),
            None => applied.remove(name),
        };
    }
    applied
}

/// Whether `notes` tell of something, or put something away, and do not only note what
/// there is.
pub fn tell(notes: &Map<String, Value>) -> bool {
    notes
        .keys()
        .any(|name| name.starts_with(NOTICE) || name == MORE)
}

/// Whether another notice of this kind can be kept.
pub fn has_room<K: Kind>(annotations: &Annotations, kind: K) -> bool {
    let notices = stored::<K>(annotations);
    notices.iter().filter(|(_, it)| it.kind == kind).count() < MOST
}

/// Adds to `notes`, which are about to be written to `annotations`, what keeps a notice. It
/// is counted where there is no room for it.
pub fn put<K: Kind>(
    annotations: &Annotations,
    notes: &mut Map<String, Value>,
    id: &str,
    record: &Record<K>,
) {
    let name = annotation_of(id);
    let there = applied(annotations, notes);
    if there.contains_key(&name) {
        return;
    }
    if has_room(&there, record.kind) {
        let text = serde_json::to_string(record).unwrap_or_default();
        notes.insert(name, json!(text));
    } else {
        let more = more(&there).saturating_add(1);
        notes.insert(MORE.to_owned(), json!(more.to_string()));
    }
}

/// What somebody has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// By these ids.
    pub ids: HashSet<String>,
    /// Of those beyond what is kept so many were told of.
    pub more: u32,
    /// For clients that name a time: all that are not later.
    pub until: Option<Timestamp>,
}

impl Seen {
    /// Whether they have seen the notice with this id, of this time.
    pub fn has(&self, id: &str, at: Timestamp) -> bool {
        self.ids.contains(id) || self.until.is_some_and(|until| at <= until)
    }
}

/// What takes away of `annotations` what was seen, and how many of those beyond what is
/// kept: at most `left`. Notices of other kinds than `K` stay.
pub fn put_away<K: Kind>(
    annotations: &Annotations,
    seen: &Seen,
    left: u32,
) -> (Map<String, Value>, u32) {
    let notices = stored::<K>(annotations).into_iter();
    let gone = notices.filter(|(id, record)| seen.has(id, record.at));
    let mut notes: Map<_, _> = gone
        .map(|(id, _)| (annotation_of(&id), Value::Null))
        .collect();
    let more = more(annotations);
    let off = more.min(left);
    if off > 0 {
        let rest = more - off;
        let rest = (rest > 0).then(|| rest.to_string());
        notes.insert(MORE.to_owned(), json!(rest));
    }
    (notes, off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notices::AccountNotice;

    fn stored(annotations: &Annotations) -> Vec<(String, Record<AccountNotice>)> {
        super::stored(annotations)
    }

    fn put_away(annotations: &Annotations, seen: &Seen, left: u32) -> (Map<String, Value>, u32) {
        super::put_away::<AccountNotice>(annotations, seen, left)
    }

    fn add(annotations: &mut Annotations, kind: AccountNotice, of: &str) {
        let mut notes = Map::new();
        let record = Record::new(kind, of, Timestamp::UNIX_EPOCH);
        put(annotations, &mut notes, &id_of(kind, of), &record);
        *annotations = applied(annotations, &notes);
    }

    #[test]
    fn nothing_goes_unseen_and_what_has_no_room_is_counted() {
        let mut there = Annotations::new();
        add(&mut there, AccountNotice::SignIn, "home");
        for number in 0..MOST + 3 {
            add(&mut there, AccountNotice::Token, &number.to_string());
        }
        // One that is there is there once.
        add(&mut there, AccountNotice::SignIn, "home");
        assert_eq!(stored(&there).len(), MOST + 1);
        assert_eq!(more(&there), 3);
        for name in there.keys() {
            let (_, name) = name.split_once('/').unwrap();
            assert!(name.len() <= 63, "{name}");
        }

        let mut seen = Seen::default();
        seen.ids.insert(id_of(AccountNotice::Token, "0"));
        let (notes, off) = put_away(&there, &seen, 2);
        assert_eq!(off, 2);
        let mut left = applied(&there, &notes);
        assert_eq!(stored(&left).len(), MOST);
        assert_eq!(more(&left), 1);
        // There is room again.
        add(&mut left, AccountNotice::Token, "another");
        assert_eq!(stored(&left).len(), MOST + 1);
        let (notes, off) = put_away(&left, &Seen::default(), 9);
        assert_eq!(off, 1);
        assert_eq!(more(&applied(&left, &notes)), 0);
    }

    #[test]
    fn several_in_one_write_are_all_counted() {
        let mut notes = Map::new();
        let there = Annotations::new();
        for number in 0..MOST + 2 {
            let of = number.to_string();
            let record = Record::new(AccountNotice::Key, &of, Timestamp::UNIX_EPOCH);
            put(&there, &mut notes, &id_of(AccountNotice::Key, &of), &record);
        }
        assert_eq!(more(&applied(&there, &notes)), 2);
    }

    #[test]
    fn what_another_version_wrote_stays() {
        let other = r#"{"kind":"Weather","at":"2026-05-01T00:00:00Z"}"#;
        let there = Annotations::from([(annotation_of("x"), other.to_owned())]);
        assert!(stored(&there).is_empty());
        let seen = Seen {
            until: Some(Timestamp::MAX),
            ..Seen::default()
        };
        assert!(put_away(&there, &seen, 0).0.is_empty());
    }
}

//! What an owner was last told of: the password, keys, identities and quota of an account,
//! as hashes in annotations.
//!
//! What is otherwise than what was told is news, whoever wrote it: the API tells of it by
//! the same write, and finds what others wrote with `kubectl`. An account of which nothing
//! was written down yet begins without news. Applications tell by the same [`Mark`]s of what
//! else is somebody's.

use jiff::Timestamp;
use kite_core::{
    crd::{KiteUser, KiteUserSpec},
    names,
    public_key::unnamed,
};
use kube::ResourceExt as _;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    AccountNotice,
    store::{Record, id_of, put},
};
use crate::key_dates;

/// How many characters of a hash are written down.
const HASH: usize = 16;

/// Something of an account that its owner is told of when it is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concern {
    Password,
    Keys,
    Identities,
    Quota,
}

/// One thing that can be told of: its hash, and what people call it.
pub type Mark = (String, String);

/// What is `of` something, and is called so by people.
pub fn mark(of: &str, called: &str) -> Mark {
    let hash = names::fingerprint(of);
    let hash = hash.get(..HASH).unwrap_or(&hash);
    (hash.to_owned(), called.to_owned())
}

/// A key without what its owner calls it: that can be changed.
pub fn mark_of_key(key: &str) -> Mark {
    mark(&unnamed(key), key)
}

/// The hashes in one text, as an annotation has them.
pub fn joined(marks: &[Mark]) -> String {
    let hashes: Vec<_> = marks.iter().map(|(hash, _)| hash.as_str()).collect();
    hashes.join(",")
}

/// What `annotation` says was told, or what is there `before` where it says nothing.
pub fn told<K: kube::ResourceExt>(object: &K, annotation: &str, before: &[Mark]) -> Vec<String> {
    match object.annotations().get(annotation) {
        Some(text) => {
            let hashes = text.split(',').filter(|hash| !hash.is_empty());
            hashes.map(str::to_owned).collect()
        }
        None => before.iter().map(|(hash, _)| hash.clone()).collect(),
    }
}

impl Concern {
    const ALL: [Self; 4] = [Self::Password, Self::Keys, Self::Identities, Self::Quota];

    fn annotation(self) -> &'static str {
        match self {
            Self::Password => "hy3ons.github.io/told-password",
            Self::Keys => "hy3ons.github.io/told-keys",
            Self::Identities => "hy3ons.github.io/told-identities",
            Self::Quota => "hy3ons.github.io/told-quota",
        }
    }

    fn kind(self) -> AccountNotice {
        match self {
            Self::Password => AccountNotice::Password,
            Self::Keys => AccountNotice::Key,
            Self::Identities => AccountNotice::Identity,
            Self::Quota => AccountNotice::Quota,
        }
    }

    /// The fields of the spec that say how it is.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Password => &["credential", "passwordHash"],
            Self::Keys => &["sshPublicKeys"],
            Self::Identities => &["identities"],
            Self::Quota => &["quota", "accessLevel"],
        }
    }

    /// Whether each mark is a thing of its own. Otherwise all of them are one.
    fn is_of_many(self) -> bool {
        matches!(self, Self::Keys | Self::Identities)
    }

    fn marks(self, user: &str, spec: &KiteUserSpec) -> Vec<Mark> {
        match self {
            // A hash that is still in the account goes by either name once it is taken in.
            Self::Password => match &spec.password_hash {
                Some(hash) => vec![
                    mark(&names::credential(hash), ""),
                    mark(&names::credential_of(user, hash), ""),
                ],
                None => spec.credential.iter().map(|it| mark(it, "")).collect(),
            },
            Self::Keys => {
                let keys = spec.ssh_public_keys.iter();
                keys.map(|key| mark_of_key(key)).collect()
            }
            Self::Identities => {
                let identities = spec.identities.iter();
                identities.map(|it| mark(&it.id(), &it.issuer)).collect()
            }
            Self::Quota => {
                let quota = spec.effective_quota();
                let (memory, disk) = (quota.memory.bytes(), quota.disk.bytes());
                let quota = format!("{}/{}/{memory}/{disk}", quota.vms, quota.cpu);
                vec![mark(&quota, "")]
            }
        }
    }

    /// Adds to `notes` what tells the owner of `user` how it is in `after`. What is news.
    fn compare(
        self,
        user: &KiteUser,
        after: &KiteUserSpec,
        now: Timestamp,
        notes: &mut Map<String, Value>,
    ) -> Vec<Mark> {
        let name = user.name_any();
        let before = told(user, self.annotation(), &self.marks(&name, &user.spec));
        let marks = self.marks(&name, after);
        let is_new = |mark: &&Mark| !before.contains(&mark.0);
        let news: Vec<Mark> = if self.is_of_many() {
            marks.iter().filter(is_new).cloned().collect()
        } else if marks.iter().all(|mark| is_new(&mark)) {
            marks.first().cloned().into_iter().collect()
        } else {
            Vec::new()
        };
        for (hash, called) in &news {
            let id = id_of(self.kind(), &format!("{hash}\n{}", before.join(",")));
            let record = Record::new(self.kind(), called, now);
            put(user.annotations(), notes, &id, &record);
        }
        let is_same = if self.is_of_many() {
            marks.len() == before.len()
        } else {
            marks.is_empty() == before.is_empty()
        };
        let is_written = user.annotations().contains_key(self.annotation());
        if !(is_written && news.is_empty() && is_same) {
            notes.insert(self.annotation().to_owned(), json!(joined(&marks)));
        }
        news
    }
}

/// What is to be written down of `user` as it is: what was not told yet, and where
/// nothing was written down, what there is.
pub fn found(user: &KiteUser, now: Timestamp) -> Map<String, Value> {
    let mut notes = Map::new();
    for concern in Concern::ALL {
        let news = concern.compare(user, &user.spec, now, &mut notes);
        // Nobody else has noted when it came.
        match concern {
            Concern::Keys => {
                let keys = news.iter().map(|(_, key)| key);
                notes.extend(keys.map(|key| key_dates::note_key(key, now)));
            }
            Concern::Password if !news.is_empty() => {
                notes.append(&mut key_dates::note_password_by_others(user));
            }
            Concern::Password | Concern::Identities | Concern::Quota => {}
        }
    }
    notes
}

/// What is written with an edit of the spec of `user`, so that its owner is told of it.
pub fn note_edit(user: &KiteUser, edit: &Map<String, Value>) -> Map<String, Value> {
    let mut notes = Map::new();
    if user.spec.unreadable.is_some() {
        return notes;
    }
    let is_edited = |concern: &Concern| concern.fields().iter().any(|it| edit.contains_key(*it));
    let concerns = Concern::ALL.into_iter().filter(is_edited);
    // What comes of it the sweep tells where that is not clear.
    let Some(after) = merged(&user.spec, edit) else {
        return notes;
    };
    let now = Timestamp::now();
    for concern in concerns {
        concern.compare(user, &after, now, &mut notes);
    }
    notes
}

/// Notes what an account that is about to be made has from its beginning, which is no news.
pub fn note_new(user: &mut KiteUser) {
    key_dates::note_new(user, Timestamp::now());
    let name = user.name_any();
    for concern in Concern::ALL {
        let marks = joined(&concern.marks(&name, &user.spec));
        let annotation = concern.annotation().to_owned();
        user.annotations_mut().insert(annotation, marks);
    }
}

/// A spec once `edit`, a merge patch, was written.
pub fn merged<T: Serialize + DeserializeOwned>(spec: &T, edit: &Map<String, Value>) -> Option<T> {
    let mut merged = serde_json::to_value(spec).ok()?;
    merge(merged.as_object_mut()?, edit);
    serde_json::from_value(merged).ok()
}

/// As a merge patch (RFC 7386) does.
fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (field, value) in patch {
        match value {
            Value::Null => {
                target.remove(field);
            }
            Value::Object(inner) => {
                let mut object = match target.remove(field) {
                    Some(Value::Object(object)) => object,
                    _ => Map::new(),
                };
                merge(&mut object, inner);
                target.insert(field.clone(), object.into());
            }
            other => {
                target.insert(field.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Since when an account has its keys and its password, in annotations of the account:
//! one for each, so that two who write at once do not take each other's away.
//!
//! What others than the API put there has the date on which that was found.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kite_core::{crd::KiteUser, names, public_key::unnamed};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Begins the name of the annotation that tells since when a key is there.
const KEY: &str = "hy3ons.github.io/key-since-";
/// How many characters of a key's hash are in that name, which has room for 63.
const HASH: usize = 40;
/// The annotation that tells since when the password is what it is.
const PASSWORD: &str = "hy3ons.github.io/password-since";
/// The annotation of an account whose password somebody else has set: since when it had
/// the one that its owner had set last.
const OWN: &str = "hy3ons.github.io/own-password-since";

/// A public key of an account.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SshKey")]
pub struct KeyView {
    /// The key as `authorized_keys` has it.
    public_key: String,
    /// Since when it is there: where others than this API put it there, since that was
    /// found. Absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    added_at: Option<String>,
}

/// The key without what its owner calls it: that can be changed.
fn name_of(key: &str) -> String {
    let hash = names::fingerprint(&unnamed(key));
    format!("{KEY}{}", hash.get(..HASH).unwrap_or(&hash))
}

/// What is noted when the keys of `user` become `keys` now; null for what is gone.
pub fn note_keys(user: Option<&KiteUser>, keys: &[String]) -> Map<String, Value> {
    keys_at(user, keys, Timestamp::now())
}

fn keys_at(user: Option<&KiteUser>, keys: &[String], now: Timestamp) -> Map<String, Value> {
    let now = now.to_string();
    let before: Vec<_> = user
        .map(|user| &user.spec.ssh_public_keys)
        .into_iter()
        .flatten()
        .map(|key| name_of(key))
        .collect();
    let after: Vec<_> = keys.iter().map(|key| name_of(key)).collect();
    let dated = user.map(|user| user.annotations().keys()).into_iter();
    let gone = dated.flatten().filter(|name| name.starts_with(KEY));
    let gone = gone.filter(|name| !after.contains(name));
    let mut notes: Map<_, _> = gone.map(|name| (name.clone(), Value::Null)).collect();
    for name in after {
        if !before.contains(&name) {
            notes.insert(name, json!(now));
        }
    }
    notes
}

/// What is noted of a key that others have put there.
pub fn note_key(key: &str, now: Timestamp) -> (String, Value) {
    (name_of(key), json!(now.to_string()))
}

/// What is noted when the owner of an account gives it a password now.
pub fn note_password() -> Map<String, Value> {
    let mut notes = password_at(Timestamp::now());
    notes.insert(OWN.to_owned(), Value::Null);
    notes
}

/// What is noted when somebody else gives `user` a password now. The owner is still to be
/// told what came before that: nobody else knows what is theirs.
pub fn note_password_by_others(user: &KiteUser) -> Map<String, Value> {
    let mut notes = password_at(Timestamp::now());
    if let Some(since) = told_up_to(user) {
        notes.insert(OWN.to_owned(), json!(since.to_string()));
    }
    notes
}

fn password_at(now: Timestamp) -> Map<String, Value> {
    Map::from_iter([(PASSWORD.to_owned(), json!(now.to_string()))])
}

/// The same for an account that is about to be made.
pub fn note_new(user: &mut KiteUser, now: Timestamp) {
    let mut notes = keys_at(None, &user.spec.ssh_public_keys, now);
    if user.spec.has_password() {
        notes.append(&mut password_at(now));
    }
    let notes = notes.into_iter().filter_map(|(name, value)| {
        let value = value.as_str()?.to_owned();
        Some((name, value))
    });
    user.annotations_mut().extend(notes);
}

/// The keys of `user` with their dates.
pub fn keys_of(user: &KiteUser) -> Vec<KeyView> {
    let keys = user.spec.ssh_public_keys.iter();
    let view = |key: &String| KeyView {
        public_key: key.clone(),
        added_at: time_in(user.annotations(), &name_of(key)).map(|at| at.to_string()),
    };
    keys.map(view).collect()
}

/// Since when `user` has the password; nothing where that is not known.
pub fn password_since(user: &KiteUser) -> Option<Timestamp> {
    time_in(user.annotations(), PASSWORD)
}

/// What came after this the owner of `user` is told of when they set another password: it
/// is when they set one last, or the account was made.
pub fn told_up_to(user: &KiteUser) -> Option<Timestamp> {
    let set = time_in(user.annotations(), OWN).or_else(|| password_since(user));
    set.or_else(|| Some(user.creation_timestamp()?.0))
}

/// The keys of `user` that came after `since`, and those of which nobody knows when they
/// came.
pub fn keys_since(user: &KiteUser, since: Option<Timestamp>) -> Vec<KeyView> {
    let mut keys = keys_of(user);
    keys.retain(|key| match (&key.added_at, since) {
        (Some(added), Some(since)) => added.parse::<Timestamp>().ok() > Some(since),
        (None, _) | (_, None) => true,
    });
    keys
}

fn time_in(annotations: &BTreeMap<String, String>, name: &str) -> Option<Timestamp> {
    annotations.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_core::crd::KiteUserSpec;

    use super::*;

    const A: &str = "ssh-ed25519 AAAA ann@laptop";
    const B: &str = "ssh-ed25519 BBBB ann@desk";

    fn user(keys: &[&str]) -> KiteUser {
        let spec = KiteUserSpec {
            ssh_public_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..KiteUserSpec::new("ann")
        };
        KiteUser::new("ann", spec)
    }

    #[test]
    fn names_are_names_of_annotations() {
        let name = name_of(A);
        let (_, name) = name.split_once('/').unwrap();
        assert!(name.len() <= 63, "{name}");
        assert_eq!(name_of(A), name_of("ssh-ed25519 AAAA another name"));
        assert_ne!(name_of(A), name_of(B));
    }

    #[test]
    fn a_key_is_dated_when_it_comes_and_forgotten_when_it_goes() {
        let mut ann = user(&[A]);
        note_new(&mut ann, Timestamp::UNIX_EPOCH);
        assert!(keys_of(&ann)[0].added_at.is_some());
        let notes = note_keys(Some(&ann), &[B.to_owned()]);
        assert_eq!(notes[&name_of(A)], Value::Null);
        assert!(notes[&name_of(B)].is_string());
        // One that stays keeps its date.
        let notes = note_keys(Some(&ann), &[A.to_owned(), B.to_owned()]);
        assert_eq!(notes.keys().collect::<Vec<_>>(), [&name_of(B)]);
    }

    #[test]
    fn keys_since_the_password_are_those_that_came_later_or_nobody_knows_when() {
        let mut ann = user(&[A, B]);
        let set = |ann: &mut KiteUser, name: String, at: &str| {
            ann.annotations_mut().insert(name, at.to_owned());
        };
        set(&mut ann, PASSWORD.to_owned(), "2026-05-01T00:00:00Z");
        set(&mut ann, name_of(A), "2026-04-01T00:00:00Z");
        let since = |ann: &KiteUser| {
            let keys = keys_since(ann, told_up_to(ann)).into_iter();
            keys.map(|key| key.public_key).collect::<Vec<_>>()
        };
        assert_eq!(since(&ann), [B]);
        set(&mut ann, name_of(B), "2026-06-01T00:00:00.5Z");
        assert_eq!(since(&ann), [B]);
        set(&mut ann, name_of(B), "2026-03-01T00:00:00Z");
        assert!(since(&ann).is_empty());
    }

    #[test]
    fn what_came_before_a_password_of_others_is_still_to_be_told() {
        let write = |ann: &mut KiteUser, notes: Map<String, Value>| {
            for (name, value) in notes {
                match value.as_str() {
                    Some(text) => ann.annotations_mut().insert(name, text.to_owned()),
                    None => ann.annotations_mut().remove(&name),
                };
            }
        };
        let mut ann = user(&[A]);
        let start = "2020-05-01T00:00:00Z";
        let annotations = ann.annotations_mut();
        annotations.insert(PASSWORD.to_owned(), start.to_owned());
        annotations.insert(name_of(A), "2020-06-01T00:00:00Z".to_owned());
        // However often they do so.
        for _ in 0..2 {
            let notes = note_password_by_others(&ann);
            write(&mut ann, notes);
            assert_eq!(told_up_to(&ann).unwrap().to_string(), start);
            assert_ne!(password_since(&ann), told_up_to(&ann));
            assert_eq!(keys_since(&ann, told_up_to(&ann)).len(), 1);
        }
        write(&mut ann, note_password());
        assert_eq!(password_since(&ann), told_up_to(&ann));
        assert!(keys_since(&ann, told_up_to(&ann)).is_empty());
    }
}

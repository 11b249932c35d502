//! Users and their passwords: one that does not come back is named by nobody.

use std::collections::BTreeSet;

use kite_core::{names, password::PasswordHash};
use kube::{Api, Client, ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use super::{
    Error,
    document::{Backup, Entry},
    kinds::Kind,
    outcome::Outcome,
    restore::Restoring,
    take::entry,
};
use crate::install::ObjectName;

impl Restoring<'_> {
    /// Has a user name no password that is not there, but that which they have by now, if
    /// any.
    pub(super) async fn fit_password(
        &mut self,
        entry: &Entry,
        wanted: &mut DynamicObject,
        there: Option<&DynamicObject>,
    ) -> Result<(), kube::Error> {
        let now = there.map(|it| it.data["spec"].clone()).unwrap_or_default();
        let name = wanted.name_any();
        let Some(spec) = wanted.data["spec"].as_object_mut() else {
            return Ok(());
        };
        let text = |field: &str| spec.get(field).and_then(Value::as_str).map(str::to_owned);
        let by_now = &now["credential"];
        let (hash, id) = (text("passwordHash"), text("credential"));
        if let Some(hash) = hash {
            let id = names::credential(&PasswordHash::from_phc(hash));
            // The API has taken it in since.
            if by_now.as_str() == Some(&*id) && now["passwordHash"].is_null() {
                spec.remove("passwordHash");
                spec.insert("credential".to_owned(), by_now.clone());
            }
            return Ok(());
        }
        let Some(id) = id else {
            return Ok(());
        };
        if self.passwords.contains(&id) || self.has_password(&name, &id).await? {
            return Ok(());
        }
        if by_now.is_null() {
            spec.remove("credential");
            self.without_password.insert(entry.former_uid.clone());
        } else {
            spec.insert("credential".to_owned(), by_now.clone());
        }
        Ok(())
    }

    async fn has_password(&self, user: &str, id: &str) -> Result<bool, kube::Error> {
        let resource = Kind::Password.resource();
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let found = all.get_opt(id).await?;
        Ok(found.is_some_and(|it| it.data["spec"]["user"] == user))
    }

    /// What is told of the password that a user comes back without, where nothing else
    /// tells of it: it is not among what was kept.
    pub(super) fn tell_password(&self, user: &Entry) -> Option<(ObjectName, Outcome)> {
        if !self.without_password.contains(&user.former_uid) {
            return None;
        }
        let wanted = named(&user.object)?;
        let mut kept = self.backup.entries.iter();
        if kept.any(|it| owned(&it.object).as_ref() == Some(&wanted)) {
            return None;
        }
        let (user, id) = wanted;
        let password = ObjectName {
            kind: Kind::Password.resource().kind,
            namespace: None,
            name: id,
        };
        let outcome = Outcome::failed(
            format!("it is not in the backup, so {user} comes back without a password"),
            format!("an administrator gives {user} another password"),
        );
        Some((password, outcome))
    }

    /// A user who is back as they are: perhaps without the password.
    pub(super) fn as_back(&self, entry: &Entry) -> DynamicObject {
        let mut user = entry.object.clone();
        if self.without_password.contains(&entry.former_uid)
            && let Some(spec) = user.data["spec"].as_object_mut()
        {
            spec.remove("credential");
        }
        user
    }
}

/// How often it is looked anew for passwords that change while they are read.
const ATTEMPTS: usize = 5;

/// Reads passwords that `entries` name and do not have: they were set after the list of
/// passwords was read. A user who has another one by now is read anew.
pub(super) async fn catch_up(client: &Client, entries: &mut Vec<Entry>) -> Result<(), Error> {
    for _ in 0..ATTEMPTS {
        let missing = missing(entries);
        if missing.is_empty() {
            break;
        }
        for (user, id) in missing {
            let found = read(client, Kind::Password, &id).await?;
            if let Some(found) = found.filter(|it| it.data["spec"]["user"] == *user) {
                entries.push(entry(Kind::Password, found));
                continue;
            }
            let now = read(client, Kind::User, &user).await?;
            let is_it = |it: &&mut Entry| {
                Kind::of(&it.object) == Some(Kind::User) && it.object.name_any() == user
            };
            if let (Some(now), Some(kept)) = (now, entries.iter_mut().find(is_it)) {
                *kept = entry(Kind::User, now);
            }
        }
    }
    Ok(())
}

async fn read(client: &Client, kind: Kind, name: &str) -> Result<Option<DynamicObject>, Error> {
    let resource = kind.resource();
    let object = ObjectName {
        kind: resource.kind.clone(),
        namespace: None,
        name: name.to_owned(),
    };
    let found = object.api(client, &resource).get_opt(name).await;
    let found = found.map_err(|error| Error::of(object, error))?;
    Ok(found.filter(|it| it.metadata.deletion_timestamp.is_none()))
}

/// Passwords that users name and that are not among `entries`: whose, and their names.
fn missing(entries: &[Entry]) -> Vec<(String, String)> {
    let owned: BTreeSet<_> = entries.iter().filter_map(|it| owned(&it.object)).collect();
    let named = entries.iter().filter_map(|it| {
        // A hash in the account is the newer word, and all that is needed.
        let by_hash = &it.object.data["spec"]["passwordHash"];
        named(&it.object).filter(|_| by_hash.is_null())
    });
    named.filter(|it| !owned.contains(it)).collect()
}

/// Users whose password is not in `backup`, though they name one: they would come back
/// without it.
pub fn without_password(backup: &Backup) -> Vec<String> {
    let missing = missing(&backup.entries).into_iter();
    missing.map(|(user, _)| user).collect()
}

/// Whose a password is, and what it is called.
pub(super) fn owned(password: &DynamicObject) -> Option<(String, String)> {
    let user = password.data["spec"]["user"].as_str()?;
    (Kind::of(password) == Some(Kind::Password)).then(|| (user.to_owned(), password.name_any()))
}

/// The same as a user says it.
pub(super) fn named(user: &DynamicObject) -> Option<(String, String)> {
    let id = user.data["spec"]["credential"].as_str()?;
    (Kind::of(user) == Some(Kind::User)).then(|| (user.name_any(), id.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn kept(kind: &str, name: &str, spec: &Value) -> Entry {
        let object = json!({
            "apiVersion": "hy3ons.github.io/v1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        Entry {
            former_uid: format!("uid-of-{name}"),
            object: serde_json::from_value(object).unwrap(),
        }
    }

    #[test]
    fn whose_password_was_not_read_is_named() {
        let backup = Backup {
            namespace: "kite".to_owned(),
            with_secrets: false,
            entries: vec![
                kept("KitePassword", "a1", &json!({"user": "ann"})),
                kept("KitePassword", "c1", &json!({"user": "eve"})),
                kept("KiteUser", "ann", &json!({"credential": "a1"})),
                // It was changed while it was read.
                kept("KiteUser", "bob", &json!({"credential": "b2"})),
                // That is somebody else's.
                kept("KiteUser", "joe", &json!({"credential": "c1"})),
                kept(
                    "KiteUser",
                    "new",
                    &json!({"credential": "d1", "passwordHash": "$2b$"}),
                ),
                kept("KiteUser", "sso", &json!({})),
            ],
        };
        assert_eq!(without_password(&backup), ["bob", "joe"]);
    }
}

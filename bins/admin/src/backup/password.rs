//! Users and their passwords: one that does not come back is named by nobody.

use kite_core::{names, password::PasswordHash};
use kube::{Api, ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use super::{document::Entry, kinds::Kind, restore::Restoring};

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

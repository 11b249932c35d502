//! The namespaces of users.

use std::time::Duration;

use kite_core::{crd::KiteUser, names};
use kube::{Api, ResourceExt as _, api::DynamicObject};
use tokio::time::{Instant, sleep};

use super::{kinds::Kind, outcome::Outcome, restore::Restoring};

/// Between two looks whether a user has a namespace.
const PAUSE: Duration = Duration::from_millis(300);

impl Restoring<'_> {
    /// Waits for the namespace of a user, which the controller makes.
    pub(super) async fn namespace_of(
        &mut self,
        kind: Kind,
        wanted: &DynamicObject,
    ) -> Result<(), Outcome> {
        let Some(namespace) = wanted.namespace() else {
            return Ok(());
        };
        let Some(user) = names::user_of_namespace(&namespace) else {
            return Ok(());
        };
        let mut entries = self.backup.entries.iter();
        let kept = entries
            .find(|it| Kind::of(&it.object) == Some(Kind::User) && it.object.name_any() == user);
        if kept.is_none_or(|it| !self.uids.contains_key(&it.former_uid)) {
            return Err(Outcome::skipped(format!("the user {user} is not back")));
        }
        if self.options.dry_run {
            return Ok(());
        }
        if !self.namespaces.contains_key(&namespace) {
            let is_there = self.wait_for_namespace(user).await?;
            self.namespaces.insert(namespace.clone(), is_there);
        }
        if self.namespaces[&namespace] {
            return Ok(());
        }
        let kind = kind.resource().kind;
        Err(Outcome::failed(
            format!(
                "the namespace {namespace} was not there after {} s, and a {kind} needs it",
                self.options.timeout.as_secs()
            ),
            format!(
                "see whether kite-controller runs (kite doctor) and kubectl describe kiteuser \
                 {user}, and repeat this"
            ),
        ))
    }

    async fn wait_for_namespace(&self, user: &str) -> Result<bool, Outcome> {
        let users = Api::<KiteUser>::all(self.client.clone());
        let since = Instant::now();
        loop {
            let found = users
                .get(user)
                .await
                .map_err(|error| Outcome::refused(&error))?;
            if found.status.is_some_and(|it| it.namespace.is_some()) {
                return Ok(true);
            }
            if since.elapsed() > self.options.timeout {
                return Ok(false);
            }
            sleep(PAUSE).await;
        }
    }
}

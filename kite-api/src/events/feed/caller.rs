//! Who reads the stream: what becomes of their account and of their way in, and whether they may
//! go on.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cluster::Object,
    crd::{AccessLevel, KiteToken, KiteUser},
};
use kite_identity::UserView;
use kite_rest::cache::Change;
use kube::ResourceExt as _;
use tokio::sync::broadcast::error::RecvError;

use super::Feed;
use crate::policy::{Act as _, Action, Whose};

/// Longest sleep, lest a session of many years overflows a timer.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);

impl Feed {
    /// How long nobody has to look whether they may go on.
    pub(super) fn time_left(&self) -> Duration {
        let Some(end) = self.principal.expires_at() else {
            return LONGEST_SLEEP;
        };
        let left = end.duration_since(Timestamp::now());
        Duration::try_from(left)
            .unwrap_or_default()
            .min(LONGEST_SLEEP)
    }

    pub(super) fn user_changed(&mut self, change: &Result<Change<KiteUser>, RecvError>) {
        let is_own = match change {
            Ok(Change::Seen(key)) => key.name == self.principal.name(),
            Ok(Change::Gone(user)) => user.uid() == self.principal.user().uid(),
            Ok(Change::All) | Err(_) => true,
        };
        if is_own {
            self.check();
            if !self.is_over {
                let me = UserView::of(self.principal.user());
                self.tell("me", &me);
            }
        }
        if !self.is_over {
            self.owners_changed(change);
        }
    }

    /// The object of a session or token changed; `own` is that of this stream's.
    pub(super) fn way_in_changed<K: Object>(
        &mut self,
        own: Option<&str>,
        change: &Result<Change<K>, RecvError>,
    ) {
        let is_own = match change {
            Ok(Change::Seen(key)) => Some(key.name.as_str()) == own,
            Ok(Change::Gone(object)) => Some(object.name_any().as_str()) == own,
            Ok(Change::All) | Err(_) => own.is_some(),
        };
        if is_own {
            self.check();
        }
    }

    /// A new API token is news to its owner, though the account is the same.
    pub(super) fn token_changed(&mut self, change: &Result<Change<KiteToken>, RecvError>) {
        let Ok(Change::Seen(key)) = change else {
            return;
        };
        let token = self.state.caches().tokens.get(key);
        let is_own = token.is_some_and(|it| it.spec.user == self.principal.name());
        if is_own && !self.is_over {
            let me = UserView::of(self.principal.user());
            self.tell("me", &me);
        }
    }

    /// Looks at the account and its session as they are now, and ends the stream
    /// if they may not go on.
    pub(super) fn check(&mut self) {
        let may_see = |level: AccessLevel| {
            let may = |action: Action, whose| action.is_allowed(level, whose);
            let sessions = self.connections.as_ref().map(|(of, _)| of.whose());
            let disks = self.snapshots.as_ref().map(|(of, _)| of.whose());
            let sees = |whose| may(Action::SeeSnapshots, whose) && may(Action::SeeVolumes, whose);
            sessions.is_none_or(|whose| may(Action::SeeVmSessions, whose))
                && disks.is_none_or(sees)
                && (self.namespace.is_some()
                    || may(Action::SeeVm, Whose::Other(AccessLevel::Admin)))
        };
        let principal = self.principal.renewed(self.state.accounts());
        if let Some(principal) = principal.filter(|principal| may_see(principal.level())) {
            self.principal = principal;
        } else {
            self.waiting.clear();
            self.tell("signed-out", &serde_json::json!({}));
            self.is_over = true;
        }
    }
}

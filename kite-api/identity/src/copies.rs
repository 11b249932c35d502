//! [`Copies`]: the watched copies of what signing in rests on.

use kite_core::{
    cluster::{ObjectKey, Unread},
    crd::{GROUP, KiteInvite, KitePlatform, KitePlatformSpec, KiteSession, KiteToken, KiteUser},
};
use kite_rest::{
    Cache,
    audit::{Before, spec},
};
use kube::Client;
use serde_json::{Map, Value};
use tokio::task::JoinSet;

/// Fields of accounts, and of what belongs to them, that audit records show.
const SHOWN: [&str; 15] = [
    "accessLevel",
    "email",
    "expiresAt",
    "identities",
    "identity",
    "quota",
    "requireSecondFactor",
    "scopes",
    "sessionEpoch",
    "signInProviders",
    "signUp",
    "sshPublicKeys",
    "suspended",
    "tokenEpoch",
    "user",
];

/// The watched copies of what signing in rests on.
#[derive(Clone)]
#[non_exhaustive]
pub struct Copies {
    /// Accounts.
    pub users: Cache<KiteUser>,
    /// The platform's settings.
    pub platforms: Cache<KitePlatform>,
    /// Login sessions.
    pub sessions: Cache<KiteSession>,
    /// API tokens.
    pub tokens: Cache<KiteToken>,
    /// Invites.
    pub invites: Cache<KiteInvite>,
}

impl Copies {
    /// Begins to watch; the watches end with `tasks`. The copies are empty until they were
    /// filled once ([`Watched::synced`](kite_rest::cache::Watched::synced)).
    pub fn start(client: &Client, tasks: &mut JoinSet<()>) -> Self {
        Self {
            users: Cache::start("users", client.clone(), tasks, |_| None),
            platforms: Cache::start_with("platforms", client.clone(), tasks, |_| None, closed),
            sessions: Cache::start("sessions", client.clone(), tasks, |_| None),
            tokens: Cache::start("tokens", client.clone(), tasks, |_| None),
            invites: Cache::start("invites", client.clone(), tasks, |_| None),
        }
    }
}

/// What stands for a platform that cannot be read. As if there was none, its defaults would
/// hold, which let in whom it kept out.
fn closed(unread: &Unread) -> Option<KitePlatform> {
    let name = unread.meta.name.as_deref()?;
    let mut platform = KitePlatform::new(name, KitePlatformSpec::closed(&unread.why));
    platform.metadata.clone_from(&unread.meta);
    Some(platform)
}

/// What audit records show of accounts, and what these were before a write. For
/// [`Audited`](kite_rest::audit::Audited).
impl Before for Copies {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn shown(&self) -> &'static [&'static str] {
        &SHOWN
    }

    fn spec_of(&self, kind: &str, key: &ObjectKey) -> Option<Map<String, Value>> {
        match kind {
            "KiteUser" => spec(&*self.users.get(key)?),
            "KitePlatform" => spec(&*self.platforms.get(key)?),
            "KiteSession" => spec(&*self.sessions.get(key)?),
            "KiteToken" => spec(&*self.tokens.get(key)?),
            "KiteInvite" => spec(&*self.invites.get(key)?),
            _ => None,
        }
    }

    /// Somebody has signed in, or has renewed it.
    fn came_in<'a>(&self, kind: &str, spec: &'a Map<String, Value>) -> Option<&'a str> {
        let user = spec.get("user").and_then(Value::as_str);
        user.filter(|_| kind == "KiteSession")
    }
}

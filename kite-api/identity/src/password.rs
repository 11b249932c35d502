//! Where the hash of an account's password is: sealed, in a [`KitePassword`] that the
//! account names.
//!
//! A password is set by one write of the account: it names another object, which was made
//! before, and the one until then goes after it. Wherever that breaks off, one of both
//! passwords signs in, and what nobody names is [swept up](super::orphans).

use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{KitePassword, KitePasswordSpec, KiteUser},
    names,
    password::PasswordHash,
};
use kite_rest::{Problem, ProblemKind, patch_unchanged};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::{Map, Value, json};

use crate::{alike::has_older, seal::Seal, state::Accounts};

/// The hash of the password that signs `user` in; nothing if none does. Nobody is looked
/// up like somebody is, by as many requests.
pub(crate) async fn known_hash(
    state: &Accounts,
    user: Option<&KiteUser>,
) -> Result<Option<PasswordHash>, Problem> {
    let id = user.and_then(|user| user.spec.credential());
    let id = id.unwrap_or_else(|| state.passwords().nobodys().into());
    let key = ObjectKey::cluster(id);
    let password = state.cluster().get_opt::<KitePassword>(&key).await?;
    let seal = Seal::if_any(state).await?;
    let Some(user) = user.filter(|user| user.spec.has_password()) else {
        return Ok(None);
    };
    if let Some(hash) = &user.spec.password_hash {
        return Ok(Some(hash.clone()));
    }
    let name = user.name_any();
    let hash = match (&seal, &password) {
        (Some(seal), Some(password)) => open(seal, &name, password),
        _ => None,
    };
    if hash.is_none() && (password.is_some() || is_named(state, user).await?) {
        tracing::error!(
            user = name,
            password = key.name,
            "the password of the account is not there or cannot be opened, so none fits: an \
             administrator sets another one"
        );
    }
    Ok(hash)
}

/// Whether `user` has a password that is there and can be opened.
pub(crate) async fn has_way_in(state: &Accounts, user: &KiteUser) -> Result<bool, Problem> {
    if user.spec.password_hash.is_some() {
        return Ok(true);
    }
    let Some(id) = &user.spec.credential else {
        return Ok(false);
    };
    let key = ObjectKey::cluster(id);
    let Some(password) = state.cluster().get_opt::<KitePassword>(&key).await? else {
        return Ok(false);
    };
    let seal = Seal::if_any(state).await?;
    Ok(seal.is_some_and(|seal| open(&seal, &user.name_any(), &password).is_some()))
}

/// Whether the account still names the password that it does in this replica's copy of it.
async fn is_named(state: &Accounts, user: &KiteUser) -> Result<bool, Problem> {
    let now = state
        .cluster()
        .get_opt::<KiteUser>(&ObjectKey::of(user))
        .await?;
    Ok(now.is_some_and(|now| now.spec.credential == user.spec.credential))
}

/// The hash in `password`, if it is one of `user` and a key opens it.
fn open(seal: &Seal, user: &str, password: &KitePassword) -> Option<PasswordHash> {
    if password.spec.user != user {
        return None;
    }
    let place = KitePassword::place(user, &password.name_any());
    let hash = seal.open(&place, &password.spec.sealed_hash).ok()?;
    String::from_utf8(hash).ok().map(PasswordHash::from_phc)
}

fn sealed(seal: &Seal, user: &str, id: &str, hash: &PasswordHash) -> Result<KitePassword, Problem> {
    let place = KitePassword::place(user, id);
    let spec = KitePasswordSpec {
        user: user.to_owned(),
        sealed_hash: seal.seal(&place, hash.as_str().as_bytes())?,
        long: false,
    };
    Ok(KitePassword::new(id, spec))
}

/// Whether the password of `user` is known to be as long as an administrator's must be:
/// that is noted when it is set, as a hash does not tell.
pub(crate) async fn has_long_password(state: &Accounts, user: &KiteUser) -> Result<bool, Problem> {
    // A hash that is in the account counts first: it may be there for replicas of an earlier
    // version, beside the object of its own name.
    let Some(id) = user.spec.credential() else {
        return Ok(false);
    };
    let key = ObjectKey::cluster(id);
    let password = state.cluster().get_opt::<KitePassword>(&key).await?;
    let password = password.filter(|it| it.spec.user == user.name_any());
    Ok(password.is_some_and(|it| it.spec.long))
}

/// A password that is there for an account which does not name it yet.
pub(crate) struct StoredPassword {
    object: KitePassword,
    /// The hash, where it is to be in the account as well.
    shown: Option<PasswordHash>,
}

impl StoredPassword {
    /// Stores the hash of a new password of the account called `user`, and whether the
    /// password [is long](super::password_rule::is_long).
    pub(crate) async fn make(
        state: &Accounts,
        user: &str,
        hash: &PasswordHash,
        is_long: bool,
    ) -> Result<Self, Problem> {
        let seal = Seal::of_cluster(state).await?;
        let shown = has_older(state).await.then(|| hash.clone());
        let mut password = sealed(&seal, user, &names::credential(hash), hash)?;
        password.spec.long = is_long;
        let object = match state.cluster().create(&password).await {
            // The request was sent twice, and its first answer lost: no other hash has this
            // name.
            Err(ClusterError::AlreadyExists { .. }) => {
                let key = ObjectKey::of(&password);
                state.cluster().get::<KitePassword>(&key).await?
            }
            made => made?,
        };
        Ok(Self { object, shown })
    }

    fn sealed_only(object: KitePassword) -> Self {
        Self {
            object,
            shown: None,
        }
    }

    /// Stores a hash that somebody has written into the account called `user`. It may be
    /// there already, where that broke off or the same hash was written once more.
    pub(crate) async fn keep(
        state: &Accounts,
        user: &str,
        hash: &PasswordHash,
    ) -> Result<Self, Problem> {
        let seal = Seal::of_cluster(state).await?;
        for id in [names::credential(hash), names::credential_of(user, hash)] {
            let password = sealed(&seal, user, &id, hash)?;
            match state.cluster().create(&password).await {
                Err(ClusterError::AlreadyExists { .. }) => {}
                made => return Ok(Self::sealed_only(made?)),
            }
            let key = ObjectKey::cluster(&id);
            let there: KitePassword = state.cluster().get(&key).await?;
            if there.spec.user != user {
                // Two accounts with one hash: somebody has copied it.
                continue;
            }
            // Sealed anew in any case: no key may open it any more, and a sweep that is
            // about to remove it sees that it is needed.
            let patch = json!({ "spec": { "sealedHash": password.spec.sealed_hash } });
            let written =
                patch_unchanged(state.cluster(), state.store().manager(), &there, patch).await?;
            if written.is_some() {
                return Ok(Self::sealed_only(there));
            }
            break;
        }
        Err(Problem::new(
            ProblemKind::Conflict,
            "the password was written by somebody else at the same moment: try again",
        ))
    }

    /// Removes it, where nothing came of the write that names it: unless the account does
    /// name it, or nobody can say. A client may have sent the write twice, and have been
    /// refused because the first was done.
    pub(crate) async fn forget(self, state: &Accounts) {
        let key = ObjectKey::cluster(&self.object.spec.user);
        match state.cluster().get_opt::<KiteUser>(&key).await {
            Ok(user) if !user.as_ref().is_some_and(|user| self.is_of(user)) => {
                remove(state, &self.object).await;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a password that may be over stays"),
        }
    }

    /// Whether the account names it. Of one that cannot be read nobody can say.
    pub(crate) fn is_of(&self, user: &KiteUser) -> bool {
        user.spec.unreadable.is_some() || user.spec.credential.as_ref() == Some(&self.id())
    }

    /// The name by which the account is to name it.
    pub(crate) fn id(&self) -> String {
        self.object.name_any()
    }

    /// Its hash, for an account that is about to be made, where replicas of an earlier
    /// version are to know it.
    pub(crate) fn shown(&self) -> Option<PasswordHash> {
        self.shown.clone()
    }

    /// What makes it the password of the account, in one write of its spec.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        Map::from_iter([
            ("credential".to_owned(), json!(self.id())),
            // Without one the hash that may be there goes.
            ("passwordHash".to_owned(), json!(self.shown)),
        ])
    }

    /// Clears away after the write that names it: the password that the account had
    /// `before`, or this one if the write was refused. Where nobody knows what came of the
    /// write, both stay, and the sweep finds out.
    pub(crate) async fn settle<T>(
        self,
        state: &Accounts,
        before: Option<&KiteUser>,
        written: Result<T, Problem>,
    ) -> Result<T, Problem> {
        let refused = written.as_ref().err().map(Problem::is_refusal);
        match (refused, before) {
            (None, Some(before)) => forget_password(state, before).await,
            (Some(true), _) => self.forget(state).await,
            (None, None) | (Some(false), _) => {}
        }
        written
    }
}

/// Removes the password that `user` names and that counts no more. If it cannot be, it
/// is left for the sweep.
pub(crate) async fn forget_password(state: &Accounts, user: &KiteUser) {
    let Some(id) = &user.spec.credential else {
        return;
    };
    let key = ObjectKey::cluster(id);
    match state.cluster().get_opt::<KitePassword>(&key).await {
        Ok(Some(password)) if password.spec.user == user.name_any() => {
            remove(state, &password).await;
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "a password that is over stays until the sweep"),
    }
}

async fn remove(state: &Accounts, password: &KitePassword) {
    let gone = PropagationPolicy::Background;
    if let Err(error) = state.cluster().delete_by_uid(password, gone).await {
        tracing::warn!(%error, "a password that is over stays until the sweep");
    }
}

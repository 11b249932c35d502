//! From a person at a provider to an account of Kite.
//!
//! An account is a person's because it has their identity: issuer and subject.
//! That a username or an email address is the same proves nothing.

use std::time::Duration;

use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{Identity, KiteReservation, KiteUser, KiteUserSpec, SignInProvider},
};
use kite_rest::{Problem, ProblemKind};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::{Map, json};

use super::{flow::Linking, person::Person};
use crate::{
    client::Client,
    free::require_free_email,
    last_admin::{self, Lowered, WayIn, leads_in, lower, lowers},
    notices::{note_edit, note_new},
    open_sign_up::free_unverified,
    providers::Failure,
    shape::is_address,
    state::Accounts,
    throttle::too_many,
};

/// Most identities of an account.
const MOST_IDENTITIES: usize = 8;
/// How often a write is tried again that others were faster than.
const ATTEMPTS: usize = 5;
/// The account of a person who signs in, made if need be, with the access level
/// that the provider gives it.
pub(super) async fn account_of(
    state: &Accounts,
    provider: &SignInProvider,
    person: &Person,
    client: &Client,
) -> Result<KiteUser, Failure> {
    let user = match find(state, &person.identity).await? {
        Some(user) => user,
        None if provider.sign_up => make(state, provider, person, client).await?,
        None => return Err(Failure::NoAccount),
    };
    if !user.spec.may_come_in() || user.metadata.deletion_timestamp.is_some() {
        return Err(Failure::Suspended);
    }
    set_level(state, provider, person, user).await
}

/// The account with this identity, as the API server has it: what lets somebody in
/// must not be stale. Where two have it, it is whose reservation there is.
async fn find(state: &Accounts, identity: &Identity) -> Result<Option<KiteUser>, Failure> {
    let has_it = |user: &KiteUser| user.spec.identities.contains(identity);
    let users = state.caches().users.list(has_it);
    if let [only] = users.as_slice()
        && let Some(user) = live(state, &only.name_any()).await?.filter(has_it)
    {
        return Ok(Some(user));
    }
    let key = ObjectKey::cluster(identity.reservation());
    let reservation = state.cluster().get_opt::<KiteReservation>(&key).await;
    let Some(reservation) = reservation.map_err(Problem::from)? else {
        return match users.as_slice() {
            [] | [_] => Ok(None),
            [_, _, ..] => Err(Failure::IdentityTaken),
        };
    };
    let holder = reservation.spec.holder;
    let user = live(state, &holder.name).await?.filter(has_it);
    Ok(user.filter(|user| user.uid().as_deref() == Some(&*holder.uid)))
}

async fn live(state: &Accounts, name: &str) -> Result<Option<KiteUser>, Problem> {
    let key = ObjectKey::cluster(name);
    Ok(state.cluster().get_opt::<KiteUser>(&key).await?)
}

/// Makes an account. It is called like its username, so of two requests at once,
/// on whatever replicas, the API server lets one win, and the other finds that the
/// account is the same person's.
async fn make(
    state: &Accounts,
    provider: &SignInProvider,
    person: &Person,
    client: &Client,
) -> Result<KiteUser, Failure> {
    let username = person.username.clone().ok_or(Failure::NoUsername)?;
    let is_theirs = |user: &KiteUser| user.spec.identities.contains(&person.identity);
    let taken = || Failure::UsernameTaken(username.clone());
    let namesake = state
        .caches()
        .users
        .find(|user| user.spec.username == username || user.name_any() == username);
    if namesake.is_some_and(|user| !is_theirs(&user)) {
        return Err(taken());
    }
    let attempt = state
        .sign_up_throttle()
        .attempt(&username, client.source(state))
        .map_err(Failure::TooMany)?;
    // One that was linked a moment ago may be neither in the copy nor reserved yet.
    let all = ListParams::default();
    let everybody = state.cluster().list::<KiteUser>(None, &all).await;
    let everybody = everybody.map_err(Problem::from)?;
    if let Some(user) = everybody.items.into_iter().find(is_theirs) {
        attempt.undecided();
        return Ok(user);
    }
    let level = provider.access_level(&person.groups);
    let spec = KiteUserSpec {
        email: free_email(state, person).await?,
        identities: vec![person.identity.clone()],
        access_level: level.unwrap_or_default(),
        ..KiteUserSpec::new(&username)
    };
    let mut user = KiteUser::new(&username, spec);
    note_new(&mut user);
    match state.cluster().create(&user).await {
        Ok(user) => {
            // The provider vouches for people, of whom many may have one address.
            attempt.undecided();
            tracing::info!(user = username, provider = provider.name, "signed up");
            state.caches().users.caught_up_with(&user).await;
            Ok(user)
        }
        Err(ClusterError::AlreadyExists { .. }) => {
            attempt.undecided();
            let user = live(state, &username).await?.filter(is_theirs);
            let user = user.ok_or_else(taken)?;
            state.caches().users.caught_up_with(&user).await;
            Ok(user)
        }
        Err(ClusterError::Invalid { .. }) => {
            attempt.undecided();
            Err(Failure::NoUsername)
        }
        Err(error) => {
            attempt.undecided();
            Err(Problem::from(error).into())
        }
    }
}

/// The person's email address, unless another account has it: it is no reason to
/// keep them out.
async fn free_email(state: &Accounts, person: &Person) -> Result<Option<String>, Failure> {
    let Some(email) = person.email.as_deref().filter(|it| is_address(it)) else {
        return Ok(None);
    };
    match require_free_email(state, email, None).await {
        Ok(()) => Ok(Some(email.to_owned())),
        // Who only said that it is theirs does not keep it from whose it is.
        Err(problem) if problem.kind() == ProblemKind::Taken => {
            let is_free = free_unverified(state, email).await?;
            Ok(is_free.then(|| email.to_owned()))
        }
        Err(problem) => Err(problem.into()),
    }
}

/// Gives the account the level of the person's groups, if the provider has a say
/// in it. The last administrator stays one.
async fn set_level(
    state: &Accounts,
    provider: &SignInProvider,
    person: &Person,
    user: KiteUser,
) -> Result<KiteUser, Failure> {
    let before = user.spec.access_level;
    let level = provider.access_level(&person.groups).unwrap_or(before);
    if level == before {
        return Ok(user);
    }
    let name = user.name_any();
    let spec = Map::from_iter([("accessLevel".to_owned(), json!(level))]);
    let edited = if lowers(&user, &spec) {
        let writing = {
            let (state, user, spec) = (state.clone(), user.clone(), spec.clone());
            async move { last_admin::write(&state, &user, &spec.into()).await }
        };
        match lower(state, &user, WayIn::Kite, &spec, writing).await? {
            Lowered::Done(lowered) => lowered,
            Lowered::Last => {
                tracing::warn!(
                    user = name,
                    provider = provider.name,
                    "stays administrator though no group says so: there is no other"
                );
                return Ok(user);
            }
            Lowered::TakenBack(user) => return Ok(user),
        }
    } else {
        last_admin::write(state, &user, &spec.into()).await?
    };
    tracing::info!(
        user = name,
        provider = provider.name,
        ?before,
        ?level,
        "the access level follows the groups"
    );
    Ok(edited)
}

/// Links a person with the account that asked for it.
pub(super) async fn link(
    state: &Accounts,
    linking: &Linking,
    identity: &Identity,
) -> Result<(), Failure> {
    let key = ObjectKey::cluster(&linking.user);
    for _ in 0..ATTEMPTS {
        let user = live(state, &linking.user).await?;
        let user = user.filter(|user| user.uid().as_deref() == Some(&*linking.user_uid));
        let user = user.ok_or(Failure::OtherSession)?;
        if user.spec.identities.contains(identity) {
            return Ok(());
        }
        let other = find(state, identity).await?;
        if other.is_some_and(|other| other.uid() != user.uid()) {
            return Err(Failure::IdentityTaken);
        }
        if user.spec.identities.len() >= MOST_IDENTITIES {
            return Err(Failure::TooManyIdentities);
        }
        let mut identities = user.spec.identities.clone();
        identities.push(identity.clone());
        if let Some(edited) = write(state, &key, &user, &identities).await? {
            state.caches().users.caught_up_with(&edited).await;
            tracing::info!(user = linking.user, issuer = identity.issuer, "linked");
            return Ok(());
        }
    }
    Err(busy().into())
}

/// Takes an identity from an account: the one called `id` ([`Identity::id`]).
pub(crate) async fn unlink(
    state: &Accounts,
    user: &KiteUser,
    id: &str,
) -> Result<KiteUser, Problem> {
    let key = ObjectKey::of(user);
    for _ in 0..ATTEMPTS {
        let now = state.cluster().get_opt::<KiteUser>(&key).await?;
        let now = now.filter(|now| now.uid() == user.uid());
        let now = now.ok_or_else(|| Problem::not_found("identity", id))?;
        let (gone, left): (Vec<_>, Vec<_>) = now
            .spec
            .identities
            .iter()
            .cloned()
            .partition(|identity| identity.id() == id);
        if gone.is_empty() {
            return Err(Problem::not_found("identity", id));
        }
        let platform = state.platform();
        let is_way = |identity: &Identity| leads_in(&platform, identity);
        if !now.spec.has_password() && !left.iter().any(is_way) {
            return Err(Problem::new(
                ProblemKind::Conflict,
                "it is the only way to sign in to the account: set a password with POST \
                 /api/v1/me/password, or link another identity first",
            ));
        }
        if let Some(edited) = write(state, &key, &now, &left).await? {
            state.caches().users.caught_up_with(&edited).await;
            return Ok(edited);
        }
    }
    Err(busy())
}

/// Writes the identities of an account; nothing if somebody else wrote meanwhile.
async fn write(
    state: &Accounts,
    key: &ObjectKey,
    user: &KiteUser,
    identities: &[Identity],
) -> Result<Option<KiteUser>, Problem> {
    let spec = Map::from_iter([("identities".to_owned(), json!(identities))]);
    let patch = json!({
        "metadata": {
            "uid": user.uid(),
            "resourceVersion": user.resource_version(),
            "annotations": note_edit(user, &spec),
        },
        "spec": spec,
    });
    match state
        .cluster()
        .merge_patch(state.store().manager(), key, &patch)
        .await
    {
        Ok(edited) => Ok(Some(edited)),
        Err(ClusterError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn busy() -> Problem {
    too_many(Duration::from_secs(1))
}

//! What accounts have in their namespaces: VMs, snapshots and volumes. What a kind has of its
//! own it says in [`Owned`]; how they are found, listed, created, edited and deleted is the same
//! for all.

mod asking;
mod creation;
mod handlers;

use std::sync::Arc;

use kite_core::{
    cluster::{Object, ObjectKey},
    crd::{AccessLevel, KiteUser},
    names,
};
use kite_identity::{Caller, whose};
use kite_rest::{Answer, Items, Page, Problem, audit::note, cache::Cache, etag_of, present};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::{
    asking::{Asking, Begun, made_by},
    creation::{New, name_taken, refusal, refuse, wait_for_namespace},
    handlers::{delete, edit, get, remove},
};
use crate::{
    caches::Caches,
    policy::{Action, Whose},
    state::ApiState,
};

/// A kind of which each account has its own, in its namespace.
pub(crate) trait Owned: Object {
    /// What one of it is called in messages.
    const WHAT: &'static str;
    /// Where they are, below `/api/v1`.
    const PATH: &'static str;
    /// What one must be allowed to do to see one.
    const SEE: Action;
    /// What one must be allowed to do to delete one.
    const DELETE: Action;
    /// One as the API shows it.
    type View: Serialize + JsonSchema;

    /// The watched copy of all of them.
    fn copies(caches: &Caches) -> &Cache<Self>;

    /// It as the API shows it.
    fn view(&self, state: &ApiState) -> Self::View;

    /// Why this one of `owner`'s is not deleted now, and what to do about that.
    fn kept(&self, _state: &ApiState, _owner: &KiteUser) -> Option<String> {
        None
    }
}

/// `?owner=…` of a request about what is somebody's.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Owner {
    /// Name of the account that it belongs to; by default the caller's.
    pub(crate) owner: Option<String>,
}

/// What the caller may see, and whose it is.
pub(crate) struct Found<K> {
    pub(crate) object: Arc<K>,
    pub(crate) owner: Arc<KiteUser>,
    pub(crate) whose: Whose,
}

/// The one of this name that the caller may see.
pub(crate) async fn find<K: Owned>(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    owner: Option<&str>,
) -> Result<Found<K>, Problem> {
    let owner = find_owner(state, caller, owner, K::SEE).await?;
    let whose = whose(caller, &owner);
    caller.require(K::SEE, whose)?;
    let object = of(state, &owner, name).await?;
    let object = object.ok_or_else(|| Problem::not_found(K::WHAT, name))?;
    Ok(Found {
        object,
        owner,
        whose,
    })
}

/// The one of this name that the caller may see, and do this with.
pub(crate) async fn find_to<K: Owned>(
    action: Action,
    state: &ApiState,
    caller: &Caller,
    name: &str,
    owner: Option<&str>,
) -> Result<Found<K>, Problem> {
    let found = find(state, caller, name, owner).await?;
    caller.require(action, found.whose)?;
    Ok(found)
}

/// The one of this name that is `owner`'s.
pub(crate) async fn of<K: Owned>(
    state: &ApiState,
    owner: &KiteUser,
    name: &str,
) -> Result<Option<Arc<K>>, Problem> {
    let key = ObjectKey::namespaced(names::user_namespace(&owner.name_any()), name);
    present(state.cluster(), K::copies(state.caches()), &key).await
}

/// The account that a request is about. Who may not `see` what others have learns nothing of
/// which accounts there are.
pub(crate) async fn find_owner(
    state: &ApiState,
    caller: &Caller,
    owner: Option<&str>,
    see: Action,
) -> Result<Arc<KiteUser>, Problem> {
    match owner {
        None => Ok(Arc::clone(caller.user())),
        Some(owner) if owner == caller.name() => Ok(Arc::clone(caller.user())),
        Some(owner) => {
            caller.require(see, Whose::Other(AccessLevel::ReadOnly))?;
            let key = ObjectKey::cluster(owner);
            let found = present(state.cluster(), &state.caches().users, &key).await?;
            let found = found.ok_or_else(|| Problem::not_found("user", owner))?;
            note(|notes| notes.of(Some(owner)));
            Ok(found)
        }
    }
}

/// The namespace whose objects a list is to have: that of one account, or with `all` none, which
/// is everybody's.
pub(crate) async fn listed(
    state: &ApiState,
    caller: &Caller,
    owner: Option<&str>,
    all: bool,
    see: Action,
) -> Result<Option<String>, Problem> {
    if all {
        caller.require(see, Whose::Other(AccessLevel::Admin))?;
        note(|notes| notes.of(None));
        return Ok(None);
    }
    let owner = find_owner(state, caller, owner, see).await?;
    caller.require(see, whose(caller, &owner))?;
    Ok(Some(names::user_namespace(&owner.name_any())))
}

/// A page of those that are `wanted`, of one account's or with `all` of everybody's.
pub(crate) async fn list<K: Owned>(
    state: &ApiState,
    caller: &Caller,
    (owner, all): (Option<&str>, bool),
    page: &Page,
    wanted: impl Fn(&K) -> bool,
) -> Result<Answer<Items<K::View>>, Problem> {
    let namespace = listed(state, caller, owner, all, K::SEE).await?;
    let all = K::copies(state.caches()).list(|it| {
        let place = it.meta().namespace.as_deref();
        let is_asked = namespace.is_none() || place == namespace.as_deref();
        is_asked && wanted(it)
    });
    Ok(Answer::new(page.cut(&all, |it| it.view(state))))
}

/// All of this kind that are `owner`'s.
pub(crate) fn all_of<K: Owned>(state: &ApiState, owner: &KiteUser) -> Vec<Arc<K>> {
    let namespace = names::user_namespace(&owner.name_any());
    let copies = K::copies(state.caches());
    copies.list(|it| it.meta().namespace.as_deref() == Some(&namespace))
}

/// Whose a namespace is.
pub(crate) fn owner_of(namespace: Option<&str>) -> String {
    let namespace = namespace.unwrap_or_default();
    let owner = names::user_of_namespace(namespace);
    owner.unwrap_or(namespace).to_owned()
}

/// It, with the tag by which it is edited.
pub(crate) fn answer<K: Owned, const STATUS: u16>(
    state: &ApiState,
    object: &K,
) -> Answer<K::View, STATUS> {
    Answer::new(object.view(state)).with_etag(&etag_of(object))
}

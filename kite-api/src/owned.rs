//! What accounts have in their namespaces: VMs, snapshots and volumes. What a kind has of its
//! own it says in [`Owned`]; how they are found, listed and created is the same for all.

use std::{sync::Arc, time::Duration};

use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, Object, ObjectKey},
    conditions,
    crd::{AccessLevel, KiteUser, UserPhase},
    names,
};
use kite_identity::{Caller, whose};
use kite_rest::{
    Accepted, Answer, Created, Deleting, Form, IdempotencyKey, IfMatch, Input, Items, Page,
    Problem, ProblemKind, Stamp, Turn, audit::note, cache::Cache, etag_of, is_label, judge_new,
    present, whole_of_new,
};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// One as the API shows it.
    type View: Serialize + JsonSchema;

    /// The watched copy of all of them.
    fn copies(caches: &Caches) -> &Cache<Self>;

    /// It as the API shows it.
    fn view(&self, state: &ApiState) -> Self::View;
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

/// A page of those in this namespace, or of all, that are `wanted`.
pub(crate) fn list<K: Owned>(
    state: &ApiState,
    namespace: Option<&str>,
    page: &Page,
    wanted: impl Fn(&K) -> bool,
) -> Answer<Items<K::View>> {
    let all = K::copies(state.caches()).list(|it| {
        let place = it.meta().namespace.as_deref();
        namespace.is_none_or(|asked| place == Some(asked)) && wanted(it)
    });
    Answer::new(page.cut(&all, |it| it.view(state)))
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

/// Deletes what was found.
pub(crate) async fn delete<K: Owned>(
    state: &ApiState,
    caller: &Caller,
    object: &K,
    condition: &IfMatch,
) -> Result<Accepted<Deleting>, Problem> {
    kite_rest::delete(state.store(), object, condition).await?;
    K::copies(state.caches())
        .caught_up_with_deletion(object)
        .await;
    let (by, what) = (caller.name(), ObjectKey::of(object));
    tracing::info!(by, %what, "deleted a {}", K::WHAT);
    Ok(Deleting::of(object.name_any()))
}

/// A request to create something, which may come again.
pub(crate) struct Asking<'a> {
    state: &'a ApiState,
    caller: &'a Caller,
    owner: &'a KiteUser,
    /// What is created is marked with it.
    pub(crate) stamp: Option<Stamp>,
    name: Option<String>,
    _turn: Option<Turn>,
}

impl<'a> Asking<'a> {
    /// Begins it, or has the answer that it was given before. Requests for a thing of one name
    /// wait for each other here: what another one is about to make is looked for when it has.
    pub(crate) async fn begin<K: Owned>(
        (state, caller, owner): (&'a ApiState, &'a Caller, &'a KiteUser),
        once: &IdempotencyKey,
        form: &Form,
    ) -> Result<Result<Self, Created<K::View>>, Problem> {
        let name = form.peek::<String>("name").filter(|name| is_label(name));
        let turn = match &name {
            Some(name) => {
                let namespace = names::user_namespace(&owner.name_any());
                let key = ObjectKey::namespaced(namespace, name);
                Some(state.creations().of(&key).await)
            }
            None => None,
        };
        // What was in order when it was asked for first may be so no more: its end is past.
        // Of a key that was used for something else it is told when nothing else is wrong.
        match made_by::<K>(state, caller, owner, once, form).await {
            Ok(Some(made)) => return Ok(Err(made)),
            Err(reused) if !form.is_faulty() => return Err(reused),
            Ok(None) | Err(_) => {}
        }
        Ok(Ok(Self {
            state,
            caller,
            owner,
            stamp: stamp_of(once, caller, owner, form),
            name,
            _turn: turn,
        }))
    }

    /// The answer to it, now that it was `made`, or could not be.
    pub(crate) async fn end<K: Owned>(
        self,
        made: Result<K, Problem>,
    ) -> Result<Created<K::View>, Problem> {
        let Self {
            state,
            caller,
            owner,
            ..
        } = self;
        let known = K::copies(state.caches());
        let problem = match made {
            Ok(made) => {
                known.caught_up_with(&made).await;
                let (by, what) = (caller.name(), ObjectKey::of(&made));
                tracing::info!(by, %what, "created a {}", K::WHAT);
                return Ok(created(state, caller, owner, &made));
            }
            Err(problem) => problem,
        };
        // Perhaps an earlier try, whose answer was lost, is what stands in the way: by its
        // name, or by what it takes of the quota.
        let (Some(stamp), Some(name)) = (self.stamp, self.name) else {
            return Err(problem);
        };
        let key = ObjectKey::namespaced(names::user_namespace(&owner.name_any()), name);
        match state.cluster().get_opt::<K>(&key).await {
            Ok(Some(made)) if stamp.is_on(&made) => match stamp.check(&made) {
                Ok(()) => {
                    known.caught_up_with(&made).await;
                    Ok(created(state, caller, owner, &made).replayed(true))
                }
                Err(_) if problem.kind() == ProblemKind::Invalid => Err(problem),
                Err(reused) => Err(reused),
            },
            _ => Err(problem),
        }
    }
}

/// The answer that the same request was given before, if it is known here that
/// it was.
pub(crate) async fn made_by<K: Owned>(
    state: &ApiState,
    caller: &Caller,
    owner: &KiteUser,
    once: &IdempotencyKey,
    form: &Form,
) -> Result<Option<Created<K::View>>, Problem> {
    let Some(stamp) = stamp_of(once, caller, owner, form) else {
        return Ok(None);
    };
    let copies = K::copies(state.caches());
    let Some(made) = copies.find(|it| stamp.is_on(it)) else {
        return Ok(None);
    };
    stamp.check(made.as_ref())?;
    copies.caught_up_with(&made).await;
    Ok(Some(
        created(state, caller, owner, made.as_ref()).replayed(true),
    ))
}

/// What something of `owner`'s is marked with. A key is good for one account, too.
fn stamp_of(
    once: &IdempotencyKey,
    caller: &Caller,
    owner: &KiteUser,
    form: &Form,
) -> Option<Stamp> {
    let stamp = once.stamp(&caller.uid(), form)?;
    Some(match whose(caller, owner) {
        Whose::Own => stamp,
        Whose::Other(_) => stamp.of(owner),
    })
}

fn created<K: Owned>(
    state: &ApiState,
    caller: &Caller,
    owner: &KiteUser,
    made: &K,
) -> Created<K::View> {
    let path = format!("/api/v1/{}/{}", K::PATH, made.name_any());
    answer(state, made).with_location(&match whose(caller, owner) {
        Whose::Own => path,
        Whose::Other(_) => format!("{path}?owner={}", owner.name_any()),
    })
}

/// Refuses what stands in the way of a body that is in order by itself. Where it is
/// not, that is told with the rest that is wrong with it.
pub(crate) fn refuse(form: &mut Form, obstacles: Vec<Problem>) -> Result<(), Problem> {
    if form.is_faulty() {
        for obstacle in obstacles {
            form.note(obstacle.errors().iter().cloned());
        }
        return form.finish();
    }
    match obstacles.into_iter().reduce(Problem::and) {
        Some(problem) => Err(problem.with_values(|field| form.value_of(field))),
        None => Ok(()),
    }
}

/// That another of this kind has the name.
pub(crate) fn name_taken<K: Owned>(name: &str) -> Problem {
    Problem::field(
        ProblemKind::Taken,
        "name",
        name,
        format!(
            "is the name of another {} of yours: choose another",
            K::WHAT
        ),
    )
}

/// Waits a moment for a new account's namespace.
pub(crate) async fn wait_for_namespace(state: &ApiState, owner: &KiteUser) -> Result<(), Problem> {
    let key = ObjectKey::cluster(owner.name_any());
    let ready = state
        .caches()
        .users
        .wait_for(state.namespace_wait(), |users| {
            let status = users.get(&key)?.status.clone()?;
            match status.phase {
                _ if status.namespace.is_some() => Some(Ok(())),
                Some(UserPhase::Failed) => Some(Err(conditions::find(&status.conditions, "Ready")
                    .map(|ready| ready.message.clone())
                    .unwrap_or_default())),
                _ => None,
            }
        })
        .await;
    match ready {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => Err(Problem::new(
            ProblemKind::Conflict,
            format!("the account's namespace cannot be used: {why}"),
        )),
        None => Err(namespace_not_ready()),
    }
}

/// The problem of a user whose namespace is not there yet.
fn namespace_not_ready() -> Problem {
    Problem::new(
        ProblemKind::NotReady,
        "the account's space is being prepared: try again in a few seconds",
    )
    .retry_after(Duration::from_secs(2))
}

/// Creates what was read of a body for `owner`, unless something is in the way. `model` is one
/// that the API server takes.
pub(crate) async fn create<K: Owned, B: Input>(
    (state, owner): (&ApiState, &KiteUser),
    form: &mut Form,
    new: Option<B>,
    object: impl FnOnce(B) -> K,
    mut obstacles: Vec<Problem>,
    (mut model, stamp): (K, Option<&Stamp>),
) -> Result<K, Problem> {
    let namespace = Some(names::user_namespace(&owner.name_any()));
    model.meta_mut().namespace.clone_from(&namespace);
    let key = |name| ObjectKey::namespaced(names::user_namespace(&owner.name_any()), name);
    if let Some(name) = form.peek::<String>("name")
        && K::copies(state.caches()).get(&key(&name)).is_some()
    {
        obstacles.insert(0, name_taken::<K>(&name));
    }
    if form.is_faulty() || !obstacles.is_empty() {
        judge_new::<B, _>(state.store(), form, &model).await;
        refuse(form, obstacles)?;
    }
    let mut object = object(form.finish_with(new)?);
    wait_for_namespace(state, owner).await?;
    object.meta_mut().namespace = namespace;
    if let Some(stamp) = stamp {
        stamp.mark(&mut object);
    }
    match state.cluster().create(&object).await {
        Ok(created) => Ok(created),
        Err(error) => {
            let problem = refusal::<K>(error, &object.name_any(), form);
            Err(whole_of_new::<B, _>(state.store(), form, problem, &model).await)
        }
    }
}

/// What the API server's refusal of a new one means.
pub(crate) fn refusal<K: Owned>(error: ClusterError, name: &str, form: &Form) -> Problem {
    match error {
        ClusterError::AlreadyExists { .. } => name_taken::<K>(name),
        ClusterError::NotFound { .. } => namespace_not_ready(),
        error if is_count_exceeded::<K>(&error) => count_is_behind::<K>(),
        error => form.blame(error),
    }
}

/// Whether the namespace's quota, by its own count, has no room for one more.
fn is_count_exceeded<K: Owned>(error: &ClusterError) -> bool {
    let ClusterError::Forbidden { status, .. } = error else {
        return false;
    };
    let exceeded = status.message.split_once("exceeded quota: kite-quota,");
    let counted = format!("count/{}", K::plural(&()));
    exceeded.is_some_and(|(_, what)| what.contains(&counted))
}

/// The problem of something for which there is room by our count, which is that of all that
/// there are. A quota counts attempts that came to nothing, too, and what has just gone, until
/// somebody counts anew.
fn count_is_behind<K: Owned>() -> Problem {
    Problem::new(
        ProblemKind::Unavailable,
        format!(
            "there is room for the {} in the quota, and the cluster counts some that are not \
             there: try again in a few minutes, nothing has to be deleted",
            K::WHAT
        ),
    )
    .retry_after(Duration::from_secs(10))
}

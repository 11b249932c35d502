//! [`Asking`]: requests to create something, which may come again and two at a time.

use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::KiteUser,
    names,
};
use kite_identity::{Caller, whose};
use kite_rest::{
    Created, Form, IdempotencyKey, Input, Problem, ProblemKind, Stamp, Turn, is_label,
};
use kube::ResourceExt as _;

use super::{
    Owned, answer,
    creation::{New, create},
};
use crate::{policy::Whose, state::ApiState};

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

/// What a request to create something begins with.
pub(crate) enum Begun<'a, K: Owned> {
    /// It is to be carried out.
    Now(Asking<'a>),
    /// It came before, and this was the answer.
    Before(Created<K::View>),
}

impl<'a> Asking<'a> {
    /// Begins it, or has the answer that it was given before. Requests for a thing of one name
    /// wait for each other here: what another one is about to make is looked for when it has.
    pub(crate) async fn begin<K: Owned>(
        state: &'a ApiState,
        caller: &'a Caller,
        owner: &'a KiteUser,
        once: &IdempotencyKey,
        form: &Form,
    ) -> Result<Begun<'a, K>, Problem> {
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
            Ok(Some(made)) => return Ok(Begun::Before(made)),
            Err(reused) if !form.is_faulty() => return Err(reused),
            Ok(None) | Err(_) => {}
        }
        Ok(Begun::Now(Self {
            state,
            caller,
            owner,
            stamp: stamp_of(once, caller, owner, form),
            name,
            _turn: turn,
        }))
    }

    /// Creates what was read of the body, unless something is in the way.
    pub(crate) async fn create<K: Owned, B: Input>(
        self,
        form: &mut Form,
        new: New<K, B, impl FnOnce(B) -> K>,
    ) -> Result<Created<K::View>, Problem> {
        let stamp = self.stamp.as_ref();
        let made = create(self.state, self.owner, form, new, stamp).await;
        self.end(made).await
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

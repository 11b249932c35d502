//! What is the same of seeing, editing and deleting one, whatever its kind.

use axum::extract::{Path, Query, State};
use kite_core::cluster::ObjectKey;
use kite_identity::Caller;
use kite_rest::{
    Accepted, Answer, Deleting, Form, IfMatch, Input, Named, Problem, ProblemKind, whole_of_edit,
};
use kube::ResourceExt as _;
use serde_json::{Map, Value};

use super::{Found, Owned, Owner, answer, find, find_to};
use crate::state::ApiState;

/// `GET /api/v1/…/{name}`
pub(crate) async fn get<K: Owned>(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
) -> Result<Answer<K::View>, Problem> {
    let found = find::<K>(&state, &caller, &name, owner.as_deref()).await?;
    Ok(answer(&state, found.object.as_ref()))
}

/// Changes fields of the spec of `object` as it was found; of what the API server refuses all is
/// told that is wrong with the body.
pub(crate) async fn edit<B: Input, K: Owned>(
    state: &ApiState,
    object: &K,
    condition: &IfMatch,
    spec: Map<String, Value>,
    form: &mut Form,
) -> Result<Answer<K::View>, Problem> {
    let (store, spec) = (state.store(), spec.into());
    let copies = K::copies(state.caches());
    match kite_rest::edit(store, copies, object, condition, &spec, form).await {
        Ok(edited) => Ok(answer(state, &edited)),
        Err(problem) => Err(whole_of_edit::<B, K>(store, form, problem, object).await),
    }
}

/// `DELETE /api/v1/…/{name}`
pub(crate) async fn delete<K: Owned>(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
) -> Result<Accepted<Deleting>, Problem> {
    let (_, gone) = remove::<K>(&state, &caller, &name, owner.as_deref(), &condition).await?;
    Ok(gone)
}

/// Deletes the one of this name, unless something keeps it. The first is what was found.
pub(crate) async fn remove<K: Owned>(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    owner: Option<&str>,
    condition: &IfMatch,
) -> Result<(Found<K>, Accepted<Deleting>), Problem> {
    let found = find_to::<K>(K::DELETE, state, caller, name, owner).await?;
    let object = found.object.as_ref();
    // One that goes already may be asked to go once more.
    if object.meta().deletion_timestamp.is_none()
        && let Some(why) = object.kept(state, &found.owner)
    {
        condition.check(object)?;
        return Err(Problem::new(ProblemKind::Conflict, why));
    }
    kite_rest::delete(state.store(), object, condition).await?;
    let copies = K::copies(state.caches());
    copies.caught_up_with_deletion(object).await;
    let (by, what) = (caller.name(), ObjectKey::of(object));
    tracing::info!(by, %what, "deleted a {}", K::WHAT);
    let gone = Deleting::of(object.name_any());
    Ok((found, gone))
}

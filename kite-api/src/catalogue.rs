//! What administrators make for everybody, and name in the whole cluster: offers and images.

use std::sync::Arc;

use kite_core::cluster::{Cluster as _, ClusterError, ClusterExt as _, Object, ObjectKey};
use kite_identity::Caller;
use kite_rest::{
    Accepted, Answer, Created, Deleting, Form, IdempotencyKey, IfMatch, Input, Problem,
    ProblemKind, Stamp, cache::Cache, finish_new, is_label, present,
};
use kube::ResourceExt as _;

use crate::{caches::Caches, state::ApiState};

/// A kind of the catalogue.
pub(crate) trait Catalogued: Object {
    /// What people call one.
    const WHAT: &'static str;
    /// Where one is found, with its name after it.
    const PLACE: &'static str;
    /// As administrators see one.
    type View;

    /// The watched copies.
    fn copies(caches: &Caches) -> &Cache<Self>;

    /// As administrators see it.
    fn view(&self) -> Self::View;
}

/// Creates one, or answers like the first time where the request was made before. `model` is one
/// that the API server takes, to try single fields with.
pub(crate) async fn create<K: Catalogued, B: Input>(
    state: &ApiState,
    caller: &Caller,
    once: IdempotencyKey,
    form: &mut Form,
    input: Option<B>,
    (model, object): (K, impl FnOnce(B) -> K),
) -> Result<Created<K::View>, Problem> {
    let stamp = once.stamp(&caller.uid(), form);
    let name = form.peek::<String>("name").filter(|name| is_name(name));
    let new = match finish_new(state.store(), form, input, &model).await {
        Ok(new) => new,
        // What was in order when it was asked for first may be so no more.
        Err(problem) => {
            let earlier = made_by::<K>(state, stamp.as_ref(), name.as_deref()).await;
            return earlier.ok().flatten().ok_or(problem);
        }
    };
    let copies = K::copies(state.caches());
    let mut new = object(new);
    let name = new.name_any();
    if let Some(stamp) = &stamp {
        stamp.require_only(copies, &ObjectKey::of(&new))?;
        stamp.mark(&mut new);
    }
    let made = match state.cluster().create(&new).await {
        Err(ClusterError::AlreadyExists { .. }) => {
            let earlier = made_by::<K>(state, stamp.as_ref(), Some(&name)).await?;
            return earlier.ok_or_else(|| {
                let remedy = format!("is the name of another {}: choose another", K::WHAT);
                Problem::field(ProblemKind::Taken, "name", &name, remedy)
            });
        }
        made => made.map_err(|error| form.blame(error))?,
    };
    copies.caught_up_with(&made).await;
    tracing::info!(by = caller.name(), name, "created an {}", K::WHAT);
    Ok(created(&made))
}

/// Whether something in the cluster can be called so: labels with dots between.
fn is_name(name: &str) -> bool {
    name.split('.').all(is_label)
}

/// The answer that the same request was given before.
async fn made_by<K: Catalogued>(
    state: &ApiState,
    stamp: Option<&Stamp>,
    name: Option<&str>,
) -> Result<Option<Created<K::View>>, Problem> {
    let (Some(stamp), Some(name)) = (stamp, name) else {
        return Ok(None);
    };
    let there = state.cluster().get_opt(&ObjectKey::cluster(name)).await?;
    let there: Option<K> = there.filter(|it| stamp.is_on(it));
    let Some(there) = there else {
        return Ok(None);
    };
    stamp.check(&there)?;
    K::copies(state.caches()).caught_up_with(&there).await;
    Ok(Some(created(&there).replayed(true)))
}

fn created<K: Catalogued>(object: &K) -> Created<K::View> {
    Answer::new(object.view()).with_location(&format!("{}/{}", K::PLACE, object.name_any()))
}

/// Deletes the one of this name, if it is as the request thinks.
pub(crate) async fn delete<K: Catalogued>(
    state: &ApiState,
    caller: &Caller,
    name: String,
    condition: &IfMatch,
) -> Result<Accepted<Deleting>, Problem> {
    let found = find::<K>(state, &name).await?;
    kite_rest::delete(state.store(), found.as_ref(), condition).await?;
    K::copies(state.caches())
        .caught_up_with_deletion(&found)
        .await;
    tracing::info!(by = caller.name(), name, "deleted an {}", K::WHAT);
    Ok(Deleting::of(name))
}

/// The one of this name.
pub(crate) async fn find<K: Catalogued>(state: &ApiState, name: &str) -> Result<Arc<K>, Problem> {
    let key = ObjectKey::cluster(name);
    let found = present(state.cluster(), K::copies(state.caches()), &key).await?;
    found.ok_or_else(|| Problem::not_found(K::WHAT, name))
}

//! Creating one, and what stands in its way.

use std::time::Duration;

use kite_core::{
    cluster::{Cluster as _, ClusterError, ObjectKey},
    conditions,
    crd::{KiteUser, UserPhase},
    names,
};
use kite_rest::{Form, Input, Problem, ProblemKind, Stamp, judge_new, whole_of_new};
use kube::ResourceExt as _;

use super::Owned;
use crate::state::ApiState;

/// Something new, as it was asked for.
pub(crate) struct New<K, B, F: FnOnce(B) -> K> {
    /// What was read of the body.
    pub(crate) input: Option<B>,
    /// What that is as an object.
    pub(crate) object: F,
    /// What stands in the way beside what is wrong with the body.
    pub(crate) obstacle: Option<Problem>,
    /// One that the API server takes.
    pub(crate) model: K,
}

/// Creates it for `owner`, unless something is in the way, and marks it with `stamp`.
pub(super) async fn create<K: Owned, B: Input>(
    state: &ApiState,
    owner: &KiteUser,
    form: &mut Form,
    new: New<K, B, impl FnOnce(B) -> K>,
    stamp: Option<&Stamp>,
) -> Result<K, Problem> {
    let New {
        input,
        object,
        obstacle,
        mut model,
    } = new;
    let mut obstacles = Vec::from_iter(obstacle);
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
    let mut object = object(form.finish_with(input)?);
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

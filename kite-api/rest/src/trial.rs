//! A body that is refused anyhow is shown to the API server as well, as far as it
//! makes sense: bounds and patterns are the custom resources' own, and who mends
//! what one answer says shall not be told of the next field by another.
//!
//! Nothing is stored by it (`dryRun`), and nothing is asked of a body that is in
//! order.

use std::{collections::BTreeSet, time::Duration};

use kite_core::cluster::{ClusterError, Object, ObjectKey};
use kube::ResourceExt as _;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::{
    form::Form,
    input::Input,
    place::base,
    problem::{Problem, ProblemKind},
    store::Store,
};

/// How often the API server is asked: of some mistakes it says nothing before others
/// are mended.
const ROUNDS: usize = 3;
/// How long all of them may take: what is known to be wrong is told without them then.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks, unless there is too much of it: so many may at a time, as mistakes must not keep
/// the API server from its work. Of those beyond it is told what is known here.
async fn within_bounds(store: &Store, asking: impl Future<Output = ()>) {
    if let Ok(_permit) = store.trials().try_acquire() {
        // What was told by then is noted.
        let _ = timeout(PATIENCE, asking).await;
    }
}

/// What was read of a body that creates something, or all that is wrong with it.
/// `model` is an object that the API server takes: what the body has right is put
/// into it.
///
/// # Errors
/// A problem that names each field that is wrong, those among them that only the API server
/// finds wrong.
pub async fn finish_new<B: Input, K: Object>(
    store: &Store,
    form: &mut Form,
    input: Option<B>,
    model: &K,
) -> Result<B, Problem> {
    if form.is_faulty() {
        judge_new::<B, K>(store, form, model).await;
    }
    form.finish_with(input)
}

/// What was read of a body that edits `object`, or all that is wrong with it.
///
/// # Errors
/// A problem that names each field that is wrong, those among them that only the API server
/// finds wrong.
pub async fn finish_edit<B: Input, K: Object>(
    store: &Store,
    form: &mut Form,
    input: Option<B>,
    object: &K,
) -> Result<B, Problem> {
    if form.is_faulty() {
        judge_edit::<B, K>(store, form, object).await;
    }
    form.finish_with(input)
}

/// Notes what the API server finds wrong with the body of a creation.
pub async fn judge_new<B: Input, K: Object>(store: &Store, form: &mut Form, model: &K) {
    within_bounds(store, async {
        for _ in 0..ROUNDS {
            let Some(candidate) = candidate::<B, K>(form, model) else {
                return;
            };
            let answer = store.cluster().dry_run_create(&candidate).await;
            if !note::<K>(form, answer) {
                return;
            }
        }
    })
    .await;
}

/// Notes what the API server finds wrong with the body of an edit of `object`.
pub async fn judge_edit<B: Input, K: Object>(store: &Store, form: &mut Form, object: &K) {
    within_bounds(store, async {
        for _ in 0..ROUNDS {
            let spec = sound::<B>(form);
            if spec.is_empty() {
                return;
            }
            let patch = json!({ "metadata": { "uid": object.uid() }, "spec": spec });
            let key = ObjectKey::of(object);
            let answer = store
                .cluster()
                .dry_run_merge_patch(store.manager(), &key, &patch);
            if !note::<K>(form, answer.await) {
                return;
            }
        }
    })
    .await;
}

/// The refusal of a write, and what the API server did not say with it.
pub async fn whole_of_new<B: Input, K: Object>(
    store: &Store,
    form: &mut Form,
    problem: Problem,
    model: &K,
) -> Problem {
    if problem.kind() != ProblemKind::Invalid || !form.note(problem.errors().iter().cloned()) {
        return problem;
    }
    judge_new::<B, K>(store, form, model).await;
    form.finish().err().unwrap_or(problem)
}

/// The same of an edit.
pub async fn whole_of_edit<B: Input, K: Object>(
    store: &Store,
    form: &mut Form,
    problem: Problem,
    object: &K,
) -> Problem {
    if problem.kind() != ProblemKind::Invalid || !form.note(problem.errors().iter().cloned()) {
        return problem;
    }
    judge_edit::<B, K>(store, form, object).await;
    form.finish().err().unwrap_or(problem)
}

/// Whether the answer told something new of a field, so that it is worth asking
/// again without that. What else stands in the way is no matter of the body's.
fn note<K>(form: &mut Form, answer: Result<K, ClusterError>) -> bool {
    let Err(error @ ClusterError::Invalid { .. }) = answer else {
        return false;
    };
    let problem = form.problem(error);
    let known: Vec<_> = form.known().iter().map(|known| known.name).collect();
    let about_it = |field: &str| field.is_empty() || known.contains(&base(field));
    let errors = problem.errors().iter().filter(|it| about_it(&it.field));
    let errors: Vec<_> = errors.map(|it| form.of_sound(it)).collect();
    form.note(errors)
}

/// `model` with what the body has right.
fn candidate<B: Input, K: Object>(form: &Form, model: &K) -> Option<K> {
    let mut object = serde_json::to_value(model).ok()?;
    let name = form.sound().get(B::NAMED_BY).cloned();
    if let Some(Value::String(name)) = name {
        object["metadata"]["name"] = name.into();
    }
    let spec = object.get_mut("spec")?.as_object_mut()?;
    let given = sound::<B>(form).into_iter();
    spec.extend(given.filter(|(_, value)| !value.is_null()));
    serde_json::from_value(object).ok()
}

/// Those of the body's fields that are right and the custom resource's.
fn sound<B: Input>(form: &Form) -> Map<String, Value> {
    let schema = B::resource(&mut SchemaGenerator::default());
    let properties = schema.as_ref().and_then(|it: &Schema| it.get("properties"));
    let properties = properties.and_then(Value::as_object).into_iter();
    let properties: BTreeSet<_> = properties.flat_map(Map::keys).collect();
    let mut sound = form.sound();
    sound.retain(|name, _| properties.contains(name));
    sound
}

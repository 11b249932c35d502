//! Writing notices that are written by themselves: what is about to be done elsewhere is told
//! ahead of it, and what was seen is put away.

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, Object, ObjectKey},
    crd::KiteUser,
};
use kite_rest::{Cache, Problem, ProblemKind, Store, patch_unchanged};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::{
    AccountNotice,
    store::{Record, Seen, annotation_of, id_of, put, put_away},
};
use crate::state::Accounts;

/// How often a write is tried again that others were faster than.
const TRIES: usize = 5;

/// Writes `notes` to `object`, unless somebody has written it since it was read. Whether
/// they are there now.
///
/// # Errors
/// A [`ClusterError`] if the API server refuses or does not answer; that `object` has changed
/// is none.
pub async fn annotate<K: Object>(
    store: &Store,
    cache: &Cache<K>,
    object: &K,
    notes: &Map<String, Value>,
) -> Result<bool, ClusterError> {
    let patch = json!({ "metadata": { "annotations": notes } });
    let edited = patch_unchanged(store.cluster(), store.manager(), object, patch).await?;
    if let Some(edited) = &edited {
        cache.caught_up_with(edited).await;
    }
    Ok(edited.is_some())
}

/// A notice that was written before what it tells of is done elsewhere: a crash in between
/// tells of what did not come about, and never keeps silent of what did.
pub struct Ahead {
    /// The account as it was written.
    user: KiteUser,
    /// The annotation that has it; none where there was no room, and it was counted.
    annotation: Option<String>,
}

/// Tells the owner of `user` what is about to be done to another object than the account.
///
/// # Errors
/// The problem of a refusal by the API server: then nothing was told.
pub async fn tell_ahead(
    state: &Accounts,
    user: &KiteUser,
    kind: AccountNotice,
    name: &str,
) -> Result<Ahead, Problem> {
    let key = ObjectKey::of(user);
    // What was noted a moment ago may be in the copy only.
    let copy = state.caches().users.get(&key);
    let copy = copy.filter(|copy| copy.uid() == user.uid());
    let annotations = copy.as_deref().unwrap_or(user).annotations();
    let now = Timestamp::now();
    let id = id_of(kind, &format!("{name}\n{now}"));
    let mut notes = Map::new();
    put(annotations, &mut notes, &id, &Record::new(kind, name, now));
    let patch = json!({ "metadata": { "uid": user.uid(), "annotations": notes } });
    let edited = state
        .cluster()
        .merge_patch::<KiteUser>(state.store().manager(), &key, &patch)
        .await?;
    state.caches().users.caught_up_with(&edited).await;
    Ok(Ahead {
        user: edited,
        annotation: Some(annotation_of(&id)).filter(|it| notes.contains_key(it)),
    })
}

impl Ahead {
    /// Takes it back, as nothing came of it. Where that fails it is told all the same.
    pub async fn withdraw(self, state: &Accounts) {
        let annotation = self.annotation;
        let of = |user: &KiteUser| match &annotation {
            Some(annotation) => (Map::from_iter([(annotation.clone(), Value::Null)]), 0),
            None => put_away::<AccountNotice>(user.annotations(), &Seen::default(), 1),
        };
        let written = write_seen(state.store(), &state.caches().users, &self.user, of).await;
        if let Err(problem) = written {
            let why = problem.detail();
            tracing::warn!(why, "a notice stays of what did not come about");
        }
    }
}

/// Writes what `of` makes of `object` as it is now; how many of those beyond what is kept
/// are put away by it.
///
/// # Errors
/// [`ProblemKind::Conflict`] if `object` changes each time that this is tried, or the problem
/// of a refusal by the API server.
pub async fn write_seen<K: Object>(
    store: &Store,
    cache: &Cache<K>,
    object: &K,
    of: impl Fn(&K) -> (Map<String, Value>, u32) + Send + Sync,
) -> Result<u32, Problem> {
    let key = ObjectKey::of(object);
    for _ in 0..TRIES {
        let now = store.cluster().get_opt::<K>(&key).await?;
        // Of what is gone there is nothing to be told.
        let Some(now) = now.filter(|now| now.uid() == object.uid()) else {
            return Ok(0);
        };
        let (notes, off) = of(&now);
        if notes.is_empty() || annotate(store, cache, &now, &notes).await? {
            return Ok(off);
        }
    }
    Err(Problem::new(
        ProblemKind::Conflict,
        "notices were written at the same moment: try again",
    ))
}

//! `ETag` and `If-Match`: an edit that counts only if nobody else edited
//! meanwhile.
//!
//! The tag stands for what people can edit: it changes with the object's
//! `generation`, not with its status, which moves every second while something comes to
//! be, and would refuse every edit.

use aide::{OperationInput, generate::GenContext, openapi::Operation, operation::add_parameters};
use axum::extract::FromRequestParts;
use http::{header, request::Parts};
use kite_core::cluster::{Cluster as _, ClusterError, ClusterExt as _, Object, ObjectKey};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::{Map, Value, json};

use crate::{
    cache::Cache,
    form::Form,
    header::refused,
    openapi::{refuses, request_header},
    problem::{Problem, ProblemKind},
    store::Store,
};

/// How often an edit is tried again because the status changed meanwhile.
const TRIES: usize = 5;

/// The tag of an object as it is.
pub fn etag_of<K: Object>(object: &K) -> String {
    let uid = object.uid().unwrap_or_default();
    let generation = object.meta().generation.unwrap_or_default();
    format!("\"{uid}.{generation}\"")
}

/// What a request's `If-Match` says.
#[derive(Clone, Debug, Default)]
pub struct IfMatch {
    tags: Vec<String>,
    /// Whether the request has named none of them: the server itself has looked.
    is_unasked: bool,
}

impl IfMatch {
    /// The same, and that nobody edits an object any more after it was found so, whoever
    /// asks: for what rests on a look at it. Who has not sent the tag that it had then is
    /// not told of an `If-Match`.
    #[must_use]
    pub fn as_found<K: Object>(&self, object: &K) -> Self {
        let tag = etag_of(object);
        let is_unasked = !self.tags.contains(&tag);
        Self {
            tags: vec![tag],
            is_unasked,
        }
    }

    /// Refuses an object that is not as the request thinks.
    ///
    /// # Errors
    /// [`ProblemKind::ChangedMeanwhile`] if the request names another version,
    /// [`ProblemKind::Conflict`] if it was the server that did.
    pub fn check<K: Object>(&self, object: &K) -> Result<(), Problem> {
        let tag = etag_of(object);
        if self.tags.is_empty() || self.tags.iter().any(|it| it == "*" || *it == tag) {
            return Ok(());
        }
        if self.is_unasked {
            return Err(Problem::new(
                ProblemKind::Conflict,
                "it was changed by somebody else at the same moment: try again",
            ));
        }
        let given = self.tags.join(", ");
        Err(Problem::new(
            ProblemKind::ChangedMeanwhile,
            format!(
                "it was edited since you loaded it (If-Match has {given}, now it is {tag}): load \
                 it again and repeat what you did"
            ),
        ))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut tags = Vec::new();
        for value in parts.headers.get_all(header::IF_MATCH) {
            let line = value.to_str().unwrap_or_default();
            tags.extend(line.split(',').map(|tag| tag.trim().to_owned()));
        }
        if tags.iter().all(|tag| is_tag(tag)) {
            return Ok(Self {
                tags,
                is_unasked: false,
            });
        }
        Err(refused(
            &parts.headers,
            &header::IF_MATCH,
            "If-Match",
            "write what an earlier answer had as ETag, with its quotes, or *",
        ))
    }
}

/// Whether a text is an entity tag, or stands for any (RFC 9110 §13.1.1).
fn is_tag(text: &str) -> bool {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    text == "*" || inner.is_some_and(|inner| !inner.contains('"'))
}

impl OperationInput for IfMatch {
    fn operation_input(ctx: &mut GenContext, operation: &mut Operation) {
        let tags = request_header(
            "If-Match",
            "The `ETag` of what the edit is based on: if somebody edited it since, nothing is \
             changed.",
            ctx.schema.subschema_for::<String>(),
        );
        add_parameters(ctx, operation, [tags]);
        refuses(
            ctx,
            operation,
            &[ProblemKind::Malformed, ProblemKind::ChangedMeanwhile],
        );
    }
}

/// Changes fields of the spec of `object` as it was found, and only those, if it
/// is as the request thinks.
///
/// # Errors
/// As those of [`edit_noting`].
pub async fn edit<K: Object>(
    store: &Store,
    cache: &Cache<K>,
    object: &K,
    condition: &IfMatch,
    spec: &Value,
    form: &Form,
) -> Result<K, Problem> {
    edit_noting(store, cache, object, condition, spec, &Map::new(), form).await
}

/// The same, and writes `notes` into the annotations in the same breath.
///
/// # Errors
/// [`ProblemKind::ChangedMeanwhile`] or [`ProblemKind::Conflict`] if `condition` does not hold,
/// or the API server's refusal in terms of `form`.
pub async fn edit_noting<K: Object>(
    store: &Store,
    cache: &Cache<K>,
    object: &K,
    condition: &IfMatch,
    spec: &Value,
    notes: &Map<String, Value>,
    form: &Form,
) -> Result<K, Problem> {
    condition.check(object)?;
    let key = ObjectKey::of(object);
    // Without a condition what others write at the same time is no matter.
    let mut version = if condition.tags.is_empty() {
        None
    } else {
        object.resource_version()
    };
    for _ in 0..TRIES {
        let mut metadata = json!({ "uid": object.uid() });
        if let Some(version) = &version {
            metadata["resourceVersion"] = json!(version);
        }
        if !notes.is_empty() {
            metadata["annotations"] = json!(notes);
        }
        let patch = json!({ "metadata": metadata, "spec": spec });
        let edited = store
            .cluster()
            .merge_patch(store.manager(), &key, &patch)
            .await;
        match edited {
            Ok(edited) => {
                cache.caught_up_with(&edited).await;
                return Ok(edited);
            }
            Err(ClusterError::Conflict { .. }) if version.is_some() => {
                // Perhaps only its status moved.
                let now: K = store.cluster().get(&key).await?;
                condition.check(&now)?;
                version = now.resource_version();
            }
            Err(error) => return Err(form.blame(error)),
        }
    }
    Err(changes_too_fast())
}

/// Deletes `object` as it was found, if it is as the request thinks.
///
/// # Errors
/// [`ProblemKind::ChangedMeanwhile`] or [`ProblemKind::Conflict`] if `condition` does not hold,
/// or the problem of a refusal by the API server.
pub async fn delete<K: Object>(
    store: &Store,
    object: &K,
    condition: &IfMatch,
) -> Result<(), Problem> {
    const GONE: PropagationPolicy = PropagationPolicy::Background;
    condition.check(object)?;
    if condition.tags.is_empty() {
        return match store.cluster().delete_by_uid(object, GONE).await {
            // It goes, though the answer, which is the object, cannot be read.
            Ok(()) | Err(ClusterError::Unreadable { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
    let key = ObjectKey::of(object);
    let mut now = object.clone();
    for _ in 0..TRIES {
        match store.cluster().delete_unchanged(&now, GONE).await {
            Ok(()) | Err(ClusterError::NotFound { .. }) => return Ok(()),
            Err(ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        // Perhaps only its status moved.
        let found = store.cluster().get_opt::<K>(&key).await?;
        let Some(found) = found.filter(|found| found.uid() == object.uid()) else {
            return Ok(());
        };
        condition.check(&found)?;
        now = found;
    }
    Err(changes_too_fast())
}

fn changes_too_fast() -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        "it changes faster than it can be edited: try again",
    )
    .retry_after(std::time::Duration::from_secs(1))
}

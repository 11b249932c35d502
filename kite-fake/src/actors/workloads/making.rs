//! Making Pods and other objects, which may be refused.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::Value;

use crate::actors::actor::ActorError;
use crate::actors::kind::Kind;
use crate::actors::mirror::Found;
use crate::actors::objects::Objects;

/// After which time what could not be made is tried again.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What came of making an object.
#[derive(Debug)]
pub(super) enum Made {
    Object(Found),
    /// One of its name is there.
    Exists,
    /// There is no place for it: its namespace ends.
    Nothing,
    /// The API server does not allow it, in these words.
    Refused(String),
}

/// Makes an object of `kind` beside `owner`.
///
/// # Errors
/// An [`ActorError`] if nobody knows what came of it.
pub(super) async fn make(
    objects: Objects<'_>,
    owner: &DynamicObject,
    kind: &Kind,
    body: Value,
) -> Result<Made, ActorError> {
    let namespace = owner.metadata.namespace.as_deref();
    match objects.create(kind, namespace, body).await {
        Ok(Some(made)) => Ok(Made::Object(made)),
        Ok(None) => Ok(Made::Exists),
        Err(error) => {
            // What else goes wrong passes, and is tried again soon.
            let refusal = error
                .refusal()
                .filter(|it| [400, 403, 422].contains(&it.code));
            let Some(refusal) = refusal else {
                return Err(error);
            };
            let causes = refusal.details.iter().flat_map(|it| &it.causes);
            if causes
                .into_iter()
                .any(|it| it.reason == "NamespaceTerminating")
            {
                return Ok(Made::Nothing);
            }
            Ok(Made::Refused(refusal.message.clone()))
        }
    }
}

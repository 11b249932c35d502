//! Making Pods, which may be refused.

use std::time::Duration;

use serde_json::Value;

use super::owned::Owner;
use crate::actors::actor::ActorError;
use crate::actors::kind::POD;
use crate::actors::mirror::Found;
use crate::actors::objects::Objects;

/// After which time a Pod that could not be made is tried again.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What came of making a Pod.
#[derive(Debug)]
pub(super) enum Made {
    Pod(Found),
    /// There is no place for it: its namespace ends, or one of its name is there.
    Nothing,
    /// The API server does not allow it, in these words.
    Refused(String),
}

/// Makes a Pod of `owner`.
///
/// # Errors
/// An [`ActorError`] if nobody knows what came of it.
pub(super) async fn make(
    objects: Objects<'_>,
    owner: Owner<'_>,
    body: Value,
) -> Result<Made, ActorError> {
    let namespace = owner.object.metadata.namespace.as_deref();
    match objects.create(&POD, namespace, body).await {
        Ok(Some(pod)) => Ok(Made::Pod(pod)),
        Ok(None) => Ok(Made::Nothing),
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

//! By which class snapshots of a claim are taken.

use kite_fake::actors::kind::{STORAGE_CLASS, VOLUME_SNAPSHOT_CLASS};
use kite_fake::actors::objects::{Found, Objects, text};
use kite_fake::actors::storage::annotation;
use kite_fake::actors::{ActorError, Context};

use crate::kinds::STORAGE_PROFILE;

/// Annotation of the class that is taken where several fit.
pub(crate) const DEFAULT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";

/// The class by which snapshots of claims of a storage class are taken: the one
/// that its storage profile names, or the one of its provisioner.
pub(crate) async fn class_for(
    context: &Context,
    objects: Objects<'_>,
    storage_class: &str,
) -> Result<Option<String>, ActorError> {
    if storage_class.is_empty() || !context.catalog.has(&VOLUME_SNAPSHOT_CLASS) {
        return Ok(None);
    }
    let Some(class) = objects.find(&STORAGE_CLASS, None, storage_class).await? else {
        return Ok(None);
    };
    let classes = objects.list(&VOLUME_SNAPSHOT_CLASS, None, "").await?;
    let name = |class: &Found| class.metadata.name.clone();
    if context.catalog.has(&STORAGE_PROFILE)
        && let Some(profile) = objects.find(&STORAGE_PROFILE, None, storage_class).await?
        && let wanted = text(&profile, "/status/snapshotClass")
        && !wanted.is_empty()
    {
        let found = classes.iter().find(|c| name(c).as_deref() == Some(wanted));
        return Ok(found.and_then(name));
    }
    let provisioner = text(&class, "/provisioner");
    let fits: Vec<&Found> = classes
        .iter()
        .filter(|class| text(class, "/driver") == provisioner)
        .collect();
    if let [only] = fits[..] {
        return Ok(name(only));
    }
    // KubeVirt asks whether it is annotated, whatever it says.
    let default = fits
        .into_iter()
        .find(|class| annotation(class, DEFAULT_CLASS).is_some());
    Ok(default.and_then(name))
}

//! How CDI clones by the storage itself: a temporary claim beside the source is filled from
//! it, and its volume is given to the claim that wants it.

use kite_core::quantity::Bytes;
use kite_fake::actors::kind::{CLAIM, Key, VOLUME_SNAPSHOT};
use kite_fake::actors::objects::{
    Deletion, Found, Objects, ignore_missing, is_deleting, text, uid,
};
use kite_fake::actors::storage::{Driver, Filling, bind, claim_size, class_of, is_bound, rebind};
use kite_fake::actors::{ActorError, kind};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::source::Source;

/// Holds a claim that is a clone until what was made for it is gone.
pub(super) const FINALIZER: &str = "cdi.kubevirt.io/clonePopulator";
/// On such a claim: the namespace of its source.
pub(super) const SOURCE_NAMESPACE: &str = "cdi.kubevirt.io/dataSourceNamespace";
/// On a temporary claim: namespace and name of the claim that it is made for.
pub(super) const MADE_FOR: &str = "cdi.kubevirt.io/events.source";

/// How far a clone has come.
pub(super) enum Progress {
    /// The claim has its volume.
    Done,
    /// Something else happens first, which is watched.
    Waiting,
    /// It cannot go on, for this reason, which is not watched.
    Stuck(String),
}

/// Fills `claim` from `source`, and binds it.
pub(super) async fn clone(
    objects: Objects<'_>,
    source: &Source,
    claim: &DynamicObject,
) -> Result<Progress, ActorError> {
    match source {
        Source::Claim { namespace, name } => {
            from_claim(objects, Key::new(&CLAIM, Some(namespace), name), claim).await
        }
        Source::Snapshot { namespace, name } => {
            let key = Key::new(&VOLUME_SNAPSHOT, Some(namespace), name);
            from_snapshot(objects, &key, claim).await
        }
        Source::Import | Source::Blank | Source::Upload => {
            let class = class_of(objects, claim).await?;
            bind(objects, claim, class.as_deref(), &Filling::none()).await?;
            Ok(Progress::Done)
        }
    }
}

/// A copy of a claim. What is between the two is not shown: it is a moment.
async fn from_claim(
    objects: Objects<'_>,
    source: Key,
    claim: &DynamicObject,
) -> Result<Progress, ActorError> {
    let class = class_of(objects, claim).await?;
    let found = objects.get(&source).await?;
    let at = found
        .as_deref()
        .map(|found| text(found, "/spec/volumeName"));
    let key = Key::new(&kind::VOLUME, None, at.unwrap_or_default());
    let volume = objects.get(&key).await?;
    let mut filling = volume.map_or_else(Filling::none, |volume| {
        Filling::copy("persistentvolumes", &volume)
    });
    let provisioner = class.as_deref().map(|class| text(class, "/provisioner"));
    if Driver::named(provisioner.unwrap_or_default()).binds_early {
        filling = filling.early();
    }
    bind(objects, claim, class.as_deref(), &filling).await?;
    Ok(Progress::Done)
}

async fn from_snapshot(
    objects: Objects<'_>,
    source: &Key,
    claim: &DynamicObject,
) -> Result<Progress, ActorError> {
    let key = temporary(source.namespace.as_deref(), claim);
    let found = objects.live().get(&key).await?;
    let Some(temporary) = found else {
        if is_bound(claim) {
            return Ok(Progress::Done);
        }
        return make(objects, source, &key, claim).await;
    };
    if !is_bound(&temporary) {
        return Ok(Progress::Waiting);
    }
    let bytes = |text: &str| text.parse::<Bytes>().ok();
    let wanted = bytes(claim_size(claim));
    if bytes(claim_size(&temporary)) < wanted {
        let requests = json!({"requests": {"storage": claim_size(claim)}});
        let patch = json!({"spec": {"resources": requests}});
        return match objects.merge(&key, Some(&temporary), patch).await {
            Ok(_) => Ok(Progress::Waiting),
            Err(error) => match error.refusal() {
                Some(status) if matches!(status.code, 403 | 422) => {
                    Ok(Progress::Stuck(status.message.clone()))
                }
                _ => Err(error),
            },
        };
    }
    if bytes(text(&temporary, "/status/capacity/storage")) < wanted {
        return Ok(Progress::Waiting);
    }
    rebind(objects, &temporary, claim).await?;
    Ok(Progress::Done)
}

fn temporary(namespace: Option<&str>, claim: &DynamicObject) -> Key {
    Key::new(&CLAIM, namespace, &format!("tmp-pvc-{}", uid(claim)))
}

async fn make(
    objects: Objects<'_>,
    source: &Key,
    key: &Key,
    claim: &DynamicObject,
) -> Result<Progress, ActorError> {
    let snapshot: Option<Found> = objects.get(source).await?;
    let size = snapshot
        .as_deref()
        .map(|it| text(it, "/status/restoreSize"));
    let Some(size) = size.filter(|size| !size.is_empty()) else {
        return Ok(Progress::Stuck("snapshot missing restoresize".to_owned()));
    };
    let spec = &claim.data["spec"];
    let meta = &claim.metadata;
    let (space, name) = (&meta.namespace, &meta.name);
    let made_for = format!(
        "{}/{}",
        space.as_deref().unwrap_or_default(),
        name.as_deref().unwrap_or_default()
    );
    let body = json!({
        "metadata": {
            "name": key.name,
            "labels": meta.labels,
            "annotations": {
                MADE_FOR: made_for,
                "cdi.kubevirt.io/events.source.kind": "PersistentVolumeClaim",
            },
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "volumeMode": spec["volumeMode"],
            "storageClassName": spec["storageClassName"],
            "resources": {"requests": {"storage": size}},
            "dataSourceRef": {
                "apiGroup": "snapshot.storage.k8s.io",
                "kind": "VolumeSnapshot",
                "name": source.name,
            },
        },
    });
    match objects.create(&CLAIM, key.namespace.as_deref(), body).await {
        Ok(_) => Ok(Progress::Waiting),
        Err(error) => match error.refusal() {
            // A quota, for one, which it is charged to as well.
            Some(status) if matches!(status.code, 403 | 422) => {
                Ok(Progress::Stuck(status.message.clone()))
            }
            _ => Err(error),
        },
    }
}

/// Deletes what was made for `claim`, and lets it go.
pub(super) async fn clean_up(
    objects: Objects<'_>,
    claim: &DynamicObject,
) -> Result<(), ActorError> {
    let held = claim.metadata.finalizers.iter().flatten();
    if !held.into_iter().any(|it| it == FINALIZER) {
        return Ok(());
    }
    let annotations = claim.metadata.annotations.as_ref();
    let namespace = annotations.and_then(|it| it.get(SOURCE_NAMESPACE));
    let key = temporary(namespace.map(String::as_str), claim);
    if let Some(temporary) = objects
        .live()
        .get(&key)
        .await?
        .filter(|it| !is_deleting(it))
    {
        let deletion = Deletion::default();
        objects.delete(&key, &temporary, deletion).await?;
    }
    let patch = json!({"metadata": {"finalizers": rest(claim)}});
    let key = Key::of(&CLAIM, claim);
    ignore_missing(objects.merge(&key, None, patch).await)
}

fn rest(claim: &DynamicObject) -> Value {
    let all = claim.metadata.finalizers.iter().flatten();
    all.filter(|it| *it != FINALIZER).cloned().collect()
}

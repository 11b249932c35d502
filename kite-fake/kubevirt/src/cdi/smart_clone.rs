//! How claims get their volumes: most of all those that are cloned from a snapshot by the storage
//! itself. A temporary claim beside the snapshot is filled from it, and its volume is given to
//! the claim that wants it.

use kite_core::quantity::Bytes;
use kite_fake::actors::kind::{CLAIM, Key, VOLUME, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT};
use kite_fake::actors::objects::{Deletion, Found, Objects, has_finalizer, is_deleting, text, uid};
use kite_fake::actors::storage::{
    BROKEN, COPYING_FROM, Driver, Filling, SELECTED_NODE, annotation, bind, claim_size, class_of,
    is_bound, is_late, rebind, resume, volume_of,
};
use kite_fake::actors::{ActorError, NODE_NAME};
use kube::api::DynamicObject;
use serde_json::json;

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
    /// Something else happens first, which is not watched.
    Polling,
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
            let key = Key::new(&CLAIM, Some(namespace), name);
            from_claim(objects, &key, claim).await
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
    source: &Key,
    claim: &DynamicObject,
) -> Result<Progress, ActorError> {
    let class = class_of(objects, claim).await?;
    let volume = match objects.get(source).await? {
        Some(found) => volume_of(objects, &found).await?,
        None => None,
    };
    let Some(volume) = volume else {
        return Ok(Progress::Polling);
    };
    let mut filling = Filling::copy(&VOLUME, &volume);
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
        return begin(objects, source, &key, claim).await;
    };
    if !is_bound(&temporary) {
        return Ok(Progress::Waiting);
    }
    let bytes = |text: &str| text.parse::<Bytes>().ok();
    let wanted = bytes(claim_size(claim));
    if bytes(claim_size(&temporary)) < wanted {
        let volume = volume_of(objects, &temporary).await?;
        let is_there = |volume: &Found| {
            let obstacles = [COPYING_FROM, BROKEN];
            obstacles.iter().all(|it| annotation(volume, it).is_none())
        };
        if !volume.as_ref().is_some_and(is_there) {
            // It grows when it can be attached.
            return Ok(Progress::Polling);
        }
        let requests = json!({"requests": {"storage": claim_size(claim)}});
        let patch = json!({"spec": {"resources": requests}});
        let grown = objects.merge(&key, Some(&temporary), patch).await;
        return waiting(grown);
    }
    if bytes(text(&temporary, "/status/capacity/storage")) < wanted {
        return Ok(Progress::Waiting);
    }
    Ok(if rebind(objects, &temporary, claim).await? {
        Progress::Done
    } else {
        Progress::Polling
    })
}

/// Binds a claim whose volume is there for it, where somebody was killed before that was told.
pub(super) async fn resume_clone(
    objects: Objects<'_>,
    claim: &DynamicObject,
) -> Result<bool, ActorError> {
    if resume(objects, claim).await? {
        return Ok(true);
    }
    if !has_finalizer(claim, FINALIZER) {
        return Ok(false);
    }
    let temporary = objects
        .live()
        .get(&temporary(source_namespace(claim), claim))
        .await?;
    let Some(temporary) = temporary.filter(|it| is_bound(it)) else {
        return Ok(false);
    };
    let volume = volume_of(objects.live(), &temporary).await?;
    // One that is the temporary claim's still may have to grow.
    let is_given = |it: Found| text(&it, "/spec/claimRef/uid") == uid(claim);
    if !volume.is_some_and(is_given) {
        return Ok(false);
    }
    rebind(objects, &temporary, claim).await
}

/// Begins it: by a temporary claim, or where storage cannot do it by copying all bytes.
async fn begin(
    objects: Objects<'_>,
    source: &Key,
    key: &Key,
    claim: &DynamicObject,
) -> Result<Progress, ActorError> {
    if !has_finalizer(claim, FINALIZER) || is_deleting(claim) {
        return Ok(Progress::Waiting);
    }
    let Some(snapshot) = objects.get(source).await? else {
        return Ok(Progress::Waiting);
    };
    let content = text(&snapshot, "/status/boundVolumeSnapshotContentName");
    let content = Key::new(&VOLUME_SNAPSHOT_CONTENT, None, content);
    let Some(content) = objects.live().get(&content).await? else {
        return Ok(Progress::Polling);
    };
    let class = class_of(objects, claim).await?;
    let bytes = |text: &str| text.parse::<Bytes>().ok();
    let is_larger = bytes(text(&snapshot, "/status/restoreSize")) < bytes(claim_size(claim));
    let class_says = |check: &dyn Fn(&DynamicObject) -> bool| class.as_deref().is_some_and(check);
    let can_grow = class_says(&|class| class.data["allowVolumeExpansion"] == true);
    let driver = text(&content, "/spec/driver");
    let mode = |object: &DynamicObject, at: &str| match text(object, at) {
        "" => "Filesystem".to_owned(),
        mode => mode.to_owned(),
    };
    let is_alike = class_says(&|class| text(class, "/provisioner") == driver)
        && mode(&content, "/spec/sourceVolumeMode") == mode(claim, "/spec/volumeMode");
    if is_alike && (can_grow || !is_larger) {
        return make(objects, &snapshot, source, key, claim, class.as_deref()).await;
    }
    let filling = Filling::copy(&VOLUME_SNAPSHOT_CONTENT, &content);
    bind(objects, claim, class.as_deref(), &filling).await?;
    Ok(Progress::Done)
}

/// Where the source of a claim is that is a clone of a snapshot.
pub(super) fn source_namespace(claim: &DynamicObject) -> Option<&str> {
    annotation(claim, SOURCE_NAMESPACE)
}

fn temporary(namespace: Option<&str>, claim: &DynamicObject) -> Key {
    Key::new(&CLAIM, namespace, &format!("tmp-pvc-{}", uid(claim)))
}

async fn make(
    objects: Objects<'_>,
    snapshot: &DynamicObject,
    source: &Key,
    key: &Key,
    claim: &DynamicObject,
    class: Option<&DynamicObject>,
) -> Result<Progress, ActorError> {
    let size = text(snapshot, "/status/restoreSize");
    if size.is_empty() {
        return Ok(Progress::Stuck("snapshot missing restoresize".to_owned()));
    }
    // Where storage waits for a Pod, that is one of CDI's.
    let node = annotation(claim, SELECTED_NODE)
        .or_else(|| class.is_some_and(is_late).then_some(NODE_NAME));
    let spec = &claim.data["spec"];
    let meta = &claim.metadata;
    let (space, name) = (&meta.namespace, &meta.name);
    let made_for = format!(
        "{}/{}",
        space.as_deref().unwrap_or_default(),
        name.as_deref().unwrap_or_default()
    );
    let mut body = json!({
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
    if let Some(node) = node {
        body["metadata"]["annotations"][SELECTED_NODE] = json!(node);
    }
    waiting(objects.create(&CLAIM, key.namespace.as_deref(), body).await)
}

/// What follows on a write of the temporary claim. A quota, for one, may forbid it.
fn waiting<T>(written: Result<T, ActorError>) -> Result<Progress, ActorError> {
    let Err(error) = written else {
        return Ok(Progress::Waiting);
    };
    match error.refusal() {
        Some(status) if matches!(status.code, 403 | 422) => {
            Ok(Progress::Stuck(status.message.clone()))
        }
        _ => Err(error),
    }
}

/// Deletes what was made for `claim`, and lets it go.
pub(super) async fn clean_up(
    objects: Objects<'_>,
    claim: &DynamicObject,
) -> Result<(), ActorError> {
    if !has_finalizer(claim, FINALIZER) {
        return Ok(());
    }
    let key = temporary(source_namespace(claim), claim);
    if let Some(temporary) = objects
        .live()
        .get(&key)
        .await?
        .filter(|it| !is_deleting(it))
    {
        let deletion = Deletion::default();
        objects.delete(&key, &temporary, deletion).await?;
    }
    // Others may have put theirs on meanwhile.
    let key = Key::of(&CLAIM, claim);
    match objects.live().get(&key).await? {
        Some(claim) => objects.remove_finalizer(&key, &claim, FINALIZER).await,
        None => Ok(()),
    }
}

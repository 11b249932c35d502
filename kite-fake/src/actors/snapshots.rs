//! Snapshots of claims, and claims made from snapshots and from other claims.

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::actor::{Actor, ActorError, Change, Context, Next, Watches};
use super::kind::{CLAIM, Key, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT};
use super::objects::{Objects, ignore_missing, is_deleting, text, uid};
use super::references::References;
use super::rules::{Gate, Stage};
use super::storage::{bind, claim_size, is_bound};

/// Plays a CSI driver with its snapshotter: `VolumeSnapshot`s of bound claims
/// become ready to use, and claims whose source is a snapshot or another claim
/// are bound when their source can be used.
#[derive(Debug, Default)]
pub struct VolumeSnapshots {
    /// Which snapshots and claims wait for which others.
    sources: Mutex<References>,
}

#[async_trait]
impl Actor for VolumeSnapshots {
    fn name(&self) -> &'static str {
        "snapshot-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![VOLUME_SNAPSHOT, CLAIM])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let mut sources = self.sources.lock();
        let source = (!change.gone)
            .then(|| source_of(&key, &change.object))
            .flatten();
        sources.set(&key, source.iter().cloned().collect());
        let mut keys = sources.to(&key);
        if source.is_some() && !change.gone {
            keys.push(key);
        }
        keys
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(object) = objects.get(key).await?.filter(|o| !is_deleting(o)) else {
            return Ok(Next::Done);
        };
        let Some(source) = source_of(key, &object) else {
            return Ok(Next::Done);
        };
        if key.kind == VOLUME_SNAPSHOT {
            take(context, objects, key, &object, &source).await
        } else {
            fill(context, objects, &object, &source).await
        }
    }
}

/// What a snapshot is taken of, or a claim is filled from.
fn source_of(key: &Key, object: &DynamicObject) -> Option<Key> {
    let namespace = key.namespace.as_deref();
    if key.kind == VOLUME_SNAPSHOT {
        let claim = text(object, "/spec/source/persistentVolumeClaimName");
        return Some(Key::new(&CLAIM, namespace, claim));
    }
    let spec = &object.data["spec"];
    let source = [&spec["dataSourceRef"], &spec["dataSource"]]
        .into_iter()
        .find(|source| source.is_object())?;
    let name = source["name"].as_str()?;
    let within = source["namespace"].as_str().or(namespace);
    match source["kind"].as_str()? {
        "VolumeSnapshot" => Some(Key::new(&VOLUME_SNAPSHOT, within, name)),
        "PersistentVolumeClaim" => Some(Key::new(&CLAIM, within, name)),
        _ => None,
    }
}

async fn take(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    snapshot: &DynamicObject,
    source: &Key,
) -> Result<Next, ActorError> {
    if snapshot.data["status"]["readyToUse"] == true {
        return Ok(Next::Done);
    }
    let now = context.now();
    let failed = |message: String| {
        let mut status = json!({"readyToUse": false});
        let before = &snapshot.data["status"]["error"];
        let time = if before["message"] == message {
            before["time"].clone()
        } else {
            json!(now)
        };
        status["error"] = json!({"message": message, "time": time});
        status
    };
    let claim = objects.get(source).await?;
    let (status, next) = match claim.filter(|claim| is_bound(claim)) {
        None => {
            let message = format!(
                "Failed to create snapshot content with error failed to get input parameters to \
                 create snapshot {}: the PVC {} is not yet bound to a PV, will not attempt to \
                 take a snapshot",
                key.name, source.name
            );
            (failed(message), Next::Done)
        }
        Some(claim) => match context.gate(Stage::SNAPSHOT_READY, snapshot, "") {
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => (failed(why.message), Next::Held),
            Gate::Open => {
                let bound = content(context, objects, key, snapshot, &claim).await?;
                let status = json!({
                    "boundVolumeSnapshotContentName": bound,
                    "creationTime": now,
                    "readyToUse": true,
                    "restoreSize": claim_size(&claim),
                });
                (status, Next::Done)
            }
        },
    };
    ignore_missing(objects.set_status(key, snapshot, status).await)?;
    Ok(next)
}

/// What the snapshot is on its storage, where that kind is served. Its name.
async fn content(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    snapshot: &DynamicObject,
    claim: &DynamicObject,
) -> Result<String, ActorError> {
    let name = format!("snapcontent-{}", uid(snapshot));
    if context.catalog.has(&VOLUME_SNAPSHOT_CONTENT) {
        let reference = json!({
            "apiVersion": key.kind.api_version(),
            "kind": key.kind.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid(snapshot),
        });
        let body = json!({
            "metadata": {"name": name},
            "spec": {
                "deletionPolicy": "Delete",
                "driver": "kite-fake",
                "source": {"volumeHandle": text(claim, "/spec/volumeName")},
                "volumeSnapshotClassName": snapshot.data["spec"]["volumeSnapshotClassName"],
                "volumeSnapshotRef": reference,
            },
            "status": {"readyToUse": true},
        });
        let kind = &VOLUME_SNAPSHOT_CONTENT;
        objects.create(kind, None, body).await?;
    }
    Ok(name)
}

async fn fill(
    context: &Context,
    objects: Objects<'_>,
    claim: &DynamicObject,
    source: &Key,
) -> Result<Next, ActorError> {
    if is_bound(claim) {
        return Ok(Next::Done);
    }
    let ready = objects.get(source).await?.is_some_and(|source_object| {
        let snapshot: &Value = &source_object.data["status"]["readyToUse"];
        *snapshot == true || source.kind == CLAIM && is_bound(&source_object)
    });
    if !ready {
        return Ok(Next::Done);
    }
    match context.gate(Stage::CLAIM_BOUND, claim, "") {
        Gate::Open => bind(objects, claim).await?,
        Gate::Wait(rest) => return Ok(Next::After(rest)),
        Gate::Held | Gate::Fail(_) => return Ok(Next::Held),
    }
    Ok(Next::Done)
}

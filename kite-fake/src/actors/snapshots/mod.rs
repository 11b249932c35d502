//! Snapshots of claims, and claims made from snapshots and from other claims.
//!
//! ```text
//! VolumeSnapshot ─take─► VolumeSnapshotContent ─cut─► ready ─fill─► volume of a claim
//!                                                                └─copy─► all of its data
//! ```

mod copy;
mod cut;
mod fill;
mod take;

use async_trait::async_trait;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::actor::{Actor, ActorError, Change, Context, Next, Watches};
use super::kind::{CLAIM, Key, Kind, VOLUME, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT};
use super::objects::{Objects, ignore_missing, text};
use super::references::References;

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT, CLAIM, VOLUME];

/// Plays the CSI snapshotter and the drivers behind it: `VolumeSnapshot`s of bound claims are
/// cut and become ready to use, and claims whose source is a snapshot or another claim get a
/// volume when their source can be used. [`Driver`](super::storage::Driver) says where
/// drivers differ.
#[derive(Debug, Default)]
pub struct VolumeSnapshots {
    /// Which snapshots, claims and volumes wait for which others.
    sources: Mutex<References>,
}

#[async_trait]
impl Actor for VolumeSnapshots {
    fn name(&self) -> &'static str {
        "snapshot-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(SEEN.to_vec())
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let (key, object) = (change.key(), &change.object);
        let targets = sources_of(&key, object);
        let is_ours = !targets.is_empty();
        let mut sources = self.sources.lock();
        let mut keys = sources.to(&key);
        if key.kind == CLAIM {
            // What it was filled from may wait for that to end.
            keys.extend(targets.iter().cloned());
        }
        sources.set(&key, if change.gone { Vec::new() } else { targets });
        if key.kind == VOLUME_SNAPSHOT_CONTENT {
            let of = |field: &str| text(object, &format!("/spec/volumeSnapshotRef/{field}"));
            keys.push(Key::new(
                &VOLUME_SNAPSHOT,
                Some(of("namespace")),
                of("name"),
            ));
        }
        if key.kind == VOLUME {
            let of = |field: &str| text(object, &format!("/spec/claimRef/{field}"));
            let claim = Key::new(&CLAIM, Some(of("namespace")), of("name"));
            keys.extend(sources.to(&claim));
            // One that others have made may be called otherwise on its storage.
            let handle = text(object, "/spec/csi/volumeHandle");
            keys.extend(sources.to(&Key::new(&VOLUME, None, handle)));
        }
        if is_ours && !change.gone {
            keys.push(key);
        }
        keys.retain(|key| SEEN.contains(&key.kind));
        keys
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        // Where there are no snapshots, claims are copies of others all the same.
        let is_of_snapshots = [VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT].contains(&key.kind);
        if is_of_snapshots && !context.catalog.has(&VOLUME_SNAPSHOT_CONTENT) {
            return Ok(Next::Done);
        }
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(object) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let work = Work {
            context,
            objects,
            key,
            object: &object,
        };
        match &key.kind {
            kind if *kind == VOLUME_SNAPSHOT => work.take().await,
            kind if *kind == VOLUME_SNAPSHOT_CONTENT => work.cut().await,
            kind if *kind == CLAIM => work.fill().await,
            _ => work.copy().await,
        }
    }
}

/// An object and what is around it.
#[derive(Clone, Copy)]
struct Work<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    object: &'a DynamicObject,
}

impl Work<'_> {
    async fn write(self, status: Value) -> Result<(), ActorError> {
        let written = self.objects.set_status(self.key, self.object, status);
        ignore_missing(written.await)
    }

    /// Says what is in the way, until it is ready.
    async fn say(self, message: &str) -> Result<(), ActorError> {
        let mut status = self.object.data["status"].clone();
        status["readyToUse"] = json!(false);
        if status["error"]["message"] != message {
            status["error"] = json!({"message": message, "time": self.context.now()});
        }
        self.write(status).await
    }
}

/// What a snapshot is taken of, where its data lie, or what a claim or a volume is filled from.
fn sources_of(key: &Key, object: &DynamicObject) -> Vec<Key> {
    let namespace = key.namespace.as_deref();
    if key.kind == VOLUME_SNAPSHOT {
        let claim = text(object, "/spec/source/persistentVolumeClaimName");
        return vec![Key::new(&CLAIM, namespace, claim)];
    }
    if key.kind == VOLUME_SNAPSHOT_CONTENT {
        let handle = text(object, "/spec/source/volumeHandle");
        return vec![Key::new(&VOLUME, None, handle)];
    }
    if key.kind == VOLUME {
        return copy::source(object).into_iter().collect();
    }
    fill::source(object, namespace).into_iter().collect()
}

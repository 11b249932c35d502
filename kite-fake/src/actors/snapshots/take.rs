//! The snapshot controller: a `VolumeSnapshot` gets a content, and its status from that.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{Work, fill};
use crate::actors::actor::{ActorError, Next};
use crate::actors::kind::{
    CLAIM, Key, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT,
};
use crate::actors::objects::{
    Deletion, Found, has_finalizer, ignore_missing, is_deleting, text, uid,
};
use crate::actors::storage::{annotation, is_bound, volume_of};

/// Holds a snapshot that is used.
const AS_SOURCE: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Holds a snapshot that has a content.
const BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Holds a content that has something on its storage.
pub(super) const CONTENT: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// On a content whose snapshot goes: only then it goes, too.
pub(super) const BEING_DELETED: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Holds a claim while a snapshot of it is not ready.
const CLAIM_IN_USE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// On the class that is taken where none is named.
const DEFAULT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// After this it is tried again where what is in the way is not watched.
const AGAIN: Duration = Duration::from_secs(5);

/// Why there is no content: one that something else brings back, or none.
type Obstacle = (String, Next);

impl Work<'_> {
    pub(super) async fn take(self) -> Result<Next, ActorError> {
        if is_deleting(self.object) {
            return self.give_up().await;
        }
        let ready = self.object.data["status"]["readyToUse"] == true;
        if ready {
            self.release_claim(false).await?;
        }
        let content = self.objects.get(&content_key(self.object)).await?;
        let goes_along = content.as_ref().is_some_and(|it| goes_along(it));
        let held = if goes_along {
            &[AS_SOURCE, BOUND][..]
        } else {
            &[AS_SOURCE][..]
        };
        if self
            .objects
            .add_finalizers(self.key, self.object, held)
            .await?
        {
            return Ok(Next::Done);
        }
        if let Some(content) = content {
            let status = status(&self.object.data["status"], &content);
            self.write(status).await?;
            return Ok(Next::Done);
        }
        if ready {
            self.say("VolumeSnapshotContent is missing").await?;
            return Ok(Next::Done);
        }
        let made = match self.class().await? {
            Err(obstacle) => Err(obstacle),
            Ok(None) => return Ok(Next::Done),
            Ok(Some(class)) => self.make(&class).await?.map_err(|(why, next)| {
                let doing = "Failed to create snapshot content with error";
                (format!("{doing} {why}"), next)
            }),
        };
        match made {
            Ok(()) => Ok(Next::Done),
            Err((why, next)) => {
                self.say(&why).await?;
                Ok(next)
            }
        }
    }

    /// The class it is taken by; `None` after one was chosen for it, which brings it back.
    async fn class(self) -> Result<Result<Option<Found>, Obstacle>, ActorError> {
        let wanted = text(self.object, "/spec/volumeSnapshotClassName");
        if !wanted.is_empty() {
            let key = Key::new(&VOLUME_SNAPSHOT_CLASS, None, wanted);
            let found = self.objects.get(&key).await?;
            return Ok(found.map(Some).ok_or_else(|| {
                let missing =
                    format!("volumesnapshotclass.snapshot.storage.k8s.io {wanted:?} not found");
                let why = format!("Failed to get snapshot class with error {missing}");
                (why, Next::Later(AGAIN))
            }));
        }
        let failed = |(why, next): Obstacle| {
            let doing = "Failed to set default snapshot class with error";
            (format!("{doing} {why}"), next)
        };
        let volume = match self.volume().await? {
            Ok(volume) => volume,
            Err(obstacle) => return Ok(Err(failed(obstacle))),
        };
        let driver = text(&volume, "/spec/csi/driver");
        if driver.is_empty() {
            let why = format!(
                "snapshotting non-CSI volumes is not supported, snapshot:{}/{}",
                self.key.space(),
                self.key.name
            );
            return Ok(Err(failed((why, Next::Done))));
        }
        let all = self.objects.list(&VOLUME_SNAPSHOT_CLASS, None, "").await?;
        let is_default = |class: &&Found| {
            annotation(class, DEFAULT_CLASS) == Some("true") && text(class, "/driver") == driver
        };
        let defaults: Vec<&Found> = all.iter().filter(is_default).collect();
        let [class] = defaults[..] else {
            let why = if defaults.is_empty() {
                "cannot find default snapshot class".to_owned()
            } else {
                format!("{} default snapshot classes were found", defaults.len())
            };
            return Ok(Err(failed((why, Next::Later(AGAIN)))));
        };
        let patch = json!({"spec": {"volumeSnapshotClassName": class.metadata.name}});
        let patched = self.objects.merge(self.key, Some(self.object), patch);
        ignore_missing(patched.await)?;
        Ok(Ok(None))
    }

    /// The volume of the claim that it is taken of.
    async fn volume(self) -> Result<Result<Found, Obstacle>, ActorError> {
        let name = text(self.object, "/spec/source/persistentVolumeClaimName");
        if name.is_empty() {
            let why = "the snapshot source PVC name is not specified: kite-fake takes snapshots of \
                       claims alone";
            return Ok(Err((why.to_owned(), Next::Done)));
        }
        let space = self.key.namespace.as_deref();
        let Some(claim) = self.objects.find(&CLAIM, space, name).await? else {
            let missing = format!("persistentvolumeclaim {name:?} not found");
            let why = format!("failed to retrieve PVC {name} from the lister: {missing:?}");
            return Ok(Err((why, Next::Done)));
        };
        if !is_bound(&claim) {
            let why = format!(
                "the PVC {name} is not yet bound to a PV, will not attempt to take a snapshot"
            );
            return Ok(Err((why, Next::Done)));
        }
        let volume = volume_of(self.objects, &claim).await?;
        let is_of_it = |volume: &Found| text(volume, "/spec/claimRef/uid") == uid(&claim);
        Ok(volume.filter(is_of_it).ok_or_else(|| {
            let why = "claim in dataSource not bound or invalid".to_owned();
            (why, Next::Done)
        }))
    }

    async fn make(self, class: &DynamicObject) -> Result<Result<(), Obstacle>, ActorError> {
        if let Some(why) = self.hold_claim().await? {
            return Ok(Err((why, Next::Done)));
        }
        let volume = match self.volume().await? {
            Ok(volume) => volume,
            Err((why, next)) => {
                let name = &self.key.name;
                let doing = "failed to get input parameters to create snapshot";
                return Ok(Err((format!("{doing} {name}: {why:?}"), next)));
            }
        };
        let handle = text(&volume, "/spec/csi/volumeHandle");
        if handle.is_empty() {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            let why = format!("cannot find CSI PersistentVolumeSource for volume {name}");
            return Ok(Err((why, Next::Done)));
        }
        let body = json!({
            "metadata": {"name": content_key(self.object).name, "finalizers": [CONTENT]},
            "spec": {
                "deletionPolicy": class.data["deletionPolicy"],
                "driver": class.data["driver"],
                "source": {"volumeHandle": handle},
                "sourceVolumeMode": volume.data["spec"]["volumeMode"],
                "volumeSnapshotClassName": class.metadata.name,
                "volumeSnapshotRef": {
                    "apiVersion": VOLUME_SNAPSHOT.api_version(),
                    "kind": VOLUME_SNAPSHOT.kind,
                    "namespace": self.key.namespace,
                    "name": self.key.name,
                    "uid": uid(self.object),
                },
            },
        });
        // It brings the snapshot back here.
        self.objects
            .create(&VOLUME_SNAPSHOT_CONTENT, None, body)
            .await?;
        Ok(Ok(()))
    }

    /// Keeps the claim until the snapshot is ready; why it cannot be kept.
    async fn hold_claim(self) -> Result<Option<String>, ActorError> {
        let name = text(self.object, "/spec/source/persistentVolumeClaimName");
        let key = Key::new(&CLAIM, self.key.namespace.as_deref(), name);
        let Some(claim) = self.objects.get(&key).await? else {
            return Ok(Some("cannot get claim from snapshot".to_owned()));
        };
        if has_finalizer(&claim, CLAIM_IN_USE) {
            return Ok(None);
        }
        if is_deleting(&claim) {
            let why = "cannot add finalizer on claim because it is being deleted";
            return Ok(Some(why.to_owned()));
        }
        self.objects
            .add_finalizers(&key, &claim, &[CLAIM_IN_USE])
            .await?;
        Ok(None)
    }

    /// Lets the claim go unless a snapshot of it is still being taken; but for this one, where
    /// that is given up.
    async fn release_claim(self, given_up: bool) -> Result<(), ActorError> {
        let name = text(self.object, "/spec/source/persistentVolumeClaimName");
        let key = Key::new(&CLAIM, self.key.namespace.as_deref(), name);
        let Some(claim) = self.objects.get(&key).await? else {
            return Ok(());
        };
        if !has_finalizer(&claim, CLAIM_IN_USE) {
            return Ok(());
        }
        let space = self.key.namespace.as_deref();
        let all = self.objects.list(&VOLUME_SNAPSHOT, space, "").await?;
        let is_using = |it: &Found| {
            text(it, "/spec/source/persistentVolumeClaimName") == name
                && it.data["status"]["readyToUse"] != true
                && !(given_up && uid(it) == uid(self.object))
        };
        if all.iter().any(is_using) {
            return Ok(());
        }
        let removed = self.objects.remove_finalizer(&key, &claim, CLAIM_IN_USE);
        removed.await
    }

    /// A snapshot that is deleted goes when no claim is being filled from it, and its content
    /// before it.
    async fn give_up(self) -> Result<Next, ActorError> {
        let space = self.key.namespace.as_deref();
        let claims = self.objects.list(&CLAIM, space, "").await?;
        let is_used = claims
            .iter()
            .any(|claim| !is_bound(claim) && fill::source(claim, space).as_ref() == Some(self.key));
        if is_used {
            return Ok(Next::Done);
        }
        self.release_claim(true).await?;
        let key = content_key(self.object);
        let content = self.objects.live().get(&key).await?;
        if let Some(content) = &content
            && annotation(content, BEING_DELETED).is_none()
        {
            let patch = json!({"metadata": {"annotations": {BEING_DELETED: "yes"}}});
            ignore_missing(self.objects.merge(&key, None, patch).await)?;
        }
        if let Some(content) = content.filter(|it| goes_along(it)) {
            let deletion = Deletion::default();
            if !is_deleting(&content) {
                self.objects.delete(&key, &content, deletion).await?;
            }
            self.objects
                .remove_finalizer(self.key, self.object, AS_SOURCE)
                .await?;
            return Ok(Next::Done);
        }
        let all = self.object.metadata.finalizers.clone().unwrap_or_default();
        let ours = [AS_SOURCE, BOUND];
        let rest: Vec<&String> = all
            .iter()
            .filter(|it| !ours.contains(&it.as_str()))
            .collect();
        if rest.len() < all.len() {
            let patch = json!({"metadata": {"finalizers": rest}});
            let patched = self.objects.merge(self.key, Some(self.object), patch);
            ignore_missing(patched.await)?;
        }
        Ok(Next::Done)
    }
}

/// The content of a snapshot.
pub(super) fn content_key(snapshot: &DynamicObject) -> Key {
    let name = format!("snapcontent-{}", uid(snapshot));
    Key::new(&VOLUME_SNAPSHOT_CONTENT, None, &name)
}

/// Whether a content goes with its snapshot.
fn goes_along(content: &DynamicObject) -> bool {
    text(content, "/spec/deletionPolicy") == "Delete"
}

/// The status of a snapshot that had the status `old`, by its content.
fn status(old: &Value, content: &DynamicObject) -> Value {
    let of = &content.data["status"];
    let mut status = json!({
        "boundVolumeSnapshotContentName": content.metadata.name,
        "readyToUse": of["readyToUse"] == true,
    });
    for field in ["creationTime", "restoreSize"] {
        if !old[field].is_null() {
            status[field] = old[field].clone();
        }
    }
    if status["creationTime"].is_null()
        && let Some(at) = of["creationTime"].as_i64()
        && let Ok(at) = Timestamp::from_nanosecond(at.into())
    {
        status["creationTime"] = json!(crate::clock::rfc3339(at));
    }
    if status["restoreSize"].is_null()
        && let Some(size) = of["restoreSize"].as_u64()
    {
        status["restoreSize"] = json!(binary(size));
    }
    if !of["error"].is_null() {
        status["error"] = of["error"].clone();
    }
    status
}

/// A number of bytes as a quantity.
fn binary(bytes: u64) -> String {
    let units = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let unit = units
        .into_iter()
        .find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(
        || bytes.to_string(),
        |(shift, unit)| format!("{}{unit}", bytes >> shift),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_by_powers_of_two() {
        assert_eq!(binary(1 << 30), "1Gi");
        assert_eq!(binary(1536 << 20), "1536Mi");
        assert_eq!(binary(22_724_694_688), "22724694688");
        assert_eq!(binary(0), "0");
    }
}

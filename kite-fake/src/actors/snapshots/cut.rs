//! The sidecar and its driver: a content is cut from a volume, and can be used.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Work;
use super::take::{BEING_DELETED, CONTENT};
use crate::actors::actor::{ActorError, Next};
use crate::actors::events;
use crate::actors::kind::{
    Key, POD, VOLUME, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT,
};
use crate::actors::objects::{Found, Objects, ignore_missing, is_deleting, text};
use crate::actors::rules::{Gate, Stage};
use crate::actors::storage::{
    BROKEN, Bond, CONTENTS, COPYING_FROM, Driver, STILL, TAKEN, annotation, claims_of,
};
use crate::builtin::quantity;

/// After this it is tried again where what is in the way is not watched.
const AGAIN: Duration = Duration::from_secs(5);

impl Work<'_> {
    pub(super) async fn cut(self) -> Result<Next, ActorError> {
        let of = |field: &str| text(self.object, &format!("/spec/volumeSnapshotRef/{field}"));
        let snapshot = self
            .objects
            .find(&VOLUME_SNAPSHOT, Some(of("namespace")), of("name"))
            .await?;
        // Rules select the snapshot; one that is gone is not selected by its labels.
        let selected = snapshot.as_deref().unwrap_or(self.object);
        if is_deleting(self.object) {
            return self.erase(selected).await;
        }
        let status = &self.object.data["status"];
        if status["readyToUse"] == true {
            return self.measure(selected).await;
        }
        let stage = if status["creationTime"].is_null() {
            if let Some(why) = self.refusal().await? {
                self.fail(&why).await?;
                return Ok(Next::Later(AGAIN));
            }
            Stage::SNAPSHOT_CUT
        } else {
            Stage::SNAPSHOT_READY
        };
        match self.context.gate(stage, selected, "") {
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => {
                self.fail(&why.message).await?;
                return Ok(Next::Held);
            }
            Gate::Open if stage == Stage::SNAPSHOT_CUT => self.take_it(selected).await?,
            Gate::Open => {
                let mut status = status.clone();
                if let Some(fields) = status.as_object_mut() {
                    fields.remove("error");
                }
                status["readyToUse"] = json!(true);
                self.write(status).await?;
            }
        }
        Ok(Next::Done)
    }

    /// Why the driver cannot cut now.
    async fn refusal(self) -> Result<Option<String>, ActorError> {
        let class = text(self.object, "/spec/volumeSnapshotClassName");
        let class = Key::new(&VOLUME_SNAPSHOT_CLASS, None, class);
        let Some(class) = self.objects.get(&class).await? else {
            return Ok(Some("the snapshot class is gone".to_owned()));
        };
        let handle = text(self.object, "/spec/source/volumeHandle");
        let Some(volume) = cut_from(self.objects, self.object).await? else {
            let desc = format!("volume {handle} not found");
            return Ok(Some(format!("rpc error: code = NotFound desc = {desc}")));
        };
        if [COPYING_FROM, BROKEN]
            .iter()
            .any(|it| annotation(&volume, it).is_some())
        {
            let desc = format!("volume {handle} is not ready for workloads");
            return Ok(Some(format!("rpc error: code = Internal desc = {desc}")));
        }
        let all = self
            .objects
            .list(&VOLUME_SNAPSHOT_CONTENT, None, "")
            .await?;
        let is_taken = |it: &&Found| {
            text(it, "/spec/source/volumeHandle") == handle
                && it.data["status"]["snapshotHandle"].is_string()
        };
        let driver = Driver::named(text(self.object, "/spec/driver"));
        Ok(driver.refusal(&class, all.iter().filter(is_taken).count()))
    }

    async fn fail(self, why: &str) -> Result<(), ActorError> {
        let handle = text(self.object, "/spec/source/volumeHandle");
        let old = &self.object.data["status"];
        let doing = if old["creationTime"].is_null() {
            "Failed to create snapshot"
        } else {
            "Failed to check and update snapshot content"
        };
        let message = format!("{doing}: failed to take snapshot of the volume {handle}: {why:?}");
        self.say(&message).await
    }

    /// The cut: from here on it has what the volume has now.
    async fn take_it(self, selected: &DynamicObject) -> Result<(), ActorError> {
        // What is on it now, and not when a watch showed it last.
        let Some(volume) = cut_from(self.objects.live(), self.object).await? else {
            return Ok(());
        };
        let annotations = json!({
            CONTENTS: annotation(&volume, CONTENTS),
            BROKEN: annotation(&volume, BROKEN),
            TAKEN: self.use_of(&volume).await?,
        });
        let patch = json!({"metadata": {"annotations": annotations}});
        let content = self
            .objects
            .merge(self.key, Some(self.object), patch)
            .await?;
        let now = self.context.clock.now();
        let mut status = json!({
            "snapshotHandle": format!("snapshot-{}", self.key.name),
            "creationTime": i64::try_from(now.as_nanosecond()).unwrap_or_default(),
            "readyToUse": false,
        });
        if self.context.gate(Stage::SNAPSHOT_SIZED, selected, "") == Gate::Open {
            status["restoreSize"] = size(&volume);
        }
        let written = self.objects.set_status(self.key, &content, status);
        ignore_missing(written.await)
    }

    /// How a volume is used just now.
    async fn use_of(self, volume: &DynamicObject) -> Result<&'static str, ActorError> {
        let of = |field: &str| text(volume, &format!("/spec/claimRef/{field}"));
        let pods = self.objects.list(&POD, Some(of("namespace")), "").await?;
        let is_using = |pod: &&Found| {
            text(pod, "/status/phase") == "Running" && claims_of(pod).any(|it| it == of("name"))
        };
        let users: Vec<&Found> = pods.iter().filter(is_using).collect();
        Ok(if users.is_empty() {
            "unused"
        } else if users.iter().all(|pod| annotation(pod, STILL).is_some()) {
            "still"
        } else {
            "in-use"
        })
    }

    /// Tells the size late, where rules say so.
    async fn measure(self, selected: &DynamicObject) -> Result<Next, ActorError> {
        let status = &self.object.data["status"];
        if !status["restoreSize"].is_null() {
            return Ok(Next::Done);
        }
        match self.context.gate(Stage::SNAPSHOT_SIZED, selected, "") {
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held | Gate::Fail(_) => return Ok(Next::Held),
            Gate::Open => {}
        }
        if let Some(volume) = cut_from(self.objects, self.object).await? {
            let mut status = status.clone();
            status["restoreSize"] = size(&volume);
            self.write(status).await?;
        }
        Ok(Next::Done)
    }

    /// What is on the storage goes, and the content with it.
    async fn erase(self, selected: &DynamicObject) -> Result<Next, ActorError> {
        if annotation(self.object, BEING_DELETED).is_none() {
            // Somebody deletes it beside its snapshot, which keeps it.
            return Ok(Next::Done);
        }
        let kept = text(self.object, "/spec/deletionPolicy") == "Retain";
        let taken = self.object.data["status"]["snapshotHandle"].is_string();
        if taken && !kept {
            match self.context.gate(Stage::SNAPSHOT_DELETED, selected, "") {
                Gate::Wait(rest) => return Ok(Next::After(rest)),
                Gate::Held => return Ok(Next::Held),
                Gate::Fail(why) => {
                    let message = format!("Failed to delete snapshot: {}", why.message);
                    let said = events::warning("SnapshotDeleteError", message);
                    let about = (&VOLUME_SNAPSHOT_CONTENT, self.object);
                    events::tell(self.context, "csi-snapshotter", about, said).await;
                    return Ok(Next::Held);
                }
                Gate::Open => {}
            }
        }
        let removed = self
            .objects
            .remove_finalizer(self.key, self.object, CONTENT);
        removed.await?;
        Ok(Next::Done)
    }
}

/// How large a copy of a volume is, in bytes.
fn size(volume: &DynamicObject) -> Value {
    let nano = quantity::nano(text(volume, "/spec/capacity/storage")).unwrap_or_default();
    json!(u64::try_from(nano / 1_000_000_000).unwrap_or_default())
}

/// The volume that a content is cut from.
async fn cut_from(
    objects: Objects<'_>,
    content: &DynamicObject,
) -> Result<Option<Found>, ActorError> {
    let word = |at: &str| text(content, at).to_owned();
    let (handle, driver) = (word("/spec/source/volumeHandle"), word("/spec/driver"));
    let is_it = |volume: &Found| {
        text(volume, "/spec/csi/volumeHandle") == handle
            && text(volume, "/spec/csi/driver") == driver
    };
    // Those that are made here are called like it.
    let volume = objects.find(&VOLUME, None, &handle).await?;
    if let Some(volume) = volume.filter(is_it) {
        return Ok(Some(volume));
    }
    let all = objects.list(&VOLUME, None, "").await?;
    Ok(all.into_iter().find(is_it))
}

/// Whether the data of a content are there: its volume, where they go with that.
pub(super) async fn is_alive(work: Work<'_>, content: &DynamicObject) -> Result<bool, ActorError> {
    let driver = Driver::named(text(content, "/spec/driver"));
    if driver.bond != Bond::DiesWithVolume {
        return Ok(true);
    }
    let volume = cut_from(work.objects.live(), content).await?;
    Ok(volume.is_some())
}

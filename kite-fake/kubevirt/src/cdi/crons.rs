//! Keeps golden images fresh.

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use jiff::tz::TimeZone;
use kite_fake::actors::References;
use kite_fake::actors::kind::{CLAIM, Key, VOLUME_SNAPSHOT};
use kite_fake::actors::objects::{Deletion, Objects, ignore_missing, is_deleting, text, uid};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kite_fake::schedule::Schedule;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::kinds::{DATA_IMPORT_CRON, DATA_SOURCE, DATA_VOLUME, STORAGE_PROFILE};
use crate::snapshot_class::class_for;

/// On a cron: the digest of the image that its source has now.
const DESIRED: &str = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
/// On what a cron imports: the cron.
const LABEL: &str = "cdi.kubevirt.io/dataImportCron";
/// On an image: its digest.
const DIGEST: &str = "cdi.kubevirt.io/storage.import.sourceDigest";
const FINALIZER: &str = "cdi.kubevirt.io/dataImportCronFinalizer";
/// How many imports are kept where a cron does not say.
const KEPT: u64 = 3;
/// Characters of a digest in the name of an image.
const SHORT: usize = 12;

/// Plays CDI's controller of `DataImportCron`s: looks at the source when the
/// schedule says so, imports an image that it does not have, leads the managed
/// `DataSource` to it and deletes those that are too old.
///
/// No registry is asked. What the source has is what the annotation
/// `cdi.kubevirt.io/storage.import.sourceDesiredDigest` of the cron says; the
/// first look writes one there, by the address. Change it to play a new image.
#[derive(Debug, Default)]
pub struct DataImportCrons {
    images: Mutex<References>,
}

#[async_trait]
impl Actor for DataImportCrons {
    fn name(&self) -> &'static str {
        "cdi-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![
            DATA_IMPORT_CRON,
            DATA_VOLUME,
            VOLUME_SNAPSHOT,
            DATA_SOURCE,
        ])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let namespace = key.namespace.as_deref();
        let mut images = self.images.lock();
        if change.kind == DATA_IMPORT_CRON {
            let source = text(&change.object, "/spec/managedDataSource");
            let source = (!change.gone).then(|| Key::new(&DATA_SOURCE, namespace, source));
            images.set(&key, source.into_iter().collect());
            return vec![key];
        }
        if change.kind == DATA_SOURCE {
            return images.to(&key);
        }
        let labels = change.object.metadata.labels.as_ref();
        let cron = labels.and_then(|labels| labels.get(LABEL));
        let cron = cron.map(|name| Key::new(&DATA_IMPORT_CRON, namespace, name));
        cron.into_iter().collect()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(cron) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let keeping = Keeping {
            context,
            objects,
            key,
            cron: &cron,
        };
        if is_deleting(&cron) {
            keeping.end().await
        } else {
            keeping.advance().await
        }
    }
}

/// A cron being reconciled.
struct Keeping<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    cron: &'a DynamicObject,
}

/// How far the newest import is.
enum Import {
    Running(String),
    Failed,
    Done,
}

impl Keeping<'_> {
    fn namespace(&self) -> Option<&str> {
        self.key.namespace.as_deref()
    }

    fn status(&self) -> Value {
        match &self.cron.data["status"] {
            Value::Object(_) => self.cron.data["status"].clone(),
            _ => json!({}),
        }
    }

    async fn write(&self, status: Value) -> Result<(), ActorError> {
        let written = self.objects.set_status(self.key, self.cron, status);
        ignore_missing(written.await)
    }

    async fn advance(&self) -> Result<Next, ActorError> {
        let held = self
            .objects
            .add_finalizers(self.key, self.cron, &[FINALIZER]);
        if held.await? {
            return Ok(Next::Done);
        }
        let now = self.context.clock.now();
        let looked: Option<jiff::Timestamp> = text(self.cron, "/status/lastExecutionTimestamp")
            .parse()
            .ok();
        let schedule = Schedule::parse_with_seven(text(self.cron, "/spec/schedule"));
        let due = match (&schedule, looked) {
            (_, None) => Some(now),
            (Ok(schedule), Some(looked)) => schedule.next(looked, &TimeZone::UTC),
            (Err(_), Some(_)) => None,
        };
        if due.is_some_and(|due| due <= now) {
            return self.look().await;
        }
        let next = due.and_then(|due| Duration::try_from(due.duration_since(now)).ok());
        let next = next.map_or(Next::Done, Next::Later);
        let Some(digest) = self.digest().map(str::to_owned) else {
            let told = ("False", "NoDigest", "No source digest");
            self.tell(
                self.status(),
                told,
                ("False", "NoImport", "No current import"),
            )
            .await?;
            return Ok(next);
        };
        self.import(&digest).await?;
        Ok(next)
    }

    fn digest(&self) -> Option<&str> {
        let annotations = self.cron.metadata.annotations.as_ref()?;
        annotations.get(DESIRED).map(String::as_str)
    }

    /// Looks what image the source has.
    async fn look(&self) -> Result<Next, ActorError> {
        if self.digest().is_none() {
            let source = &self.cron.data["spec"]["template"]["spec"]["source"];
            let hash = Sha256::digest(source.to_string().as_bytes());
            let mut digest = String::from("sha256:");
            for byte in hash {
                // Writing to a string cannot fail.
                let _ = write!(digest, "{byte:02x}");
            }
            let annotations = json!({DESIRED: digest});
            let patch = json!({"metadata": {"annotations": annotations}});
            ignore_missing(self.objects.merge(self.key, None, patch).await)?;
        }
        let Some(fresh) = self.objects.get(self.key).await? else {
            return Ok(Next::Done);
        };
        let mut status = self.status();
        status["lastExecutionTimestamp"] = json!(self.context.now());
        let written = self.objects.set_status(self.key, &fresh, status);
        ignore_missing(written.await)?;
        Ok(Next::Done)
    }

    /// Has the image with this digest imported.
    async fn import(&self, digest: &str) -> Result<(), ActorError> {
        let short = digest.rsplit(':').next().unwrap_or(digest);
        let short: String = short.chars().take(SHORT).collect();
        let source = text(self.cron, "/spec/managedDataSource");
        let name = format!("{source}-{short}");
        let snapshot = self.is_by_snapshot().await?;
        let now = self.context.now();
        let mut status = self.status();
        status["sourceFormat"] = json!(if snapshot { "snapshot" } else { "pvc" });
        status["currentImports"] = json!([{"DataVolumeName": name, "Digest": digest}]);
        match self.image(&name, digest, snapshot).await? {
            Import::Running(phase) => {
                let scheduled = matches!(phase.as_str(), "" | "Pending" | "ImportScheduled");
                let (reason, message) = if scheduled {
                    ("ImportScheduled", "Import is scheduled")
                } else {
                    ("ImportProgressing", "Import is progressing")
                };
                let progressing = if scheduled { "False" } else { "True" };
                let told = ("False", reason, message);
                self.tell(status, told, (progressing, reason, message))
                    .await
            }
            Import::Failed => {
                let told = ("False", "ImportFailed", "Import has failed");
                self.tell(status, told, told).await
            }
            Import::Done => {
                let last = json!({"namespace": self.key.namespace, "name": name});
                if status["lastImportedPVC"] != last {
                    status["lastImportedPVC"] = last;
                    status["lastImportTimestamp"] = json!(now);
                }
                self.lead(source, &name, snapshot).await?;
                self.tidy_up(&name, snapshot).await?;
                let told = ("True", "UpToDate", "Latest import is up to date");
                self.tell(status, told, ("False", "NoImport", "No current import"))
                    .await
            }
        }
    }

    /// Whether images are kept as snapshots: as the profile of their storage says.
    async fn is_by_snapshot(&self) -> Result<bool, ActorError> {
        let spec = &self.cron.data["spec"]["template"]["spec"];
        let given = spec["storage"]["storageClassName"].as_str();
        let class = match given.or(spec["pvc"]["storageClassName"].as_str()) {
            Some(class) => class.to_owned(),
            None => super::claim::default_class(self.objects)
                .await?
                .unwrap_or_default(),
        };
        if !self.context.catalog.has(&STORAGE_PROFILE) {
            return Ok(false);
        }
        let profile = self.objects.find(&STORAGE_PROFILE, None, &class).await?;
        let wanted = profile.is_some_and(|profile| {
            text(&profile, "/status/dataImportCronSourceFormat") == "snapshot"
        });
        Ok(wanted
            && class_for(self.context, self.objects, &class)
                .await?
                .is_some())
    }

    /// The image, made where it is missing.
    async fn image(&self, name: &str, digest: &str, snapshot: bool) -> Result<Import, ActorError> {
        if snapshot && self.context.catalog.has(&VOLUME_SNAPSHOT) {
            let kind = &VOLUME_SNAPSHOT;
            let taken = self.objects.find(kind, self.namespace(), name).await?;
            if let Some(taken) = taken {
                return Ok(if taken.data["status"]["readyToUse"] == true {
                    Import::Done
                } else {
                    Import::Running("SnapshotInProgress".to_owned())
                });
            }
        }
        let disk = self
            .objects
            .find(&DATA_VOLUME, self.namespace(), name)
            .await?;
        let labels = json!({LABEL: self.key.name});
        let Some(disk) = disk else {
            let template = &self.cron.data["spec"]["template"];
            let mut metadata = match &template["metadata"] {
                Value::Object(_) => template["metadata"].clone(),
                _ => json!({}),
            };
            metadata["name"] = json!(name);
            metadata["namespace"] = json!(self.key.namespace);
            metadata["labels"][LABEL] = json!(self.key.name);
            metadata["annotations"]["cdi.kubevirt.io/storage.bind.immediate.requested"] =
                json!("true");
            metadata["annotations"][DIGEST] = json!(digest);
            let body = json!({"metadata": metadata, "spec": template["spec"]});
            self.objects
                .create(&DATA_VOLUME, self.namespace(), body)
                .await?;
            return Ok(Import::Running(String::new()));
        };
        let phase = text(&disk, "/status/phase").to_owned();
        if phase == "Failed" {
            return Ok(Import::Failed);
        }
        if phase != "Succeeded" {
            return Ok(Import::Running(phase));
        }
        if !snapshot {
            return Ok(Import::Done);
        }
        let claim = self.objects.find(&CLAIM, self.namespace(), name).await?;
        let class = claim
            .as_ref()
            .map_or("", |c| text(c, "/spec/storageClassName"));
        let class = class_for(self.context, self.objects, class).await?;
        let body = json!({
            "metadata": {"name": name, "namespace": self.key.namespace, "labels": labels},
            "spec": {
                "source": {"persistentVolumeClaimName": name},
                "volumeSnapshotClassName": class,
            },
        });
        let namespace = self.namespace();
        self.objects
            .create(&VOLUME_SNAPSHOT, namespace, body)
            .await?;
        Ok(Import::Running("SnapshotInProgress".to_owned()))
    }

    /// Leads the managed `DataSource` to the image.
    async fn lead(&self, source: &str, name: &str, snapshot: bool) -> Result<(), ActorError> {
        let reference = json!({"namespace": self.key.namespace, "name": name});
        let (field, other) = if snapshot {
            ("snapshot", "pvc")
        } else {
            ("pvc", "snapshot")
        };
        let key = Key::new(&DATA_SOURCE, self.namespace(), source);
        let Some(present) = self.objects.get(&key).await? else {
            let body = json!({
                "metadata": {
                    "name": source,
                    "namespace": self.key.namespace,
                    "labels": {LABEL: self.key.name},
                },
                "spec": {"source": {field: reference}},
            });
            let namespace = self.namespace();
            self.objects.create(&DATA_SOURCE, namespace, body).await?;
            return Ok(());
        };
        // Somebody else's stays as it is.
        let labels = present.metadata.labels.as_ref();
        let ours = labels.and_then(|labels| labels.get(LABEL));
        if ours.is_none_or(|of| *of != self.key.name)
            || present.data["spec"]["source"][field] == reference
        {
            return Ok(());
        }
        let source = json!({field: reference, other: null});
        let patch = json!({"spec": {"source": source}});
        ignore_missing(self.objects.merge(&key, Some(&present), patch).await)
    }

    /// Deletes imports beyond those that are kept; where snapshots are, the disk
    /// that the newest was taken of too.
    async fn tidy_up(&self, newest: &str, snapshot: bool) -> Result<(), ActorError> {
        if text(self.cron, "/spec/garbageCollect") == "Never" {
            return Ok(());
        }
        let keep = self.cron.data["spec"]["importsToKeep"]
            .as_u64()
            .unwrap_or(KEPT);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let kind = if snapshot {
            &VOLUME_SNAPSHOT
        } else {
            &DATA_VOLUME
        };
        let selector = format!("{LABEL}={}", self.key.name);
        let mut all = self.objects.list(kind, self.namespace(), &selector).await?;
        let age = |o: &DynamicObject| o.metadata.creation_timestamp.as_ref().map(|t| t.0);
        // The newest first; those of one second by name.
        all.sort_by(|a, b| {
            let is_newest = |o: &DynamicObject| o.metadata.name.as_deref() == Some(newest);
            let order = is_newest(b).cmp(&is_newest(a));
            order
                .then(age(b).cmp(&age(a)))
                .then(a.metadata.name.cmp(&b.metadata.name))
        });
        for old in all.iter().skip(keep).filter(|o| !is_deleting(o)) {
            let key = Key::of(kind, old);
            self.objects.delete(&key, old, Deletion::default()).await?;
        }
        if snapshot {
            let key = Key::new(&DATA_VOLUME, self.namespace(), newest);
            if let Some(disk) = self.objects.get(&key).await?.filter(|d| !is_deleting(d)) {
                self.objects
                    .delete(&key, &disk, Deletion::default())
                    .await?;
            }
        }
        Ok(())
    }

    async fn tell(
        &self,
        mut status: Value,
        up_to_date: (&str, &str, &str),
        progressing: (&str, &str, &str),
    ) -> Result<(), ActorError> {
        let now = self.context.now();
        let before = self.cron.data["status"]["conditions"].as_array();
        let before = before.map_or(&[][..], Vec::as_slice);
        let condition = |type_: &str, (word, reason, message): (&str, &str, &str)| {
            let old = before.iter().find(|c| c["type"] == type_);
            let same = old.filter(|c| c["status"] == word);
            let looked = same.filter(|c| c["reason"] == reason && c["message"] == message);
            json!({
                "type": type_,
                "status": word,
                "reason": reason,
                "message": message,
                "lastTransitionTime": same.map_or(json!(now), |c| c["lastTransitionTime"].clone()),
                "lastHeartbeatTime": looked.map_or(json!(now), |c| c["lastHeartbeatTime"].clone()),
            })
        };
        status["conditions"] = json!([
            condition("Progressing", progressing),
            condition("UpToDate", up_to_date),
        ]);
        self.write(status).await
    }

    /// What it imported goes with it, unless it is to be kept.
    async fn end(&self) -> Result<Next, ActorError> {
        if text(self.cron, "/spec/retentionPolicy") == "None" {
            let selector = format!("{LABEL}={}", self.key.name);
            for kind in [&DATA_VOLUME, &VOLUME_SNAPSHOT, &DATA_SOURCE] {
                if !self.context.catalog.has(kind) {
                    continue;
                }
                for object in self.objects.list(kind, self.namespace(), &selector).await? {
                    let key = Key::of(kind, &object);
                    let deletion = Deletion::default();
                    self.objects.delete(&key, &object, deletion).await?;
                }
            }
        }
        tracing::debug!(cron = uid(self.cron), "a cron ends");
        let removed = self
            .objects
            .remove_finalizer(self.key, self.cron, FINALIZER);
        removed.await?;
        Ok(Next::Done)
    }
}

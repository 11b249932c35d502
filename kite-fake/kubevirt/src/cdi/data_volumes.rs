//! Fills `DataVolume`s.

use std::time::Duration;

use async_trait::async_trait;
use kite_core::cdi;
use kite_fake::actors::Gate;
use kite_fake::actors::References;
use kite_fake::actors::events;
use kite_fake::actors::kind::{CLAIM, Key, Kind, VOLUME_SNAPSHOT};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{
    Objects, controller_reference, ignore_missing, is_controlled_by, is_deleting, text, uid,
};
use kite_fake::actors::storage::{SELECTED_NODE, claim_size, is_bound, is_late_bound};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::claim::{claim_of, default_class};
use super::smart_clone::{MADE_FOR, Progress, clean_up, clone, resume_clone, source_namespace};
use super::source::{Readiness, Source, resolve};
use super::status::{Family, Standing, status, steps_done};
use crate::kinds::{DATA_SOURCE, DATA_VOLUME, STORAGE_PROFILE};
use crate::kubevirt::find;
use crate::stages;

/// When a claim is tried again that could not be made: what is in its way is not
/// watched.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[DATA_VOLUME, DATA_SOURCE, CLAIM, VOLUME_SNAPSHOT];

/// Plays CDI's controllers. A `DataVolume` gets a claim, which stays pending
/// while it is filled in the steps that the rules set; then the claim is bound
/// and the phase is `Succeeded`. A source that is missing, or is being filled
/// itself, is waited for.
#[derive(Debug, Default)]
pub struct DataVolumes {
    /// Which volumes wait for which `DataSource` or claim.
    sources: Mutex<References>,
}

#[async_trait]
impl Actor for DataVolumes {
    fn name(&self) -> &'static str {
        "cdi-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![DATA_VOLUME, DATA_SOURCE, CLAIM, VOLUME_SNAPSHOT])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let mut sources = self.sources.lock();
        let mut keys = sources.to(&key);
        if change.kind == DATA_VOLUME {
            // A clone of this disk waits under the name of its claim.
            keys.extend(sources.to(&Key::new(&CLAIM, key.namespace.as_deref(), &key.name)));
            let targets = if change.gone {
                Vec::new()
            } else {
                named_sources(&change.object)
            };
            sources.set(&key, targets);
            keys.push(key);
        } else if change.kind == CLAIM {
            keys.push(Key::new(&DATA_VOLUME, key.namespace.as_deref(), &key.name));
            let made_for = change.object.metadata.annotations.as_ref();
            let made_for = made_for.and_then(|it| it.get(MADE_FOR)?.split_once('/'));
            keys.extend(made_for.map(|(space, name)| Key::new(&DATA_VOLUME, Some(space), name)));
        } else if change.kind == DATA_SOURCE {
            // What a DataSource stands for is waited for through it.
            let source = Source::read(&change.object.data["spec"]["source"], key.space());
            let target = source.filter(|_| !change.gone).and_then(|s| s.key());
            sources.set(&key, target.into_iter().collect());
        }
        keys.retain(|key| key.kind == DATA_VOLUME);
        keys
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let claim = Key::new(&CLAIM, key.namespace.as_deref(), &key.name);
        if let Some(claim) = objects.get(&claim).await?
            && is_deleting(&claim)
        {
            clean_up(objects, &claim).await?;
            if source_namespace(&claim).is_some() {
                // Another one is made when it is gone.
                return Ok(Next::Done);
            }
        }
        let Some(volume) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        if is_deleting(&volume) {
            return Ok(Next::Done);
        }
        let phase = text(&volume, "/status/phase");
        if phase == "Failed" {
            return Ok(Next::Done);
        }
        let disk = Disk {
            context,
            objects,
            key,
            volume: &volume,
        };
        if phase == "Succeeded" && !disk.has_lost_its_claim().await? {
            return Ok(Next::Done);
        }
        disk.advance().await
    }
}

/// What `volume` names as its source, as keys.
fn named_sources(volume: &DynamicObject) -> Vec<Key> {
    let here = volume.metadata.namespace.as_deref().unwrap_or_default();
    let reference = &volume.data["spec"]["sourceRef"];
    if let Some(name) = reference["name"].as_str() {
        let namespace = reference["namespace"].as_str().unwrap_or(here);
        return vec![Key::new(&DATA_SOURCE, Some(namespace), name)];
    }
    let source = Source::read(&volume.data["spec"]["source"], here);
    source.and_then(|s| s.key()).into_iter().collect()
}

/// A `DataVolume` on its way.
struct Disk<'a> {
    context: &'a Context,
    objects: Objects<'a>,
    key: &'a Key,
    volume: &'a DynamicObject,
}

impl Disk<'_> {
    /// Takes it to the next standing; the write brings it back here.
    async fn advance(&self) -> Result<Next, ActorError> {
        if let Some(next) = self.adopt().await? {
            return Ok(next);
        }
        if let Some(next) = self.finish().await? {
            return Ok(next);
        }
        let (source, source_size) = match resolve(self.objects, self.volume).await? {
            Readiness::Ready { source, size } => (source, size),
            Readiness::Missing { reason, message } => {
                let reason = reason.to_owned();
                let standing = Standing::Pending { reason, message };
                return self.stand(Family::Clone, &standing).await;
            }
            Readiness::Filling { message } => {
                let standing = Standing::Scheduled { message };
                return self.stand(Family::Clone, &standing).await;
            }
            Readiness::InUse { message } => {
                let standing = Standing::Scheduled { message };
                self.stand(Family::Clone, &standing).await?;
                return Ok(Next::Later(TRY_AGAIN));
            }
        };
        let family = source.family();
        let within = match &source {
            Source::Snapshot { namespace, .. } => Some(namespace.as_str()),
            _ => None,
        };
        let claim = match self.claim(family, source_size.as_deref(), within).await? {
            Ok(claim) => claim,
            Err(next) => return Ok(next),
        };
        if !is_controlled_by(&claim, uid(self.volume)) {
            let message = format!("PVC {} exists and is not of this DataVolume", self.key.name);
            return self.fail(family, "ErrResourceExists", message).await;
        }
        if self.waits_for_consumer(&claim).await? {
            return self.stand(family, &Standing::WaitForConsumer).await;
        }
        if let Some(message) = too_small(&claim, source_size.as_deref()) {
            return self.fail(family, "CloneValidationFailed", message).await;
        }
        let phase = text(self.volume, "/status/phase");
        if phase == family.in_progress() {
            return self.fill(family, &source, &claim).await;
        }
        if phase != family.scheduled() {
            let message = String::new();
            return self.stand(family, &Standing::Scheduled { message }).await;
        }
        match self.context.gate(stages::DISK_SCHEDULED, self.volume, "") {
            Gate::Wait(rest) => Ok(Next::After(rest)),
            Gate::Held => Ok(Next::Held),
            Gate::Fail(failure) => self.stand(family, &Standing::Failed(failure)).await,
            Gate::Open => {
                let steps = self.context.rules.steps(stages::DISK_STEP);
                self.stand(family, &Standing::InProgress { done: 0, steps })
                    .await
            }
        }
    }

    /// Whether it was filled, and its claim is gone: another is made, and filled.
    async fn has_lost_its_claim(&self) -> Result<bool, ActorError> {
        let space = self.key.namespace.as_deref();
        let claim = self.objects.find(&CLAIM, space, &self.key.name).await?;
        Ok(claim.is_none())
    }

    /// A claim that somebody else has filled for this disk becomes its own.
    async fn adopt(&self) -> Result<Option<Next>, ActorError> {
        let meta = &self.volume.metadata;
        let claim = meta
            .annotations
            .as_ref()
            .and_then(|a| a.get(cdi::HAS_ITS_DATA));
        let name = claim.unwrap_or(&self.key.name);
        let key = Key::new(&CLAIM, self.key.namespace.as_deref(), name);
        // A change of a claim leads back to the disk of its own name alone.
        let objects = if claim.is_some() {
            self.objects.live()
        } else {
            self.objects
        };
        let Some(found) = objects.get(&key).await? else {
            // One that is told of is waited for.
            let standing = Standing::Pending {
                reason: String::new(),
                message: String::new(),
            };
            return match claim {
                Some(_) => self.stand(Family::Import, &standing).await.map(Some),
                None => Ok(None),
            };
        };
        let filled_for = found.metadata.annotations.as_ref();
        let filled_for = filled_for.and_then(|a| a.get(cdi::POPULATED_FOR));
        let is_filled = filled_for.is_some_and(|name| *name == self.key.name);
        let is_own = is_controlled_by(&found, uid(self.volume));
        if claim.is_none() && !is_filled {
            return Ok(None);
        }
        if !is_filled && !is_own {
            // Whose data it has, nobody has said.
            return Ok(Some(Next::Done));
        }
        let unowned = found
            .metadata
            .owner_references
            .iter()
            .flatten()
            .next()
            .is_none();
        if unowned {
            let owner = controller_reference(&DATA_VOLUME, self.volume);
            let patch = json!({"metadata": {"ownerReferences": [owner]}});
            ignore_missing(self.objects.merge(&key, None, patch).await)?;
        }
        if !is_bound(&found) {
            return Ok(Some(Next::Done));
        }
        let next = self.stand(Family::Import, &Standing::Succeeded).await?;
        Ok(Some(next))
    }

    /// One whose claim was bound by us before this was told.
    async fn finish(&self) -> Result<Option<Next>, ActorError> {
        let phase = text(self.volume, "/status/phase");
        let families = [
            Family::Import,
            Family::Clone,
            Family::Snapshot,
            Family::Upload,
        ];
        let family = families.into_iter().find(|it| it.in_progress() == phase);
        let space = self.key.namespace.as_deref();
        let claim = self.objects.find(&CLAIM, space, &self.key.name).await?;
        let is_ours = |claim: &Found| is_controlled_by(claim, uid(self.volume));
        let (Some(family), Some(claim)) = (family, claim.filter(is_ours)) else {
            return Ok(None);
        };
        let is_clone = matches!(family, Family::Clone | Family::Snapshot);
        let is_filled = is_bound(&claim) || is_clone && resume_clone(self.objects, &claim).await?;
        if !is_filled {
            return Ok(None);
        }
        clean_up(self.objects, &claim).await?;
        self.stand(family, &Standing::Succeeded).await.map(Some)
    }

    /// One step more of filling it.
    async fn fill(
        &self,
        family: Family,
        source: &Source,
        claim: &DynamicObject,
    ) -> Result<Next, ActorError> {
        if *source == Source::Upload {
            // Nobody uploads to a disk that has no data.
            return Ok(Next::Done);
        }
        if let Some(next) = self.work(family).await? {
            return Ok(next);
        }
        let steps = self.context.rules.steps(stages::DISK_STEP);
        let done = steps_done(&self.volume.data["status"], steps) + 1;
        match self
            .context
            .gate(stages::DISK_STEP, self.volume, &done.to_string())
        {
            Gate::Wait(rest) => Ok(Next::After(rest)),
            Gate::Held => Ok(Next::Held),
            Gate::Fail(failure) => self.stand(family, &Standing::Failed(failure)).await,
            Gate::Open if done < steps => {
                self.stand(family, &Standing::InProgress { done, steps })
                    .await
            }
            Gate::Open => match clone(self.objects, source, claim).await? {
                Progress::Done => {
                    clean_up(self.objects, claim).await?;
                    self.stand(family, &Standing::Succeeded).await
                }
                Progress::Waiting => Ok(Next::Done),
                Progress::Polling => Ok(Next::Later(TRY_AGAIN)),
                Progress::Stuck(message) => {
                    self.stand(family, &Standing::Stuck { message }).await?;
                    Ok(Next::Later(TRY_AGAIN))
                }
            },
        }
    }

    /// Whether the worker is down, and for how long.
    async fn work(&self, family: Family) -> Result<Option<Next>, ActorError> {
        let status = &self.volume.data["status"];
        let count = status["restartCount"].as_u64().unwrap_or_default();
        let failure = match self
            .context
            .gate(stages::DISK_WORKER, self.volume, &count.to_string())
        {
            Gate::Open => return Ok(None),
            Gate::Wait(rest) => return Ok(Some(Next::After(rest))),
            Gate::Held => return Ok(Some(Next::Held)),
            Gate::Fail(failure) => failure,
        };
        let running = find(status, "Running").filter(|c| c["reason"] == "Error");
        let crashed_at = running.and_then(|c| c["lastHeartbeatTime"].as_str());
        let crashed_at: Option<jiff::Timestamp> = crashed_at.and_then(|at| at.parse().ok());
        if let Some(at) = crashed_at.filter(|_| count > 0) {
            let due = at.checked_add(pause(count));
            let left = due
                .ok()
                .map(|due| due.duration_since(self.context.clock.now()));
            let left = left.and_then(|left| Duration::try_from(left).ok());
            if let Some(left) = left.filter(|left| !left.is_zero()) {
                return Ok(Some(Next::After(left)));
            }
        }
        let count = count + 1;
        let standing = Standing::Crashed { failure, count };
        self.stand(family, &standing).await?;
        Ok(Some(Next::Done))
    }

    /// Whether the claim's storage waits for a Pod that uses it, and there was
    /// none yet.
    async fn waits_for_consumer(&self, claim: &DynamicObject) -> Result<bool, ActorError> {
        let annotated = |object: &DynamicObject, name: &str| {
            let annotations = object.metadata.annotations.as_ref();
            annotations.is_some_and(|a| a.contains_key(name))
        };
        let immediate = "cdi.kubevirt.io/storage.bind.immediate.requested";
        if annotated(claim, SELECTED_NODE) || annotated(self.volume, immediate) {
            return Ok(false);
        }
        is_late_bound(self.objects, claim).await
    }

    async fn fail(
        &self,
        family: Family,
        reason: &str,
        message: String,
    ) -> Result<Next, ActorError> {
        let reason = reason.to_owned();
        let standing = Standing::Pending { reason, message };
        self.stand(family, &standing).await
    }

    /// Tells that no claim can be made. What is wrong is not watched.
    async fn refuse(
        &self,
        family: Family,
        reason: &str,
        message: String,
    ) -> Result<Result<Found, Next>, ActorError> {
        let reason = reason.to_owned();
        let standing = Standing::Refused { reason, message };
        self.stand(family, &standing).await?;
        Ok(Err(Next::Later(TRY_AGAIN)))
    }

    async fn stand(&self, family: Family, standing: &Standing) -> Result<Next, ActorError> {
        let old = &self.volume.data["status"];
        let now = self.context.now();
        let new = status(old, &self.key.name, family, standing, &now);
        let crashed = matches!(standing, Standing::Crashed { .. });
        let news = old["phase"] != new["phase"] || crashed;
        ignore_missing(self.objects.set_status(self.key, self.volume, new).await)?;
        if let Some(said) = said(family, standing, &self.key.name).filter(|_| news) {
            let about = (&DATA_VOLUME, self.volume);
            events::tell(self.context, family.component(), about, said).await;
        }
        Ok(Next::Done)
    }

    /// The claim, made where it is missing; else when to look again.
    async fn claim(
        &self,
        family: Family,
        source_size: Option<&str>,
        within: Option<&str>,
    ) -> Result<Result<Found, Next>, ActorError> {
        let namespace = self.key.namespace.as_deref();
        if let Some(claim) = self.objects.find(&CLAIM, namespace, &self.key.name).await? {
            return Ok(Ok(claim));
        }
        let default = default_class(self.objects).await?;
        let spec = &self.volume.data["spec"];
        let given = spec["storage"]["storageClassName"].as_str();
        let class = given.or(default.as_deref());
        let profile = match class.filter(|_| self.context.catalog.has(&STORAGE_PROFILE)) {
            Some(class) => self.objects.find(&STORAGE_PROFILE, None, class).await?,
            None => None,
        };
        let profile = profile
            .map(|p| p.data["status"].clone())
            .unwrap_or_default();
        if profile.is_object() && modes_are_unknown(spec, &profile) {
            let message = format!(
                "no accessMode specified in StorageProfile {}",
                class.unwrap_or_default()
            );
            return self.refuse(family, "ErrClaimNotValid", message).await;
        }
        let default = default.as_deref();
        let body = claim_of(self.volume, family, default, &profile, source_size, within);
        match self.objects.create(&CLAIM, namespace, body).await {
            // One that was made by somebody else just now will be heard of.
            Ok(claim) => Ok(claim.ok_or(Next::Done)),
            // A quota, for one, may forbid it.
            Err(ActorError::Api { source, doing }) => match *source {
                kube::Error::Api(status) if status.code == 403 || status.code == 422 => {
                    let message = status.message.clone();
                    let reason = if message.contains("exceeded quota") {
                        "ErrExceededQuota"
                    } else {
                        "ErrClaimNotValid"
                    };
                    self.refuse(family, reason, message).await
                }
                other => Err(ActorError::Api {
                    doing,
                    source: Box::new(other),
                }),
            },
            Err(error) => Err(error),
        }
    }
}

/// Whether neither the volume nor the profile of its class says how the claim may be
/// accessed.
fn modes_are_unknown(spec: &Value, profile: &Value) -> bool {
    let has_some = |modes: &Value| modes.as_array().is_some_and(|modes| !modes.is_empty());
    let sets = profile["claimPropertySets"].as_array();
    let is_told = sets.is_some_and(|sets| sets.iter().any(|set| has_some(&set["accessModes"])));
    spec["storage"].is_object() && !has_some(&spec["storage"]["accessModes"]) && !is_told
}

/// What is told of a disk that comes to stand so.
fn said<'a>(family: Family, standing: &Standing, name: &str) -> Option<events::Said<'a>> {
    let verb = family.verb();
    Some(match (standing, verb) {
        (Standing::Scheduled { .. }, "Import") => {
            events::normal("ImportScheduled", format!("Import into {name} scheduled"))
        }
        (Standing::InProgress { .. }, "Import") => events::normal(
            "ImportInProgress",
            format!("Import into {name} in progress"),
        ),
        (Standing::Succeeded, "Import") => events::normal(
            "ImportSucceeded",
            format!("Successfully imported into PVC {name}"),
        ),
        (Standing::Failed(_), "Import") => {
            events::warning("ImportFailed", format!("Failed to import into PVC {name}"))
        }
        (Standing::Scheduled { .. }, "Clone") => {
            events::normal("CloneScheduled", format!("Cloning into {name} scheduled"))
        }
        (Standing::InProgress { .. }, "Clone") => events::normal(
            "CloneInProgress",
            format!("Cloning into {name} in progress"),
        ),
        (Standing::Succeeded, "Clone") => {
            events::normal("CloneSucceeded", format!("Successfully cloned into {name}"))
        }
        (Standing::Failed(_), "Clone") => {
            events::warning("CloneFailed", format!("Cloning into {name} failed"))
        }
        (Standing::Crashed { failure, .. }, _) => events::warning("Error", failure.message.clone()),
        _ => return None,
    })
}

/// The pause after so many crashes of a worker, as the kubelet makes it.
fn pause(count: u64) -> Duration {
    let exponent = u32::try_from(count).unwrap_or(u32::MAX).clamp(1, 6) - 1;
    Duration::from_secs(10 * 2_u64.pow(exponent)).min(Duration::from_secs(300))
}

/// Why a claim cannot hold a clone of a claim of `source_size`.
fn too_small(claim: &DynamicObject, source_size: Option<&str>) -> Option<String> {
    let bytes = |text: &str| text.parse::<kite_core::quantity::Bytes>().ok();
    let (source, target) = (bytes(source_size?)?, bytes(claim_size(claim))?);
    (target < source).then(|| {
        format!(
            "target resources requests storage size is smaller than the source: {} < {}",
            claim_size(claim),
            source_size.unwrap_or_default()
        )
    })
}

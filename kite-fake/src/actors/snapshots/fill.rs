//! The provisioner: claims whose source is a snapshot or another claim get a volume.

use std::cmp::Ordering;

use kube::api::DynamicObject;

use super::Work;
use super::cut::is_alive;
use super::take::content_key;
use crate::actors::actor::{ActorError, Next};
use crate::actors::events;
use crate::actors::kind::{CLAIM, Key, Kind, VOLUME, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT};
use crate::actors::objects::{Found, is_deleting, text};
use crate::actors::rules::{Gate, Stage};
use crate::actors::storage::{
    Driver, Filling, bind, claim_size, class_of, is_bound, is_consumed, is_late, resume, volume_of,
};
use crate::builtin::quantity;

/// What a claim is to be filled from.
pub(super) fn source(claim: &DynamicObject, namespace: Option<&str>) -> Option<Key> {
    let spec = &claim.data["spec"];
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

/// Where the data of a source lie, and how large it is.
struct Data {
    kind: Kind,
    object: Found,
    size: String,
}

impl Work<'_> {
    pub(super) async fn fill(self) -> Result<Next, ActorError> {
        let claim = self.object;
        if is_bound(claim) || is_deleting(claim) {
            return Ok(Next::Done);
        }
        let Some(source) = source(claim, self.key.namespace.as_deref()) else {
            return Ok(Next::Done);
        };
        if resume(self.objects, claim).await? {
            return Ok(Next::Done);
        }
        let class = class_of(self.objects, claim).await?;
        if !is_consumed(claim) && class.as_deref().is_some_and(is_late) {
            return Ok(Next::Done);
        }
        let driver = class.as_deref().map(|class| text(class, "/provisioner"));
        let driver = driver.unwrap_or_default();
        let data = match self.data(&source, driver).await? {
            Ok(Some(data)) => data,
            Ok(None) => return Ok(Next::Done),
            Err(why) => return self.refuse(&why).await,
        };
        let binds_early = Driver::named(driver).binds_early;
        let (asked, least) = (claim_size(claim), &data.size);
        let order = quantity::nano(asked).cmp(&quantity::nano(least));
        if order == Ordering::Less {
            let why = format!(
                "requested volume size {asked} is less than the size {least} for the source {}",
                source.name
            );
            return self.refuse(&why).await;
        }
        if source.kind == CLAIM && binds_early && order != Ordering::Equal {
            let why = format!(
                "rpc error: code = OutOfRange desc = the size of a clone has to be that of its \
                 source, {least}"
            );
            return self.refuse(&why).await;
        }
        match self.context.gate(Stage::CLAIM_BOUND, claim, "") {
            Gate::Open => {}
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held | Gate::Fail(_) => return Ok(Next::Held),
        }
        let mut filling = Filling::copy(&data.kind, &data.object);
        if binds_early {
            filling = filling.early();
        }
        bind(self.objects, claim, class.as_deref(), &filling).await?;
        Ok(Next::Done)
    }

    /// Where the data of a source lie; `None` while it cannot be used yet.
    async fn data(
        self,
        source: &Key,
        driver: &str,
    ) -> Result<Result<Option<Data>, String>, ActorError> {
        let Some(object) = self.objects.get(source).await? else {
            return Ok(Ok(None));
        };
        let wrong = |made_by: &str| {
            Err(format!(
                "driver name {made_by:?} of the source is not that of the storage class, {driver:?}"
            ))
        };
        if source.kind == CLAIM {
            if !is_bound(&object) {
                return Ok(Ok(None));
            }
            let Some(volume) = volume_of(self.objects.live(), &object).await? else {
                return Ok(Ok(None));
            };
            let made_by = text(&volume, "/spec/csi/driver");
            if made_by != driver {
                return Ok(wrong(made_by));
            }
            let size = claim_size(&object).to_owned();
            return Ok(Ok(Some(Data {
                kind: VOLUME,
                object: volume,
                size,
            })));
        }
        if object.data["status"]["readyToUse"] != true || is_deleting(&object) {
            return Ok(Ok(None));
        }
        let Some(content) = self.objects.get(&content_key(&object)).await? else {
            return Ok(Ok(None));
        };
        let made_by = text(&content, "/spec/driver");
        if made_by != driver {
            return Ok(wrong(made_by));
        }
        if !is_alive(self, &content).await? {
            let handle = text(&content, "/spec/source/volumeHandle");
            return Ok(Err(format!(
                "rpc error: code = NotFound desc = the volume {handle} of the snapshot is gone"
            )));
        }
        let size = text(&object, "/status/restoreSize").to_owned();
        Ok(Ok(Some(Data {
            kind: VOLUME_SNAPSHOT_CONTENT,
            object: content,
            size,
        })))
    }

    /// A claim has no way to fail: it stays pending.
    async fn refuse(self, why: &str) -> Result<Next, ActorError> {
        let message = format!("failed to provision volume: {why}");
        let said = events::warning("ProvisioningFailed", message);
        events::tell(self.context, "csi-provisioner", (&CLAIM, self.object), said).await;
        Ok(Next::Done)
    }
}

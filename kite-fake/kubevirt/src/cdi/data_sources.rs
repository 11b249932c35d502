//! Tells whether a `DataSource` can be used.

use async_trait::async_trait;
use kite_fake::actors::References;
use kite_fake::actors::kind::{CLAIM, Key, Kind, VOLUME_SNAPSHOT};
use kite_fake::actors::objects::{Objects, ignore_missing};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use parking_lot::Mutex;
use serde_json::json;

use super::source::{Readiness, Source, claim_readiness, snapshot_readiness};
use crate::kinds::{DATA_SOURCE, DATA_VOLUME};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[DATA_SOURCE, CLAIM, DATA_VOLUME, VOLUME_SNAPSHOT];

/// Plays CDI's controller of `DataSource`s: the condition `Ready` tells whether
/// what it stands for is there and filled.
#[derive(Debug, Default)]
pub struct DataSources {
    targets: Mutex<References>,
}

#[async_trait]
impl Actor for DataSources {
    fn name(&self) -> &'static str {
        "cdi-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![DATA_SOURCE, CLAIM, DATA_VOLUME, VOLUME_SNAPSHOT])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let mut targets = self.targets.lock();
        if change.kind == VOLUME_SNAPSHOT {
            return targets.to(&key);
        }
        if change.kind != DATA_SOURCE {
            return targets.to(&Key::new(&CLAIM, key.namespace.as_deref(), &key.name));
        }
        let source = Source::read(&change.object.data["spec"]["source"], key.space());
        let target = source.filter(|_| !change.gone).and_then(|s| s.key());
        targets.set(&key, target.into_iter().collect());
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(source) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let readiness = match Source::read(&source.data["spec"]["source"], key.space()) {
            Some(Source::Claim { namespace, name }) => {
                claim_readiness(objects, &namespace, &name).await?
            }
            Some(Source::Snapshot { namespace, name }) => {
                snapshot_readiness(objects, &namespace, &name).await?
            }
            Some(source) => Readiness::Ready { source, size: None },
            None => Readiness::Missing {
                reason: "NoSource",
                message: "No source set".to_owned(),
            },
        };
        let (status, reason, message) = match readiness {
            Readiness::Ready { .. } => (
                "True",
                "Ready",
                "DataSource is ready to be consumed".to_owned(),
            ),
            Readiness::Missing { message, .. } => ("False", "NotFound", message),
            Readiness::Filling { message } | Readiness::InUse { message } => {
                ("False", "Pending", message)
            }
        };
        let old = &source.data["status"]["conditions"][0];
        let now = context.now();
        let since = if old["status"] == status {
            &old["lastTransitionTime"]
        } else {
            &json!(now)
        };
        let looked = if old["status"] == status && old["message"] == message {
            &old["lastHeartbeatTime"]
        } else {
            &json!(now)
        };
        let new = json!({
            "conditions": [{
                "type": "Ready",
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": since,
                "lastHeartbeatTime": looked,
            }],
            "source": source.data["spec"]["source"],
        });
        ignore_missing(objects.set_status(key, &source, new).await)?;
        Ok(Next::Done)
    }
}

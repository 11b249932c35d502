//! Tells that `KubeVirt` and CDI are installed.

use async_trait::async_trait;
use kite_fake::actors::kind::Key;
use kite_fake::actors::objects::{Objects, ignore_missing, is_deleting};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use serde_json::{Value, json};

use crate::kinds::{CDI_CR, KUBEVIRT_CR};

/// The versions whose behaviour the other actors play.
const KUBEVIRT_VERSION: &str = "v1.9.0";
const CDI_VERSION: &str = "v1.66.0";

/// Plays the operators that install `KubeVirt` and CDI, as far as the objects by which
/// they were asked to tell of it: all is there at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operators;

#[async_trait]
impl Actor for Operators {
    fn name(&self) -> &'static str {
        "virt-operator"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![KUBEVIRT_CR, CDI_CR])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        vec![change.key()]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(object) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let is_told = object.data["status"]["phase"] == "Deployed";
        if is_told || is_deleting(&object) {
            return Ok(Next::Done);
        }
        let status = deployed(key.kind == KUBEVIRT_CR, &context.now());
        ignore_missing(objects.set_status(key, &object, status).await)?;
        Ok(Next::Done)
    }
}

fn deployed(is_kubevirt: bool, now: &str) -> Value {
    let condition = |name: &str, status: &str, reason: &str| {
        json!({
            "type": name,
            "status": status,
            "reason": reason,
            "message": "",
            "lastProbeTime": now,
            "lastTransitionTime": now,
        })
    };
    let conditions = [
        condition("Available", "True", "AllComponentsReady"),
        condition("Progressing", "False", "AllComponentsReady"),
        condition("Degraded", "False", "AllComponentsReady"),
    ];
    if is_kubevirt {
        json!({
            "phase": "Deployed",
            "conditions": conditions,
            "operatorVersion": KUBEVIRT_VERSION,
            "targetKubeVirtVersion": KUBEVIRT_VERSION,
            "observedKubeVirtVersion": KUBEVIRT_VERSION,
        })
    } else {
        json!({
            "phase": "Deployed",
            "conditions": conditions,
            "operatorVersion": CDI_VERSION,
            "targetVersion": CDI_VERSION,
            "observedVersion": CDI_VERSION,
        })
    }
}

//! Has nodes take VMs.

use async_trait::async_trait;
use kite_fake::actors::kind::{Key, NODE};
use kite_fake::actors::objects::{Objects, ignore_missing};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use serde_json::{Value, json};

/// Says of a node whether it takes VMs.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";
/// How many VMs of a node have hardware virtualisation, and how many those are.
const KVM: (&str, &str) = ("devices.kubevirt.io/kvm", "1k");

/// Plays `virt-handler` as far as nodes tell of it: each node that is ready takes VMs and
/// has hardware virtualisation, unless it is said of it already whether it takes any.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtHandler;

#[async_trait]
impl Actor for VirtHandler {
    fn name(&self) -> &'static str {
        "virt-handler"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![NODE])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        vec![change.key()]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let Some(node) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let is_said =
            (node.metadata.labels.as_ref()).is_some_and(|it| it.contains_key(SCHEDULABLE));
        let status = &node.data["status"];
        if is_said || !is_ready(status) {
            return Ok(Next::Done);
        }
        // The label comes last: where it is, there is all.
        let mut status = status.clone();
        for resources in ["allocatable", "capacity"] {
            status[resources][KVM.0] = json!(KVM.1);
        }
        if objects.set_status(key, &node, status).await? {
            return Ok(Next::Done);
        }
        let label = json!({"metadata": {"labels": {SCHEDULABLE: "true"}}});
        ignore_missing(objects.merge(key, Some(&node), label).await)?;
        Ok(Next::Done)
    }
}

fn is_ready(status: &Value) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

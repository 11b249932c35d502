//! The nodes of the cluster.

use async_trait::async_trait;
use serde_json::json;

use super::node_taints;
use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{Key, NODE};
use crate::actors::objects::{Objects, ignore_missing};

/// Name of the first node, which takes every Pod that it may.
pub const NODE_NAME: &str = "demo-node";
/// The nodes. The second one takes what has to leave the first.
const NODES: [&str; 2] = [NODE_NAME, "demo-node-2"];

/// Who taints nodes.
const CONTROLLER: &str = "kube-controller-manager";

/// Plays the kubelets of two nodes that register them, with room for a good
/// many Pods, and the controller that taints nodes by what they say of themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nodes;

#[async_trait]
impl Actor for Nodes {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![NODE])
    }

    fn initial_keys(&self) -> Vec<Key> {
        NODES.map(|name| Key::new(&NODE, None, name)).to_vec()
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        vec![change.key()]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let is_played = NODES.contains(&key.name.as_str());
        let found = objects.get(key).await?;
        if found.is_none() && !is_played {
            return Ok(Next::Done);
        }
        let Some(node) = found else {
            let body = json!({
                "metadata": {
                    "name": key.name,
                    "labels": {
                        "kubernetes.io/hostname": key.name,
                        "kubernetes.io/os": "linux",
                        "kubernetes.io/arch": "amd64",
                        "node-role.kubernetes.io/control-plane": "",
                    },
                },
                "spec": {"podCIDR": "10.244.0.0/16", "podCIDRs": ["10.244.0.0/16"]},
            });
            objects.create(&NODE, None, body).await?;
            return Ok(Next::Done);
        };
        let now = context.now();
        let has_reported = node.data["status"]["conditions"]
            .as_array()
            .is_some_and(|c| !c.is_empty());
        if has_reported || !is_played {
            let controller = Objects::new(context, CONTROLLER);
            node_taints::settle(controller, key, &node, &now).await?;
            return Ok(Next::Done);
        }
        let condition = |type_: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            })
        };
        let resources = json!({
            "cpu": "1024",
            "memory": "16Ti",
            "ephemeral-storage": "64Ti",
            "pods": "10k",
        });
        let status = json!({
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": key.name},
            ],
            "allocatable": resources,
            "capacity": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "kite-fake://1",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.2",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "in memory",
                "systemUUID": "",
            },
        });
        ignore_missing(objects.set_status(key, &node, status).await)?;
        Ok(Next::Done)
    }
}

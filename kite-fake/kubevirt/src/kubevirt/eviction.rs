//! What `KubeVirt`'s webhook says to who evicts a launcher, as `kubectl drain` does.

use kite_fake::server::{Marked, Refused, Review, Webhook};
use serde_json::{Value, json};

use super::conditions::find;
use super::instances::is_over;

/// The condition of an instance that is to leave its node.
const REQUESTED: &str = "EvictionRequested";

/// Tells in the status of a running instance whether it is to leave its node, and since
/// when.
pub(super) fn tell(status: &mut Value, now: &str) {
    let node = status["evacuationNodeName"].as_str();
    let is_marked = node.is_some_and(|node| !node.is_empty());
    let is_told = find(status, REQUESTED).is_some_and(|it| it["status"] == "True");
    if is_marked == is_told {
        return;
    }
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.retain(|it| it["type"] != REQUESTED);
    if is_marked {
        all.push(json!({
            "type": REQUESTED, "status": "True", "reason": REQUESTED,
            "message": "VMI is marked for eviction",
            "lastProbeTime": now, "lastTransitionTime": now,
        }));
    }
    status["conditions"] = json!(all);
}

/// Refuses evictions of launchers whose instance can move to another node, and has
/// it move there: whoever drains a node asks again until the launcher has ended.
/// One that is to move and cannot stays where it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct LauncherEvictions;

impl Webhook for LauncherEvictions {
    fn name(&self) -> &'static str {
        "virt-launcher-eviction-interceptor.kubevirt.io"
    }

    fn review(&self, _: &Review<'_>) -> Vec<kite_fake::status::Cause> {
        Vec::new()
    }

    fn evicts(&self, pod: &Value, review: &Review<'_>) -> Option<Refused> {
        let metadata = &pod["metadata"];
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if metadata["labels"]["kubevirt.io"] != "virt-launcher" || is_over(phase) {
            return None;
        }
        let name = metadata["annotations"]["kubevirt.io/domain"].as_str()?;
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let (group, plural) = ("kubevirt.io", "virtualmachineinstances");
        let found = review.around?.object(group, plural, namespace, name);
        let Some(instance) = found else {
            let why = format!(
                "kubevirt failed getting the vmi: virtualmachineinstances.kubevirt.io \
                 \"{name}\" not found"
            );
            return Some(Refused::because(why));
        };
        let status = &instance["status"];
        let may_move = find(status, "LiveMigratable").is_some_and(|c| c["status"] == "True");
        match instance["spec"]["evictionStrategy"].as_str() {
            Some("LiveMigrate") if !may_move => {
                return Some(Refused::because(format!(
                    "VMI {name} is configured with an eviction strategy but is not live-migratable"
                )));
            }
            Some("LiveMigrateIfPossible") if !may_move => return None,
            Some("LiveMigrate" | "LiveMigrateIfPossible" | "External") => {}
            _ => return None,
        }
        let triggered = format!("Eviction triggered evacuation of VMI \"{namespace}/{name}\"");
        if !status["evacuationNodeName"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
        {
            let why = format!("Evacuation in progress: {triggered}");
            return Some(Refused::because(why));
        }
        let node = &pod["spec"]["nodeName"];
        if status["nodeName"] != *node {
            return Some(Refused::because("Eviction request for target Pod"));
        }
        Some(Refused {
            why: triggered,
            marked: Some(Marked {
                group,
                plural,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                patch: json!({"status": {"evacuationNodeName": node}}),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_says_since_when_it_is_to_leave_its_node() {
        let mut status = json!({"evacuationNodeName": "n", "conditions": [{"type": "Ready"}]});
        tell(&mut status, "T1");
        tell(&mut status, "T2");
        assert_eq!(status["conditions"][1]["type"], REQUESTED);
        assert_eq!(status["conditions"][1]["lastTransitionTime"], "T1");
        status["evacuationNodeName"] = json!("");
        tell(&mut status, "T3");
        assert_eq!(status["conditions"], json!([{"type": "Ready"}]));
        // Of an instance without any nothing is made.
        let mut bare = json!({});
        tell(&mut bare, "T4");
        assert_eq!(bare["conditions"], Value::Null);
    }
}

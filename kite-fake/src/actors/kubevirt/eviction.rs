//! What `KubeVirt`'s webhook says to who evicts a launcher, as `kubectl drain` does.

use serde_json::{Value, json};

use super::conditions::find;
use super::instances::is_over;
use crate::server::{Marked, Refused, Review, Webhook};

/// Refuses evictions of launchers whose instance can move to another node, and has
/// it move there: whoever drains a node asks again until the launcher has ended.
/// One that is to move and cannot stays where it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct LauncherEvictions;

impl Webhook for LauncherEvictions {
    fn name(&self) -> &'static str {
        "virt-launcher-eviction-interceptor.kubevirt.io"
    }

    fn review(&self, _: &Review<'_>) -> Vec<crate::status::Cause> {
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

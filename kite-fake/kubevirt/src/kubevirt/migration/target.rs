//! The Pod that an instance moves to.

use kite_fake::actors::objects::{suffix, uid};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{JOB_NAME, JOB_UID};
use crate::kubevirt::{configuration::Configuration, launcher};

/// The target Pod of `migration`: a launcher of the same instance, on another
/// node than those that it has. No Service leads there before it has arrived.
pub(super) fn pod(
    migration: &DynamicObject,
    instance: &DynamicObject,
    configuration: &Configuration,
) -> Value {
    let mut pod = launcher::pod(instance, true, configuration);
    let name = instance.metadata.name.as_deref().unwrap_or_default();
    let meta = &mut pod["metadata"];
    meta["name"] = json!(format!("virt-launcher-{name}-{}", suffix(uid(migration))));
    meta["labels"][JOB_UID] = json!(uid(migration));
    meta["annotations"][JOB_NAME] = json!(migration.metadata.name);
    let spec = &mut pod["spec"];
    spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{
        "labelSelector": {"matchLabels": {"kubevirt.io/created-by": uid(instance)}},
        "topologyKey": "kubernetes.io/hostname",
    }]);
    let mut selector = json!({});
    for wanted in [
        &migration.data["spec"]["addedNodeSelector"],
        &instance.data["spec"]["nodeSelector"],
    ] {
        for (label, value) in wanted.as_object().into_iter().flatten() {
            selector[label] = value.clone();
        }
    }
    if selector.as_object().is_some_and(|s| !s.is_empty()) {
        spec["nodeSelector"] = selector;
    }
    pod
}

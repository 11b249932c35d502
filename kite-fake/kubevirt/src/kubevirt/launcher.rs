//! The launcher Pod of an instance.

use std::borrow::Borrow;

use kite_core::quantity::Bytes;
use kite_fake::actors::HOST_PORTS;
use kite_fake::actors::objects::{controller_reference, suffix, text, uid};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::configuration::Configuration;
use super::instances::is_over;
use super::volumes;
use crate::kinds::INSTANCE;

/// What a launcher needs beside the guest's memory, with no processor.
const STATIC_OVERHEAD_MIB: u64 = 280;
/// What each processor adds to that.
const OVERHEAD_PER_CPU_MIB: u64 = 8;
/// Seconds that a launcher gets beyond its guest.
const GRACE_BEYOND: i64 = 15;
/// Seconds that a guest gets where its spec does not tell.
const DEFAULT_GRACE: i64 = 30;

/// Virtual processors of an instance.
pub(super) fn processors(spec: &Value) -> u64 {
    let cpu = &spec["domain"]["cpu"];
    let count = |field: &str| cpu[field].as_u64().unwrap_or(1).max(1);
    count("sockets") * count("cores") * count("threads")
}

/// MiB that the launcher of an instance needs beside the guest's memory.
pub(super) fn overhead_mib(spec: &Value) -> u64 {
    STATIC_OVERHEAD_MIB + OVERHEAD_PER_CPU_MIB * processors(spec)
}

/// Labels by which the launcher Pods of the instance `name` are found.
pub(super) fn selector(name: &str) -> String {
    format!("kubevirt.io=virt-launcher,vm.kubevirt.io/name={name}")
}

/// The launcher Pod that `instance` lives in, out of all that it has: after a
/// migration that is the target.
pub(super) fn current<'a, P: Borrow<DynamicObject>>(
    instance: &DynamicObject,
    pods: &'a [P],
) -> Option<&'a P> {
    let of_job = |pod: &DynamicObject| {
        let labels = pod.metadata.labels.as_ref();
        labels.is_some_and(|l| l.contains_key("kubevirt.io/migrationJobUID"))
    };
    let node = text(instance, "/status/nodeName");
    if node.is_empty() {
        return pods.iter().find(|pod| !of_job((*pod).borrow()));
    }
    let there = || {
        pods.iter()
            .filter(|pod| text((*pod).borrow(), "/spec/nodeName") == node)
    };
    let over = |pod: &DynamicObject| is_over(text(pod, "/status/phase"));
    let last = || there().max_by_key(|pod| &(*pod).borrow().metadata.creation_timestamp);
    there().find(|pod| !over((*pod).borrow())).or_else(last)
}

/// The status of a launcher in which nothing runs any more.
pub(super) fn closed(old: &Value, phase: &str, now: &str) -> Value {
    let mut status = old.clone();
    status["phase"] = json!(phase);
    let conditions = status
        .get_mut("conditions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for condition in conditions.filter(|c| c["type"] != "PodScheduled") {
        if condition["status"] == "True" && condition["type"] != "Initialized" {
            condition["status"] = json!("False");
            condition["lastTransitionTime"] = json!(now);
        }
    }
    status
}

/// The launcher Pod of `instance`. `pending_ports` where the address of the
/// guest is told later, so that no Service leads to the Pod before.
pub(super) fn pod(
    instance: &DynamicObject,
    pending_ports: bool,
    configuration: &Configuration,
) -> Value {
    let meta = &instance.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let spec = &instance.data["spec"];
    let mut labels = json!(meta.labels.clone().unwrap_or_default());
    labels["kubevirt.io"] = json!("virt-launcher");
    labels["kubevirt.io/created-by"] = json!(uid(instance));
    labels["vm.kubevirt.io/name"] = json!(name);
    labels["vmi.kubevirt.io/id"] = json!(name);
    let mut annotations = json!({
        "kubevirt.io/domain": name,
        "kubectl.kubernetes.io/default-container": "compute",
    });
    if pending_ports {
        annotations[HOST_PORTS] = json!("");
    }
    let mounts: Vec<Value> = volumes::at_boot(spec)
        .filter_map(|(volume, claim)| {
            let source = json!({"claimName": claim?});
            Some(json!({"name": volume, "persistentVolumeClaim": source}))
        })
        .collect();
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    let mut pod = json!({
        "metadata": {
            "name": format!("virt-launcher-{name}-{}", suffix(uid(instance))),
            "generateName": format!("virt-launcher-{name}-"),
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controller_reference(&INSTANCE, instance)],
        },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "compute",
                "image": "quay.io/kubevirt/virt-launcher:v1.9.0",
                "resources": {"requests": requests(spec, configuration)},
            }],
            "hostname": spec["hostname"].as_str().unwrap_or(name),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace.unwrap_or(DEFAULT_GRACE) + GRACE_BEYOND,
            "volumes": mounts,
        },
    });
    for field in ["dnsPolicy", "dnsConfig"] {
        if !spec[field].is_null() {
            pod["spec"][field] = spec[field].clone();
        }
    }
    pod
}

/// What the launcher asks for: a share of processors, the guest's memory and
/// what the launcher needs itself.
fn requests(spec: &Value, configuration: &Configuration) -> Value {
    const MIB: u64 = 1024 * 1024;
    let guest = spec["domain"]["memory"]["guest"]
        .as_str()
        .or(spec["domain"]["resources"]["requests"]["memory"].as_str())
        .and_then(|text| text.parse::<Bytes>().ok())
        .map_or(0, |bytes| bytes.bytes());
    let guest = guest * 100 / configuration.memory_overcommit;
    let memory = guest.div_ceil(MIB) + overhead_mib(spec);
    let cpu = processors(spec) * 1000 / configuration.allocation_ratio;
    json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_launcher_asks_for_guest_and_overhead() {
        let instance: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "vm1", "namespace": "a", "uid": "u", "labels": {"app": "vm1"}},
            "spec": {
                "domain": {"cpu": {"sockets": 2}, "memory": {"guest": "1Gi"}, "devices": {}},
                "volumes": [
                    {"name": "rootdisk", "dataVolume": {"name": "vm1-disk"}},
                    {"name": "cloudinitdisk", "cloudInitNoCloud": {"secretRef": {"name": "s"}}},
                ],
            },
        }))
        .unwrap();
        let pod = pod(&instance, true, &Configuration::default());
        let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(*requests, json!({"cpu": "200m", "memory": "1320Mi"}));
        assert_eq!(pod["metadata"]["labels"]["app"], "vm1");
        assert_eq!(pod["metadata"]["labels"]["vm.kubevirt.io/name"], "vm1");
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{"name": "rootdisk", "persistentVolumeClaim": {"claimName": "vm1-disk"}}])
        );
    }
}
